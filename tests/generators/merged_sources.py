"""Two sources of one robot for a merge: halves of one dataset, or with planted differences that have to be asked for.

Robots are those of `two_sources`, which do one task or several; cameras are drawn views with a moving arm. Differences
come alone and together, in one dimension or in many, small and large, in the state, the action or both. Nothing here is
shared with what proposes a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ares.episode import Camera, Episode, MediaRef, Record, Role, Signal, Trajectory, make_episode_id
from tests.generators.two_sources import (
    DEGREES,
    RATE_HZ,
    SIGNAL_PLANTERS,
    ArmRobot,
    Recorded,
    random_robot,
    random_waypoints,
    record,
)

Array = NDArray[np.float64]

SIGNAL_KINDS = tuple(SIGNAL_PLANTERS)
KINDS = (*SIGNAL_KINDS, "cameras", "rate", "wording")
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
        planted: What differs, of `KINDS`; () for halves of one dataset.
    """

    first: list[Record]
    second: list[Record]
    planted: tuple[str, ...]


def merged_sources(seed: int, folder: Path) -> MergedSources:
    """Two sources at random: half of them honest, the others with one to three differences.

    Args:
        seed: Seed.
        folder: Where the pictures are written.
    """
    rng = np.random.default_rng([seed, 36])
    planted: tuple[str, ...] = ()
    if rng.random() < 0.5:
        planted = tuple(rng.choice(KINDS, int(rng.choice([1, 1, 1, 2, 3])), replace=False).tolist())
    robot, tasks, halves = _record_tasks(rng)
    for kind in planted:
        if kind in SIGNAL_PLANTERS:
            halves[1].recorded = SIGNAL_PLANTERS[kind](robot, halves[1].recorded, rng)
    names = [CAMERAS[number] for number in sorted(rng.permutation(len(CAMERAS))[: int(rng.integers(2, 5))])]
    views = {name: _draw_view(rng) for name, _ in names}
    records = []
    for number, half in enumerate(halves):
        own = planted if number else ()
        source = _DrawnSource(
            dataset=("first", "second")[number],
            recorded=half.recorded,
            views=_exchange_views(views, rng) if "cameras" in own else views,
            texts=[tasks[task]["wording" in own] for task in half.tasks],
            rate_hz=RATE_HZ * (float(rng.choice([0.5, 2 / 3, 1.5, 2.0])) if "rate" in own else 1.0),
            folder=folder,
        )
        records.append([_make_record(source, episode, rng) for episode in range(len(half.tasks))])
    return MergedSources(first=records[0], second=records[1], planted=planted)


