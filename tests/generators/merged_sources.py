"""Two sources of one robot for a merge: halves of one dataset, or with one planted difference that has to be asked for.

Signals are those of `two_sources`; cameras are drawn views with a moving arm, and texts are drawn tasks. Nothing here
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
    first, second = recorded_halves(seed, rng, planted)
    names = [CAMERAS[number] for number in sorted(rng.permutation(len(CAMERAS))[: int(rng.integers(2, 4))])]
    views = {name: _draw_view(rng) for name, _ in names}
    tasks = [_draw_task(rng) for _ in range(int(rng.integers(1, 4)))]
    records = []
    for number, (dataset, recorded) in enumerate((("first", first), ("second", second))):
        is_changed = number == 1
        shown = dict(views)
        if is_changed and planted == "cameras":
            one, other = (name for name, _ in names[:2])
            shown[one], shown[other] = views[other], views[one]
        rate = RATE_HZ / 2 if is_changed and planted == "rate" else RATE_HZ
        texts = [pair[is_changed and planted == "wording"] for pair in tasks]
        source = _DrawnSource(
            dataset=dataset, recorded=recorded, views=shown, texts=texts, rate_hz=rate, folder=folder
        )
        records.append([_make_record(source, episode, rng) for episode in range(len(recorded.states))])
    return MergedSources(first=records[0], second=records[1], planted=planted)


def recorded_halves(seed: int, rng: np.random.Generator, planted: str) -> tuple[Recorded, Recorded]:
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


def _draw_view(rng: np.random.Generator) -> NDArray[np.float64]:
    """(H, W, 3) what one camera looks at: a gradient and some things."""
    import numpy as np

    rows, columns = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    slope = rng.uniform(-1, 1, 2)
    view = np.repeat((rng.uniform(60, 180) + slope[0] * rows + slope[1] * columns)[..., None], 3, axis=2)
    for _ in range(int(rng.integers(3, 8))):
        top, left = int(rng.integers(0, _HEIGHT - 6)), int(rng.integers(0, _WIDTH - 6))
        height, width = int(rng.integers(4, 18)), int(rng.integers(4, 24))
        view[top : top + height, left : left + width] = rng.uniform(0, 255, 3)
    return view


def _draw_task(rng: np.random.Generator) -> tuple[str, str]:
    """A task in two wordings."""
    first, second = _TASKS[int(rng.integers(len(_TASKS)))]
    thing = _OBJECTS[int(rng.integers(len(_OBJECTS)))]
    return first.format(thing), second.format(thing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DrawnSource:
    """What the records of one source are made of: signals, views by camera, texts, and where pictures are written."""

    dataset: str
    recorded: Recorded
    views: dict[str, NDArray[np.float64]]
    texts: Sequence[str]
    rate_hz: float
    folder: Path


def _make_record(source: _DrawnSource, number: int, rng: np.random.Generator) -> Record:
    import numpy as np

    dataset, key, names, rate_hz = source.dataset, str(number), source.recorded.names, source.rate_hz
    state, action = source.recorded.states[number], source.recorded.actions[number]
    text, steps = source.texts[number % len(source.texts)], len(state)
    episode = Episode(
        episode_id=make_episode_id(format="test", dataset=dataset, version="", split="", key=key),
        format="test",
        dataset=dataset,
        version="",
        split="",
        key=key,
        source=str(source.folder),
        content_hash=f"{dataset}{number:024x}",
        instruction=text,
        instructions=(text,),
        robot="arm",
        num_steps=steps,
        rate_hz=rate_hz,
        rate_source="source",
        cameras=tuple(_draw_camera(source, number, name, steps, rng) for name in source.views),
        state_names=names,
        action_names=names,
    )
    trajectory = Trajectory(
        timestamps=np.arange(steps) / rate_hz,
        state=Signal(state.astype(np.float32), names),
        action=Signal(action.astype(np.float32), names),
    )
    return Record(episode=episode, trajectory=trajectory)


def _draw_camera(
    source: _DrawnSource, number: int, name: str, steps: int, rng: np.random.Generator
) -> Camera:
    """Frames of a view with other light, noise, and an arm that moves through it; fewer than the steps."""
    import numpy as np

    path, role = source.folder / f"{source.dataset}-{number}-{name}.npy", dict(CAMERAS)[name]
    frames = np.repeat(source.views[name][None] + rng.normal(0, 6), _FRAMES, axis=0)
    for number, frame in enumerate(frames):
        left = int(number * (_WIDTH - 8) / _FRAMES)
        frame[int(rng.integers(0, 16)) :, left : left + 6] = 40
    frames += rng.normal(0, 5, frames.shape)
    np.save(path, np.clip(frames, 0, 255).astype(np.uint8))
    duration = steps / source.rate_hz
    media = MediaRef(
        kind="npy",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=duration,
        num_frames=_FRAMES,
        rate_hz=_FRAMES / duration,
    )
    return Camera(name=name, role=role, width=_WIDTH, height=_HEIGHT, codec="raw", media=media)
