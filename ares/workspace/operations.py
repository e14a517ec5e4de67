"""The verbs of other packages that a workspace offers, loaded by their plug-in doors; and functions as annotators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

from ares.annotation import ColumnType, short_hash
from ares.errors import RequestError
from ares.registry import annotators, operations

if TYPE_CHECKING:
    from ares.jobs import (
        AnnotateEstimate,
        AnnotateReport,
        AnnotateRequest,
        CheckRequest,
        FixRequest,
        FunctionAnnotator,
        IngestPlan,
        IngestReport,
        IngestRequest,
    )
    from ares.reports import CheckReport, FixReport
    from ares.store import Stores
    from ares.workspace.episodes import Episodes


class IngestOperation(Protocol):
    """The entry point `ingest` of the group "ares.operations"; see `Workspace.ingest`."""

    def __call__(
        self,
        open_stores: Callable[[], Stores],
        existing_stores: Callable[[], Stores | None],
        request: IngestRequest,
        *,
        quiet: bool,
    ) -> IngestReport:
        """Ingest what is requested; missing stores are created when the datasets were found."""


class PlanIngestOperation(Protocol):
    """The entry point `plan_ingest` of the group "ares.operations"; see `Workspace.plan_ingest`."""

    def __call__(self, existing_stores: Callable[[], Stores | None], request: IngestRequest) -> IngestPlan:
        """Say what an ingestion would read."""


class CheckOperation(Protocol):
    """The entry point `check` of the group "ares.operations"; see `ares.check`."""

    def __call__(self, request: CheckRequest) -> CheckReport:
        """Check the signals of datasets where they lie."""


class FixOperation(Protocol):
    """The entry point `fix` of the group "ares.operations"; see `ares.fix`."""

    def __call__(self, request: FixRequest, *, quiet: bool) -> FixReport:
        """Correct a dataset in a copy."""


class AnnotateOperation(Protocol):
    """The entry point `annotate` of the group "ares.operations"; see `Workspace.annotate`."""

    def __call__(
        self, stores: Stores, request: AnnotateRequest, *, quiet: bool = False
    ) -> tuple[AnnotateReport, ...]:
        """Run annotators over the episodes that lack their annotation."""


class EstimateOperation(Protocol):
    """The entry point `estimate` of the group "ares.operations"; see `Workspace.estimate`."""

    def __call__(self, stores: Stores, request: AnnotateRequest) -> list[AnnotateEstimate]:
        """Say what an annotation run would do and cost."""


def ingest_operation() -> IngestOperation:
    """The ingestion, `ingest.operation.ingest`. Raises RequestError where it is missing."""
    return cast("IngestOperation", operations.get("ingest"))


def plan_ingest_operation() -> PlanIngestOperation:
    """The plan of an ingestion, `ingest.operation.plan_ingest`. Raises RequestError where it is missing."""
    return cast("PlanIngestOperation", operations.get("plan_ingest"))


def check_operation() -> CheckOperation:
    """The check of datasets, `ingest.check.run.check`. Raises RequestError where it is missing."""
    return cast("CheckOperation", operations.get("check"))


def fix_operation() -> FixOperation:
    """The correction of a dataset, `ingest.check.corrected_copy.fix`. Raises RequestError where it is missing."""
    return cast("FixOperation", operations.get("fix"))


def annotate_operation() -> AnnotateOperation:
    """The annotation run, `annotators.runner.annotate`. Raises RequestError where it is missing."""
    return cast("AnnotateOperation", operations.get("annotate"))


def estimate_operation() -> EstimateOperation:
    """The estimate of a run, `annotators.runner.estimate`. Raises RequestError where it is missing."""
    return cast("EstimateOperation", operations.get("estimate"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard that is being served in the background, by a process of its own.

        >>> dashboard = ares.app(ws)
        >>> dashboard.url
        'http://127.0.0.1:8501'
        >>> dashboard.close()

    Attributes:
        url: Its address.
        close: Ends it.
    """

    url: str
    close: Callable[[], None]

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r}; close() ends it)"

    def _repr_html_(self) -> str:
        """A link, for notebooks."""
        return f'<a href="{escape(self.url)}" target="_blank">ARES dashboard: {escape(self.url)}</a>'


