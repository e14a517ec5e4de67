"""Spans of a video in which nothing changes, found by the sizes of its packets without decoding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

# A frame in which nothing changed takes a few bits per block of 16 x 16 pixels, whatever the codec (measured).
_FRAME_OVERHEAD_BYTES = 128
_BLOCKS_PER_BYTE = 2
_BLOCK_PIXELS = 256
_MIN_SPAN_FRAMES = 10

# Half-open ranges of frame numbers.
FrameSpans = tuple[tuple[int, int], ...]


def find_inactive_spans(sizes: Sequence[int], keys: Sequence[bool], pixels: int) -> FrameSpans:
    """Runs of at least ten frames [start, stop) whose packets between keyframes are almost empty.

    Args:
        sizes: Bytes of each packet, (N,).
        keys: Whether each packet is a keyframe, (N,).
        pixels: Pixels of a frame.
    """
    import numpy as np

    packet_bytes, is_key = np.asarray(sizes), np.asarray(keys, bool)
    if len(packet_bytes) < _MIN_SPAN_FRAMES:
        return ()
    threshold = _FRAME_OVERHEAD_BYTES + pixels / _BLOCK_PIXELS / _BLOCKS_PER_BYTE
    if is_key.all():  # then packets of the same picture have about the same size
        change_bytes = np.abs(np.diff(packet_bytes, prepend=packet_bytes[0]))
    else:
        change_bytes = np.where(is_key, 0, packet_bytes)
    edges = np.concatenate([[-1], np.flatnonzero(change_bytes > threshold), [len(packet_bytes)]])
    return tuple(
        (int(before) + 1, int(stop))
        for before, stop in itertools.pairwise(edges)
        if stop - before - 1 >= _MIN_SPAN_FRAMES
    )
