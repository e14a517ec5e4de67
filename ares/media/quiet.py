"""Quiet: the stretches of a video in which nothing changes, by the sizes of its packets alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

# A frame in which nothing changed is coded in a few bits a block of 16 x 16 pixels, whatever the codec (measured).
_BYTES_ANYWAY = 128
_BLOCKS_PER_BYTE = 2
_BLOCK_PIXELS = 256
_FEWEST = 10

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
