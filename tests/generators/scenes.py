"""What the cameras of a generated robot film, and how each fault of a video changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from ares.checks import codes

WIDTH, HEIGHT = 160, 120
_RATES_HZ = (10.0, 15.0, 20.0, 30.0)
_FAINTEST_LIGHT = 0.75


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilmedEpisode:
    """An episode of a generated scene.

    Attributes:
        episode_id: Its id.
        rate_hz: Steps and frames per second.
        state: (T, 3) angles of the shoulder, the elbow and the gripper, radians.
        cameras: Frames of each camera by name, (T, 120, 160, 3) uint8 RGB.
    """

    episode_id: str
    rate_hz: float
    state: NDArray[np.float64]
    cameras: dict[str, NDArray[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomScene:
    """A scene that is filmed.

    Attributes:
        rate_hz: Steps and frames per second.
        tables: (C, 120, 160, 3) what each camera sees of the table without the robot.
        bases: (C, 2) pixel of the robot's base in each camera.
        turns: (C,) by how much each camera is turned, radians.
        scales: (C,) length of a link in pixels.
        colours: (3, 3) RGB of the links and of the gripper.
        is_wrist: (C,) whether the camera moves with the arm.
        noise: Standard deviation of the noise of a camera, grey levels.
        lag_seconds: How much later than the state the cameras show a motion.
    """

    rate_hz: float
    tables: NDArray[np.uint8]
    bases: NDArray[np.float64]
    turns: NDArray[np.float64]
    scales: NDArray[np.float64]
    colours: NDArray[np.uint8]
    is_wrist: tuple[bool, ...]
    noise: float
    lag_seconds: float


def random_scene(rng: np.random.Generator) -> RandomScene:
    """A scene with one or two cameras; the second may be on the wrist."""
    count = int(rng.integers(1, 3))
    return RandomScene(
        rate_hz=float(rng.choice(_RATES_HZ)),
        tables=np.stack([_random_table(rng) for _ in range(count)]),
        bases=rng.uniform((0.35 * WIDTH, 0.5 * HEIGHT), (0.65 * WIDTH, 0.9 * HEIGHT), (count, 2)),
        turns=rng.uniform(-np.pi, np.pi, count),
        scales=rng.uniform(28, 45, count),
        colours=rng.integers(20, 236, (3, 3)).astype(np.uint8),
        is_wrist=tuple(number == 1 and bool(rng.random() < 0.5) for number in range(count)),
        noise=float(rng.uniform(0, 3)),
        lag_seconds=float(rng.uniform(0, 0.1)),
    )


def _random_table(rng: np.random.Generator) -> NDArray[np.uint8]:
    """A tinted table twice as large as the picture, with grain, blotches and objects."""
    height, width = 2 * HEIGHT, 2 * WIDTH
    tint = rng.uniform(70, 170, 3)
    coarse = cv2.resize(rng.normal(0, 25, (6, 8, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    grain = rng.normal(0, float(rng.uniform(3, 10)), (height, width, 1))
    picture = np.clip(tint + coarse + grain, 0, 255).astype(np.uint8)
    for _ in range(int(rng.integers(6, 20))):
        centre = (int(rng.integers(0, width)), int(rng.integers(0, height)))
        colour = [int(level) for level in rng.integers(10, 246, 3)]
        cv2.circle(picture, centre, int(rng.integers(4, 22)), colour, -1, cv2.LINE_AA)
    return picture


def filmed_dataset(scene: RandomScene, rng: np.random.Generator, episodes: int = 5) -> list[FilmedEpisode]:
    """Clean episodes of one scene, 6 to 10 seconds each."""
    return [_filmed_episode(scene, rng, f"filmed{number}") for number in range(episodes)]


def _filmed_episode(scene: RandomScene, rng: np.random.Generator, episode_id: str) -> FilmedEpisode:
    steps = int(rng.uniform(6, 10) * scene.rate_hz)
    seconds = np.arange(steps) / scene.rate_hz
    course = np.column_stack([_smooth_course(seconds, rng) for _ in range(3)])
    late = np.column_stack([np.interp(seconds - scene.lag_seconds, seconds, joint) for joint in course.T])
    light = float(rng.uniform(_FAINTEST_LIGHT, 1.0))
    cameras = {
        f"camera_{number}": np.stack([_camera_frame(scene, number, pose, light, rng) for pose in late])
        for number in range(len(scene.tables))
    }
    state = course + rng.normal(0, 0.001, course.shape)
    return FilmedEpisode(episode_id=episode_id, rate_hz=scene.rate_hz, state=state, cameras=cameras)


def _smooth_course(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Smooth motions from angle to angle, with rests in between."""
    angle, now = float(rng.uniform(-1, 1)), 0.0
    values = np.full(len(seconds), angle)
    while now < seconds[-1]:
        now += float(rng.choice([0.0, rng.uniform(0.1, 1.0)]))
        duration, target = float(rng.uniform(0.5, 2.0)), float(rng.uniform(-1.5, 1.5))
        phase = np.clip((seconds - now) / duration, 0, 1)
        values += (target - angle) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        now, angle = now + duration, target
    return values


