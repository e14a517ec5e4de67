"""What a camera shows: whether its frames are frozen or black, and its mean view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ares.errors import AresError, MediaError
from ares.media.video.probe import FrameSpans

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, MediaRef
from ares.media.frames import frames_at

_SAMPLED_FRAMES = 5

# A pixel has changed when a channel differs by more than this, a frame when more than this share of values has.
_CHANGED_LEVELS = 16

_CHANGED_SHARE = 1e-3

_BLACK_LEVEL = 24

# Frames at either end of an episode that may lie outside an inactive span.
_EDGE_FRAMES = 2

_READ_ERROR = "file cannot be read"


def frozen_camera_flags(ref: MediaRef, inactive_spans: FrameSpans, first_frame: int) -> tuple[str, ...]:
    """The flags of a camera that shows the same picture over the whole episode.

    Only a camera whose packets suggest it is decoded, at five frames.

    Args:
        ref: The camera's frames.
        inactive_spans: See `ares.media.video.probe.find_inactive_spans`.
        first_frame: Number of the episode's first frame in the file.

    Returns:
        ("frozen",), or ("black", "frozen") when the picture is black; () for a camera that shows a change.

    Raises:
        MediaError: The disk or the server failed.
    """
    last_start, first_stop = first_frame + _EDGE_FRAMES, first_frame + ref.num_frames - _EDGE_FRAMES
    if not any(start <= last_start and first_stop <= stop for start, stop in inactive_spans):
        return ()
    numbers = [round(k * (ref.num_frames - 1) / (_SAMPLED_FRAMES - 1)) for k in range(_SAMPLED_FRAMES)]
    try:
        frames = frames_at(ref, [number / ref.rate_hz for number in numbers])
    except MediaError as error:
        if error.reason == _READ_ERROR:  # the next run reads the record again: it must not miss a finding
            raise
        return ()  # frames that cannot be decoded are reported where the camera is used
    if any(_has_changed(frames[0], frame) for frame in frames[1:]):
        return ()
    return ("black", "frozen") if frames.max() <= _BLACK_LEVEL else ("frozen",)


def _has_changed(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    import numpy as np

    differences = np.abs(before.astype(np.int16) - after)
    return bool((differences > _CHANGED_LEVELS).mean() > _CHANGED_SHARE)


_VIEW_FRAMES, _VIEW_SIDE = 3, 32
# A picture that fits by so much better once it is turned, and so well, is turned.
_LEAST_GAIN, _LEAST_FIT = 0.15, 0.4
# Red and blue of a picture differ by so many levels where its colours say anything; these then point apart by this.
_COLOURED, _EXCHANGED = 3.0, -0.3
_TURNS = (
    "",
    "turned by 90 degrees",
    "turned by 180 degrees",
    "turned by 270 degrees",
    "mirrored left to right",
    "mirrored and turned by 90 degrees",
    "mirrored top to bottom",
    "mirrored and turned by 270 degrees",
)


def median_pictures(episodes: Iterable[Episode]) -> dict[str, NDArray[np.float64]]:
    """(32, 32, 3) the median picture of each camera of some episodes, from 0 to 255.

    A camera is not there where no frame of it can be read, which an export says, or where all of it is black.
    """
    import cv2
    import numpy as np

    pictures: dict[str, list[NDArray[np.uint8]]] = {}
    for episode in episodes:
        seconds = [episode.duration_seconds * part / _VIEW_FRAMES for part in range(_VIEW_FRAMES)]
        for camera in episode.cameras:
            try:
                frames = frames_at(camera.media, seconds)
            except AresError:
                continue
            side = (_VIEW_SIDE, _VIEW_SIDE)
            small = [np.asarray(cv2.resize(frame, side, interpolation=cv2.INTER_AREA)) for frame in frames]
            pictures.setdefault(camera.name, []).extend(small)
    medians = {name: np.median(frames, axis=0) for name, frames in pictures.items() if frames}
    return {name: picture for name, picture in medians.items() if picture.max() > _BLACK_LEVEL}


def picture_fit(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Correlation of the grey of two pictures (H, W, 3), from -1 to 1."""
    import numpy as np

    greys = [part.mean(axis=2) - part.mean() for part in (first, second)]
    power = float(np.sqrt((greys[0] ** 2).sum() * (greys[1] ** 2).sum()))
    return float((greys[0] * greys[1]).sum()) / max(power, 1e-9)


def describe_turn(first: NDArray[np.float64], second: NDArray[np.float64]) -> str:
    """How the second of two median pictures (32, 32, 3) of one camera fits the first better; "" if it fits as it is."""
    import numpy as np

    turned = [np.rot90(part, turns) for part in (second, second[:, ::-1]) for turns in range(4)]
    fits = [picture_fit(first, part) for part in turned]
    best = int(np.argmax(fits))
    if not is_better_fit(fits[best], fits[0]):
        best = 0
    colours, others = (part[..., 0] - part[..., 2] for part in (first, turned[best]))
    sizes = [float(np.sqrt((part**2).mean())) for part in (colours, others)]
    likeness = float((colours * others).mean()) / max(sizes[0] * sizes[1], 1e-9)
    exchanged = ["with red and blue exchanged"] if min(sizes) > _COLOURED and likeness < _EXCHANGED else []
    return " and ".join([*_TURNS[best : best + 1], *exchanged] if best else exchanged)


def is_better_fit(fit: float, usual: float) -> bool:
    """Whether a picture fits so well, and so much better than it fits otherwise, that it is no chance."""
    return fit > _LEAST_FIT and fit > usual + _LEAST_GAIN
