"""Plants one fault of a known strength into the videos of an episode, to measure which checks find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.quality.video import codes
from ares.quality.video.audit.random_scenes import FilmedEpisode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoFault:
    """An episode with a fault.

    Attributes:
        episode: The episode.
        camera: Name of the camera that has it.
        seconds: When it begins.
        damaged_bytes: Share of the bytes of 0.5 s of its file that are to be replaced.
    """

    episode: FilmedEpisode
    camera: str
    seconds: float
    damaged_bytes: float = 0.0


Frames = "NDArray[np.uint8]"
Planter = Callable[[FilmedEpisode, str, float, "np.random.Generator"], VideoFault | None]
# Light of a level, and back, as of the sRGB curve.
_GAMMA = 2.2
# Least difference of two cameras or colour orders, in grey levels, that a person would see.
_VISIBLE_LEVELS = 6.0
_DAMAGED_SECONDS = 0.5
_MOVING_SHARE = 0.7
# Seconds that a fault lasts, by its code; an episode has room for it when it is so many times longer.
_SPAN_SECONDS = {
    codes.BLUR.code: 1.0,
    codes.OVEREXPOSED.code: 1.0,
    codes.UNDEREXPOSED.code: 1.0,
    codes.COMPRESSION_DAMAGE.code: 0.5,
    codes.VIDEO_LENGTH.code: 0.5,
    codes.CAMERA_RATE.code: 1.0,
    codes.VIDEO_RATE.code: 1.0,
    codes.VIDEO_LAG.code: 0.5,
    codes.CAMERA_LAG.code: 0.5,
}
_ROOM = 2.5


def plant_video_fault(
    code: str, episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    """The episode with the fault that the check of a code is to find; None where it has no room for the fault.

    Raises KeyError where no fault is planted for the code.
    """
    planter = VIDEO_PLANTERS[code]
    return planter(episode, camera, strength, rng) if _has_room(code, episode) else None


def _with_frames(
    episode: FilmedEpisode, camera: str, frames: NDArray[np.uint8], seconds: float
) -> VideoFault:
    changed = replace(episode, cameras={**episode.cameras, camera: frames})
    return VideoFault(episode=changed, camera=camera, seconds=seconds)


def _has_room(code: str, episode: FilmedEpisode) -> bool:
    """Whether most of the episode can stay without the fault."""
    needs = _SPAN_SECONDS.get(code, 0.0)
    return len(episode.state) / episode.rate_hz >= _ROOM * needs


def _span(episode: FilmedEpisode, seconds: float, rng: np.random.Generator) -> tuple[int, int]:
    """A random span of frames that lasts so long."""
    count = max(2, round(seconds * episode.rate_hz))
    start = int(rng.integers(1, max(2, len(episode.state) - count - 1)))
    return start, start + count


def _moving_span(
    episode: FilmedEpisode, camera: str, seconds: float, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A random span with motion at both ends, and in most of it, in which the picture changes for good."""
    import cv2
    import numpy as np

    count = max(2, round(seconds * episode.rate_hz))
    small = [cv2.resize(frame, (32, 24), interpolation=cv2.INTER_AREA) for frame in episode.cameras[camera]]
    change = np.abs(np.diff(np.array(small, np.float32), axis=0)).mean(axis=(1, 2, 3))
    floor, usual = np.quantile(change, 0.05), np.quantile(change, 0.6)
    moving = change >= floor + 0.5 * (usual - floor)
    enough = [
        start
        for start in range(4, len(moving) - count - 4)
        if moving[start - 2 : start].all()
        and moving[start + count : start + count + 2].all()
        and moving[start : start + count].mean() >= _MOVING_SHARE
        and usual > 1.3 * floor
    ]
    if not enough:
        return None
    start = int(rng.choice(enough))
    return start, start + count


