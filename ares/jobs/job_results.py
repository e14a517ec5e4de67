"""What jobs return: what an ingestion would read, the counts of a run, and the estimate of its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from ares.annotation import Cost
from ares.console import count_of
from ares.episode import Json, NotRead

# Uses of files that were data, or stand for data, and were not read.
_UNREAD = ("unused", "pointer", "unreadable")
# Rates of one dataset that a plan names.
_SHOWN_RATES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """How often a failure or a warning occurred.

    Attributes:
        reason: What was wrong.
        count: Number of items.
        example: The first item, with the details.
    """

    reason: str
    count: int
    example: str

    def to_json(self) -> dict[str, Json]:
        """One element of `failures` or `warnings`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDataset:
    """A dataset that was found.

    Attributes:
        path: Its folder or file, absolute, or its URL.
        format: Name of the format.
        dataset: Name that its episodes are stored under.
        version: Its version, or "".
        episodes: Episodes that it should have.
        rate_hz: Recording rate, or None where it is not known before reading, or differs.
        rates: Where a dry run tried records of several rates: each rate with its records, the most frequent first.
        cameras: Names of its cameras; () where they are not known before reading.
        files: Number of its files.
        bytes: Their size.
        tables: Of each table that describes its episodes what its rows hold, in a line; of a dry run alone.
        not_understood: What the ingester did not understand, or found strange.
        error: Why it cannot be opened, or "".
        failures: The episodes of which a dry run knows that they will fail, by reason.
        lost: The episodes of which a dry run knows that they lack pictures, by camera.
    """

    path: str
    format: str
    dataset: str
    version: str = ""
    episodes: int = 0
    rate_hz: float | None = None
    rates: tuple[tuple[float, int], ...] = ()
    cameras: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    tables: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    error: str = ""
    failures: tuple[ReasonCount, ...] = ()
    lost: tuple[ReasonCount, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """One element of `datasets`; `rates`, `tables`, `failures` and `lost` only where there are some."""
        document: dict[str, Json] = {
            **asdict(self),
            "rates": {f"{rate:.4g}": count for rate, count in self.rates},
            "not_read": [remark for remark in self.not_understood if isinstance(remark, NotRead)],
        }
        unknown = [name for name in ("rates", "tables", "failures", "lost") if not document[name]]
        return {name: value for name, value in document.items() if name not in unknown}

    @property
    def rate_text(self) -> str:
        """For example "20 Hz", or "20 Hz (12 episodes), 30 Hz (4), of 16 that were tried"; "" where none is known."""
        if not self.rates:
            return "" if self.rate_hz is None else f"{self.rate_hz:g} Hz"
        total = sum(count for _, count in self.rates)
        (rate, count), *others = self.rates
        parts = [
            f"{rate:.4g} Hz ({count_of(count, 'episode')})",
            *(f"{rate:.4g} Hz ({count})" for rate, count in others[: _SHOWN_RATES - 1]),
        ]
        if len(self.rates) > _SHOWN_RATES:
            least, most = min(self.rates)[0], max(self.rates)[0]
            parts.append(f"{len(self.rates) - _SHOWN_RATES} more between {least:g} and {most:g} Hz")
        return ", ".join(parts) + (f", of {total} that were tried" if total < self.episodes else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """A file, or a folder that was not entered, of which no episode was made.

    Attributes:
        path: Absolute path or URL.
        use: "unused", "pointer", "unreadable" or "not_data".
        detail: Why, and what to do.
    """

    path: str
    use: str
    detail: str

    def to_json(self) -> dict[str, Json]:
        """One element of `left_files`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What an ingestion of some paths would read.

    Attributes:
        datasets: Every dataset at or below the paths, by path.
        file_counts: Number of files by use: "data", "metadata", "pointer", "unreadable", "unused", "not_data".
        left_files: Every file that is neither data nor metadata of a dataset.
        limit: Most episodes that are read, or None for all.
        accepted: Paths of datasets of which a person has accepted that they cannot be opened.
    """

    datasets: tuple[PlannedDataset, ...] = ()
    file_counts: Mapping[str, int] = field(default_factory=dict)
    left_files: tuple[UnreadFile, ...] = ()
    limit: int | None = None
    accepted: tuple[str, ...] = ()

    @property
    def num_episodes(self) -> int:
        """Episodes that would be read: those of all datasets, or as many as the limit allows."""
        total = sum(dataset.episodes for dataset in self.datasets)
        return total if self.limit is None else min(total, self.limit)

    @property
    def reads_nothing(self) -> bool:
        """Whether every episode is known to fail."""
        total = sum(dataset.episodes for dataset in self.datasets)
        failing = sum(failure.count for dataset in self.datasets for failure in dataset.failures)
        return bool(total) and failing >= total

    @property
    def is_complete(self) -> bool:
        """Whether datasets open, files are read and no episode is known to fail or to lose pictures.

        What a person has accepted is left aside.
        """
        unread = self.num_unread if not self.accepted else sum(map(self._is_missed, self.left_files))
        return not unread and not any(
            (dataset.error and dataset.path not in self.accepted) or dataset.failures or dataset.lost
            for dataset in self.datasets
        )

    @property
    def unread_files(self) -> tuple[UnreadFile, ...]:
        """Files that hold data, or stand for it, and are not read."""
        return tuple(file for file in self.left_files if file.use in _UNREAD)

    def _is_missed(self, file: UnreadFile) -> bool:
        return file.use in _UNREAD and not any(
            f"{file.path}/".startswith(f"{path}/") for path in self.accepted
        )

    @property
    def num_unread(self) -> int:
        """Files that hold data, or stand for it, and are not read."""
        return sum(self.file_counts.get(use, 0) for use in _UNREAD)

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --dry-run --json`."""
        return {
            "datasets": [dataset.to_json() for dataset in self.datasets],
            "episodes": self.num_episodes,
            "files": dict(self.file_counts),
            "left_files": [file.to_json() for file in self.left_files],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Counts of a job; `kept + already + failed == planned` when it is done.

    Attributes:
        planned: Items that were requested.
        kept: Items that this job stored.
        already: Items that were stored before.
        failed: Items that failed.
        accepted: Those of them whose failure a person has accepted as known.
        failures: The failures by reason, most frequent first.
        warnings: Problems that stopped no item, by reason.
        seconds: Duration.
    """

    planned: int = 0
    kept: int = 0
    already: int = 0
    failed: int = 0
    accepted: int = 0
    failures: tuple[ReasonCount, ...] = ()
    warnings: tuple[ReasonCount, ...] = ()
    seconds: float = 0.0

    @property
    def has_new_failures(self) -> bool:
        """Whether an item failed that is not known to fail."""
        return self.failed > self.accepted

    def to_json(self) -> dict[str, Json]:
        """The counts, as every command prints them."""
        counts: dict[str, Json] = {part.name: getattr(self, part.name) for part in fields(JobCounts)}
        return counts | {
            "failures": [failure.to_json() for failure in self.failures],
            "warnings": [warning.to_json() for warning in self.warnings],
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport(JobCounts):
    """Counts of an ingestion.

    Attributes:
        duplicates: Episodes that have become duplicates by this run: another episode has their content too.
        workspace_duplicates: All such episodes of the workspace, those of earlier runs included.
        copied_bytes: Bytes of the videos that were copied into the workspace.
        incomplete: Episodes of this run that lack something that their source promises, which nobody has accepted.
        gone: Stored episodes of which nothing is any more where they were read from, or no labels where they had some.
        plan: The datasets that were read, and the use of every file at and below the paths.
    """

    duplicates: int = 0
    workspace_duplicates: int = 0
    copied_bytes: int = 0
    incomplete: int = 0
    gone: int = 0
    plan: IngestPlan = field(default_factory=IngestPlan)

    def __repr__(self) -> str:
        counts = f"planned={self.planned}, kept={self.kept}, already={self.already}, failed={self.failed}"
        return f"IngestReport({counts}; {len(self.warnings)} kinds of warnings; more in .failures, .warnings, .plan)"

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --json`."""
        return {
            **JobCounts.to_json(self),
            "duplicates": self.duplicates,
            "workspace_duplicates": self.workspace_duplicates,
            "copied_bytes": self.copied_bytes,
            "incomplete": self.incomplete,
            "gone": self.gone,
            "not_read": [part.to_json() for part in self.warnings if isinstance(part.reason, NotRead)],
            **self.plan.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotateReport(JobCounts):
    """Counts of one annotator in a run; `kept + already + failed + open == planned` when it is done.

    Attributes:
        open: Items that were not tried, as the run came to its end before; they have not failed.
        ended_by: What ended its work before all was done: "budget", "server", "model", "failures", or "" for nothing.
        end_reason: The same in words, with the server and its answer, or "".
        lost: Data that was given, such as rows of a file of spans, and is stored nowhere, by reason.
        annotator: Plug-in name.
        producer: maker_id of its annotations.
        model: Model that it used, or "".
        cost: Calls, tokens and money.
        seconds: Time of its loading and calls.
        judge_tripwire: For a judge what its controls say so far, by dataset, see `ares.rubric.read_tripwires`.
    """

    annotator: str
    producer: str
    model: str
    cost: Cost = field(default_factory=Cost)
    judge_tripwire: Mapping[str, Json] = field(default_factory=dict)
    open: int = 0
    ended_by: str = ""
    end_reason: str = ""
    lost: tuple[ReasonCount, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The document of `ares annotate --json` for this annotator; `lost` only where there is something."""
        return {
            "annotator": self.annotator,
            "maker": self.producer,
            "model": self.model,
            **JobCounts.to_json(self),
            "open": self.open,
            "ended_by": self.ended_by,
            "end_reason": self.end_reason,
            **_cost_json(self.cost),
            "judge_tripwire": dict(self.judge_tripwire),
            **({"lost": [loss.to_json() for loss in self.lost]} if self.lost else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotateEstimate:
    """What a run would do and cost; frames and cost are those of a sample, scaled up.

    Attributes:
        annotator: Plug-in name.
        planned: Subjects in the episodes that match the filter, as they are now.
        already: Those that this producer has done; None where that is unknown until its model is loaded.
        frames: Frames to decode for the rest, or for all where that is unknown.
        cost: Calls, tokens and money for the rest; `usd` is None when the price is not known.
        measured: Subjects whose cost was measured in the workspace and is scaled up; 0 where it is computed.
    """

    annotator: str
    planned: int
    already: int | None
    frames: int
    cost: Cost
    measured: int = 0

    def to_json(self) -> dict[str, Json]:
        """The document of `ares annotate --dry-run --json`."""
        stated = asdict(self)
        del stated["cost"]
        return {**stated, **_cost_json(self.cost)}


def _cost_json(cost: Cost) -> dict[str, Json]:
    return {
        "calls": cost.calls,
        "tokens_in": cost.tokens_in,
        "tokens_out": cost.tokens_out,
        "usd": cost.usd,
    }