def _camera_frame(
    scene: RandomScene, number: int, pose: NDArray[np.float64], light: float, rng: np.random.Generator
) -> NDArray[np.uint8]:
    shoulder, elbow, gripper = (float(angle) for angle in pose)
    left, top = WIDTH // 2, HEIGHT // 2
    if scene.is_wrist[number]:
        left += round(0.3 * WIDTH * np.sin(shoulder))
        top += round(0.3 * HEIGHT * np.sin(shoulder + elbow))
    frame = scene.tables[number, top : top + HEIGHT, left : left + WIDTH].copy()
    base = scene.bases[number] if not scene.is_wrist[number] else np.array([WIDTH / 2, HEIGHT])
    turn = scene.turns[number] if not scene.is_wrist[number] else -np.pi / 2 - shoulder - elbow
    joint = base + scene.scales[number] * np.array([np.cos(turn + shoulder), np.sin(turn + shoulder)])
    direction = turn + shoulder + elbow
    hand = joint + scene.scales[number] * np.array([np.cos(direction), np.sin(direction)])
    _draw_line(frame, base, joint, scene.colours[0], 9)
    _draw_line(frame, joint, hand, scene.colours[1], 7)
    for side in (-1, 1):
        angle = direction + side * (0.4 + 0.3 * gripper)
        _draw_line(frame, hand, hand + 12 * np.array([np.cos(angle), np.sin(angle)]), scene.colours[2], 3)
    noise = rng.standard_normal(frame.shape, np.float32) * scene.noise
    return np.asarray(np.clip(frame * light + noise, 0, 255).astype(np.uint8))


def _draw_line(
    frame: NDArray[np.uint8],
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    colour: NDArray[np.uint8],
    thickness: int,
) -> None:
    """A line with positions to a sixteenth of a pixel."""
    ends = [tuple(int(value * 16) for value in end) for end in (start, stop)]
    tone = [int(level) for level in colour]
    cv2.line(frame, ends[0], ends[1], tone, thickness, cv2.LINE_AA, 4)


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
    codes.VIDEO_LAG.code: 0.5,
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


def _random_span(episode: FilmedEpisode, seconds: float, rng: np.random.Generator) -> tuple[int, int]:
    """A random span of frames that lasts so long."""
    count = max(2, round(seconds * episode.rate_hz))
    start = int(rng.integers(1, max(2, len(episode.state) - count - 1)))
    return start, start + count


def _moving_span(
    episode: FilmedEpisode, camera: str, seconds: float, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A random span with motion at both ends, and in most of it, in which the picture changes for good."""
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


def _blurred_span(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    frames = episode.cameras[camera].copy()
    start, stop = _random_span(episode, 1.0, rng)
    deviation = strength * frames.shape[2]
    for number in range(start, min(stop, len(frames))):
        frames[number] = cv2.GaussianBlur(frames[number], (0, 0), deviation)
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _other_exposure(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    frames = episode.cameras[camera].copy()
    start, stop = _random_span(episode, 1.0, rng)
    factor = 2.0 ** (strength / _GAMMA)
    frames[start:stop] = np.clip(frames[start:stop] * factor, 0, 255).astype(np.uint8)
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _dark_exposure(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    return _other_exposure(episode, camera, -strength, rng)


def _black_span(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    frames = episode.cameras[camera].copy()
    start, stop = _random_span(episode, strength, rng)
    frames[start:stop] = 0
    return _with_frames(episode, camera, frames, start / episode.rate_hz)


def _frozen_span(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    """The picture stands still, and then shows the present again."""
    span = _moving_span(episode, camera, strength, rng)
    if span is None:
        return None
    frames = episode.cameras[camera].copy()
    frames[span[0] : span[1]] = frames[span[0] - 1]
    return _with_frames(episode, camera, frames, span[0] / episode.rate_hz)


def _swapped_colours(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault | None:
    frames = episode.cameras[camera]
    if not _is_visible(frames[:1], frames[:1, ..., ::-1]):
        return None
    return _with_frames(episode, camera, frames[..., ::-1].copy(), 0.0)


def _is_visible(shown: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
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


def _damaged_frames(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    """Bytes of the file are replaced, or half a second shows blocks of 8 pixels."""
    start, stop = _random_span(episode, _DAMAGED_SECONDS, rng)
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


def _other_length(
    episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator
) -> VideoFault:
    """The video ends early, or goes on after the signals."""
    frames, count = episode.cameras[camera], max(1, round(strength * episode.rate_hz))
    longer = np.concatenate([frames, np.repeat(frames[-1:], count, axis=0)])
    frames = frames[:-count] if rng.random() < 0.5 else longer
    return _with_frames(episode, camera, frames, len(episode.state) / episode.rate_hz)


def _late_video(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    """The video is late or early; its end or start shows one frame."""
    count = max(1, round(strength * episode.rate_hz)) * int(rng.choice([-1, 1]))
    frames = episode.cameras[camera]
    shown = np.clip(np.arange(len(frames)) - count, 0, len(frames) - 1)
    return _with_frames(episode, camera, frames[shown], 0.0)


def _half_rate(episode: FilmedEpisode, camera: str, strength: float, rng: np.random.Generator) -> VideoFault:
    frames = episode.cameras[camera]
    stride = max(2, round(1 / max(1 - strength, 0.01)))
    return _with_frames(episode, camera, frames[np.arange(len(frames)) // stride * stride], 0.0)


VIDEO_PLANTERS: Mapping[str, Planter] = {
    codes.BLUR.code: _blurred_span,
    codes.OVEREXPOSED.code: _other_exposure,
    codes.UNDEREXPOSED.code: _dark_exposure,
    codes.BLACK.code: _black_span,
    codes.FROZEN.code: _frozen_span,
    codes.REPEATED_FRAMES.code: _frozen_span,
    codes.COLOUR_ORDER.code: _swapped_colours,
    codes.SWAPPED_CAMERAS.code: _swapped_cameras,
    codes.COMPRESSION_DAMAGE.code: _damaged_frames,
    codes.VIDEO_LENGTH.code: _other_length,
    codes.VIDEO_LAG.code: _late_video,
    codes.CAMERA_RATE.code: _half_rate,
}
