"""Frames without content, in place of those of an episode: what a judge sees in them it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares_annotators.base import CameraSeconds, Frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_GREY = 128


class GreyFrames(Frames):
    """A grey frame in place of each frame of an episode.

    Args:
        frames: The frames of the episode.
    """

    is_changed = True

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    def decode(self) -> None:
        """As `Frames.decode`."""
        self._frames.decode()

    def release(self) -> None:
        """As `Frames.release`."""
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, H, W, 3) grey frames of the size of those shown at these seconds. Raises as `Frames.at`."""
        import numpy as np

        return np.full_like(self._frames.at(camera, seconds), _GREY)
