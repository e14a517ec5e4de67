"""The verbs of other packages that a workspace offers: their types, and how they are loaded by their plug-in doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, cast

from ares.registry import operations

if TYPE_CHECKING:
    from ares.jobs import (
        AnnotateEstimate,
        AnnotateReport,
        AnnotateRequest,
        CheckRequest,
        FixRequest,
        IngestPlan,
        IngestReport,
        IngestRequest,
    )
    from ares.reports import CheckReport, FixReport
    from ares.store import Stores


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