# The forms of a rotation, and names of its numbers: those that say the form, and those that do not.
ROTATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "euler": (("roll", "pitch", "yaw"), ("euler_0", "euler_1", "euler_2"), ("rot_0", "rot_1", "rot_2")),
    "euler deg": (("roll", "pitch", "yaw"), ("euler_0", "euler_1", "euler_2"), ("rot_0", "rot_1", "rot_2")),
    "axis-angle": (("rotvec_0", "rotvec_1", "rotvec_2"), ("rx", "ry", "rz"), ("rot_0", "rot_1", "rot_2")),
    "xyzw": (
        ("qx", "qy", "qz", "qw"),
        ("quat_x", "quat_y", "quat_z", "quat_w"),
        ("rot_0", "rot_1", "rot_2", "rot_3"),
    ),
    "wxyz": (
        ("qw", "qx", "qy", "qz"),
        ("quat_w", "quat_x", "quat_y", "quat_z"),
        ("rot_0", "rot_1", "rot_2", "rot_3"),
    ),
    "6d": (tuple(f"rot6d_{number}" for number in range(6)), tuple(f"rot_{number}" for number in range(6))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedSources:
    """Records of two sources of one robot that record the pose of its tool.

    Attributes:
        first: Records of one.
        second: Records of the other.
        forms: The form of the rotation in each, of `ROTATIONS`.
        rotations: By episode, the (T, 3, 3) rotations of its state.
    """

    first: list[Record]
    second: list[Record]
    forms: tuple[str, str]
    rotations: dict[str, Array]


def turned_sources(seed: int, folder: Path) -> TurnedSources:
    """Two sources at random: half of them halves of one dataset, the others with rotations in other forms.

    A third of these have as many numbers under the same names, so that only their values differ.
    """
    rng = np.random.default_rng([seed, 38])
    forms, names = _draw_forms(rng, np.random.default_rng([seed, 39]))
    episodes, count = _turning_episodes(rng), int(rng.integers(4, 10))
    records: list[list[Record]] = []
    rotations: dict[str, Array] = {}
    for number, form in enumerate(forms):
        made = [next(episodes) for _ in range(count)]
        tables = [
            [_tool_table(path, form) for path in (own, np.concatenate([own[1:], own[-1:]]))] for own in made
        ]
        recorded = Recorded(
            states=tuple(state for state, _ in tables),
            actions=tuple(action for _, action in tables),
            names=("x", "y", "z", *names[number], "gripper"),
        )
        source = _DrawnSource(
            dataset=("first", "second")[number], recorded=recorded, views={}, texts=["turn the knob"] * count,
            rate_hz=RATE_HZ, folder=folder,
        )  # fmt: skip
        records.append([_make_record(source, episode, rng) for episode in range(count)])
        rotations |= {
            record.episode.episode_id: own[:, 4:].reshape(-1, 3, 3)
            for record, own in zip(records[-1], made, strict=True)
        }
    return TurnedSources(first=records[0], second=records[1], forms=(forms[0], forms[1]), rotations=rotations)


def _draw_forms(
    rng: np.random.Generator, hidden: np.random.Generator
) -> tuple[list[str], list[tuple[str, ...]]]:
    """The forms of two sources, and the names of their numbers."""
    forms = [str(form) for form in rng.choice(list(ROTATIONS), 2, replace=False)]
    if rng.random() < 0.5:
        forms[1] = forms[0]
    is_hidden = forms[0] != forms[1] and hidden.random() < 0.35
    if is_hidden:  # as many numbers under the same names, which say nothing
        alike = [
            form
            for form in ROTATIONS
            if form != forms[0] and len(ROTATIONS[form][0]) == len(ROTATIONS[forms[0]][0])
        ]
        forms[1] = str(hidden.choice(alike)) if alike else forms[0]
    ways = [ROTATIONS[form] for form in forms]
    kinds = [int(rng.integers(len(own))) for own in ways]
    names = [own[kind] for own, kind in zip(ways, kinds, strict=True)]
    if is_hidden:
        names = [own[-1] for own in ways]
    if forms[0] == forms[1]:
        names[1] = names[0]
    return forms, names


def _turning_episodes(rng: np.random.Generator) -> Iterator[Array]:
    """Yield episodes (T, 13) of one task: position, gripper and the rows of a rotation matrix."""
    places = rng.uniform(-0.4, 0.4, (5, 3)) + rng.choice([-1, 1], 3) * 0.5
    turns = rng.choice([-1, 1], (5, 3)) * rng.uniform(0.2, 1.1, (5, 3)) * (1.0, 0.8, 1.0)
    grips = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    while True:
        goals = places + rng.normal(0, 0.02, places.shape)
        angles = turns + rng.normal(0, 0.05, turns.shape)
        rows = []
        for leg in range(4):
            share = np.linspace(0, 1, int(rng.integers(14, 24)))[:, None]
            smooth = 3 * share**2 - 2 * share**3
            parts = [
                part[leg] + (part[leg + 1] - part[leg]) * smooth for part in (goals, angles, grips[:, None])
            ]
            rows.append(np.hstack([parts[0], parts[2], _matrices(parts[1]).reshape(-1, 9)]))
        table = np.concatenate(rows)
        table[:, :3] += rng.normal(0, 1e-3, (len(table), 3))
        yield table


def _matrices(angles: Array) -> Array:
    """(T, 3, 3) rotations by (T, 3) roll, pitch and yaw about fixed axes: the product of three."""
    product = np.eye(3)
    for axis in range(3):
        own, (first, second) = np.zeros((len(angles), 3, 3)), ((1, 2), (2, 0), (0, 1))[axis]
        own[:, axis, axis] = 1
        own[:, first, first] = own[:, second, second] = np.cos(angles[:, axis])
        own[:, second, first], own[:, first, second] = np.sin(angles[:, axis]), -np.sin(angles[:, axis])
        product = own @ product
    return np.asarray(product)


def _tool_table(table: Array, form: str) -> Array:
    """(T, D) position, rotation in a form, and gripper of rows of `_turning_episodes`."""
    rotation = table[:, 4:].reshape(-1, 3, 3)
    return np.hstack([table[:, :3], write_rotations(rotation, form), table[:, 3:4]])


def write_rotations(matrices: Array, form: str) -> Array:
    """Rotations (T, 3, 3) in a form of `ROTATIONS`, by textbook formulas that hold within half a turn."""
    skew = np.stack([matrices[:, b, a] - matrices[:, a, b] for a, b in ((1, 2), (2, 0), (0, 1))], axis=1) / 2
    angle = np.arctan2(np.linalg.norm(skew, axis=1), (np.trace(matrices, axis1=1, axis2=2) - 1) / 2)[:, None]
    axis = skew / np.maximum(np.linalg.norm(skew, axis=1), 1e-12)[:, None]
    if form == "axis-angle":
        return np.asarray(axis * angle)
    if form == "6d":
        return np.concatenate([matrices[:, :, 0], matrices[:, :, 1]], axis=1)
    if form in ("xyzw", "wxyz"):
        parts = [axis * np.sin(angle / 2), np.cos(angle / 2)]
        return np.hstack(parts if form == "xyzw" else parts[::-1])
    pitch = np.arcsin(np.clip(-matrices[:, 2, 0], -1, 1))
    roll = np.arctan2(matrices[:, 2, 1], matrices[:, 2, 2])
    yaw = np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0])
    return np.stack([roll, pitch, yaw], axis=1) * (DEGREES if form == "euler deg" else 1.0)


