"""What reader processes say of records in a check, and how it is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ares.checks import EpisodeCheck, QualityFinding, check_metadata, check_signals
from ares.clock import settle_measured_clock
from ares.contract import ContractEvidence, collect_contract_evidence
from ares.episode import UNREAD, Episode, Record
from ares.errors import AresError, SourceError
from ares.imitation import EpisodeNeeds, ImitationNeeds, find_needs
from ares.jobs import PoolRequest, available_cores
from ares.repair import repair_signals
from ares.reports import CORRECTED, FindingCounter
from ares.signals import (
    Correction,
    EpisodeRepair,
    EpisodeSignals,
    EpisodeSignalSummary,
    TypicalEpisode,
    episode_signals,
    summarise_signals,
)
from ares_ingest.guarded_loading import call_or_error
from ares_ingest.pipeline import account_for_unread

if TYPE_CHECKING:
    from ares.checks import FrameEdges, VideoCheck, VideoSummary
    from ares.jobs import BatchFunction, Engine, WorkerPool

T = TypeVar("T")
R = TypeVar("R")

# Names of the dimensions of state and action: episodes are compared with those that have the same.
Layout = tuple[tuple[str, ...], tuple[str, ...]]
# Names of the dimensions of the state, and of the cameras: episodes are compared with those that have the same.
VideoLayout = tuple[tuple[str, ...], tuple[str, ...]]
# The signals of the sample are kept until they are checked, unless one episode has more bytes.
_LARGEST_KEPT_BYTES = 2**19


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTask:
    """One record to read.

    Attributes:
        load: Reads it.
        location: File, and which record of it.
        episode_id: Id of the episode.
        typical: What to check it against, by layout; None to summarise it.
        earlier: The result of its summary with its signals, so that it is not read again; or None.
        repairs: Whether to correct what the checks find.
    """

    load: Callable[[], Record]
    location: str
    episode_id: str
    typical: Mapping[Layout, TypicalEpisode] | None = None
    earlier: SignalCheckResult | None = None
    repairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalCheckResult:
    """What a reader says of one record.

    Attributes:
        episode_id: Id of the episode.
        location: File, and which record of it.
        key: Split and key of the episode in its source, joined by "/".
        source: File or URL of the episode.
        layout: Names of its dimensions.
        rate_hz: Steps per second.
        metadata: What its metadata alone say.
        summary: Its summary, where it was asked for and could be made.
        evidence: Evidence for the meaning of its signals, beside the summary.
        check: What the checks found, where they were asked for.
        signals: The signals of a record that was summarised, unless they are large.
        corrections: What is corrected, and what of the same codes is left; where that was asked for.
        needs: What it lacks for imitation learning.
        warnings: What is odd of its source, or was not read, a line each.
        is_incomplete: Whether it lacks what was not read.
    """

    episode_id: str
    location: str
    key: str
    source: str
    layout: Layout
    rate_hz: float
    metadata: tuple[QualityFinding, ...] = ()
    summary: EpisodeSignalSummary | None = None
    evidence: ContractEvidence | None = None
    check: EpisodeCheck | None = None
    signals: EpisodeSignals | None = None
    corrections: tuple[Correction, ...] = ()
    needs: EpisodeNeeds | None = None
    warnings: tuple[str, ...] = ()
    is_incomplete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCheckOutcome:
    """What a reader says of the videos of one record.

    Attributes:
        episode_id: Id of the episode.
        location: File, and which record of it.
        key: Key of the record in its dataset.
        source: File that the record was read from.
        layout: Names of its dimensions and cameras.
        edges: The ends of each camera, by its name.
        spans: Camera, file, first and last second of each camera that is a span of a video.
        summary: What was kept, where nothing to check it against was given.
        check: What the checks found.
    """

    episode_id: str
    location: str
    key: str
    source: str
    layout: VideoLayout
    edges: Mapping[str, FrameEdges] = field(default_factory=dict)
    spans: tuple[tuple[str, str, float, float], ...] = ()
    summary: VideoSummary | None = None
    check: VideoCheck | None = None


@dataclass(slots=True, kw_only=True)
class CheckProgress:
    """What was counted of a dataset so far.

    Attributes:
        counter: Counts the findings.
        num_episodes: Episodes that were read.
        num_without_signals: Those without state and action.
        num_lags: Episodes with a lag.
        num_unknown_lags: Episodes whose lag the data do not say.
        num_failed: Records that could not be read.
        first_failure: Why the first of them could not, or "".
        needs: What they lack for imitation learning.
        warnings: How many of them say each warning.
        num_incomplete: How many lack what was not read.
        repairs: What was corrected or left in each episode with such findings; None where nothing is corrected.
    """

    counter: FindingCounter = field(default_factory=FindingCounter)
    num_episodes: int = 0
    num_without_signals: int = 0
    num_lags: int = 0
    num_unknown_lags: int = 0
    num_failed: int = 0
    first_failure: str = ""
    repairs: list[EpisodeRepair] | None = None
    needs: ImitationNeeds = field(default_factory=ImitationNeeds)
    warnings: Counter[str] = field(default_factory=Counter)
    num_incomplete: int = 0

    def add(self, result: SignalCheckResult | AresError) -> None:
        """Count one record."""
        if isinstance(result, AresError):
            self.num_failed += 1
            self.first_failure = self.first_failure or str(result)
            return
        self.num_episodes += 1
        self.num_without_signals += not any(result.layout)
        self.warnings.update(result.warnings)
        self.num_incomplete += result.is_incomplete
        if result.needs is not None:
            self.needs.add(result.needs)
        if result.check is not None:
            self.num_lags += result.check.lag.steps is not None
            self.num_unknown_lags += result.check.lag.could_say and result.check.lag.steps is None
            self.add_findings(result, result.check.findings)
        if self.repairs is not None and result.corrections:
            self.repairs.append(
                EpisodeRepair(
                    episode_id=result.episode_id,
                    key=result.key,
                    location=result.location,
                    corrections=result.corrections,
                )
            )

    def add_findings(
        self, result: SignalCheckResult | VideoCheckOutcome, findings: tuple[QualityFinding, ...]
    ) -> None:
        """Count the findings of one record."""
        if findings:
            self.counter.add(
                result.episode_id, result.location, findings, key=result.key, source=result.source
            )


# Worker processes pay off only for a check that takes longer than they take to start.
_START_AFTER_SECONDS = 2.0


def open_check_pool(engine: Engine, work: BatchFunction[T, R], is_fragile: bool) -> WorkerPool[T, R]:
    """Reader processes for a check; they pay off only where it takes longer than they take to start.

    Args:
        engine: Starts them.
        work: Works on a batch.
        is_fragile: Whether damaged bytes can crash the library that reads: only processes then read.
    """
    return engine.pool(
        PoolRequest(
            work,
            max_workers=available_cores(),
            on_worker_death=SourceError,
            start_after_seconds=0.0 if is_fragile else _START_AFTER_SECONDS,
        )
    )


def run_signal_tasks(tasks: Sequence[SignalTask]) -> list[SignalCheckResult | AresError]:
    """Read records, and summarise or check each; one that fails gives its error."""
    return [call_or_error(partial(_run_signal_task, task), "the check of a record") for task in tasks]


def _run_signal_task(task: SignalTask) -> SignalCheckResult:
    if task.earlier is not None and task.earlier.signals is not None:
        return _add_signal_check(task, task.earlier, task.earlier.signals)
    record = settle_measured_clock(account_for_unread(task.load()))
    result = _make_signal_result(task, record.episode, episode_signals(record.episode, record.trajectory))
    return replace(
        result,
        needs=find_needs(record.episode, record.trajectory, record.episode.instruction),
        warnings=record.warnings,
        is_incomplete=UNREAD in record.episode.metadata,
    )


def _make_signal_result(task: SignalTask, episode: Episode, signals: EpisodeSignals) -> SignalCheckResult:
    result = SignalCheckResult(
        episode_id=signals.episode_id,
        location=task.location,
        key="/".join(filter(None, (episode.split, episode.key))),
        source=episode.source,
        layout=(signals.state_names, signals.action_names),
        rate_hz=signals.rate_hz,
        metadata=tuple(check_metadata(episode)),
    )
    return (
        _add_signal_summary(result, signals)
        if task.typical is None
        else _add_signal_check(task, result, signals)
    )


def _add_signal_summary(result: SignalCheckResult, signals: EpisodeSignals) -> SignalCheckResult:
    num_bytes = signals.state.nbytes + signals.action.nbytes + signals.seconds.nbytes
    kept = signals if num_bytes <= _LARGEST_KEPT_BYTES else None
    return replace(
        result, summary=summarise_signals(signals), evidence=collect_contract_evidence(signals), signals=kept
    )


def _add_signal_check(
    task: SignalTask, result: SignalCheckResult, signals: EpisodeSignals
) -> SignalCheckResult:
    typical = task.typical.get(result.layout) if task.typical is not None else None
    check = check_signals(signals, typical)
    can_correct = task.repairs and any(finding.code in CORRECTED for finding in check.findings)
    corrections = repair_signals(signals, typical) if can_correct else ()
    check = replace(check, findings=(*check.findings, *result.metadata))
    return replace(result, summary=None, evidence=None, signals=None, check=check, corrections=corrections)
