"""How many faults that are planted into signals the checks find, and how many lags of clean episodes are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ares.checks import CODES, EpisodeActionLag, check_signals
from ares.signals import DatasetStatistics, EpisodeSignals
from benchmarks.foreign_robots import foreign_dataset, foreign_robot
from benchmarks.shares import format_share
from tests.generators.planting import ANGLES, NEED_LAG, PLANTERS, FaultSite
from tests.generators.robots import random_dataset, random_robot
from tests.generators.strengths import STRENGTHS

# Episodes of each generated dataset.
_EPISODES = 5
# The shortest episode in which a lag is expected.
_LAG_EPISODE_SECONDS = 5.0
# Upper ends of the ranges of a detection curve, in multiples of the strength of a code, and the codes that have one.
CURVE_STOPS = (0.25, 0.5, 1.0, 2.0, 4.0)
_WITHOUT_STRENGTH = frozenset(("A001", "A002", "A007", "A013", "A014", "A015"))
SCALED_CODES = tuple(code for code in PLANTERS if code not in _WITHOUT_STRENGTH)
# An arm joint in which a fault is planted moves by so much, radians.
LEAST_MOTION = 0.3


@dataclass(slots=True, kw_only=True)
class AuditScore:
    """Counts of an audit, by code.

    Attributes:
        planted: Faults that were planted.
        hits: Those that were found, in their dimension.
        false_alarms: Clean episodes with a finding.
        num_clean: Clean episodes that were checked.
        unknown: Faults of the commands that were planted where the data do not say the lag; no part of `planted`.
        lags: Counts of the lags of clean episodes.
    """

    planted: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    false_alarms: Counter[str] = field(default_factory=Counter)
    num_clean: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    lags: LagScore = field(default_factory=lambda: LagScore())

    def add_clean(self, episodes: Sequence[EpisodeSignals], lag_seconds: Sequence[float] = ()) -> None:
        """Check the clean episodes of one dataset, and their lags where the true ones are given."""
        typical = _dataset_statistics(episodes).typical()
        checks = [check_signals(episode, typical) for episode in episodes]
        self.num_clean += len(checks)
        for check in checks:
            self.false_alarms.update({finding.code for finding in check.findings})
        for episode, check, seconds in zip(episodes, checks, lag_seconds, strict=False):
            self.lags.add(check.lag, len(episode.seconds), episode.rate_hz, seconds)

    def add_fault(
        self, code: str, others: Sequence[EpisodeSignals], faulty: EpisodeSignals, name: str
    ) -> None:
        """Check an episode with a fault in the dimension of that name, in a dataset with other episodes."""
        check = check_signals(faulty, _dataset_statistics([*others, faulty]).typical())
        if code in NEED_LAG and check.lag.steps is None:
            self.unknown[code] += 1
            return
        self.planted[code] += 1
        self.hits[code] += any(f.code == code and f.dimension in ("", name) for f in check.findings)

    def rows(self) -> Iterator[str]:
        """A row of a Markdown table for each code that was planted or raised, with 95 % Wilson intervals."""
        for code in sorted(self.planted | self.false_alarms):
            check = CODES[code]
            recall = format_share(self.hits[code], self.planted[code])
            alarms = format_share(self.false_alarms[code], self.num_clean)
            unknown = self.unknown[code] or ""
            yield f"| {code} {check.name} | {STRENGTHS[code]} | {recall} | {unknown} | {alarms} | {check.severity} |"


@dataclass(slots=True, kw_only=True)
class LagScore:
    """How often a lag is claimed, and how often it is right within one step; of episodes of five seconds or longer.

    Attributes:
        num_could: Episodes whose state and action have moving dimensions of one name.
        num_claimed: Those with a lag.
        num_right: Those whose lag is within one step of the true one.
    """

    num_could: int = 0
    num_claimed: int = 0
    num_right: int = 0

    def add(self, lag: EpisodeActionLag, steps: int, rate_hz: float, true_seconds: float) -> None:
        """Count one clean episode."""
        if lag.could_say and steps >= _LAG_EPISODE_SECONDS * rate_hz:
            self.num_could += 1
            self.num_claimed += lag.steps is not None
            self.num_right += lag.steps is not None and abs(lag.steps - true_seconds * rate_hz) <= 1

    def text(self) -> str:
        """Both shares with their intervals."""
        return (
            f"lag claimed in {format_share(self.num_claimed, self.num_could)}, "
            f"within one step in {format_share(self.num_right, self.num_claimed)}"
        )


def fault_site(
    code: str, episode: EpisodeSignals, dim: int, unit_scale: float, multiple: float = 1.0
) -> FaultSite:
    """A site in a dimension of the state and that of its name in the action, at a multiple of the code's strength."""
    name = episode.state_names[dim]
    names = episode.action_names
    strength = STRENGTHS[code].size * multiple * (unit_scale if code in ANGLES else 1.0)
    action_dim = names.index(name) if name in names else 0
    return FaultSite(dim=dim, action_dim=action_dim, strength=strength, unit_scale=unit_scale)