def _blur(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    import cv2

    frames = episode.cameras[camera].copy()
    start, stop = _span(episode, 1.0, rng)
    deviation = strength * frames.shape[2]
    for number in range(start, min(stop, len(frames))):
        frames[number] = cv2.GaussianBlur(frames[number], (0, 0), deviation)
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _exposure(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    import numpy as np

    frames = episode.cameras[camera].copy()
    start, stop = _span(episode, 1.0, rng)
    factor = 2.0 ** (strength / _GAMMA)
    frames[start:stop] = np.clip(frames[start:stop] * factor, 0, 255).astype(np.uint8)
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _underexposure(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    return _exposure(episode, camera, -strength, rng)


def _black(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    frames = episode.cameras[camera].copy()
    start, stop = _span(episode, strength, rng)
    frames[start:stop] = 0
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _frozen(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    """The picture stands still, and then shows the present again."""
    span = _moving_span(episode, camera, strength, rng)
    if span is None:
        return None
    frames = episode.cameras[camera].copy()
    frames[span[0] : span[1]] = frames[span[0] - 1]
    return _with_frames(episode, camera, frames, span[0] / episode.rate_hz)


def _dropped(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    """Frames are cut out, and the last one repeated at the end: those after the cut are early."""
    import numpy as np

    span = _moving_span(episode, camera, strength, rng)
    if span is None:
        return None
    frames = episode.cameras[camera]
    cut = np.delete(frames, np.arange(*span), axis=0)
    cut = np.concatenate([cut, np.repeat(cut[-1:], len(frames) - len(cut), axis=0)])
    return _with_frames(episode, camera, cut, span[0] / episode.rate_hz)


def _swapped_colours(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    frames = episode.cameras[camera]
    if not _is_visible(frames[:1], frames[:1, ..., ::-1]):
        return None
    return _with_frames(episode, camera, frames[..., ::-1].copy(), 0.0)


def _is_visible(shown: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
    import numpy as np

    return float(np.abs(shown.astype(np.int16) - other).mean()) >= _VISIBLE_LEVELS


def _swapped_cameras(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    names = list(episode.cameras)
    if len(names) < 2 or not _is_visible(episode.cameras[names[0]][:1], episode.cameras[names[1]][:1]):
        return None
    first, second = names[:2]
    cameras = {**episode.cameras, first: episode.cameras[second], second: episode.cameras[first]}
    return VideoFault(episode=replace(episode, cameras=cameras), camera=camera, seconds=0.0)


def _damage(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    """Bytes of the file are replaced, or half a second shows blocks of 8 pixels."""
    import cv2

    start, stop = _span(episode, _DAMAGED_SECONDS, rng)
    if rng.random() < 0.5:
        return VideoFault(
            episode=episode, camera=camera, seconds=start / episode.rate_hz, damaged_bytes=strength
        )
    frames = episode.cameras[camera].copy()
    height, width = frames.shape[1:3]
    for number in range(start, min(stop, len(frames))):
        blocks = cv2.resize(frames[number], (width // 8, height // 8), interpolation=cv2.INTER_AREA)
        frames[number] = cv2.resize(blocks, (width, height), interpolation=cv2.INTER_NEAREST)
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _shorter(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    """The video ends early, or goes on after the signals."""
    import numpy as np

    frames, count = episode.cameras[camera], max(1, round(strength * episode.rate_hz))
    longer = np.concatenate([frames, np.repeat(frames[-1:], count, axis=0)])
    frames = frames[:-count] if rng.random() < 0.5 else longer
    return _with_frames(episode, camera, frames, len(episode.state) / episode.rate_hz)


def _late(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    """The video is late or early; its end or start shows one frame."""
    import numpy as np

    count = max(1, round(strength * episode.rate_hz)) * int(rng.choice([-1, 1]))
    frames = episode.cameras[camera]
    shown = np.clip(np.arange(len(frames)) - count, 0, len(frames) - 1)
    return _with_frames(episode, camera, frames[shown], 0.0)


def _late_of_two(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    return _late(episode, list(episode.cameras)[1], strength, rng) if len(episode.cameras) > 1 else None


def _other_rate(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    """The video runs faster or slower than its stamps say, about its middle."""
    import numpy as np

    frames = episode.cameras[camera]
    middle = (len(frames) - 1) / 2
    factor = 1 + strength * float(rng.choice([-1, 1]))
    shown = np.round(middle + (np.arange(len(frames)) - middle) * factor).astype(int)
    return _with_frames(episode, camera, frames[np.clip(shown, 0, len(frames) - 1)], 0.0)


def _half_rate(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    import numpy as np

    frames = episode.cameras[camera]
    stride = max(2, round(1 / max(1 - strength, 0.01)))
    return _with_frames(episode, camera, frames[np.arange(len(frames)) // stride * stride], 0.0)


VIDEO_PLANTERS: Mapping[str, Planter] = {
    codes.BLUR.code: _blur,
    codes.OVEREXPOSED.code: _exposure,
    codes.UNDEREXPOSED.code: _underexposure,
    codes.BLACK.code: _black,
    codes.FROZEN.code: _frozen,
    codes.REPEATED_FRAMES.code: _frozen,
    codes.DROPPED_FRAMES.code: _dropped,
    codes.COLOUR_ORDER.code: _swapped_colours,
    codes.SWAPPED_CAMERAS.code: _swapped_cameras,
    codes.COMPRESSION_DAMAGE.code: _damage,
    codes.VIDEO_LENGTH.code: _shorter,
    codes.VIDEO_LAG.code: _late,
    codes.CAMERA_LAG.code: _late_of_two,
    codes.VIDEO_RATE.code: _other_rate,
    codes.CAMERA_RATE.code: _half_rate,
}
