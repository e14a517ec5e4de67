"""What a reader process does for a check: it reads a record, and summarises or checks its signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ares.clock import settle_clock
from ares.episode import Episode, Record
from ares.errors import AresError, SourceError
from ares.io import describe_os_error
from ares.quality import (
    EpisodeCheck,
    EpisodeSignals,
    EpisodeSummary,
    QualityFinding,
    TypicalEpisode,
    check_metadata,
    check_signals,
    episode_signals,
    summarise_signals,
)
from ares.quality.contract import EpisodeEvidence, episode_evidence
from ares.quality.repair import CORRECTED, Correction, repair_signals
from ares.registry import plugin_fault

# Names of the dimensions of state and action: episodes are compared with those that have the same.
Layout = tuple[tuple[str, ...], tuple[str, ...]]
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
    earlier: SignalResult | None = None
    repairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalResult:
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
    """

    episode_id: str
    location: str
    key: str
    source: str
    layout: Layout
    rate_hz: float
    metadata: tuple[QualityFinding, ...] = ()
    summary: EpisodeSummary | None = None
    evidence: EpisodeEvidence | None = None
    check: EpisodeCheck | None = None
    signals: EpisodeSignals | None = None
    corrections: tuple[Correction, ...] = ()


def run_signal_tasks(tasks: Sequence[SignalTask]) -> list[SignalResult | AresError]:
    """Read records, and summarise or check each; one that fails gives its error."""
    return [_run(task) for task in tasks]


def _run(task: SignalTask) -> SignalResult | AresError:
    try:
        if task.earlier is not None and task.earlier.signals is not None:
            return _checked(task, task.earlier, task.earlier.signals)
        record = settle_clock(task.load())
        return _result(task, record.episode, episode_signals(record.episode, record.trajectory))
    except AresError as error:
        return error
    except OSError as error:  # a disk or a server that fails costs only the records that were read from it
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault("the check of a record", error)


def _result(task: SignalTask, episode: Episode, signals: EpisodeSignals) -> SignalResult:
    result = SignalResult(
        episode_id=signals.episode_id,
        location=task.location,
        key="/".join(filter(None, (episode.split, episode.key))),
        source=episode.source,
        layout=(signals.state_names, signals.action_names),
        rate_hz=signals.rate_hz,
        metadata=tuple(check_metadata(episode)),
    )
    return _summarised(result, signals) if task.typical is None else _checked(task, result, signals)


def _summarised(result: SignalResult, signals: EpisodeSignals) -> SignalResult:
    num_bytes = signals.state.nbytes + signals.action.nbytes + signals.seconds.nbytes
    kept = signals if num_bytes <= _LARGEST_KEPT_BYTES else None
    return replace(
        result, summary=summarise_signals(signals), evidence=episode_evidence(signals), signals=kept
    )


def _checked(task: SignalTask, result: SignalResult, signals: EpisodeSignals) -> SignalResult:
    typical = task.typical.get(result.layout) if task.typical is not None else None
    check = check_signals(signals, typical)
    can_correct = task.repairs and any(finding.code in CORRECTED for finding in check.findings)
    corrections = repair_signals(signals, typical) if can_correct else ()
    check = replace(check, findings=(*check.findings, *result.metadata))
    return replace(result, summary=None, evidence=None, signals=None, check=check, corrections=corrections)