def audit_foreign(seeds: Iterable[int], score: AuditScore) -> None:
    """Add foreign robots: their clean episodes and lags, and one fault of each code per robot that records joints."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        robot = foreign_robot(rng)
        episodes = foreign_dataset(robot, rng, episodes=_EPISODES)
        signals = [episode.signals for episode in episodes]
        score.add_clean(signals, [episode.lag_seconds for episode in episodes])
        ranges = np.ptp(signals[-1].state, axis=0)
        dims = [dim for dim in episodes[-1].angle_dims if ranges[dim] > LEAST_MOTION * robot.unit_scale]
        if dims:
            _plant_all([*PLANTERS], signals, dims, robot.unit_scale, rng, score)


def audit_generated(seeds: Iterable[int], score: AuditScore) -> None:
    """Add generated robots: their clean episodes, and one fault of each code per robot."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        episodes = random_dataset(robot, rng, episodes=_EPISODES)
        score.add_clean(episodes)
        if robot.moving_joints:
            _plant_all([*PLANTERS], episodes, robot.moving_joints, robot.unit_scale, rng, score)


def _plant_all(
    codes: Sequence[str],
    episodes: Sequence[EpisodeSignals],
    dims: Sequence[int],
    unit_scale: float,
    rng: np.random.Generator,
    score: AuditScore,
    multiple: float = 1.0,
) -> None:
    """Plant one fault of each code into a random joint of the last episode."""
    for code in codes:
        dim = int(rng.choice(dims))
        name = episodes[-1].state_names[dim]
        faulty = PLANTERS[code](episodes[-1], fault_site(code, episodes[-1], dim, unit_scale, multiple), rng)
        if faulty is not None:
            score.add_fault(code, episodes[:-1], faulty, name)


def detection_curve(seeds: Iterable[int]) -> dict[str, dict[float, tuple[int, int]]]:
    """Hits and plantings of generated faults at random strengths, by code and the upper end of a range of strengths.

    The strengths are log-uniform from an eighth to four times that of the code; codes without a strength are left out.
    """
    scores = {stop: AuditScore() for stop in CURVE_STOPS}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        episodes = random_dataset(robot, rng, episodes=_EPISODES)
        for code in SCALED_CODES if robot.moving_joints else ():
            multiple = float(np.exp2(rng.uniform(-3, 2)))
            score = scores[next(stop for stop in CURVE_STOPS if multiple <= stop)]
            _plant_all([code], episodes, robot.moving_joints, robot.unit_scale, rng, score, multiple)
    return {
        code: {stop: (score.hits[code], score.planted[code]) for stop, score in scores.items()}
        for code in SCALED_CODES
    }


def _dataset_statistics(episodes: Sequence[EpisodeSignals]) -> DatasetStatistics:
    first = episodes[0]
    statistics = DatasetStatistics(state_names=first.state_names, action_names=first.action_names)
    for episode in episodes:
        statistics.add(episode)
    return statistics
