"""Counts the findings of a check, of signals and videos, by dataset and code, with the worst of each."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.checks import CODES, QualityFinding, Severity
from ares.contract import MeaningContract
from ares.episode import NotRead

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.jobs import UnreadFile


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTotals:
    """Counts over the videos of a dataset.

    Attributes:
        num_episodes: Episodes with cameras.
        num_frames: Frames that were decoded.
        num_moving: Episodes in which the robot moves for five seconds, and that have others like them.
        num_moving_known: Those of them in which the data say the lag of a camera behind the state.
        num_failed: Episodes whose record or videos could not be checked.
        first_failure: Why the first of them could not be, or "".
        lag_seconds: Median lag of each camera behind the state, for those with any.
    """

    num_episodes: int
    num_frames: int
    num_moving: int
    num_moving_known: int
    num_failed: int = 0
    first_failure: str = ""
    lag_seconds: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The totals as JSON."""
        return {
            "episodes": self.num_episodes,
            "frames": self.num_frames,
            "moving": self.num_moving,
            "moving_lag_known": self.num_moving_known,
            "failed": self.num_failed,
            "first_failure": self.first_failure,
            "lag_seconds": dict(self.lag_seconds),
        }


# Findings of one code that are listed with episode and second; all are counted.
LISTED_FINDINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFinding:
    """A finding and its episode.

    Attributes:
        episode_id: Id of the episode, as in a workspace.
        location: File, and which record of it.
        finding: The finding.
        key: Split and key of the episode in its source, joined by "/".
        source: File or URL of the episode.
    """

    episode_id: str
    location: str
    finding: QualityFinding
    key: str = ""
    source: str = ""

    def to_json(self) -> dict[str, Json]:
        """The finding as JSON."""
        return {
            "episode_id": self.episode_id,
            "episode": self.key,
            "location": self.location,
            **self.finding.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCodeCount:
    """How often one code was found in a dataset.

    Attributes:
        code: The code.
        name: Its name.
        severity: "fault", or "information" where the check has not passed its bar.
        num_episodes: Episodes with a finding; 0 where it is of the files of the dataset.
        dimensions: Dimensions with a finding, with the number of episodes; "" for all dimensions together.
        worst: The most confident findings, worst first; `LISTED_FINDINGS` unless more were asked for.
        remedy: What the user can do.
    """

    code: str
    name: str
    severity: Severity
    num_episodes: int
    dimensions: Mapping[str, int]
    worst: tuple[ListedFinding, ...]
    remedy: str

    def to_json(self) -> dict[str, Json]:
        """The count as JSON."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "episodes": self.num_episodes,
            "dimensions": dict(self.dimensions),
            "worst": [listed.to_json() for listed in self.worst],
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCheck:
    """What the checks say of one dataset.

    Attributes:
        dataset: Its name.
        format: Its format.
        path: Its folder or file.
        num_episodes: Episodes that were read.
        num_without_signals: Those of them without state and action: only their clock was checked.
        num_failed: Records that could not be read.
        first_failure: Why the first of them could not be read, or "".
        lag_seconds: Median lag of the state behind the action; None where no episode has one.
        num_lags: Episodes with a lag.
        num_unknown_lags: Episodes with state and action of the same names, whose lag the data do not say.
        counts: Findings by code, in the order of the codes.
        contracts: What its signals mean, for each combination of dimensions.
        video: What was counted of the videos; None where they were not decoded.
        num_unnamed: Dimensions of state and action whose name and values do not say what they are: checks of joints and
            of state against action leave them out.
        lacks: What it lacks for imitation learning, see `ares.imitation`.
        warnings: What is odd of its episodes, or lies beside them and was not read, each with the number of episodes.
        num_incomplete: Episodes without a state, an action, a camera or a text that may be what was not read.
    """

    dataset: str
    format: str
    path: str
    num_episodes: int
    num_without_signals: int
    num_failed: int
    first_failure: str
    lag_seconds: float | None
    num_lags: int
    num_unknown_lags: int
    counts: tuple[FindingCodeCount, ...]
    contracts: tuple[MeaningContract, ...] = ()
    video: VideoTotals | None = None
    num_unnamed: int = 0
    lacks: tuple[str, ...] = ()
    warnings: Mapping[str, int] = field(default_factory=dict)
    num_incomplete: int = 0

    @property
    def has_faults(self) -> bool:
        """Whether there is a finding that is no mere information."""
        return any(count.severity == "fault" for count in self.counts)

    def to_json(self) -> dict[str, Json]:
        """The dataset as JSON."""
        return {
            "dataset": self.dataset,
            "format": self.format,
            "path": self.path,
            "episodes": self.num_episodes,
            "without_signals": self.num_without_signals,
            "failed": self.num_failed,
            "first_failure": self.first_failure,
            "lag_seconds": self.lag_seconds,
            "lag_known": self.num_lags,
            "lag_unknown": self.num_unknown_lags,
            "unnamed_dimensions": self.num_unnamed,
            "lacks": list(self.lacks),
            "warnings": dict(self.warnings),
            "not_read": [text for text in self.warnings if isinstance(text, NotRead)],
            "incomplete": self.num_incomplete,
            "video": None if self.video is None else self.video.to_json(),
            "findings": [count.to_json() for count in self.counts],
            "contracts": [contract.to_json() for contract in self.contracts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What `ares check` says.

    Attributes:
        datasets: One per dataset.
        failed: Why each dataset that could not be opened could not be, by path.
        unread: Files that hold data, or stand for it, and were not read.
    """

    datasets: tuple[DatasetCheck, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[UnreadFile, ...] = ()

    @property
    def num_episodes(self) -> int:
        """Episodes that were read."""
        return sum(dataset.num_episodes for dataset in self.datasets)

    @property
    def damaged_files(self) -> tuple[UnreadFile, ...]:
        """The unread files that could not be read: others, such as pictures that no episode names, were not tried."""
        return tuple(file for file in self.unread if file.use != "unused")

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for could be read, and no episode lacks what was not read."""
        has_failures = any(
            dataset.num_failed
            or dataset.num_incomplete
            or (dataset.video is not None and dataset.video.num_failed)
            for dataset in self.datasets
        )
        return not (self.failed or has_failures or self.damaged_files)

    @property
    def is_clean(self) -> bool:
        """Whether everything could be read and no fault was found; information does not count."""
        return self.is_complete and not any(dataset.has_faults for dataset in self.datasets)

    def to_json(self) -> dict[str, Json]:
        """The report as JSON: what `ares check --json` prints."""
        return {
            "episodes": self.num_episodes,
            "clean": self.is_clean,
            "datasets": [dataset.to_json() for dataset in self.datasets],
            "failed": dict(self.failed),
            "unread": [file.to_json() for file in self.unread],
        }


@dataclass(slots=True, kw_only=True)
class FindingCounter:
    """Counts the findings of the episodes of one dataset while they are checked.

    Attributes:
        episodes: Ids of the episodes with a finding, by code.
        dimensions: Ids of the episodes, or files of the dataset, with a finding, by code and dimension.
        worst: By code a heap of the most confident findings.
        num_added: Findings so far; decides between equal ones, so that the first is kept.
        num_listed: Findings of a code that are kept.
    """

    episodes: dict[str, set[str]] = field(default_factory=dict)
    dimensions: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    worst: dict[str, list[tuple[float, int, ListedFinding]]] = field(default_factory=dict)
    num_added: int = 0
    num_listed: int = LISTED_FINDINGS

    def add(
        self,
        episode_id: str,
        location: str,
        findings: Sequence[QualityFinding],
        *,
        key: str = "",
        source: str = "",
    ) -> None:
        """Count the findings of one episode, or with an empty id those of the files of the dataset.

        One that an earlier look at the episode has told already counts once.
        """
        of = episode_id or f"{location} {key}"
        findings = [
            finding
            for finding in findings
            if of not in self.dimensions.get((finding.code, finding.dimension), ())
        ]
        for finding in findings:
            self.dimensions.setdefault((finding.code, finding.dimension), set()).add(of)
            if episode_id:
                self.episodes.setdefault(finding.code, set()).add(episode_id)
            listed = ListedFinding(
                episode_id=episode_id, location=location, finding=finding, key=key, source=source
            )
            heap = self.worst.setdefault(finding.code, [])
            self.num_added += 1
            heapq.heappush(heap, (finding.confidence, -self.num_added, listed))
            if len(heap) > self.num_listed:
                heapq.heappop(heap)

    def counts(self) -> tuple[FindingCodeCount, ...]:
        """The counts of all codes that were found."""
        return tuple(self._count(code) for code in sorted(self.worst))

    def _count(self, code: str) -> FindingCodeCount:
        check = CODES[code]
        ordered = sorted(self.dimensions.items(), key=lambda part: (-len(part[1]), part[0]))
        by_dimension = {dimension: len(ids) for (of, dimension), ids in ordered if of == code}
        return FindingCodeCount(
            code=code,
            name=check.name,
            severity=check.severity,
            num_episodes=len(self.episodes.get(code, ())),
            dimensions=by_dimension,
            worst=tuple(listed for _, _, listed in sorted(self.worst[code], reverse=True)),
            remedy=check.remedy,
        )
