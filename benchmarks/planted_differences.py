"""Faults that are planted at random into one of two halves of a dataset, honest halves, and other motions of one robot.

python -m benchmarks.planted_differences --data ../shared/data --seed 0
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ares.contract import (
    Clash,
    DatasetKey,
    LayoutContract,
    collect_contract_evidence,
    compare_observed,
    find_clashes,
    infer_contract,
    parse_conversions,
    plan_layout_conversion,
)
from ares.episode import Episode, Signal, Trajectory
from ares.media import describe_turn, frames_at
from ares.signals import episode_signals
from benchmarks.quality import read_records
from benchmarks.shares import format_share
from tests.generators.merged_sources import CAMERAS, draw_view
from tests.generators.two_sources import RATE_HZ, random_robot, random_waypoints, record

Array = NDArray[np.float64]
Pair = tuple[Episode, Trajectory]
# A fault moves some number of a half by so many times what it differs by among honest halves.
LEAST_SPREADS = 3.0
_HALVES_OF_SPREAD = 30
_TRIES = 60
# Values that differ by less than this share of a range are converted rightly.
_RIGHT = 0.02


@dataclass(frozen=True, eq=False)
class World:
    """A dataset that halves are drawn of.

    Attributes:
        name: Its name.
        pairs: Its episodes.
        pictures: (N, 32, 32, 3) pictures of each camera, in the order of the episodes.
        other: Episodes of the same robot with another motion.
    """

    name: str
    pairs: Sequence[Pair]
    pictures: dict[str, Array] = field(default_factory=dict)
    other: Sequence[Pair] = ()

    @cached_property
    def spreads(self) -> Array:
        """(K,) standard deviation of what honest halves differ by, of each number of `describe_half`."""
        rng = np.random.default_rng(3)
        halves = [self.halves(rng) for _ in range(_HALVES_OF_SPREAD)]
        gaps = [
            describe_half([self.pairs[n] for n in one]) - describe_half([self.pairs[n] for n in two])
            for one, two in halves
        ]
        return np.asarray(np.std(gaps, axis=0))

    def halves(self, rng: np.random.Generator, most: int = 32) -> tuple[list[int], list[int]]:
        """Numbers of the episodes of two halves at random, the first as large or larger."""
        order = rng.permutation(len(self.pairs)).tolist()[: 2 * most]
        middle = (len(order) + 1) // 2
        return order[:middle], order[middle:]


def describe_half(pairs: Sequence[Pair]) -> Array:
    """(K,) levels, logarithms of ranges and steps, correlations of all dimensions, and lags, medians over episodes."""
    return np.asarray(np.median([_describe_episode(trajectory) for _, trajectory in pairs], axis=0))


def _describe_episode(trajectory: Trajectory) -> Array:
    assert trajectory.state is not None and trajectory.action is not None
    state, action = (part.values.astype(float) for part in (trajectory.state, trajectory.action))
    table = np.hstack([state, action])
    levels = np.quantile(table, (0.1, 0.5, 0.9), axis=0)
    steps = np.abs(np.diff(table, axis=0)).mean(axis=0)
    sizes = np.log(np.maximum(np.vstack([np.ptp(table, axis=0), steps]), 1e-9))
    relations = np.nan_to_num(np.corrcoef(table + 1e-12 * np.arange(len(table))[:, None], rowvar=False))
    return np.concatenate([levels.ravel(), sizes.ravel(), relations[np.triu_indices(len(relations), 1)]])


def made_pair(state: Array, action: Array, names: tuple[str, ...], number: int, task: str) -> Pair:
    """An episode with these signals, without cameras."""
    episode = Episode(
        episode_id=f"{number:032x}",
        format="made",
        dataset="made",
        version="",
        split="",
        key=str(number),
        source="",
        content_hash=f"{number:032x}",
        instruction=task,
        instructions=(task,),
        robot="arm",
        num_steps=len(state),
        rate_hz=RATE_HZ,
        rate_source="source",
        cameras=(),
        state_names=names,
        action_names=names,
    )
    signals = [Signal(part.astype(np.float32), names) for part in (state, action)]
    return episode, Trajectory(
        timestamps=np.arange(len(state)) / RATE_HZ, state=signals[0], action=signals[1]
    )


def generated_world(seed: int, episodes: int = 26) -> World:
    """A drawn robot that does one to three tasks, and the same robot with other motions."""
    rng = np.random.default_rng([seed, 51])
    robot, parts = random_robot(rng), []
    for tasks in (int(rng.choice([1, 1, 2, 3])), 1):
        made: list[Pair] = []
        for task in range(tasks):
            recorded = record(robot, random_waypoints(robot, rng), rng, -(-episodes // tasks))
            made += [
                made_pair(state, action, robot.names, len(made) + number, f"task {task}")
                for number, (state, action) in enumerate(zip(recorded.states, recorded.actions, strict=True))
            ]
        parts.append(made)
    name, _ = CAMERAS[int(rng.integers(len(CAMERAS)))]
    view = draw_view(rng)
    pictures = np.stack([_small(view + rng.normal(0, 6) + rng.normal(0, 5, view.shape)) for _ in parts[0]])
    return World(f"robot {seed}", parts[0], {name: pictures}, parts[1])


def _small(picture: Array) -> Array:
    import cv2

    return np.asarray(
        cv2.resize(np.clip(picture, 0, 255).astype(np.uint8), (32, 32), interpolation=cv2.INTER_AREA)
    )


def read_world(path: Path, name: str) -> World:
    """A dataset of the shared samples, each of its episodes once."""
    records = {record.episode.content_hash: record for record in read_records(str(path))}
    pairs = [(record.episode, record.trajectory) for record in records.values()]
    pictures = {
        camera.name: np.stack([_small(frames_at(episode.camera(camera.name).media, [1.0])[0]) for episode, _ in pairs])
        for camera in pairs[0][0].cameras
        if "black" not in camera.flags
    }  # fmt: skip
    return World(name, pairs, pictures)


def layout_of(name: str, pairs: Sequence[Pair], with_sample: bool = True) -> LayoutContract:
    """The contract of some episodes as a dataset of a name, with them as its sample."""
    evidence = [collect_contract_evidence(episode_signals(*pair)) for pair in pairs]
    names = (pairs[0][0].state_names, pairs[0][0].action_names)
    return LayoutContract(
        key=DatasetKey("made", name, ""),
        state_names=names[0],
        action_names=names[1],
        num_episodes=len(pairs),
        contract=infer_contract(name, *names, [part for part in evidence if part is not None]),
        sample=pairs if with_sample else (),
    )


Change = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Dims:
    """What a fault may be planted into: names, and which of the dimensions are what."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    size: tuple[Array, Array]

    def joints(self) -> list[str]:
        """Names that are no gripper and no finger, of dimensions that move."""
        return [
            name
            for names, sizes in zip((self.state, self.action), self.size, strict=True)
            for name, size in zip(names, sizes, strict=True)
            if not self.is_end(name) and size > 0.02 * sizes.max()
        ]

    @staticmethod
    def is_end(name: str) -> bool:
        """Whether it is a gripper or a finger."""
        return "gripper" in name or "hand" in name


