"""Copies of signals: splits of seeded worlds with planted copies of episodes, and what the search for them costs."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ares
from ares.curation import StoredTrajectories, WindowRule, propose_pairs
from ares.episode import Episode, Record, Signal, Trajectory, make_episode_id
from ares.statistics import wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Every fiftieth trajectory is a planted copy.
_COPY_SHARE = 50
_NAMES = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")
# Signs of a motion that is mirrored in the plane of x and z.
_MIRROR = (1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0)
_TASKS, _GROUPS = 5, {"scene": 12, "operator": 10, "day": 15}
CHANGES = ("shifted", "recompressed", "mirrored", "cropped")


def main() -> None:
    """Measure one part and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("cost", "worlds"))
    parser.add_argument("--rows", type=int, default=100_000, help="episodes of the cost")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--episodes", type=int, default=30, help="of a world, without the copies")
    args = parser.parse_args()
    if args.part == "cost":
        print(measure_cost(args.rows, args.seed))
    else:
        print("\n".join(measure_worlds(args.worlds, args.seed, args.episodes)))


def measure_cost(rows: int, seed: int) -> str:
    """Seconds of processors, memory and recall of the search for copies among many trajectories of one layout."""
    import numpy as np

    rng = np.random.default_rng((39, seed))
    waypoints = rng.normal(size=(_TASKS, 6, len(_NAMES)))
    originals, planted = rows - rows // _COPY_SHARE, set()
    with tempfile.TemporaryDirectory() as folder:
        trajectories = StoredTrajectories(Path(folder) / "signals", len(_NAMES))
        kept: list[Any] = []
        for number in range(rows):
            if number < originals:
                motion = draw_course(rng, waypoints[number % _TASKS], 0.3)
                kept += [motion] * (len(kept) < rows - originals)
            else:
                planted.add((number - originals, number))
                motion = _change_course(rng, kept[number - originals], "shifted")[0]
            trajectories.add(number, motion.astype(np.float32))
        started, processors = time.perf_counter(), time.process_time()
        told = {(first, second) for first, second, _ in propose_pairs(trajectories, WindowRule())}
        seconds, processors = time.perf_counter() - started, time.process_time() - processors
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{rows:,} trajectories: {seconds:.1f} s, {processors:.1f} s of processors, {len(told):,} pairs proposed, "
        f"planted {_describe_share(len(planted & told), len(planted))}, peak {memory:.2f} GB"
    )


@dataclass(slots=True, kw_only=True)
class CopyWorld:
    """The episodes of one world and what was planted.

    Attributes:
        records: Originals and copies.
        planted: Change by the ids of an original and its copy.
    """

    records: list[Record] = field(default_factory=list)
    planted: dict[frozenset[str], str] = field(default_factory=dict)


