"""Layout: which seconds of an episode a vision-language model is shown, and as which images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Seconds
from ares.episode import Camera, Episode
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_FRAMES = 64
_TILES = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """How frames are laid before a model.

    Attributes:
        name: "tiles", "collage" or "frames:N".
        count: Frames taken, first and last included.
    """

    name: str
    count: int

    def arrange(self, frames: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """Images to send of (N, H, W, 3) frames in order of time: each alone, or all side by side in one."""
        import numpy as np

        if self.name != "collage":
            return list(frames)
        return [np.concatenate(list(frames), axis=1)]

    def legend(self, seconds: Sequence[float]) -> str:
        """What the images are, for a prompt."""
        instants = ", ".join(f"{second:.2f} s" for second in seconds)
        if self.name == "collage":
            return f"One image of {len(seconds)} tiles, left to right in order of time, at {instants}."
        return f"{len(seconds)} images in order of time, at {instants}."


def parse_layout(text: str) -> Layout:
    """Read "tiles", "collage" or "frames:N". Raises RequestError for anything else."""
    if text in ("tiles", "collage"):
        return Layout(text, _TILES)
    match = re.fullmatch(r"frames:(\d+)", text)
    if match and 1 <= int(match[1]) <= _MOST_FRAMES:
        return Layout(text, int(match[1]))
    raise RequestError(
        f"no layout {text!r}", f"there are: tiles, collage, frames:N with N from 1 to {_MOST_FRAMES}"
    )


def pick_camera(episode: Episode, wanted: str) -> Camera | None:
    """The camera of that name, or the best one; None when the episode has no such camera."""
    named = [camera for camera in episode.good_cameras if not wanted or camera.name == wanted]
    return named[0] if named else None


def wanted(episode: Episode, camera: str, count: int) -> Seconds:
    """`count` seconds of one camera, evenly spread over its frames, first and last included."""
    chosen = pick_camera(episode, camera)
    return {chosen.name: spread(chosen, count)} if chosen else {}


def spread(camera: Camera, count: int, last: int | None = None) -> list[float]:
    """Seconds of `count` frames, evenly spread from the first (or from the `last` frames on) to the last frame."""
    frames = max(camera.media.num_frames, 1)
    first = max(frames - last, 0) if last else 0
    step = (frames - 1 - first) / max(count - 1, 1)
    indices = sorted({round(first + step * position) for position in range(count)})
    return [frame_second(index, camera.media.rate_hz) for index in indices]


def frame_second(index: int, rate_hz: float) -> float:
    """The second in the middle of a frame's showing: no rounding of its start can then give its neighbour."""
    return round((index + 0.5) / rate_hz, 6) if index else 0.0