def _scaled(dims: Dims, names: Sequence[str], factor: float, offset: float, signals: str) -> Change:
    def change(state: Array, action: Array) -> tuple[Array, Array]:
        parts = []
        for kind, values, listed in (("state", state, dims.state), ("action", action, dims.action)):
            chosen = np.array([name in names and kind in signals for name in listed])
            parts.append(np.where(chosen, values * factor + offset, values))
        return parts[0], parts[1]

    return change


def _signals(rng: np.random.Generator) -> str:
    return str(rng.choice(["state action", "state action", "state", "action"]))


def _some(dims: Dims, rng: np.random.Generator, most: int) -> list[str]:
    joints = sorted({*dims.joints()})
    chosen = rng.choice(joints, min(int(rng.integers(1, most + 1)), len(joints)), replace=False)
    return [str(name) for name in chosen]


def _units(dims: Dims, rng: np.random.Generator) -> Change:
    factor = float(rng.choice([180 / np.pi, np.pi / 180, 1000.0, 0.001]))
    names = [name for name in {*dims.state, *dims.action} if not dims.is_end(name)]
    if "x" in names:
        names = [name for name in names if (name in "xyz") == (factor in (1000.0, 0.001))]
    else:
        factor = float(rng.choice([180 / np.pi, np.pi / 180]))
    return _scaled(dims, names, factor, 0.0, _signals(rng))


def _sign(dims: Dims, rng: np.random.Generator) -> Change:
    return _scaled(dims, _some(dims, rng, 2), -1.0, 0.0, _signals(rng))


def _offset(dims: Dims, rng: np.random.Generator) -> Change:
    names = _some(dims, rng, 2)
    size = max(sizes[listed.index(names[0])] for listed, sizes in zip((dims.state, dims.action), dims.size, strict=True)
               if names[0] in listed)  # fmt: skip
    return _scaled(
        dims, names, 1.0, float(size * np.exp(rng.uniform(-2, 1)) * rng.choice([-1, 1])), _signals(rng)
    )


