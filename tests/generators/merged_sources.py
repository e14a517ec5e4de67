"""Two sources of one robot for a merge: halves of one dataset, or with one planted difference that has to be asked for.

Signals are those of `two_sources`; cameras are drawn places with a moving arm, and texts are drawn tasks. Nothing here
is shared with what proposes a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Camera, Episode, MediaRef, Record, Role, Signal, Trajectory, make_episode_id
from tests.generators.two_sources import (
    RATE_HZ,
    Recorded,
    random_robot,
    random_waypoints,
    record,
    two_sources,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIGNALS = ("unit", "sign", "offset", "gripper", "exchanged")
OTHERS = ("cameras", "rate", "wording")
CAMERAS: tuple[tuple[str, Role], ...] = (
    ("top", "top"),
    ("wrist", "wrist"),
    ("side", "side"),
    ("cam_1", "other"),
)
_HEIGHT, _WIDTH, _FRAMES = 36, 48, 6
_OBJECTS = ("mug", "red block", "sponge", "screwdriver", "banana", "towel")
_TASKS = (
    ("pick up the {}", "take the {}"),
    ("open the {}", "pull the {} open"),
    ("put the {} on the table", "place the {} onto the table"),
    ("push the {}", "push {}."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSources:
    """Records of two sources.

    Attributes:
        first: Records of one.
        second: Records of the other.
        planted: What differs, one of `SIGNALS` or `OTHERS`; "" for halves of one dataset.
    """

    first: list[Record]
    second: list[Record]
    planted: str


def merged_sources(seed: int, folder: Path) -> MergedSources:
    """Two sources at random: half of them honest.

    Args:
        seed: Seed.
        folder: Where the pictures are written.
    """
    import numpy as np

    rng = np.random.default_rng([seed, 36])
    planted = str(rng.choice([*SIGNALS, *OTHERS])) if rng.random() < 0.5 else ""
    first, second = _recorded_halves(seed, rng, planted)
    names = [CAMERAS[number] for number in sorted(rng.permutation(len(CAMERAS))[: int(rng.integers(2, 4))])]
    places = {name: _draw_place(rng) for name, _ in names}
    tasks = [_draw_task(rng) for _ in range(int(rng.integers(1, 4)))]
    records = []
    for number, (dataset, recorded) in enumerate((("first", first), ("second", second))):
        is_changed = number == 1
        shown = dict(places)
        if is_changed and planted == "cameras":
            one, other = (name for name, _ in names[:2])
            shown[one], shown[other] = places[other], places[one]
        rate = RATE_HZ / 2 if is_changed and planted == "rate" else RATE_HZ
        texts = [pair[is_changed and planted == "wording"] for pair in tasks]
        records.append(
            [
                _make_record(dataset, episode, recorded, names, shown, texts, rate, folder, rng)
                for episode in range(len(recorded.states))
            ]
        )
    return MergedSources(first=records[0], second=records[1], planted=planted)


def _recorded_halves(seed: int, rng: np.random.Generator, planted: str) -> tuple[Recorded, Recorded]:
    """The signals of both: with a planted difference those of `two_sources`, else the episodes of one dataset."""
    import numpy as np

    if planted in SIGNALS:
        pairs = (two_sources(seed * 1_000 + trial) for trial in range(1_000))
        pair = next(pair for pair in pairs if pair.planted == planted)
        return pair.first, pair.second
    robot = random_robot(rng)
    points = random_waypoints(robot, rng, np.ones(len(robot.names)), robot.home)
    whole = record(robot, points, rng, int(rng.integers(6, 13)))
    half = len(whole.states) // 2
    parts = (slice(0, half), slice(half, None))
    first, second = (
        Recorded(states=whole.states[part], actions=whole.actions[part], names=whole.names) for part in parts
    )
    return first, second


def _draw_place(rng: np.random.Generator) -> NDArray[np.float64]:
    """(H, W, 3) what one camera looks at: a gradient and some things."""
    import numpy as np

    rows, columns = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    slope = rng.uniform(-1, 1, 2)
    place = np.repeat((rng.uniform(60, 180) + slope[0] * rows + slope[1] * columns)[..., None], 3, axis=2)
    for _ in range(int(rng.integers(3, 8))):
        top, left = int(rng.integers(0, _HEIGHT - 6)), int(rng.integers(0, _WIDTH - 6))
        height, width = int(rng.integers(4, 18)), int(rng.integers(4, 24))
        place[top : top + height, left : left + width] = rng.uniform(0, 255, 3)
    return place


def _draw_task(rng: np.random.Generator) -> tuple[str, str]:
    """A task in two wordings."""
    first, second = _TASKS[int(rng.integers(len(_TASKS)))]
    thing = _OBJECTS[int(rng.integers(len(_OBJECTS)))]
    return first.format(thing), second.format(thing)


def _make_record(
    dataset: str,
    number: int,
    recorded: Recorded,
    cameras: Sequence[tuple[str, Role]],
    places: dict[str, NDArray[np.float64]],
    texts: Sequence[str],
    rate_hz: float,
    folder: Path,
    rng: np.random.Generator,
) -> Record:
    import numpy as np

    state, action, key = recorded.states[number], recorded.actions[number], str(number)
    text, steps = texts[number % len(texts)], len(state)
    episode = Episode(
        episode_id=make_episode_id(format="test", dataset=dataset, version="", split="", key=key),
        format="test",
        dataset=dataset,
        version="",
        split="",
        key=key,
        source=str(folder),
        content_hash=f"{dataset}{number:024x}",
        instruction=text,
        instructions=(text,),
        robot="arm",
        num_steps=steps,
        rate_hz=rate_hz,
        rate_source="source",
        cameras=tuple(
            _draw_camera(
                name, role, places[name], folder / f"{dataset}-{number}-{name}.npy", steps, rate_hz, rng
            )
            for name, role in cameras
        ),
        state_names=recorded.names,
        action_names=recorded.names,
    )
    trajectory = Trajectory(
        timestamps=np.arange(steps) / rate_hz,
        state=Signal(state.astype(np.float32), recorded.names),
        action=Signal(action.astype(np.float32), recorded.names),
    )
    return Record(episode=episode, trajectory=trajectory)


def _draw_camera(
    name: str,
    role: Role,
    place: NDArray[np.float64],
    path: Path,
    steps: int,
    rate_hz: float,
    rng: np.random.Generator,
) -> Camera:
    """Frames of a place with other light, noise, and an arm that moves through it; fewer than the steps."""
    import numpy as np

    frames = np.repeat(place[None] + rng.normal(0, 6), _FRAMES, axis=0)
    for number, frame in enumerate(frames):
        left = int(number * (_WIDTH - 8) / _FRAMES)
        frame[int(rng.integers(0, 16)) :, left : left + 6] = 40
    frames += rng.normal(0, 5, frames.shape)
    np.save(path, np.clip(frames, 0, 255).astype(np.uint8))
    duration = steps / rate_hz
    media = MediaRef(
        kind="npy",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=duration,
        num_frames=_FRAMES,
        rate_hz=_FRAMES / duration,
    )
    return Camera(name=name, role=role, width=_WIDTH, height=_HEIGHT, codec="raw", media=media)
