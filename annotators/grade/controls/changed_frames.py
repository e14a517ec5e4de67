"""Frames without content: what a judge that looks at frames cannot say anything of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from annotators.runner import CameraSeconds, Frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GREY = 128
# Tiles per side: a robot arm and what it moves span several.
_TILES = 8


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


def scrambled(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(N, H, W, 3) frames whose tiles are shuffled, each frame in another way: only the colours stay."""
    import numpy as np

    shuffled = np.empty_like(frames)
    random = np.random.default_rng(0)
    for frame, target in zip(frames, shuffled, strict=True):
        _shuffle_tiles(frame, target, random)
    return shuffled


def _shuffle_tiles(frame: NDArray[np.uint8], target: NDArray[np.uint8], random: np.random.Generator) -> None:
    """Write the tiles of a frame (H, W, 3) to shuffled places of another; what is left over at its edges is grey."""
    height, width = max(1, frame.shape[0] // _TILES), max(1, frame.shape[1] // _TILES)
    rows, columns = frame.shape[0] // height, frame.shape[1] // width
    target[...] = _GREY
    for position, source in enumerate(random.permutation(rows * columns)):
        row, column = divmod(position, columns)
        from_row, from_column = divmod(int(source), columns)
        target[row * height : (row + 1) * height, column * width : (column + 1) * width] = frame[
            from_row * height : (from_row + 1) * height, from_column * width : (from_column + 1) * width
        ]
