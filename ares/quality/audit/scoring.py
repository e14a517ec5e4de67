"""Scores the checks: how many planted faults each finds, and in how many clean episodes it finds one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

from ares.quality.audit.planted_faults import ANGLES, PLANTERS, FaultSite, plant_fault
from ares.quality.audit.random_robots import random_dataset, random_robot
from ares.quality.catalogue import CODES, DRIFT
from ares.quality.episode_check import check_signals
from ares.quality.signals import EpisodeSignals
from ares.quality.statistics import DatasetStatistics

if TYPE_CHECKING:
    import numpy as np

# Episodes of each generated dataset.
_EPISODES = 5


@dataclass(slots=True, kw_only=True)
class AuditScore:
    """Counts of an audit, by code.

    Attributes:
        planted: Faults that were planted.
        hits: Those that were found, in their dimension.
        false_alarms: Clean episodes with a finding.
        num_clean: Clean episodes that were checked.
    """

    planted: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    false_alarms: Counter[str] = field(default_factory=Counter)
    num_clean: int = 0

    def add_clean(self, episodes: Sequence[EpisodeSignals]) -> None:
        """Check the clean episodes of one dataset."""
        typical = _statistics(episodes).typical()
        for episode in episodes:
            self.num_clean += 1
            self.false_alarms.update({finding.code for finding in check_signals(episode, typical).findings})

    def add_fault(
        self, code: str, others: Sequence[EpisodeSignals], faulty: EpisodeSignals, name: str
    ) -> None:
        """Check an episode with a fault in the dimension of that name, in a dataset with other episodes."""
        findings = check_signals(faulty, _statistics([*others, faulty]).typical()).findings
        self.planted[code] += 1
        self.hits[code] += any(f.code == code and f.dimension in ("", name) for f in findings)

    def rows(self) -> Iterator[str]:
        """A row of a Markdown table for each code that was planted or raised, with 95 % Wilson intervals."""
        for code in sorted(self.planted | self.false_alarms):
            check = CODES[code]
            recall = share_text(self.hits[code], self.planted[code])
            alarms = share_text(self.false_alarms[code], self.num_clean)
            strength = f"{check.strength:g} {check.strength_unit}"
            yield f"| {code} {check.name} | {strength} | {recall} | {alarms} | {check.severity} |"


def audit_generated(seeds: Iterable[int], score: AuditScore) -> None:
    """Add generated robots: their clean episodes, and one fault of each code per robot."""
    import numpy as np

    for seed in seeds:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        episodes = random_dataset(robot, rng, episodes=_EPISODES)
        score.add_clean(episodes)
        if robot.moving_joints:
            codes = [code for code in PLANTERS if not (robot.is_delta and code == DRIFT.code)]
            _plant_all(codes, episodes, robot.moving_joints, robot.unit_scale, rng, score)


def _plant_all(
    codes: Sequence[str],
    episodes: Sequence[EpisodeSignals],
    dims: Sequence[int],
    unit_scale: float,
    rng: np.random.Generator,
    score: AuditScore,
) -> None:
    """Plant one fault of each code into a random joint of the last episode."""
    for code in codes:
        dim = int(rng.choice(dims))
        name = episodes[-1].state_names[dim]
        faulty = plant_fault(code, episodes[-1], fault_site(code, episodes[-1], dim, unit_scale), rng)
        if faulty is not None:
            score.add_fault(code, episodes[:-1], faulty, name)


def fault_site(code: str, episode: EpisodeSignals, dim: int, unit_scale: float) -> FaultSite:
    """A site in a dimension of the state and that of its name in the action, at the strength of the code."""
    name = episode.state_names[dim]
    names = episode.action_names
    strength = CODES[code].strength * (unit_scale if code in ANGLES else 1.0)
    action_dim = names.index(name) if name in names else 0
    return FaultSite(dim=dim, action_dim=action_dim, strength=strength, unit_scale=unit_scale)


def _statistics(episodes: Sequence[EpisodeSignals]) -> DatasetStatistics:
    first = episodes[0]
    statistics = DatasetStatistics(state_names=first.state_names, action_names=first.action_names)
    for episode in episodes:
        statistics.add(episode)
    return statistics


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson; (0, 1) for none."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def share_text(hits: int, total: int) -> str:
    """A share with its 95 % Wilson interval."""
    low, high = wilson_interval(hits, total)
    return f"{hits}/{total} ({low:.2f}-{high:.2f})" if total else "none planted"
