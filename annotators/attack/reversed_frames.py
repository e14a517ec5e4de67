"""Frames in reverse order: what was opened is closed in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.frames import CameraSeconds, Frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ReversedFrames(Frames):
    """Decoded frames of an episode, the last ones first.

    Args:
        frames: The decoded frames.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    @property
    def is_changed(self) -> bool:
        """Always: what is stored of the episode was seen in other frames."""
        return True

    def decode(self) -> None:
        """They are decoded."""

    def release(self) -> None:
        """As `Frames.release`."""
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`: the frame of the first requested second stands at the last one."""
        order = list(self.requested[camera])
        mirrored = dict(zip(order, reversed(order), strict=True))
        return self._frames.at(camera, [mirrored[second] for second in seconds])
