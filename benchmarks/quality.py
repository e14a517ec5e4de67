"""Scores the checks of `ares check` on planted faults: generated robots, and real samples where they are.

.venv/bin/python -m benchmarks.quality --seeds 2000000:2000070
.venv/bin/python -m benchmarks.quality --seeds 2000000:2000070 --foreign
.venv/bin/python -m benchmarks.quality --seeds 2000000:2000300 --curve
.venv/bin/python -m benchmarks.quality --seeds 0:60 --real ~/data/so101 --unit 57.2958
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

from ares.clock import settle_measured_clock
from ares.episode import Record
from ares.errors import AresError
from ares.jobs import IngestRequest
from ares.signals import EpisodeSignals, episode_signals
from ares_ingest.pipeline import find_datasets
from benchmarks.fault_scoring import (
    CURVE_STOPS,
    LEAST_MOTION,
    AuditScore,
    audit_foreign,
    audit_generated,
    detection_curve,
    fault_site,
)
from tests.generators.planting import PLANTERS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=seed_range, default="0:60", help="first and one past the last seed of the robots"
    )
    parser.add_argument(
        "--foreign", action="store_true", help="robots with other controllers, actions and names"
    )
    parser.add_argument("--curve", action="store_true", help="faults of generated robots at random strengths")
    parser.add_argument("--real", action="append", default=[], help="dataset of clean episodes to plant into")
    parser.add_argument("--unit", type=float, default=1.0, help="units per radian of the real datasets")
    args = parser.parse_args()
    score = AuditScore()
    if args.curve:
        print_curve(detection_curve(args.seeds))
        return
    if args.real:
        for path in args.real:
            audit_real(path, args.seeds, args.unit, score)
    else:
        (audit_foreign if args.foreign else audit_generated)(args.seeds, score)
    print(
        "| code | strength | recall | unknown | clean episodes with a finding | shown as |\n|---|---|---|---|---|---|"
    )
    print("\n".join(score.rows()))
    if args.foreign:
        print(f"\n{score.lags.text()}")


def seed_range(text: str) -> range:
    """The seeds of an argument such as "0:60": the first, and one past the last."""
    return range(*map(int, text.split(":")))


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
                faulty = PLANTERS[code](episode, fault_site(code, episode, dim, unit), rng)
                if faulty is not None:
                    score.add_fault(code, others, faulty, episode.state_names[dim])


def _is_joint(episode: EpisodeSignals, dim: int) -> bool:
    """Whether it has a command, and is no gripper and no finger."""
    name = episode.state_names[dim]
    return name in episode.action_names and not any(part in name.lower() for part in ("grip", "hand"))


def read_episodes(path: str) -> list[list[EpisodeSignals]]:
    """The episodes of the datasets at a path, by their dimensions; those without state or action are left out."""
    return [
        episodes for _, episodes in read_layouts(path) if episodes[0].state_names and episodes[0].action_names
    ]


def read_layouts(path: str) -> Iterator[tuple[str, list[EpisodeSignals]]]:
    """The datasets at a path, each by the dimensions of its episodes."""
    by_layout = defaultdict(list)
    for record in read_records(path):
        signals = episode_signals(record.episode, record.trajectory)
        key = record.episode.dataset, signals.state_names, signals.action_names
        by_layout[key].append(signals)
    for (dataset, _, _), episodes in by_layout.items():
        yield dataset, episodes


def read_records(path: str) -> Iterator[Record]:
    """The records of the datasets at a path, with their clocks settled; those that cannot be read are left out."""
    for source in find_datasets(None, IngestRequest(sources=(path,))).sources:
        for item in source.items:
            with suppress(AresError):
                yield settle_measured_clock(item.load())


if __name__ == "__main__":
    main()
