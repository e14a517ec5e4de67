"""Frames without content, in place of those of an episode: what a judge sees in them it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from annotators.base import CameraSeconds, Frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_GREY = 128


class ChangedFrames(Frames):
    """Frames of an episode, each changed when it is read.

    Args:
        frames: The frames.
        change: Turns (N, H, W, 3) frames into as many of the same size.
    """

    def __init__(self, frames: Frames, change: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]) -> None:
        self._frames, self._change = frames, change

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    @property
    def is_changed(self) -> bool:
        """Always: what is stored of the episode was seen in other frames."""
        return True

    def decode(self) -> None:
        """As `Frames.decode`."""
        self._frames.decode()

    def release(self) -> None:
        """As `Frames.release`."""
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`, changed."""
        return self._change(self._frames.at(camera, seconds))


def blank(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(N, H, W, 3) grey frames in place of frames."""
    import numpy as np

    return np.full_like(frames, _GREY)
