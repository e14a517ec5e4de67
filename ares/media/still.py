"""Where a video does not change: told by the sizes of its packets, and made sure of by a few decoded frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.errors import MediaError
from ares.media.frames import frames_at
from ares.media.quiet import Spans

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

_LOOKS = 5
_SAME_LEVELS = 16
_MOVED_SHARE = 1e-3
_BLACK = 24


def still_flags(ref: MediaRef, quiet: Spans, first: int) -> tuple[str, ...]:
    """What is wrong with a camera whose packets change nothing over the whole episode.

    Only such a one is decoded, at five frames.

    Args:
        ref: The camera's frames.
        quiet: See `ares.media.quiet.quiet_spans`.
        first: Number of the episode's first frame in the file.

    Returns:
        "frozen", and "black" before it where nothing is seen; nothing for a camera that shows a change.
    """
    stop = first + ref.num_frames
    if not any(begin <= first + 2 and stop - 2 <= end for begin, end in quiet):
        return ()
    numbers = [round(k * (ref.num_frames - 1) / (_LOOKS - 1)) for k in range(_LOOKS)]
    try:
        pictures = frames_at(ref, [number / ref.rate_hz for number in numbers])
    except MediaError:
        return ()  # what cannot be decoded is told where it is used
    if any(_moved(pictures[0], picture) for picture in pictures[1:]):
        return ()
    return ("black", "frozen") if pictures.max() <= _BLACK else ("frozen",)


def _moved(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    import numpy as np

    levels = np.abs(before.astype(np.int16) - after)
    return bool((levels > _SAME_LEVELS).mean() > _MOVED_SHARE)
