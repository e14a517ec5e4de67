"""What is kept of each frame of a camera, and which pictures stand out from the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.checks.codes import (
    BLACK,
    BLUR,
    COMPRESSION_DAMAGE,
    OVEREXPOSED,
    UNDEREXPOSED,
    CheckCode,
)
from ares.checks.record import (
    QualityFinding,
    finding_confidence,
    make_finding,
)
from ares.signals import find_runs
from ares.statistics import DEVIATIONS_PER_MAD

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


# A span shorter than this is not reported: exposure and focus of a camera settle.
_SHORTEST_SECONDS = 0.3
_BLURRED_SHARE = 0.78
_BLUR_DEVIATIONS = 6.0
_FEWEST_FRAMES = 8
_STOPS = 1.0
_STOPS_DEVIATIONS = 6.0
_CLIPPED_MORE = 0.2
_CLIPPED_STOPS = 0.3
_BLACK_LEVEL = 20.0
_BLACK_FRAMES = 2
_BLOCKS_FACTOR = 1.6
_BLOCKS_SECONDS = 0.2
_GAMMA = 2.2


def check_picture_quality(features: CameraFeatures) -> Iterator[QualityFinding]:
    """A030 to A033 and A039 within one episode."""
    yield from _check_damage(features)
    if features.num_frames:
        black = black_frames(features)
        yield from _check_black(features, black)
        if features.num_frames >= _FEWEST_FRAMES and not black.all():
            yield from _check_blur(features, black)
            yield from _check_exposure(features, black)
            yield from _check_blocks(features, black)


def video_finding(
    check: CheckCode, camera: str, seconds: float, size: float, confidence: float
) -> QualityFinding:
    """A finding of a camera."""
    return make_finding(check, "video", camera, max(seconds, 0.0), round(float(size), 4), confidence)


def black_frames(features: CameraFeatures) -> NDArray[np.bool_]:
    """(T,) whether a frame is black everywhere."""
    import numpy as np

    return np.asarray(features.thumbs.max(axis=(1, 2)) <= _BLACK_LEVEL)


def compute_cell_brightness(features: CameraFeatures) -> NDArray[np.float64]:
    """(T, 48) linear light of the cells of each frame, from 0 to 1."""
    grey = features.colours.reshape(features.num_frames, -1, 3).mean(axis=2)
    return (grey / 255 + 0.004) ** _GAMMA  # type: ignore[no-any-return]


def _longest_run(
    features: CameraFeatures, flags: NDArray[np.bool_], shortest_seconds: float
) -> tuple[int, int] | None:
    """The longest run of at least so many seconds."""
    runs = [
        (start, stop)
        for start, stop in find_runs(flags).tolist()
        if (stop - start + 0.5) / features.rate_hz >= shortest_seconds and stop - start >= 2
    ]
    return max(runs, key=lambda run: run[1] - run[0], default=None)


def _median_and_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Median, and standard deviation by the median deviation."""
    import numpy as np

    middle = float(np.median(values))
    return middle, DEVIATIONS_PER_MAD * float(np.median(np.abs(values - middle)))


def _check_blur(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The detail falls for a time, further than motion lets it fall in the rest of the episode."""
    import numpy as np

    detail = np.log(features.detail)
    middle, spread = _median_and_deviation(detail[~black])
    bar = max(-float(np.log(_BLURRED_SHARE)), _BLUR_DEVIATIONS * spread)
    lost = middle - detail
    run = _longest_run(features, (lost >= bar) & ~black, _SHORTEST_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = finding_confidence(float(np.median(lost[run[0] : run[1]])), bar)
        yield video_finding(BLUR, features.camera, features.seconds[run[0]], seconds, confidence)


def _check_exposure(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The light of most cells changes by one factor, further than in the rest of the episode."""
    import numpy as np

    light = np.log2(compute_cell_brightness(features))
    stops = np.median(light - np.median(light[~black], axis=0), axis=1)
    _, spread = _median_and_deviation(stops[~black])
    bar = max(_STOPS, _STOPS_DEVIATIONS * spread)
    usual, clipped_spread = _median_and_deviation(features.clipped[~black])
    clipped = features.clipped - usual
    clipped_bar = max(_CLIPPED_MORE, _STOPS_DEVIATIONS * clipped_spread)
    over = (stops >= bar) | ((stops >= min(_CLIPPED_STOPS, bar)) & (clipped >= clipped_bar))
    for check, flags in ((OVEREXPOSED, over), (UNDEREXPOSED, stops <= -bar)):
        run = _longest_run(features, flags & ~black, _SHORTEST_SECONDS)
        if run is not None:
            size = float(np.median(stops[run[0] : run[1]]))
            confidence = finding_confidence(max(abs(size), bar), bar)
            yield video_finding(check, features.camera, features.seconds[run[0]], size, confidence)


def _check_black(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    runs = [
        run for run in find_runs(black).tolist() if run[1] - run[0] >= min(_BLACK_FRAMES, features.num_frames)
    ]
    if runs:
        start, stop = max(runs, key=lambda run: run[1] - run[0])
        seconds = (stop - start) / features.rate_hz
        confidence = finding_confidence(stop - start, _BLACK_FRAMES)
        yield video_finding(BLACK, features.camera, features.seconds[start], seconds, confidence)


def _check_blocks(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """Borders of blocks are seen for a time, and not in the rest of the episode."""
    import numpy as np

    usual, spread = _median_and_deviation(features.blocks[~black])
    bar = max(_BLOCKS_FACTOR * usual, usual + _BLUR_DEVIATIONS * spread)
    run = _longest_run(features, (features.blocks >= bar) & ~black, _BLOCKS_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = finding_confidence(float(np.median(features.blocks[run[0] : run[1]])), bar)
        yield video_finding(
            COMPRESSION_DAMAGE, features.camera, features.seconds[run[0]], seconds, confidence
        )


def _check_damage(features: CameraFeatures) -> Iterator[QualityFinding]:
    if features.failure:
        second = features.seconds[-1] if features.num_frames else 0.0
        lost = max(features.expected_frames - features.num_frames, 0) / features.rate_hz
        yield video_finding(COMPRESSION_DAMAGE, features.camera, second, lost, 1.0)
    elif features.damaged:
        size = len(features.damaged) / features.rate_hz
        yield video_finding(COMPRESSION_DAMAGE, features.camera, features.damaged[0], size, 1.0)