class AppOperation(Protocol):
    """The entry point `app` of the group "ares.operations"; see `ares.app`."""

    def __call__(
        self,
        workspace: Any,
        *,
        host: str,
        port: int,
        open_browser: bool,
        export_dirs: Sequence[str],
        query_seconds: float | None,
        trusted_proxies: Sequence[str],
    ) -> Dashboard:
        """Serve the dashboard in the background."""


def app_operation() -> AppOperation:
    """The server of the dashboard, `app.dashboard.page_script.start`. Raises RequestError where it is missing."""
    return cast("AppOperation", operations.get("app"))


_TYPES: Mapping[object, ColumnType] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "list<string>",
}
# Episodes on which a function is tried, to learn what it returns.
_TRIED_EPISODES = 10


def read_annotators(
    stores: Stores,
    episodes: Episodes,
    names: Sequence[Any],
    where: str,
    columns: Mapping[str, object] | None,
    batch_size: int,
) -> tuple[tuple[str, ...], str, dict[str, FunctionAnnotator]]:
    """Names of annotators, the filter of the episodes, and those of them that are functions.

    Args:
        stores: Stores of the workspace.
        episodes: All episodes.
        names: Names and functions; a view or a set in the last place is the episodes.
        where: Further filter.
        columns: Type of every column of the functions: bool, int, float, str, list or a name of
            `ares.annotation.ColumnType`; None to take them from what they return of the first episodes.
        batch_size: Episodes that a function gets as a list, or 0 for one.

    Raises:
        RequestError: A function has no name, a type cannot be that of a column, or nothing was returned to learn from.
    """
    last = getattr(names[-1], "members", names[-1]) if names else None
    if isinstance(last, type(episodes)):
        names, where = names[:-1], (last.where(where) if where else last).condition()
    functions: dict[str, FunctionAnnotator] = {}
    for function in filter(callable, names):
        view = episodes.where(where) if where else episodes
        functions[function.__name__] = _read_function(stores, function, columns, batch_size, view)
    return tuple(name.__name__ if callable(name) else name for name in names), where, functions


def _read_function(
    stores: Stores,
    function: Callable[[Any], Any],
    columns: Mapping[str, object] | None,
    batch_size: int,
    episodes: Episodes,
) -> FunctionAnnotator:
    """A function as an annotator of some episodes."""
    from ares.jobs import FunctionAnnotator
    from ares.store import is_column_name

    name = function.__name__
    if not is_column_name(name) or name in annotators.names():
        raise RequestError(
            "a function that annotates has a name of its own", f"got {name!r}; write def my_score(episode)"
        )
    source = short_hash(_source_text(function))
    if columns is None:
        # A run that goes on has learnt them before.
        earlier = [
            maker.columns
            for maker in stores.annotations.makers().values()
            if maker.annotator == name and maker.settings.get("source") == source
        ]
        columns = (
            {column.name: column.type for column in earlier[-1]}
            if earlier
            else _learn_columns(function, name, batch_size, episodes)
        )
    types = {key: _TYPES.get(kind, kind) for key, kind in columns.items()}
    for key, kind in types.items():
        if not is_column_name(key) or kind not in (known := get_args(ColumnType)):
            raise RequestError(
                "that cannot be a column of a function",
                f"{key!r}: {kind!r}; the types are {', '.join(known)}",
            )
    return FunctionAnnotator(
        function=function,
        columns=cast("Mapping[str, ColumnType]", types),
        batch_size=operator.index(batch_size),
        source=source,
    )


def _learn_columns(
    function: Callable[[Any], Any], name: str, batch_size: int, episodes: Episodes
) -> dict[str, object]:
    """The type by column of what a function returns of the first episodes."""
    from ares.jobs import read_function_value

    types, faults = dict[str, object](), list[str]()
    for episode in episodes.take(_TRIED_EPISODES):
        try:
            value = function([episode])[0] if batch_size else function(episode)
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")
            continue
        for key, item in read_function_value(value, name).items():
            if item is not None and types.get(key) is not float:
                types[key] = type(item)
    if not types:
        detail = f"{faults[0][:200]}; " if faults else ""
        raise RequestError(
            f"{name} returned nothing of the first episodes", f"{detail}give columns={{{name!r}: float}}"
        )
    return types


def _source_text(function: Callable[[Any], Any]) -> str:
    """The source of a function; where there is none, its code."""
    import inspect
    import textwrap

    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr((code.co_code, code.co_names)) if code else repr(type(function))
