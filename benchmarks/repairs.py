"""How truly faults are corrected: planted into generated robots, and into the real episodes of given datasets.

python -m benchmarks.repairs --seeds 710000:710100
python -m benchmarks.repairs --data DATASET --rounds 4
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.repair import repair_signals
from ares.signals import DatasetStatistics, EpisodeSignals, SignalChange, TypicalEpisode, are_smooth_kinds
from benchmarks.fault_scoring import LEAST_MOTION
from benchmarks.quality import read_episodes, seed_range
from benchmarks.shares import format_share
from tests.generators.planting import PLANTERS, FaultSite
from tests.generators.robots import random_dataset, random_robot

if TYPE_CHECKING:
    import numpy as np

CODES = ("A001", "A004", "A007")
_EPISODES = 5


@dataclass(slots=True)
class Score:
    """Counts by code.

    Attributes:
        planted: Faults.
        corrected: Faults whose every value was changed, and no other value of the state.
        wrong: Faults where another value of the state was changed, or a value away from the truth.
        errors: Distance of each new value from the true one, over the range of the dimension.
        clean: Episodes without a planted fault.
        changed: Those of them in which something was changed.
    """

    planted: Counter[str] = field(default_factory=Counter)
    corrected: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    errors: dict[str, list[float]] = field(default_factory=dict)
    clean: int = 0
    changed: int = 0

    def add(self, code: str, true: EpisodeSignals, faulty: EpisodeSignals, typical: TypicalEpisode) -> None:
        """Correct an episode with one fault, and compare it with the true one."""
        import numpy as np

        changes = [c for part in repair_signals(faulty, typical) for c in part.changes if c.signal == "state"]
        state = changed(faulty.state, changes)
        touched = ~np.isclose(state, faulty.state, atol=0, rtol=1e-6, equal_nan=False)
        is_faulty = ~np.isclose(faulty.state, true.state, atol=0, rtol=1e-6)
        self.planted[code] += 1
        if code == "A007":  # true up to a turn
            is_faulty = touched if changes else is_faulty
            dims = np.flatnonzero(touched.any(axis=0))
            offsets = (state - true.state)[:, dims]
            error = float(np.ptp(offsets, axis=0).max(initial=0.0))
        else:
            error = float(np.abs(np.where(touched, state - true.state, 0.0)).max())
        scale = float(np.ptp(true.state, axis=0)[is_faulty.any(axis=0)].max(initial=1e-9))
        if changes:
            self.errors.setdefault(code, []).append(error / scale)
        self.corrected[code] += bool(changes) and bool((touched == is_faulty).all())
        self.wrong[code] += bool(changes) and bool((touched & ~is_faulty).any())

    def add_clean(self, episode: EpisodeSignals, typical: TypicalEpisode) -> None:
        """Count an episode to which nothing was done."""
        self.clean += 1
        self.changed += any(part.changes for part in repair_signals(episode, typical))

    def rows(self) -> Iterator[str]:
        """Rows of a Markdown table."""
        import numpy as np

        for code in CODES:
            errors = np.array(self.errors.get(code, [0.0]))
            median, most = float(np.median(errors)), float(errors.max())
            yield (
                f"| {code} | {format_share(self.corrected[code], self.planted[code])} "
                f"| {self.wrong[code]} | {median:.4f} | {most:.4f} |"
            )
        yield f"clean episodes that were changed: {format_share(self.changed, self.clean)}"


def changed(values: np.ndarray, changes: Sequence[SignalChange]) -> np.ndarray:
    """The values with their changes, without the check of old values."""
    values = values.copy()
    for change in changes:
        span = slice(change.step, change.step + change.num_steps)
        if change.num_steps == 1 or change.old is None:
            values[span, change.number] = change.new
        else:
            values[span, change.number] += change.new - change.old
    return values


def typical_of(episodes: Sequence[EpisodeSignals]) -> TypicalEpisode | None:
    """What is typical of some episodes with the same dimensions."""
    statistics = DatasetStatistics(state_names=episodes[0].state_names, action_names=episodes[0].action_names)
    for episode in episodes:
        statistics.add(episode)
    return statistics.typical()


def plant_all(
    episodes: Sequence[EpisodeSignals], number: int, dims: Sequence[int], unit: float, seed: int, score: Score
) -> None:
    """One fault of each code in an episode, each compared with the episode as it was."""
    import numpy as np

    for code in CODES:
        rng = np.random.default_rng((seed, ord(code[-1])))
        strength = {"A001": float(rng.integers(1, 3)), "A004": 0.2 * unit, "A007": 1.0}[code]
        site = FaultSite(dim=int(rng.choice(dims)), action_dim=0, strength=strength, unit_scale=unit)
        faulty = PLANTERS[code](episodes[number], site, rng)
        if faulty is None:
            continue
        state = faulty.state.astype(np.float32).astype(np.float64)
        others = [*episodes[:number], replace(faulty, state=state), *episodes[number + 1 :]]
        typical = typical_of(others)
        if typical is not None:
            score.add(code, episodes[number], others[number], typical)


def score_generated(seeds: range, score: Score) -> None:
    """Generated robots, one episode with each fault."""
    import numpy as np

    for seed in seeds:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        episodes = [in_float32(e) for e in random_dataset(robot, rng, episodes=_EPISODES)]
        typical = typical_of(episodes)
        if typical is None:
            continue
        for episode in episodes:
            score.add_clean(episode, typical)
        if robot.moving_joints:
            plant_all(episodes, _EPISODES - 1, robot.moving_joints, robot.unit_scale, seed, score)


def in_float32(signals: EpisodeSignals) -> EpisodeSignals:
    """The episode as a file holds it."""
    import numpy as np

    return replace(
        signals,
        state=signals.state.astype(np.float32).astype(np.float64),
        action=signals.action.astype(np.float32).astype(np.float64),
    )


def score_data(path: str, rounds: int, seed: int, score: Score) -> None:
    """Real episodes of one dataset, each with every fault in so many rounds."""
    import numpy as np

    for episodes in read_episodes(path):
        typical = typical_of(episodes)
        if typical is None or not typical.state.scale:
            continue
        for number, episode in enumerate(episodes):
            score.add_clean(episode, typical)
            ranges, unit = np.ptp(episode.state, axis=0), typical.state.units_per_radian
            dims = np.flatnonzero(
                are_smooth_kinds(typical.state.kinds) & (ranges > LEAST_MOTION * unit)
            ).tolist()
            for turn in range(rounds if dims else 0):
                plant_all(episodes, number, dims, unit, seed + 1000 * number + turn, score)


def main() -> None:
    """Print a table for generated robots, and one for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_range, metavar="FIRST:STOP", help="generated robots")
    parser.add_argument("--data", nargs="*", default=[], metavar="DATASET")
    parser.add_argument("--rounds", type=int, default=4, help="plantings of each fault in each real episode")
    args = parser.parse_args()
    if args.seeds:
        score = Score()
        score_generated(args.seeds, score)
        print(f"generated robots {args.seeds.start}:{args.seeds.stop}", *score.rows(), sep="\n")
    for path in args.data:
        score = Score()
        score_data(path, args.rounds, 0, score)
        print(path, *score.rows(), sep="\n")


if __name__ == "__main__":
    main()
