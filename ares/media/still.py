"""Where a video does not change: told by the sizes of its packets, and made sure of by a few decoded frames."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

# A frame in which nothing changed is coded in a few bits a block of 16 x 16 pixels, whatever the codec (measured).
_BYTES_ANYWAY = 128
_BLOCKS_PER_BYTE = 2
_BLOCK_PIXELS = 256
_FEWEST = 10
_LOOKS = 5
_SAME_LEVELS = 16
_MOVED_SHARE = 1e-3
_BLACK = 24

Spans = tuple[tuple[int, int], ...]


def quiet_spans(sizes: Sequence[int], keys: Sequence[bool], pixels: int) -> Spans:
    """Runs of at least ten frames [first, stop) whose packets between keyframes hold next to nothing.

    Args:
        sizes: Bytes of each packet.
        keys: Whether it is a keyframe.
        pixels: Of a frame.
    """
    import numpy as np

    size, key = np.asarray(sizes), np.asarray(keys, bool)
    if len(size) < _FEWEST:
        return ()
    little = _BYTES_ANYWAY + pixels / _BLOCK_PIXELS / _BLOCKS_PER_BYTE
    # Without frames between keyframes, the same picture has about the same size.
    change = np.abs(np.diff(size, prepend=size[0])) if key.all() else np.where(key, 0, size)
    loud = change > little
    edges = np.concatenate([[-1], np.flatnonzero(loud), [len(size)]])
    return tuple(
        (int(first) + 1, int(stop))
        for first, stop in itertools.pairwise(edges)
        if stop - first - 1 >= _FEWEST
    )


def still_flags(ref: MediaRef, quiet: Spans, first: int) -> tuple[str, ...]:
    """What is wrong with a camera whose packets change nothing over the whole episode.

    Only such a one is decoded, at five frames.

    Args:
        ref: The camera's frames.
        quiet: See `quiet_spans`.
        first: Number of the episode's first frame in the file.

    Returns:
        "frozen", and "black" before it where nothing is seen; nothing for a camera that shows a change.
    """
    from ares.media.frames import frames_at

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
