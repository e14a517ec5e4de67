"""What a workspace holds, counted: the typed document of `ares status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ares.annotation import Cost, MakerKind
from ares.console import count_of
from ares.episode import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationStateCounts:
    """Episodes by what became of one kind of annotation.

    Attributes:
        done: Episodes that have it.
        missing: Episodes that do not.
        failed: Failures in the log.
    """

    done: int
    missing: int
    failed: int

    def to_json(self) -> dict[str, Json]:
        """One value of `annotations`."""
        return {"done": self.done, "missing": self.missing, "failed": self.failed}


@dataclass(frozen=True, slots=True, kw_only=True)
class MakerStatus:
    """A maker, and whether its values fill the columns.

    Attributes:
        maker_id: Its id.
        kind: What it is.
        version: Version of the plug-in's code.
        model: Model name with the fingerprint of its weights, or "".
        prompt_hash: Hash of prompts and rubric, or "".
        settings: Everything else that changes the value.
        annotations: Number of its annotations.
        current: Whether it is the current maker of its annotator.
        pinned: Whether a person has chosen it.
    """

    maker_id: str
    kind: MakerKind
    version: str
    model: str
    prompt_hash: str
    settings: Mapping[str, Json]
    annotations: int
    current: bool
    pinned: bool

    def to_json(self) -> dict[str, Json]:
        """One element of `makers`."""
        return {
            "maker_id": self.maker_id,
            "kind": self.kind,
            "version": self.version,
            "model": self.model,
            "prompt_hash": self.prompt_hash,
            "settings": dict(self.settings),
            "annotations": self.annotations,
            "current": self.current,
            "pinned": self.pinned,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A table of the index.

    Attributes:
        rows: Number of rows.
        indexed: Rows that its index covers, or None without one.
        recall: Share of the nearest vectors that its index returns, or None.
        p50_ms: Median duration of a search in milliseconds, or None when not measured.
        details: Further facts: its indices, the number of spaces, and "tuning", what was built and measured of a
            vector index; nothing has been tuned since 0.2.0, and the word stays for programs that read it.
    """

    rows: int
    indexed: int | None
    recall: float | None
    p50_ms: float | None
    details: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """One value of `tables`."""
        return {
            "rows": self.rows,
            "indexed": self.indexed,
            "recall": self.recall,
            "p50_ms": self.p50_ms,
            **self.details,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failures in the log, by job and reason.

    Attributes:
        work: The job, such as "ingest" or "caption".
        reason: What was wrong.
        count: Number of failures.
        example: The details of one.
    """

    work: str
    reason: str
    count: int
    example: str

    def to_json(self) -> dict[str, Json]:
        """One element of `failures`."""
        return {"work": self.work, "reason": self.reason, "count": self.count, "example": self.example}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStatus:
    """Episodes of a dataset whose stamps have another rate than the source claims.

    Attributes:
        episodes: Number of these episodes.
        claimed_hz: Lowest and highest rate that the source claims.
        measured_hz: Lowest and highest rate of the stamps, which is used.
    """

    episodes: int
    claimed_hz: tuple[float, float]
    measured_hz: tuple[float, float]

    def to_json(self) -> dict[str, Json]:
        """One value of `clocks`."""
        return {
            "episodes": self.episodes,
            "claimed_hz": list(self.claimed_hz),
            "measured_hz": list(self.measured_hz),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStatus:
    """Counts of episodes, annotations, sets, table rows and failures.

    Attributes:
        workspace: Folder or URI.
        episodes: Number of episodes.
        datasets: Episodes by dataset.
        annotations: Counts by name of annotation.
        makers: Makers by annotator.
        ingest_failures: Failures of ingestion in the log.
        sets: Episodes of the newest version of each set.
        tables: The tables of the index.
        failures: Failures by reason, most frequent first.
        removed: Number of episodes that were removed and can be brought back.
        tags: Episodes by tag.
        clocks: Datasets whose stamps have another rate than they claim.
        empty_columns: By annotator, why columns are empty: episodes by reason, most frequent first.
        spent: By model, what its calls have cost so far, failed ones included.
        judge_trust: By dataset, what the controls of the current judge say, see `ares.rubric.JudgeTrust.to_json`.
        uncounted_answers: By person, how many answers of files do not count.
        mixed_makers: By annotator, the episodes that show an older maker: the newest has not annotated them.
    """

    workspace: str
    episodes: int
    datasets: Mapping[str, int]
    annotations: Mapping[str, AnnotationStateCounts]
    makers: Mapping[str, tuple[MakerStatus, ...]]
    ingest_failures: int
    sets: Mapping[str, int]
    tables: Mapping[str, TableStatus]
    failures: tuple[FailureCount, ...]
    removed: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    clocks: Mapping[str, ClockStatus] = field(default_factory=dict)
    empty_columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    spent: Mapping[str, Cost] = field(default_factory=dict)
    judge_trust: Mapping[str, Json] = field(default_factory=dict)
    uncounted_answers: Mapping[str, int] = field(default_factory=dict)
    mixed_makers: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        done = ", ".join(f"{name} {counts.done}" for name, counts in self.annotations.items())
        failed = sum(failure.count for failure in self.failures)
        return (
            f"WorkspaceStatus({self.workspace!r}: {count_of(self.episodes, 'episode')}; "
            f"done: {done or 'nothing'}; "
            f"failed: {failed}; more in .datasets, .annotations, .failures, .sets, .tags)"
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `ares status --json`."""
        return {
            "workspace": self.workspace,
            "episodes": self.episodes,
            "removed": self.removed,
            "tags": dict(self.tags),
            "datasets": dict(self.datasets),
            "clocks": {name: clock.to_json() for name, clock in self.clocks.items()},
            "annotations": {name: counts.to_json() for name, counts in self.annotations.items()},
            "makers": makers_to_json(self.makers),
            "mixed_makers": dict(self.mixed_makers),
            "empty_columns": {name: dict(reasons) for name, reasons in self.empty_columns.items()},
            "ingest_failures": self.ingest_failures,
            "sets": dict(self.sets),
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "failures": [failure.to_json() for failure in self.failures],
            "spent": {model: asdict(cost) for model, cost in self.spent.items()},
            "judge_trust": dict(self.judge_trust),
            "uncounted_answers": dict(self.uncounted_answers),
        }


def makers_to_json(makers: Mapping[str, tuple[MakerStatus, ...]]) -> dict[str, Json]:
    """Makers by annotator, as `ares status` and `ares use` print them with --json."""
    return {name: [maker.to_json() for maker in members] for name, members in makers.items()}
