"""Scores the kinds that values alone say: generated signals without names, and real samples with names hidden.

.venv/bin/python -m benchmarks.dimension_kinds --seeds 2000000:2000200
.venv/bin/python -m benchmarks.dimension_kinds --seeds 2000000:2000100 --foreign
.venv/bin/python -m benchmarks.dimension_kinds --real ~/data/so101 --real ~/data/g1
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ares.signals import DimensionKind, classify_by_name, classify_by_values, switch_like, value_evidence
from ares.statistics import wilson_interval
from benchmarks.foreign_robots import foreign_dataset, foreign_robot
from benchmarks.quality import read_episodes, seed_range
from tests.generators.robots import random_dimensions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Counts = Counter[tuple[str, str]]


def main() -> None:
    """Print the table of true kinds against claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=seed_range, default="0:200", help="first and one past the last seed of the robots"
    )
    parser.add_argument(
        "--foreign", action="store_true", help="foreign robots, half of them with names permuted"
    )
    parser.add_argument("--real", action="append", default=[], help="dataset whose names say the kinds")
    args = parser.parse_args()
    counts: Counts = Counter()
    for seed in () if args.real else args.seeds:
        draw = foreign_dimensions if args.foreign else random_dimensions
        truth, values, rate_hz = draw(np.random.default_rng(seed))
        counts.update(zip(truth, claim_kinds(values, rate_hz), strict=True))
    for path in args.real:
        for episodes in read_episodes(path):
            truth = classify_by_name(episodes[0].state_names)
            claims = claim_kinds([episode.state for episode in episodes], episodes[0].rate_hz)
            counts.update(zip(truth, claims, strict=True))
    print_table(counts)


def foreign_dimensions(
    rng: np.random.Generator,
) -> tuple[tuple[DimensionKind, ...], list[NDArray[np.float64]], float]:
    """The kinds by the hidden names of a foreign robot, the states (T, D) of five episodes, and the rate in Hz."""
    robot = foreign_robot(rng)
    episodes = foreign_dataset(robot, rng, episodes=5)
    kinds = classify_by_name(episodes[0].signals.state_names)
    order = rng.permutation(len(kinds)) if rng.random() < 0.5 else np.arange(len(kinds))
    states = [episode.signals.state[:, order] for episode in episodes]
    return tuple(kinds[number] for number in order), states, robot.rate_hz


def claim_kinds(values: Sequence[NDArray[np.float64]], rate_hz: float) -> tuple[DimensionKind, ...]:
    """The kinds by the values (T, D) of the episodes of a dataset."""
    ranges = np.median([np.ptp(part, axis=0) for part in values], axis=0)
    largest = np.max([np.abs(part).max(axis=0) for part in values], axis=0)
    switches = np.mean([switch_like(part) for part in values], axis=0) > 0.5
    return classify_by_values([value_evidence(part, rate_hz) for part in values], ranges, largest, switches)


def print_table(counts: Counts) -> None:
    """A row per true kind: how many are claimed, and how many of these are right, with 95 % Wilson intervals."""
    print("| kind | dimensions | claimed | right of the claimed | wrong claims |\n|---|---|---|---|---|")
    for kind in sorted({truth for truth, _ in counts}):
        claims = {claim: count for (truth, claim), count in counts.items() if truth == kind}
        total = sum(claims.values())
        claimed = total - claims.get("unknown", 0)
        right = claims.get(kind, 0) if kind != "unknown" else 0
        wrong = {claim: n for claim, n in sorted(claims.items()) if claim not in (kind, "unknown")}
        print(f"| {kind} | {total} | {_share(claimed, total)} | {_share(right, claimed)} | {wrong or ''} |")


def _share(part: int, total: int) -> str:
    low, high = wilson_interval(part, total)
    return f"{part}/{total} ({low:.2f}-{high:.2f})" if total else "none"


if __name__ == "__main__":
    main()
