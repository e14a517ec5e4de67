"""Generates scenes: a random robot with two links, objects on a table, and one or two cameras that film it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

    count = int(rng.integers(1, 3))
    return RandomScene(
        rate_hz=float(rng.choice(_RATES_HZ)),
        tables=np.stack([_table(rng) for _ in range(count)]),
        bases=rng.uniform((0.35 * WIDTH, 0.5 * HEIGHT), (0.65 * WIDTH, 0.9 * HEIGHT), (count, 2)),
        turns=rng.uniform(-np.pi, np.pi, count),
        scales=rng.uniform(28, 45, count),
        colours=rng.integers(20, 236, (3, 3)).astype(np.uint8),
        is_wrist=tuple(number == 1 and bool(rng.random() < 0.5) for number in range(count)),
        noise=float(rng.uniform(0, 3)),
        lag_seconds=float(rng.uniform(0, 0.1)),
    )


def _table(rng: np.random.Generator) -> NDArray[np.uint8]:
    """A tinted table twice as large as the picture, with grain, blotches and objects."""
    import cv2
    import numpy as np

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
    return [_filmed(scene, rng, f"filmed{number}") for number in range(episodes)]


def _filmed(scene: RandomScene, rng: np.random.Generator, episode_id: str) -> FilmedEpisode:
    import numpy as np

    steps = int(rng.uniform(6, 10) * scene.rate_hz)
    seconds = np.arange(steps) / scene.rate_hz
    course = np.column_stack([_course(seconds, rng) for _ in range(3)])
    late = np.column_stack([np.interp(seconds - scene.lag_seconds, seconds, joint) for joint in course.T])
    light = float(rng.uniform(_FAINTEST_LIGHT, 1.0))
    cameras = {
        f"camera_{number}": np.stack([_frame(scene, number, pose, light, rng) for pose in late])
        for number in range(len(scene.tables))
    }
    state = course + rng.normal(0, 0.001, course.shape)
    return FilmedEpisode(episode_id=episode_id, rate_hz=scene.rate_hz, state=state, cameras=cameras)


def _course(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Smooth motions from angle to angle, with rests in between."""
    import numpy as np

    angle, now = float(rng.uniform(-1, 1)), 0.0
    values = np.full(len(seconds), angle)
    while now < seconds[-1]:
        now += float(rng.choice([0.0, rng.uniform(0.1, 1.0)]))
        duration, target = float(rng.uniform(0.5, 2.0)), float(rng.uniform(-1.5, 1.5))
        phase = np.clip((seconds - now) / duration, 0, 1)
        values += (target - angle) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        now, angle = now + duration, target
    return values


def _frame(
    scene: RandomScene, number: int, pose: NDArray[np.float64], light: float, rng: np.random.Generator
) -> NDArray[np.uint8]:
    import numpy as np

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
    import cv2

    ends = [tuple(int(value * 16) for value in end) for end in (start, stop)]
    tone = [int(level) for level in colour]
    cv2.line(frame, ends[0], ends[1], tone, thickness, cv2.LINE_AA, 4)
