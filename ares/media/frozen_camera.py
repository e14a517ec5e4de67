"""Detection of cameras whose picture never changes, by packet sizes and verified by decoding a few frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.errors import MediaError
from ares.media.frames import frames_at
from ares.media.video import FrameSpans

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef

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
        inactive_spans: See `ares.media.video.packet_activity.find_inactive_spans`.
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