def _scale(dims: Dims, rng: np.random.Generator) -> Change:
    factor = float(np.exp(rng.uniform(np.log(1.2), np.log(10)) * rng.choice([-1, 1])))
    return _scaled(dims, _some(dims, rng, 3), factor, 0.0, _signals(rng))


def _order(dims: Dims, rng: np.random.Generator) -> Change:
    signals, (one, other) = _signals(rng), rng.choice(sorted({*dims.joints()}), 2, replace=False).tolist()

    def change(state: Array, action: Array) -> tuple[Array, Array]:
        parts = []
        for kind, values, names in (("state", state, dims.state), ("action", action, dims.action)):
            order = [*range(len(names))]
            if kind in signals and one in names and other in names:
                pair = names.index(one), names.index(other)
                order[pair[0]], order[pair[1]] = pair[1], pair[0]
            parts.append(values[:, order])
        return parts[0], parts[1]

    return change


def _lag(dims: Dims, rng: np.random.Generator) -> Change:
    steps, late = int(rng.integers(2, 7)), bool(rng.integers(2))

    def change(state: Array, action: Array) -> tuple[Array, Array]:
        own = min(steps, max(1, len(action) // 4))
        moved = np.concatenate([np.repeat(action[:1], own, axis=0), action[:-own]])
        return state, moved if late else np.concatenate([action[own:], np.repeat(action[-1:], own, axis=0)])

    return change


def _quaternion(dims: Dims, rng: np.random.Generator) -> Change:
    def change(state: Array, action: Array) -> tuple[Array, Array]:
        start = dims.state.index("q0")
        order = [*range(state.shape[1])]
        order[start : start + 4] = [start + 3, start, start + 1, start + 2]
        return state[:, order], action[:, order]

    return change


def _gripper(dims: Dims, rng: np.random.Generator) -> Change:
    scale = float(rng.choice([1.0, 1.0, 100.0]))
    top, signals = (
        max(part.max() for part in dims.size if part.size),
        str(rng.choice(["state action", "action"])),
    )
    ends = {name for name in (*dims.state, *dims.action) if dims.is_end(name)}
    tops = [
        sizes[listed.index(name)]
        for listed, sizes in zip((dims.state, dims.action), dims.size, strict=True)
        for name in ends
        if name in listed
    ]
    top = float(np.ceil(max(tops) * 10) / 10)
    is_turned = scale == 1 or bool(rng.integers(2))
    return _scaled(
        dims, sorted(ends), -scale if is_turned else scale, top * scale if is_turned else 0.0, signals
    )


def _delta(dims: Dims, rng: np.random.Generator) -> Change:
    kept = np.array([dims.is_end(name) for name in dims.action])
    return lambda state, action: (
        state,
        np.where(kept, action, np.diff(action, axis=0, append=action[-1:])),
    )


def _frames(dims: Dims, rng: np.random.Generator) -> Change:
    """Positions, or the first three joints that stand for them, in a frame that is turned about an axis."""
    angle, (one, other) = float(rng.choice([np.pi / 2, np.pi, -np.pi / 2, rng.uniform(0.5, 2.5)])), (0, 1)

    def change(state: Array, action: Array) -> tuple[Array, Array]:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        parts = [part.copy() for part in (state, action)]
        for part in parts:
            part[:, [one, other]] = part[:, [one, other]] @ turn.T
        return parts[0], parts[1]

    return change


SIGNAL_FAULTS: dict[str, Callable[[Dims, np.random.Generator], Change]] = {
    "units": _units,
    "sign": _sign,
    "order": _order,
    "lag": _lag,
    "scale": _scale,
    "offset": _offset,
    "quaternion order": _quaternion,
    "gripper ends": _gripper,
    "delta": _delta,
    "frames": _frames,
}
PICTURE_FAULTS: dict[str, Callable[[Array], Array]] = {
    "camera mirrored": lambda part: part[:, :, ::-1],
    "camera turned": lambda part: np.rot90(part, 1, axes=(1, 2)),
    "camera upside down": lambda part: part[:, ::-1, ::-1],
    "camera colours": lambda part: part[..., ::-1],
}
KINDS = (*SIGNAL_FAULTS, *PICTURE_FAULTS, "language emptied")


def applies(kind: str, world: World) -> bool:
    """Whether a fault can be planted into a world."""
    if kind in PICTURE_FAULTS:
        return bool(world.pictures)
    names = world.pairs[0][0].state_names
    if kind == "quaternion order":
        return "q0" in names
    if kind == "frames":
        return names[:2] == ("x", "y")
    return kind != "delta" or "x" not in names  # the action of Bridge is a delta


def changed_pairs(pairs: Sequence[Pair], change: Change) -> list[Pair]:
    """The episodes with a fault in their signals."""
    made = []
    for episode, trajectory in pairs:
        assert trajectory.state is not None and trajectory.action is not None
        values = change(*(part.values.astype(float) for part in (trajectory.state, trajectory.action)))
        state, action = (
            Signal(new.astype(np.float32), old.names)
            for new, old in zip(values, (trajectory.state, trajectory.action), strict=True)
        )
        made.append((episode, replace(trajectory, state=state, action=action)))
    return made


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault in the second half: what it is called, and what then is said."""

    kind: str
    world: str
    outcome: str
    lines: tuple[str, ...]


def plant(world: World, kind: str, rng: np.random.Generator, most: int = 32) -> Planted | None:
    """Plant a fault of a kind into one of two halves, of so many episodes at most; None where none is large enough."""
    one, two = world.halves(rng, most)
    if kind in PICTURE_FAULTS:
        camera = str(rng.choice(sorted(world.pictures)))
        pictures = [world.pictures[camera][part] for part in (one, two)]
        words = describe_turn(
            *(np.median(part, axis=0) for part in (pictures[0], PICTURE_FAULTS[kind](pictures[1])))
        )
        return Planted(kind, world.name, "asked" if words else "silent", (words,))
    first, second = ([world.pairs[number] for number in part] for part in (one, two))
    if kind == "language emptied":
        emptied = [(replace(episode, instruction="", instructions=()), part) for episode, part in second]
        layouts = [layout_of("one", first), layout_of("two", emptied)]
        asked = [str(clash) for clash in compare_observed(layouts, False)]
        return Planted(kind, world.name, "asked" if asked else "silent", tuple(asked))
    for _ in range(_TRIES):
        faulty = changed_pairs(second, SIGNAL_FAULTS[kind](_dims(second), rng))
        moved = np.abs(describe_half(faulty) - describe_half(second))
        if (moved > LEAST_SPREADS * np.maximum(world.spreads, 1e-6)).any():
            clashes = find_clashes([layout_of("one", first), layout_of("two", faulty)])
            return Planted(kind, world.name, _outcome(clashes, faulty, second), tuple(map(_line, clashes)))
    return None


def _dims(pairs: Sequence[Pair]) -> Dims:
    state, action = (
        np.quantile(np.concatenate([part.values for _, t in pairs if (part := getattr(t, name))]), (0.01, 0.99), axis=0)
        for name in ("state", "action")
    )  # fmt: skip
    first = pairs[0][0]
    return Dims(first.state_names, first.action_names, (np.ptp(state, axis=0), np.ptp(action, axis=0)))


def _line(clash: Clash) -> str:
    return f"{'?' if clash.is_question else '!'} {clash}; {clash.convert}"


def _outcome(clashes: Sequence[Clash], faulty: Sequence[Pair], true: Sequence[Pair]) -> str:
    """Right where the conversions that are named undo the fault, wrong where they do not, asked without any."""
    if not clashes:
        return "silent"
    texts = tuple(dict.fromkeys(text for clash in clashes for text in clash.convert))
    if not texts:
        return "asked"
    layout = layout_of("two", faulty)
    undone = plan_layout_conversion(layout, parse_conversions(texts), {}).layout.sample
    if len(undone) != len(true):
        return "wrong"
    gaps = []
    for name in ("state", "action"):
        values, goal = (np.concatenate([getattr(t, name).values for _, t in part]) for part in (undone, true))
        size = np.maximum(np.ptp(goal, axis=0), 1e-6)
        gaps.append(float((np.abs(values - goal) / size).mean(axis=0).max()))
    return "right" if max(gaps) < _RIGHT else "wrong"


def quaternion_world(seed: int, episodes: int = 26) -> World:
    """A tool whose pose is recorded as a position and a quaternion without an order in its names."""
    from tests.generators.merged_sources import tool_episodes, write_rotations

    rng = np.random.default_rng([seed, 52])
    names, made = ("x", "y", "z", "q0", "q1", "q2", "q3", "gripper"), tool_episodes(rng)
    pairs = []
    for number in range(episodes):
        table = next(made)
        turned = write_rotations(table[:, 4:].reshape(-1, 3, 3), "xyzw")
        state = np.hstack([table[:, :3], turned, table[:, 3:4]])
        pairs.append(
            made_pair(state, np.concatenate([state[1:], state[-1:]]), names, number, "turn the knob")
        )
    return World(f"tool {seed}", pairs)


def draw_worlds(data: Path | None, seed: int) -> Iterator[World]:
    """Robots and tools that are drawn, and the real samples where they are."""
    yield from (generated_world(1000 * seed + number) for number in range(12))
    yield from (quaternion_world(1000 * seed + number) for number in range(3))
    if data is not None:
        yield read_world(data / "bridge_rlds" / "bridge_dataset" / "1.0.0", "bridge")
        yield read_world(data / "irregular" / "piper_act_lerobot_v30", "piper")


def print_planted(worlds: Sequence[World], faults: int, rng: np.random.Generator, most: int = 32) -> None:
    """The table of the planted faults: real samples are drawn as often as generated ones.

    Args:
        worlds: The datasets.
        faults: How many are planted.
        rng: Draws.
        most: Episodes of a half, at most.
    """
    real = [world for world in worlds if not world.name[-1].isdigit()]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    drawn: list[Planted] = []
    while len(drawn) < faults:
        pool = real if real and rng.random() < 0.5 else worlds
        kind, world = str(rng.choice(KINDS)), pool[int(rng.integers(len(pool)))]
        planted = plant(world, kind, rng, most) if applies(kind, world) else None
        if planted is not None:
            drawn.append(planted)
            counts[kind][planted.outcome] += 1
    print("| fault | planted | right conversion | asked or refused | wrong conversion | silent |")
    print("|---|---|---|---|---|---|")
    outcomes = ("right", "asked", "wrong", "silent")
    for kind, part in counts.items():
        print(f"| {kind} | {part.total()} | {' | '.join(str(part[name]) for name in outcomes)} |")
    total = sum((part for part in counts.values()), Counter[str]())
    shares = (format_share(total[name], len(drawn)) for name in outcomes)
    print(f"| all | {len(drawn)} | {' | '.join(shares)} |")
    print("right or asked:", format_share(total["right"] + total["asked"], len(drawn)))
    for planted in drawn:
        if planted.outcome in ("wrong", "silent"):
            print(" ", planted.outcome, planted.kind, planted.world, *planted.lines)


def print_honest(worlds: Sequence[World], halves: int, rng: np.random.Generator, most: int = 32) -> None:
    """How many honest halves of at most so many episodes are asked about, and of which something is refused."""
    asked, refused, lines = 0, 0, []
    for number in range(halves):
        world = worlds[number % len(worlds)]
        one, two = world.halves(rng, most)
        layouts = [
            layout_of(name, [world.pairs[n] for n in part]) for name, part in (("one", one), ("two", two))
        ]
        clashes = find_clashes(layouts)
        views = [[np.median(part[half], axis=0) for half in (one, two)] for part in world.pictures.values()]
        turns = [turn for first, second in views if (turn := describe_turn(first, second))]
        asked += bool(clashes or turns)
        refused += any(not clash.is_question for clash in clashes)
        lines += [f"  {world.name} {line}" for line in (*map(_line, clashes), *turns)]
    print("honest halves asked:", format_share(asked, halves), "refused:", format_share(refused, halves))
    print("\n".join(lines))


def print_other_motions(seeds: range) -> None:
    """How many sets of one robot with other motions are refused."""
    asked, refused, lines = 0, 0, []
    for seed in seeds:
        world = generated_world(seed)
        clashes = find_clashes([layout_of("one", world.pairs[:13]), layout_of("two", world.other[:13])])
        asked += bool(clashes)
        refused += any(not clash.is_question for clash in clashes)
        lines += [f"  {seed} {_line(clash)}" for clash in clashes if not clash.is_question]
    print(
        "other motions refused:", format_share(refused, len(seeds)), "asked:", format_share(asked, len(seeds))
    )
    print("\n".join(lines))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the shared samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--halves", type=int, default=40)
    parser.add_argument("--motions", type=int, default=100)
    args = parser.parse_args()
    worlds, rng = list(draw_worlds(args.data, args.seed)), np.random.default_rng([args.seed, 53])
    print_planted(worlds, args.faults, rng)
    print_honest(worlds, args.halves, rng)
    print("\nfour episodes a side, printed and not judged:")
    print_planted(worlds, args.faults // 2, rng, 4)
    print_honest(worlds, args.halves // 2, rng, 4)
    print()
    print_other_motions(range(100_000 * (args.seed + 1), 100_000 * (args.seed + 1) + args.motions))


if __name__ == "__main__":
    main()