def recorded_sources(seed: int, planted: Sequence[str]) -> tuple[RecordedHalf, RecordedHalf]:
    """The signals of two halves of a dataset, the second with differences of `SIGNAL_KINDS`."""
    rng = np.random.default_rng([seed, 37])
    robot, _, halves = _record_tasks(rng)
    for kind in planted:
        halves[1].recorded = SIGNAL_PLANTERS[kind](robot, halves[1].recorded, rng)
    return halves


@dataclass(slots=True)
class RecordedHalf:
    """Some episodes of a dataset, and the number of the task of each."""

    recorded: Recorded
    tasks: list[int]


def _record_tasks(
    rng: np.random.Generator,
) -> tuple[ArmRobot, list[tuple[str, str]], tuple[RecordedHalf, RecordedHalf]]:
    """A robot, its tasks in two wordings, and the episodes of one dataset, dealt out to two halves."""
    robot, count = random_robot(rng), int(rng.choice([1, 1, 2, 3]))
    tasks = _draw_tasks(rng, count)
    parts: list[RecordedHalf] = []
    for number in range(count):
        points = random_waypoints(robot, rng)
        own = record(robot, points, rng, int(rng.integers(4, 12)))
        parts.append(RecordedHalf(own, [number] * len(own.states)))
    order = [rng.permutation(len(part.tasks)) for part in parts]
    first, second = (
        _join_parts(robot, parts, [own[half : len(own) // 2 * 2 : 2] for own in order]) for half in (0, 1)
    )
    return robot, tasks, (first, second)


def _join_parts(
    robot: ArmRobot, parts: Sequence[RecordedHalf], numbers: Sequence[NDArray[np.intp]]
) -> RecordedHalf:
    """One half of the episodes of all tasks, of which each half has as many."""
    own = [(part, number) for part, listed in zip(parts, numbers, strict=True) for number in listed.tolist()]
    recorded = Recorded(
        states=tuple(part.recorded.states[number] for part, number in own),
        actions=tuple(part.recorded.actions[number] for part, number in own),
        names=robot.names,
    )
    return RecordedHalf(recorded, [part.tasks[number] for part, number in own])


def recorded_halves(rng: np.random.Generator) -> tuple[Recorded, Recorded]:
    """The signals of the two halves of a dataset of one task, in the order in which they were recorded."""
    robot = random_robot(rng)
    points = random_waypoints(robot, rng)
    whole = record(robot, points, rng, int(rng.integers(6, 13)))
    half = len(whole.states) // 2
    parts = (slice(0, half), slice(half, None))
    first, second = (
        Recorded(states=whole.states[part], actions=whole.actions[part], names=whole.names) for part in parts
    )
    return first, second


def _exchange_views(views: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Views of two cameras in each other's place, or of three moved on by one."""
    names = rng.permutation(list(views))[: int(rng.integers(2, min(len(views), 3) + 1))].tolist()
    return views | {name: views[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}


def _draw_view(rng: np.random.Generator) -> NDArray[np.float64]:
    """(H, W, 3) what one camera looks at: a gradient and some things."""
    rows, columns = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    slope = rng.uniform(-1, 1, 2)
    view = np.repeat((rng.uniform(60, 180) + slope[0] * rows + slope[1] * columns)[..., None], 3, axis=2)
    for _ in range(int(rng.integers(3, 8))):
        top, left = int(rng.integers(0, _HEIGHT - 6)), int(rng.integers(0, _WIDTH - 6))
        height, width = int(rng.integers(4, 18)), int(rng.integers(4, 24))
        view[top : top + height, left : left + width] = rng.uniform(0, 255, 3)
    return view


def _draw_tasks(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    """Different tasks, each in two wordings."""
    verbs = rng.choice(len(_TASKS), count, replace=False)
    things = rng.choice(_OBJECTS, count)
    return [
        (_TASKS[verb][0].format(thing), _TASKS[verb][1].format(thing))
        for verb, thing in zip(verbs, things, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DrawnSource:
    """What the records of one source are made of: signals, views by camera, a text for each, where pictures go."""

    dataset: str
    recorded: Recorded
    views: dict[str, NDArray[np.float64]]
    texts: Sequence[str]
    rate_hz: float
    folder: Path


def _make_record(source: _DrawnSource, number: int, rng: np.random.Generator) -> Record:
    dataset, key, names, rate_hz = source.dataset, str(number), source.recorded.names, source.rate_hz
    state, action = source.recorded.states[number], source.recorded.actions[number]
    text, steps = source.texts[number], len(state)
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
