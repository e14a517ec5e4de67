"""The verbs of other packages that a workspace offers, loaded by their plug-in doors; and functions as annotators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, cast, get_args

from ares.annotation import ColumnType, short_hash
from ares.errors import RequestError
from ares.registry import annotators, operations
from ares.workspace.foreign_names import is_function

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


def ingest_datasets(
    open_stores: Callable[[], Stores],
    existing_stores: Callable[[], Stores | None],
    request: IngestRequest,
    *,
    quiet: bool,
) -> IngestReport:
    """Ingest by `ares_ingest.operation.ingest`; missing stores are created when the datasets were found.

    Raises as `Workspace.ingest`.
    """
    report: IngestReport = operations.get("ingest")(open_stores, existing_stores, request, quiet=quiet)
    return report


def plan_ingest(existing_stores: Callable[[], Stores | None], request: IngestRequest) -> IngestPlan:
    """Say by `ares_ingest.operation.plan_ingest` what an ingestion would read. Raises as `Workspace.plan_ingest`."""
    plan: IngestPlan = operations.get("plan_ingest")(existing_stores, request)
    return plan


def check_datasets(request: CheckRequest) -> CheckReport:
    """Check the signals of datasets where they lie, by `ares_ingest.check.run.check`. Raises as `ares.check`."""
    report: CheckReport = operations.get("check")(request)
    return report


def fix_dataset(request: FixRequest, *, quiet: bool) -> FixReport:
    """Correct a dataset in a copy, by `ares_ingest.check.corrected_copy.fix`. Raises as `ares.fix`."""
    report: FixReport = operations.get("fix")(request, quiet=quiet)
    return report


def run_annotators(
    stores: Stores, request: AnnotateRequest, *, quiet: bool = False
) -> tuple[AnnotateReport, ...]:
    """Run annotators by `ares_annotators.runner.annotate`. Raises as `Workspace.annotate`."""
    reports: tuple[AnnotateReport, ...] = operations.get("annotate")(stores, request, quiet=quiet)
    return reports


def estimate_run(stores: Stores, request: AnnotateRequest) -> list[AnnotateEstimate]:
    """Say by `ares_annotators.runner.estimate` what a run would do and cost. Raises as `Workspace.estimate`."""
    estimates: list[AnnotateEstimate] = operations.get("estimate")(stores, request)
    return estimates


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard that is being served in the background, by a separate process.

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


def serve_app(workspace: Any, **options: Any) -> Dashboard:
    """Serve the dashboard by `ares_app.dashboard.page_script.start`; options and errors are those of `ares.app`."""
    dashboard: Dashboard = operations.get("app")(workspace, **options)
    return dashboard


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
    for function in filter(is_function, names):
        view = episodes.where(where) if where else episodes
        functions[function.__name__] = _read_function(stores, function, columns, batch_size, view)
    return tuple(name.__name__ if is_function(name) else name for name in names), where, functions


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
            "a function that annotates needs a plain name that no annotator has",
            f"got {name!r}; write def my_score(episode)",
        )
    source = short_hash(_source_text(function))
    if columns is None:
        # A run that goes on has learnt them before.
        earlier = [
            producer.columns
            for producer in stores.annotations.producers().values()
            if producer.annotator == name and producer.settings.get("source") == source
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
