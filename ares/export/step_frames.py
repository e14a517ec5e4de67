"""Frames of a camera for the steps that an export writes: decoded, one for each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.episode import Camera
from ares.export.retime import RetimedEpisode
from ares.media import all_frames, frames_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Frames decoded at once where they have to be selected by time.
_BATCH_FRAMES = 64


def step_frames(
    camera: Camera, retimed: RetimedEpisode, seconds: Sequence[float]
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame of every step: in order where each step has its own, else the one shown at its second.

    Args:
        camera: The camera.
        retimed: Its episode.
        seconds: The second of each step, as `RetimedEpisode.camera_seconds` gives them.

    Yields:
        (H, W, 3) uint8 RGB. Raises MediaError or SourceError when a frame cannot be read.
    """
    if retimed.keeps_steps and retimed.source.frame_pairing == "index":
        yield from all_frames(camera.media)
        return
    for start in range(0, len(seconds), _BATCH_FRAMES):
        yield from frames_at(camera.media, seconds[start : start + _BATCH_FRAMES])
