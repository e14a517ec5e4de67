"""The health of a stored dataset: what is typical of each dimension, and findings in a sample of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.checks import EpisodeActionLag, QualityFinding, check_metadata, check_signals
from ares.contract import MeaningContract
from ares.reports.finding_counts import FindingCodeCount, FindingCounter
from ares.signals import (
    DatasetStatistics,
    DimensionKind,
    EpisodeSignals,
    TypicalEpisode,
    TypicalSignal,
    episode_signals,
)
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.episode import Episode, Trajectory
    from ares.store import Stores


# Episodes that are read of a dataset: their medians are exact to a few per cent, and reading them takes a second.
HEALTH_EPISODES = 64
_WORST_EPISODES = 20
Layout = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalDimension:
    """What is typical of one dimension, in the unit of its signal.

    Attributes:
        signal: "state" or "action".
        name: Name of the dimension.
        kind: What it is, from names and values together.
        low: Smallest value of the sample.
        high: Largest value of the sample.
        range: Median range in an episode.
        speed: Median of the fast speeds (95th percentile of an episode), per second.
        noise: Median standard deviation of the noise.
    """

    signal: str
    name: str
    kind: DimensionKind
    low: float
    high: float
    range: float
    speed: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyEpisode:
    """An episode with findings.

    Attributes:
        episode_id: Its id.
        key: Split and key in its source.
        codes: Code and name of each check with a finding.
        num_faults: Findings whose severity is "fault".
        seconds: Second of the most confident finding.
    """

    episode_id: str
    key: str
    codes: tuple[str, ...]
    num_faults: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatasetHealth:
    """The health of a dataset of a workspace.

    Attributes:
        dataset: Its name.
        num_episodes: Episodes of the dataset.
        num_checked: Episodes of the sample that were read.
        lag_seconds: Median lag of the state behind the action; None where no episode has one.
        num_lags: Episodes of the sample with a lag.
        num_unknown_lags: Episodes whose lag the data do not say.
        dimensions: Of the most frequent layout of the sample.
        counts: Findings of the sample by code.
        worst: Episodes with findings, most faults first; at most 20.
        typical: What an episode is compared with, by the names of its dimensions.
        contracts: What its signals mean, for each combination of dimensions in the sample, corrected by the spec.
    """

    dataset: str
    num_episodes: int
    num_checked: int
    lag_seconds: float | None
    num_lags: int
    num_unknown_lags: int
    dimensions: tuple[TypicalDimension, ...]
    counts: tuple[FindingCodeCount, ...]
    worst: tuple[UnhealthyEpisode, ...]
    typical: Mapping[Layout, TypicalEpisode]
    contracts: tuple[MeaningContract, ...] = ()


def dataset_health(stores: Stores, dataset: str, max_episodes: int = HEALTH_EPISODES) -> DatasetHealth:
    """Check a sample of the episodes of a stored dataset against each other: the same one every time.

    Raises StoreError when the tables cannot be read.
    """
    from statistics import median

    total, episodes = _sample_episodes(stores, dataset, max_episodes)
    pairs = _with_signals(stores, episodes)
    statistics = _statistics_by_layout([signals for _, signals in pairs])
    typical = {layout: part for layout, of in statistics.items() if (part := of.typical()) is not None}
    counter, worst = FindingCounter(), []
    lags, unknown = [], 0
    for episode, signals in pairs:
        findings, lag = _check_episode(episode, signals, typical)
        unknown += lag.could_say and lag.steps is None
        if lag.steps is not None:
            lags.append(lag.steps / signals.rate_hz)
        if findings:
            key = _key_with_split(episode)
            counter.add(episode.episode_id, episode.source, findings, key=key, source=episode.source)
            worst.append(_describe_unhealthy_episode(episode.episode_id, key, findings))
    worst.sort(key=lambda episode: (-episode.num_faults, -len(episode.codes), episode.episode_id))
    return DatasetHealth(
        dataset=dataset,
        num_episodes=total,
        num_checked=len(pairs),
        lag_seconds=round(median(lags), 3) if lags else None,
        num_lags=len(lags),
        num_unknown_lags=unknown,
        dimensions=_health_of_dimensions(statistics, typical),
        counts=counter.counts(),
        worst=tuple(worst[:_WORST_EPISODES]),
        typical=typical,
        contracts=_meaning_contracts(stores, episodes),
    )


def _meaning_contracts(stores: Stores, episodes: Sequence[Episode]) -> tuple[MeaningContract, ...]:
    """Stored contracts where there are any, else inferred ones: the most frequent dimensions first."""
    from ares.contract import find_contracts_of_episodes

    layouts = find_contracts_of_episodes(stores, sorted(episode.episode_id for episode in episodes))
    layouts.sort(key=lambda layout: -layout.num_episodes)
    return tuple(layout.contract for layout in layouts if layout.contract is not None)


def check_stored_episode(
    episode: Episode, trajectory: Trajectory, typical: Mapping[Layout, TypicalEpisode]
) -> tuple[QualityFinding, ...]:
    """What the checks say of one stored episode, compared with its dataset."""
    return _check_episode(episode, episode_signals(episode, trajectory), typical)[0]


def _check_episode(
    episode: Episode, signals: EpisodeSignals, typical: Mapping[Layout, TypicalEpisode]
) -> tuple[tuple[QualityFinding, ...], EpisodeActionLag]:
    check = check_signals(signals, typical.get((signals.state_names, signals.action_names)))
    return (*check.findings, *check_metadata(episode)), check.lag


def _sample_episodes(stores: Stores, dataset: str, max_episodes: int) -> tuple[int, list[Episode]]:
    """The number of episodes, and those of the lowest ids: ids are hashes, so that they are a uniform sample."""
    table, where = stores.tables.episodes, f"dataset = {quote_literal(dataset)}"
    total = table.count(where)
    if total > 2 * max_episodes:
        where += f" AND episode_id < '{min(int(2 * max_episodes / total * 2**64), 2**64 - 1):016x}'"
    ids = sorted(map(str, table.read_columns(["episode_id"], where).column("episode_id").to_pylist()))
    return total, table.get(ids[:max_episodes])


def _with_signals(stores: Stores, episodes: Sequence[Episode]) -> list[tuple[Episode, EpisodeSignals]]:
    by_id = {episode.episode_id: episode for episode in episodes}
    return [
        (by_id[episode_id], episode_signals(by_id[episode_id], trajectory))
        for episode_id, trajectory in stores.tables.trajectories.read(list(by_id))
    ]


def _statistics_by_layout(episodes: Sequence[EpisodeSignals]) -> dict[Layout, DatasetStatistics]:
    statistics: dict[Layout, DatasetStatistics] = {}
    for signals in episodes:
        layout = (signals.state_names, signals.action_names)
        part = statistics.setdefault(layout, DatasetStatistics(state_names=layout[0], action_names=layout[1]))
        part.add(signals)
    return statistics


def _key_with_split(episode: Episode) -> str:
    return "/".join(filter(None, (episode.split, episode.key)))


def _describe_unhealthy_episode(
    episode_id: str, key: str, findings: Sequence[QualityFinding]
) -> UnhealthyEpisode:
    from ares.checks import CODES

    return UnhealthyEpisode(
        episode_id=episode_id,
        key=key,
        codes=tuple(f"{code} {CODES[code].name}" for code in sorted({finding.code for finding in findings})),
        num_faults=sum(CODES[finding.code].severity == "fault" for finding in findings),
        seconds=max(findings, key=lambda finding: finding.confidence).seconds,
    )


def _health_of_dimensions(
    statistics: Mapping[Layout, DatasetStatistics], typical: Mapping[Layout, TypicalEpisode]
) -> tuple[TypicalDimension, ...]:
    if not typical:
        return ()
    layout = max(typical, key=lambda key: statistics[key].num_episodes)
    signals = (("state", layout[0], typical[layout].state), ("action", layout[1], typical[layout].action))
    return tuple(
        _describe_dimension(signal, names[number], of, number)
        for signal, names, of in signals
        for number in range(len(names))
    )


def _describe_dimension(signal: str, name: str, typical: TypicalSignal, number: int) -> TypicalDimension:
    return TypicalDimension(
        signal=signal,
        name=name,
        kind=typical.kinds[number],
        low=float(typical.low[number]),
        high=float(typical.high[number]),
        range=float(typical.range[number]),
        speed=float(typical.speed[number]),
        noise=float(typical.noise[number]),
    )
