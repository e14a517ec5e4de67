"""Scores the checks on faults of meaning drawn at random in the episodes of datasets, and on these as they are.

.venv/bin/python -m benchmarks.meaning_faults ~/data/so101 ~/data/g1 --seeds 0:20
.venv/bin/python -m benchmarks.meaning_faults --generated --seeds 1000:1030
.venv/bin/python -m benchmarks.meaning_faults --recorded FOLDER/test --seeds 0:10
"""

from __future__ import annotations

import argparse
import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ares.checks import CODES, check_signals
from ares.signals import DatasetStatistics, EpisodeSignals, EpisodeSignalSummary, summarise_signals
from ares.statistics import wilson_interval
from benchmarks.clustered_counts import effective_items
from benchmarks.foreign_robots import foreign_dataset, foreign_robot
from benchmarks.quality import read_layouts, seed_range
from benchmarks.shares import format_share
from tests.generators.meaning_faults import MEANING_FAULTS, PlantedMeaning, plant_meaning
from tests.generators.robots import random_dataset, random_robot

# What a finding is of: code, signal and dimension.
Place = tuple[str, str, str]


@dataclass(slots=True, kw_only=True)
class MeaningScore:
    """Counts by kind of fault.

    Attributes:
        planted: Faults that were planted.
        told: Those with a finding that is not there without them, in their dimension.
        as_fault: Those with such a finding of the severity fault.
        codes: Codes of these findings.
        misses: Where the others were planted.
        alarms: Clean episodes with a fault, by code.
        num_clean: Clean episodes.
        num_alarmed: Those with any fault.
        clusters: Faults that were planted and told by dataset and faulty episodes, for the interval over all kinds.
        clean: Whether each clean episode is without a fault, by dataset.
    """

    planted: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    as_fault: Counter[str] = field(default_factory=Counter)
    codes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    misses: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    alarms: Counter[str] = field(default_factory=Counter)
    num_clean: int = 0
    num_alarmed: int = 0
    clusters: dict[tuple[str, tuple[int, ...]], list[bool]] = field(default_factory=lambda: defaultdict(list))
    clean: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))

    def add_dataset(self, name: str, episodes: Sequence[EpisodeSignals], seeds: range) -> None:
        """Check a clean dataset, and one fault of each kind and seed in it."""
        import numpy as np

        clean = _found_places(episodes)
        faults = [{code for code, _, _ in places if CODES[code].severity == "fault"} for places in clean]
        self.num_clean += len(clean)
        self.num_alarmed += sum(map(bool, faults))
        self.clean[name] += [not codes for codes in faults]
        self.alarms.update(code for codes in faults for code in codes)
        for seed in seeds:
            for number, kind in enumerate(MEANING_FAULTS):
                planted = plant_meaning(kind, episodes, np.random.default_rng([seed, number]))
                if planted is not None:
                    is_told = self._add_planted(f"{name} seed {seed}", planted, clean)
                    self.clusters[name, planted.faulty].append(is_told)

    def _add_planted(self, name: str, planted: PlantedMeaning, clean: Sequence[set[Place]]) -> bool:
        wanted = range(len(clean)) if planted.kind in ("sign", "gripper") else planted.faulty
        after = _found_places(planted.episodes, wanted)
        new = {
            place
            for number, places in zip(wanted, after, strict=True)
            for place in places - clean[number]
            if not planted.dimensions or place[2] in ("", *planted.dimensions)
        }
        self.planted[planted.kind] += 1
        self.told[planted.kind] += bool(new)
        self.as_fault[planted.kind] += any(CODES[code].severity == "fault" for code, _, _ in new)
        self.codes[planted.kind].update({code for code, _, _ in new})
        if not new:
            self.misses[planted.kind].append(f"{name} {','.join(planted.dimensions)} {planted.faulty}")
        return bool(new)

    def lines(self) -> Iterator[str]:
        """The table with 95 % Wilson intervals, and the misses by kind."""
        for kind in self.planted:
            codes = ", ".join(f"{code} {count}" for code, count in self.codes[kind].most_common(6))
            told, as_fault = (
                format_share(part[kind], self.planted[kind]) for part in (self.told, self.as_fault)
            )
            yield f"| {kind} | {told} | {as_fault} | {codes} |"
        every = (format_share(part.total(), self.planted.total()) for part in (self.told, self.as_fault))
        yield f"| all | {' | '.join(every)} | |"
        yield f"all, by clusters of episodes: {_clustered_share(self.clusters.values())}"
        by_dataset: dict[str, list[bool]] = defaultdict(list)
        for (name, _), told_here in self.clusters.items():
            by_dataset[name] += told_here
        yield f"all, by datasets: {_clustered_share(by_dataset.values())}"
        clean = format_share(self.num_clean - self.num_alarmed, self.num_clean)
        yield f"clean without a fault: {clean} {dict(self.alarms)}"
        yield f"clean without a fault, by datasets: {_clustered_share(self.clean.values())}"
        for kind, misses in self.misses.items():
            yield f"{kind}: " + "; ".join(misses)