def make_world(seed: int, episodes: int) -> CopyWorld:
    """Episodes of a few tasks that move alike, and for every third of them a changed copy with other groups."""
    import numpy as np

    rng, world = np.random.default_rng((36, seed)), CopyWorld()
    waypoints, variation = rng.normal(size=(_TASKS, 6, len(_NAMES))), rng.uniform(0.15, 0.4)
    for number in range(episodes):
        task = int(rng.integers(_TASKS))
        course = draw_course(rng, waypoints[task], variation)
        groups = _draw_groups(rng, task)
        record = _make_record(seed, f"{number:03d}", course, 10.0, groups)
        world.records.append(record)
        if number % 3 == 0:
            change = CHANGES[(number // 3 + seed) % len(CHANGES)]
            changed, rate_hz = _change_course(rng, course, change)
            # Some copies lost what is known of them: their groups alone would let them pass.
            known = groups if rng.random() < 0.5 else {"task": groups["task"]}
            copy = _make_record(seed, f"{number:03d}-copy", changed, rate_hz, known)
            world.records.append(copy)
            world.planted[frozenset((record.episode.episode_id, copy.episode.episode_id))] = change
    return world


def draw_course(
    rng: np.random.Generator, waypoints: NDArray[np.float64], variation: float
) -> NDArray[np.float64]:
    """(T, 7) ten times a second: smooth motion between waypoints of a task, which each episode meets differently."""
    import numpy as np

    own = waypoints + variation * rng.normal(size=waypoints.shape)
    parts = []
    for start, stop in pairwise(own):
        phase = np.linspace(0, 1, int(rng.integers(8, 25)), endpoint=False)[:, None]
        parts.append(start + (stop - start) * (10 * phase**3 - 15 * phase**4 + 6 * phase**5))
    course = np.concatenate([*parts, own[-1:]])
    course[:, 3:6] *= 0.3  # angles stay away from a full turn
    return course + 0.003 * rng.normal(size=course.shape)


def _change_course(
    rng: np.random.Generator, course: NDArray[np.float64], change: str
) -> tuple[NDArray[np.float64], float]:
    """A copy of a motion, and its rate."""
    import numpy as np

    if change == "shifted":  # begins later, elsewhere
        still = np.repeat(course[:1], int(rng.integers(3, 15)), axis=0)
        moved = np.concatenate([still, course])
        moved[:, :3] += rng.normal(size=3)
        return moved, 10.0
    if change == "recompressed":  # at another rate, rounded
        rate_hz = float(rng.choice([7.5, 15.0, 20.0, 30.0]))
        times = np.arange(0, (len(course) - 1) / 10, 1 / rate_hz)
        grid = np.arange(len(course)) / 10
        resampled = np.stack([np.interp(times, grid, column) for column in course.T], axis=1)
        return np.round(resampled, 2), rate_hz
    if change == "mirrored":
        return course * np.array(_MIRROR), 10.0
    start = int(rng.integers(0, len(course) // 4))
    stop = int(rng.integers(3 * len(course) // 4, len(course)))
    return course[start:stop], 10.0


def _draw_groups(rng: np.random.Generator, task: int) -> dict[str, str]:
    """A task, and a scene, an operator and a day, each unknown for some."""
    drawn = {name: str(int(rng.integers(size))) for name, size in _GROUPS.items() if rng.random() < 0.9}
    return {"task": f"task {task}", **drawn}


def _make_record(
    seed: int, key: str, course: NDArray[np.float64], rate_hz: float, groups: dict[str, str]
) -> Record:
    import numpy as np

    dataset = f"world{seed}"
    episode = Episode(
        episode_id=make_episode_id(format="drawn", dataset=dataset, version="", split="", key=key),
        format="drawn",
        dataset=dataset,
        version="",
        split="",
        key=key,
        source=f"/drawn/{seed}/{key}",
        content_hash=f"{seed}/{key}",
        instruction=groups["task"],
        instructions=(groups["task"],),
        robot="arm",
        num_steps=len(course),
        rate_hz=rate_hz,
        rate_source="source",
        cameras=(),
        state_names=_NAMES,
        metadata={name: value for name, value in groups.items() if name != "task"},
    )
    state = Signal(course.astype(np.float32), names=_NAMES)
    return Record(
        episode=episode, trajectory=Trajectory(timestamps=np.arange(len(course)) / rate_hz, state=state)
    )


# Names of which one is drawn for each world, with the share of val.
_SPLITS = ((), ("task",), ("scene",), ("operator",), ("day",))


def measure_worlds(worlds: int, first_seed: int, episodes: int) -> Iterator[str]:
    """Split each world by a name of its own, and count leaks, and what was found of what was planted."""
    found, planted, false, wrong, off = Counter[str](), Counter[str](), 0, 0, []
    true_pairs, leaks, group_leaks = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder, ares.open(f"{folder}/workspace", create=True) as ws:
        made = {seed: make_world(seed, episodes) for seed in range(first_seed, first_seed + worlds)}
        ws.stores.tables.episodes.add([record for world in made.values() for record in world.records])
        for seed, world in made.items():
            by = _SPLITS[seed % len(_SPLITS)]
            ws.sets.create(f"w{seed}", where=f"dataset = 'world{seed}'")
            _, plan = ws.sets.split(f"w{seed}", {"train": 0.8, "val": 0.2}, by=by, seed=seed)
            told = {frozenset((pair.first, pair.second)) for pair in plan.copies.linked}
            planted.update(world.planted.values())
            found.update(change for pair, change in world.planted.items() if pair in told)
            true_pairs += len(told & world.planted.keys())
            false += len(told - world.planted.keys())
            side = {episode_id: part for part, ids in plan.parts.items() for episode_id in ids}
            leaks += sum(len({side[episode_id] for episode_id in pair}) > 1 for pair in world.planted)
            group_leaks += _count_group_leaks(world, side, by)
            wrong += sum(plan.on_two_sides.values())
            off.append(abs(len(plan.parts["val"]) / len(world.records) - 0.2))
    yield f"{worlds} worlds of {episodes} episodes and {len(world.planted)} copies, seeds from {first_seed}"
    yield f"planted copies on two sides: {leaks}; values of a group on two sides: {group_leaks}; reported: {wrong}"
    for change in CHANGES:
        yield f"recall, {change}: {_describe_share(found[change], planted[change])}"
    yield f"recall of pairs: {_describe_share(found.total(), planted.total())}"
    yield f"precision of pairs: {_describe_share(true_pairs, true_pairs + false)}"
    yield f"share of val off by {sum(off) / len(off):.3f} in the mean, {max(off):.3f} at most"


def _count_group_leaks(world: CopyWorld, side: dict[str, str], by: tuple[str, ...]) -> int:
    """Pairs of episodes of two sides with one value, counted from the world itself."""
    episodes = [record.episode for record in world.records]
    return sum(
        side[first.episode_id] != side[second.episode_id]
        and any(
            _value_of(first, name) is not None and _value_of(first, name) == _value_of(second, name)
            for name in by
        )
        for first, second in combinations(episodes, 2)
    )


def _value_of(episode: Episode, name: str) -> object:
    return episode.instruction if name == "task" else episode.metadata.get(name)


def _describe_share(hits: int, total: int) -> str:
    low, high = wilson_interval(hits, total)
    return f"{hits} of {total} = {hits / max(total, 1):.4f} ({low:.4f} to {high:.4f})"


if __name__ == "__main__":
    main()
