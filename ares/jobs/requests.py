"""What a user asks for: datasets to be read or checked, episodes, annotators to be run, and on which machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from ares.errors import RequestError
from ares.store import conjunction, quote_literal, type_mismatch

if TYPE_CHECKING:
    from ares.annotation import ColumnType
    from ares.episode import Json
    from ares.jobs.engine import WorkerNeeds


MediaMode = Literal["reference", "copy", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePlan:
    """Where a job runs, and what a person wants of its workers; None where each plug-in states it itself.

    Attributes:
        engine: "local", or "ray" for a cluster.
        workers: Most workers of one plug-in.
        cpus: Cores of one worker.
        memory_gb: Memory of one worker, in 10**9 bytes.
        gpus: GPUs of one worker, or the share of one; may be 0.

    Raises:
        RequestError: A number cannot be right.
    """

    engine: str = "local"
    workers: int | None = None
    cpus: float | None = None
    memory_gb: float | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "cpus", "memory_gb", "gpus"):
            number = getattr(self, name)
            if number is None or (name == "gpus" and number == 0):
                continue
            if not 0 < number < math.inf:
                raise RequestError(f"wrong number of {name}", f"{number!r}; give a number above 0")

    def overrule(self, stated: WorkerNeeds) -> WorkerNeeds:
        """What a worker takes that states its needs."""
        memory = None if self.memory_gb is None else round(self.memory_gb * 1e9)
        return replace(
            stated,
            cpus=stated.cpus if self.cpus is None else self.cpus,
            memory_bytes=stated.memory_bytes if memory is None else memory,
            gpus=stated.gpus if self.gpus is None else self.gpus,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """The datasets that an ingestion, its plan or a check reads, and how.

    Attributes:
        sources: Folders, files or URLs.
        format: Name of a format, or "auto".
        dataset: Name to store instead of the source's, or "".
        rate_hz: Recording rate, or None where the source stores it.
        cameras: How names of video files tell episode and camera, or "".
        spec: YAML file with what the dataset does not say of itself, or "".
        options: YAML file with such options by the path of each dataset, or "".
        media: "reference" leaves pixels where they are; "copy" writes videos of them into the workspace.
        limit: Most episodes to read, over all datasets; None for all.
        settle_seconds: A record of which a file was written within so many seconds is left for the next run.
        verify: Whether files of stored episodes are compared by content, and not by size and time alone.
        compute: Where records are read.
    """

    sources: tuple[str, ...]
    format: str = "auto"
    dataset: str = ""
    rate_hz: float | None = None
    cameras: str = ""
    spec: str = ""
    options: str = ""
    media: MediaMode = "reference"
    limit: int | None = None
    settle_seconds: float = 0.0
    verify: bool = False
    compute: ComputePlan = field(default_factory=ComputePlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """A check of datasets where they lie.

    Attributes:
        datasets: What is read; its `limit` is the number of episodes to check at most.
        num_listed: Findings of each code that are listed with their episode.
        video: Whether the videos are decoded and checked too.
    """

    datasets: IngestRequest
    num_listed: int = 20
    video: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """A copy of one dataset in which is corrected what the data alone decide.

    Attributes:
        datasets: What is read; it must be one dataset.
        destination: Folder to write; must not be there yet.
        export_format: Name of the format to write.
        dry_run: Whether the changes are listed without writing.
        num_listed: Findings of each code that are listed with their episode.
    """

    datasets: IngestRequest
    destination: str
    export_format: str = "lerobot"
    dry_run: bool = False
    num_listed: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSelection:
    """Which episodes: those that fulfil every condition that is set.

    Attributes:
        where: SQL filter; also applies to a list, a set and a search.
        ids: Episode ids.
        set: A set, as `Sets[...]` takes it.
        dataset: Name of a dataset.
        search: Text to search for; a search selects the best `limit` episodes, 100 without a limit.
        like: Id of a similar episode; `like`, `image` and `by` are those of `ares.search.Query`.
        image: Image to search by.
        by: Rankers with weights.
        limit: Maximum number of episodes, or None. A filter selects the first in source order.
        min_score: Selects all episodes that a search scores so high, not the best 100.

    Raises:
        RequestError: There is a least score without a search, or a set is combined with a list or a search.
    """

    where: str = ""
    ids: Collection[str] = ()
    set: str = ""
    dataset: str = ""
    search: str = ""
    like: str = ""
    image: str = ""
    by: str = ""
    limit: int | None = None
    min_score: float | Literal["auto"] | None = None

    def __post_init__(self) -> None:
        if self.min_score is not None and not self.is_search:
            raise RequestError(
                "a least score belongs to a search", f"got {self.min_score}; give search, like or image"
            )
        if self.set and (len(self.ids) or self.is_search or self.limit is not None):
            raise RequestError("a set is selected as a whole", "give a set, or ids, or a search with a limit")

    @property
    def is_search(self) -> bool:
        """Whether a search selects the episodes."""
        return bool(self.search or self.like or self.image)

    @property
    def is_empty(self) -> bool:
        """Whether no condition is set, so that every episode would be selected."""
        return not (self.where.strip() or len(self.ids) or self.set or self.dataset or self.is_search)

    @property
    def condition(self) -> str:
        """The filter, with the dataset in it. Raises FilterError for a filter that cannot be parsed."""
        dataset = f"dataset = {quote_literal(self.dataset)}" if self.dataset else ""
        return conjunction([self.where, dataset]) if dataset else self.where

    def describe(self) -> dict[str, Json]:
        """The recipe for log and sets: the conditions that are set; ids as their number."""
        stated = {part.name: getattr(self, part.name) for part in fields(self)} | {"ids": len(self.ids)}
        return {
            name: value for name, value in stated.items() if value or (name == "min_score" and value == 0)
        }


class RunKeywords(TypedDict, total=False):
    """The fields of an `AnnotateRequest` but the names and the episodes."""

    model: str
    device: str
    options: Mapping[str, Json] | None
    budget_usd: float | None
    retry_failed: bool
    reason: str
    engine: str
    workers: int | None
    per_worker: Mapping[str, float] | None


class AnnotateKeywords(RunKeywords, total=False):
    """Keywords of `Workspace.annotate` and `Workspace.estimate`."""

    where: str
    limit: int | None


_PER_WORKER = ("cpus", "memory_gb", "gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAnnotator:
    """A plain function that annotates episodes: that of a cell of a notebook.

    Attributes:
        function: Gets a `StoredEpisode`, or a list of them, and returns a value, a dict of values by column, or None;
            of a list as many.
        columns: Type of every column that it fills.
        batch_size: Episodes in a list, or 0 for one episode by itself.
        source: Hash of its source text: another text is another producer.
    """

    function: Callable[[Any], Any]
    columns: Mapping[str, ColumnType]
    batch_size: int
    source: str


def read_function_value(
    value: Any, name: str, columns: Mapping[str, ColumnType] | None = None
) -> dict[str, Json]:
    """What a function returned, by column: a dict as it is, one value under the name of the function, None as nothing.

    Args:
        value: What it returned.
        name: Name of the function.
        columns: The columns that it fills, which the values are checked against; None before they are known.

    Raises:
        RequestError: A value is none of a column, or of another type than its column.
    """
    named = value if isinstance(value, Mapping) else {} if value is None else {name: value}
    # Numbers of NumPy are those of Python.
    plain = {str(key): item.item() if hasattr(item, "item") else item for key, item in named.items()}
    for key, item in plain.items():
        if columns is None:
            break
        if key not in columns:
            raise RequestError(
                "a function returned what is none of its columns", f"{key!r}; give columns={{...}}"
            )
        if fault := type_mismatch(item, columns[key], key):
            raise RequestError(
                "a function returned a value of another type", f"{fault}; give columns={{...}}"
            )
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotateRequest:
    """A run of annotators over the episodes that lack their annotation; its quote gets the same object.

    Attributes:
        names: Annotators, in order; a later one gets what an earlier one made.
        selection: The episodes, by a filter and a dataset. Its `limit` is the most to work on, of which complete
            episodes do not count.
        model: Model for the annotator, when one is named.
        device: torch device, or "" for a GPU when there is one.
        options: Own options: {"layout": ...} for all that have it, {"caption": {"layout": ...}} for one.
        budget_usd: Hard stop, in US dollars over all annotators.
        retry_failed: Whether only what these annotators have failed before and not done since is worked on.
        reason: With `retry_failed`: text in the reason of these failures, whatever its case.
        engine: "local", or "ray" for a cluster.
        workers: Most workers of an annotator that computes itself, or None for one per GPU.
        per_worker: What one worker takes: "cpus", "memory_gb" and "gpus"; the rest is what its annotator states.
        functions: Those of the names that are functions of the caller.

    Raises:
        RequestError: No annotator is named, a budget or a number of workers cannot be right, fields do not go together,
            or the episodes are those of a list, a set or a search.
    """

    names: tuple[str, ...]
    selection: EpisodeSelection = field(default_factory=EpisodeSelection)
    model: str = ""
    device: str = ""
    options: Mapping[str, Json] | None = None
    budget_usd: float | None = None
    retry_failed: bool = False
    reason: str = ""
    engine: str = "local"
    workers: int | None = None
    per_worker: Mapping[str, float] | None = None
    functions: Mapping[str, FunctionAnnotator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.functions and self.engine != "local":
            raise RequestError(
                "a function works in this process", f"got the engine {self.engine!r}; leave it out"
            )
        _check_names(self.names)
        if len(self.selection.ids) or self.selection.set or self.selection.is_search:
            raise RequestError("annotators run over a filter", f"got {self.selection.describe()}; give where")
        if self.reason and not self.retry_failed:
            raise RequestError(
                "a reason goes with a retry", f"got the reason {self.reason!r}; give --retry-failed too"
            )
        if self.budget_usd is not None and not math.isfinite(self.budget_usd):
            raise RequestError(
                "a budget is not a number", f"{self.budget_usd!r}; give US dollars such as 2.50"
            )
        self.compute  # noqa: B018  a wrong number raises here

    @property
    def compute(self) -> ComputePlan:
        """Where the run works. Raises RequestError where a number cannot be right."""
        needs = self.per_worker or {}
        unknown = sorted(set(needs) - set(_PER_WORKER))
        if unknown:
            raise RequestError(f"no resource {unknown[0]!r}", f"a worker has {', '.join(_PER_WORKER)}")
        return ComputePlan(engine=self.engine, workers=self.workers, **needs)

    def option_values(self) -> Iterator[tuple[str, Json]]:
        """Values by option: those of {"caption": {"layout": "sheets"}} are addressed as "caption.layout"."""
        for name, value in (self.options or {}).items():
            if isinstance(value, Mapping):
                yield from ((f"{name}.{option}", item) for option, item in value.items())
            else:
                yield name, value


def make_annotate_request(
    names: tuple[str, ...],
    *,
    where: str = "",
    limit: int | None = None,
    functions: Mapping[str, FunctionAnnotator] | None = None,
    **fields: Unpack[RunKeywords],
) -> AnnotateRequest:
    """The request of a run over the episodes of a filter. Raises as `AnnotateRequest`."""
    selection = EpisodeSelection(where=where, limit=limit)
    return AnnotateRequest(names=names, selection=selection, functions=functions or {}, **fields)


def _check_names(names: tuple[str, ...]) -> None:
    if not names:
        raise RequestError("no annotator is named", "give for example 'motion', 'embed', 'caption'")
    for name in names:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise RequestError(
                "annotators are named one by one", f"got a {kind}; write annotate('motion', 'embed')"
            )