def _clustered_share(clusters: Collection[Sequence[bool]]) -> str:
    """The share of what is true, with a 95 % Wilson interval by clusters."""
    hits, totals = [sum(part) for part in clusters], [*map(len, clusters)]
    share, items = sum(hits) / max(sum(totals), 1), effective_items(hits, totals, 0.0)
    low, high = wilson_interval(share * items, items)
    return f"{share:.3f} ({low:.3f}-{high:.3f}), {len(totals)} clusters"


def _found_places(
    episodes: Sequence[EpisodeSignals], numbers: Sequence[int] | None = None
) -> list[set[Place]]:
    """What the checks say of the episodes of these numbers, each compared with all of the dataset."""
    first = episodes[0]
    statistics = DatasetStatistics(state_names=first.state_names, action_names=first.action_names)
    for episode in episodes:
        statistics.add_summary(_summary_of(episode), episode.rate_hz)
    typical = statistics.typical()
    return [
        {
            (finding.code, finding.signal, finding.dimension)
            for finding in check_signals(episodes[number], typical).findings
        }
        for number in (range(len(episodes)) if numbers is None else numbers)
    ]


@functools.lru_cache(maxsize=256)
def _summary_of(episode: EpisodeSignals) -> EpisodeSignalSummary | None:
    """Of most plantings all episodes but one are the same objects."""
    return summarise_signals(episode)


def read_recorded(path: Path) -> list[EpisodeSignals]:
    """The episodes of a file of `benchmarks/simulated_robots.py`."""
    import numpy as np

    with np.load(path) as arrays:
        rate_hz = float(arrays["rate_hz"])
        return [
            EpisodeSignals(
                episode_id=f"{path.stem} {number}",
                seconds=arrays[f"seconds_{number}"],
                state=arrays[f"state_{number}"].astype(np.float64),
                action=arrays[f"action_{number}"].astype(np.float64),
                state_names=tuple(map(str, arrays["state_names"])),
                action_names=tuple(map(str, arrays["action_names"])),
                rate_hz=rate_hz,
                claimed_rate_hz=rate_hz,
                measured_rate_hz=rate_hz,
                task=str(task),
            )
            for number, task in enumerate(arrays["tasks"])
        ]


def _generated_datasets(seeds: range) -> Iterator[tuple[str, Sequence[EpisodeSignals]]]:
    import numpy as np

    for seed in seeds:
        rng = np.random.default_rng(seed)
        yield f"robot {seed}", random_dataset(random_robot(rng), rng)
        foreign = foreign_dataset(foreign_robot(rng), rng, episodes=6)
        yield f"foreign {seed}", [episode.signals for episode in foreign]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="datasets of clean episodes to plant into")
    parser.add_argument("--generated", action="store_true", help="generated robots, one of each seed")
    parser.add_argument("--recorded", type=Path, help="folder of datasets that simulated_robots.py recorded")
    parser.add_argument("--seeds", type=seed_range, default="0:10", help="first and one past the last seed")
    args = parser.parse_args()
    score = MeaningScore()
    for path in args.paths:
        for dataset, episodes in read_layouts(path):
            if episodes[0].state_names:
                score.add_dataset(dataset, episodes, args.seeds)
    for file in sorted(args.recorded.glob("*.npz")) if args.recorded else ():
        score.add_dataset(file.stem, read_recorded(file), args.seeds)
    for name, generated in _generated_datasets(args.seeds) if args.generated else ():
        score.add_dataset(name, generated, range(args.seeds.start, args.seeds.start + 1))
    print("\n".join(score.lines()))


if __name__ == "__main__":
    main()
