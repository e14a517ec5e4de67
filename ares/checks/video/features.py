"""What is kept of each frame of a camera."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Size of the small grey picture, and of the tiny coloured one.
THUMB_HEIGHT, THUMB_WIDTH = 24, 32
TINY_HEIGHT, TINY_WIDTH = 6, 8
# Size of the coloured picture that both are made from.
SMALL_HEIGHT, SMALL_WIDTH = 48, 64
# Compression works in blocks of so many pixels.
_BLOCK = 8
# Detail is measured in about so many rows.
_ROWS = 60
# And between pixels that lie this share of the width apart: a blur that is seen reaches further.
_DETAIL_COLUMNS = 256
_CLIPPED_LEVEL = 250


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CameraFeatures:
    """What is kept of the T frames of one camera of an episode.

    Attributes:
        camera: Name of the camera.
        rate_hz: Frames per second.
        seconds: (T,) float64, when each frame is shown, from the start of the episode.
        thumbs: (T, 24, 32) float16 grey levels from 0 to 255.
        colours: (T, 6, 8, 3) uint8 RGB.
        clipped: (T,) share of pixels in which a channel is at its upper end.
        detail: (T,) second difference of neighbouring pixels over the first: how much of what is seen is fine.
        blocks: (T,) median difference across the borders of blocks of 8 pixels over the mean; 1 without blocks.
        keys: (T,) whether a frame is a keyframe of its video; all where frames are separate images.
        damaged: Seconds of the packets that could not be decoded.
        expected_frames: Frames that the episode is said to have.
        surplus_frames: Frames of the file after the episode, where the file holds no other.
        failure: Why the rest could not be decoded, or "".
    """

    camera: str
    rate_hz: float
    seconds: NDArray[np.float64]
    thumbs: NDArray[np.float16]
    colours: NDArray[np.uint8]
    clipped: NDArray[np.float64]
    detail: NDArray[np.float64]
    blocks: NDArray[np.float64]
    keys: NDArray[np.bool_]
    damaged: tuple[float, ...] = ()
    expected_frames: int = 0
    surplus_frames: int = 0
    failure: str = ""

    @property
    def num_frames(self) -> int:
        """Frames that could be decoded."""
        return len(self.seconds)


@dataclass(slots=True, kw_only=True)
class CameraFeatureBuilder:
    """Collects the features of a camera, frame by frame; no frame is kept.

    Attributes:
        camera: Name of the camera.
        rate_hz: Frames per second.
        expected_frames: Frames that the episode is said to have.
        damaged: Seconds of packets that could not be decoded.
        surplus_frames: Frames after the episode.
        failure: Why the rest could not be decoded, or "".
    """

    camera: str
    rate_hz: float
    expected_frames: int
    damaged: list[float] = field(default_factory=list)
    surplus_frames: int = 0
    failure: str = ""
    _seconds: list[float] = field(default_factory=list)
    _keys: list[bool] = field(default_factory=list)
    _thumbs: list[NDArray[np.float16]] = field(default_factory=list)
    _colours: list[NDArray[np.uint8]] = field(default_factory=list)
    _measures: list[tuple[float, float, float]] = field(default_factory=list)

    def add(
        self, second: float, luma: NDArray[np.uint8], small: NDArray[np.uint8], is_key: bool = True
    ) -> None:
        """Add a frame.

        Args:
            second: When it is shown, from the start of the episode.
            luma: (H, W) its brightness at full size.
            small: (48, 64, 3) RGB, each pixel the mean of those that it stands for.
            is_key: Whether it is a keyframe.
        """
        import cv2
        import numpy as np

        grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
        thumb = cv2.resize(grey, (THUMB_WIDTH, THUMB_HEIGHT), interpolation=cv2.INTER_AREA)
        tiny = cv2.resize(small, (TINY_WIDTH, TINY_HEIGHT), interpolation=cv2.INTER_AREA)
        self._seconds.append(second)
        self._keys.append(is_key)
        self._thumbs.append(thumb.astype(np.float16))
        self._colours.append(tiny)  # type: ignore[arg-type]
        clipped = float((small.max(axis=2) >= _CLIPPED_LEVEL).mean())
        self._measures.append((clipped, *_detail_and_blocks(luma)))

    def build(self) -> CameraFeatures:
        """The features so far."""
        import numpy as np

        measures = np.array(self._measures, np.float64).reshape(-1, 3)
        return CameraFeatures(
            camera=self.camera,
            rate_hz=self.rate_hz,
            seconds=np.array(self._seconds, np.float64),
            thumbs=np.array(self._thumbs, np.float16).reshape(-1, THUMB_HEIGHT, THUMB_WIDTH),
            colours=np.array(self._colours, np.uint8).reshape(-1, TINY_HEIGHT, TINY_WIDTH, 3),
            clipped=measures[:, 0],
            detail=measures[:, 1],
            blocks=measures[:, 2],
            keys=np.array(self._keys, bool),
            damaged=tuple(self.damaged),
            expected_frames=self.expected_frames,
            surplus_frames=self.surplus_frames,
            failure=self.failure,
        )


def _detail_and_blocks(luma: NDArray[np.uint8]) -> tuple[float, float]:
    """Both measures from the horizontal differences in some rows.

    The detail is the mean second difference over the mean first one, of pixels 1/256 of the width apart.
    """
    import cv2
    import numpy as np

    rows = luma[:: max(1, len(luma) // _ROWS)]
    columns = cv2.reduce(cv2.absdiff(rows[:, 1:], rows[:, :-1]), 0, cv2.REDUCE_SUM, dtype=cv2.CV_32S)[0]
    whole = columns[: len(columns) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    by_phase = np.median(whole, axis=0) / len(rows)  # one line of the scene is no border of all blocks
    return _measure_detail(rows), float((by_phase.max() + 0.2) / (by_phase.mean() + 0.2))


def _measure_detail(rows: NDArray[np.uint8]) -> float:
    import cv2
    import numpy as np

    spaced = np.ascontiguousarray(rows[:, :: max(1, round(rows.shape[1] / _DETAIL_COLUMNS))], np.int16)
    first = cv2.subtract(spaced[:, 1:], spaced[:, :-1])
    second = cv2.absdiff(first[:, 1:], first[:, :-1])
    return (float(second.mean()) + 0.05) / (float(np.abs(first).mean()) + 0.05)
