"""Scores the checks of `ares check` on planted faults: generated robots, and real samples where they are.

.venv/bin/python -m benchmarks.quality --seeds 2000000:2000070
.venv/bin/python -m benchmarks.quality --seeds 2000000:2000070 --foreign
.venv/bin/python -m benchmarks.quality --seeds 2000000:2000300 --curve
.venv/bin/python -m benchmarks.quality --seeds 0:60 --real ~/data/so101 --unit 57.2958
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping

from ares.clock import settle_clock
from ares.errors import AresError
from ares.quality import EpisodeSignals, episode_signals
from ares.quality.audit import PLANTERS
from ingest.base import IngestOptions
from ingest.pipeline import find_datasets
from tests.generators.scoring import (
    CURVE_STOPS,
    LEAST_MOTION,
    AuditScore,
    audit_foreign,
    audit_generated,
    detection_curve,
    fault_site,
    plant_fault,
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:60", help="first and one past the last seed of the robots")
    parser.add_argument(
        "--foreign", action="store_true", help="robots with other controllers, actions and names"
    )
    parser.add_argument("--curve", action="store_true", help="faults of generated robots at random strengths")
    parser.add_argument("--real", action="append", default=[], help="dataset of clean episodes to plant into")
    parser.add_argument("--unit", type=float, default=1.0, help="units per radian of the real datasets")
    args = parser.parse_args()
    score = AuditScore()
    first, stop = map(int, args.seeds.split(":"))
    if args.curve:
        print_curve(detection_curve(range(first, stop)))
        return
    if args.real:
        for path in args.real:
            audit_real(path, range(first, stop), args.unit, score)
    else:
        (audit_foreign if args.foreign else audit_generated)(range(first, stop), score)
    print(
        "| code | strength | recall | unknown | clean episodes with a finding | shown as |\n|---|---|---|---|---|---|"
    )
    print("\n".join(score.rows()))
    if args.foreign:
        print(f"\n{score.lags.text()}")


def print_curve(curve: Mapping[str, Mapping[float, tuple[int, int]]]) -> None:
    """A row per code: how many are found, by ranges of strengths."""
    print("| code | " + " | ".join(f"to x{stop:g}" for stop in CURVE_STOPS) + " |")
    print("|---|" + "---|" * len(CURVE_STOPS))
    for code, counts in curve.items():
        parts = (f"{hits}/{planted}" if planted else "" for hits, planted in counts.values())
        print(f"| {code} | " + " | ".join(parts) + " |")


def audit_real(path: str, seeds: range, unit: float, score: AuditScore) -> None:
    """Add the episodes of a real dataset, and one fault of each code per seed, in a random joint of one of them."""
    import numpy as np

    for episodes in read_episodes(path):
        score.add_clean(episodes)
        for seed in seeds:
            rng = np.random.default_rng(seed)
            number = int(rng.integers(len(episodes)))
            episode, others = episodes[number], episodes[:number] + episodes[number + 1 :]
            moving = np.flatnonzero(np.ptp(episode.state, axis=0) > LEAST_MOTION * unit)
            joints = [int(d) for d in moving if _is_joint(episode, int(d))]
            for code in PLANTERS if joints else ():
                dim = int(rng.choice(joints))
                faulty = plant_fault(code, episode, fault_site(code, episode, dim, unit), rng)
                if faulty is not None:
                    score.add_fault(code, others, faulty, episode.state_names[dim])


def _is_joint(episode: EpisodeSignals, dim: int) -> bool:
    """Whether it has a command, and is no gripper and no finger."""
    name = episode.state_names[dim]
    return name in episode.action_names and not any(part in name.lower() for part in ("grip", "hand"))


def read_episodes(path: str) -> list[list[EpisodeSignals]]:
    """The episodes of the datasets at a path, by their dimensions; those without signals are left out."""
    by_layout = defaultdict(list)
    for source in find_datasets(None, [path], IngestOptions()).sources:
        for item in source.items:
            try:
                record = settle_clock(item.load())
            except AresError:
                continue
            signals = episode_signals(record.episode, record.trajectory)
            if signals.state.shape[1] and signals.action.shape[1]:
                by_layout[signals.state_names, signals.action_names].append(signals)
    return list(by_layout.values())


if __name__ == "__main__":
    main()
