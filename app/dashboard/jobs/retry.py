"""Failed work of annotators that is tried again as a job, with the options of the run that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from app.dashboard.jobs.job import Job
from app.dashboard.jobs.launch import start_job
from ares.episode import Json
from ares.errors import AresError, RequestError

if TYPE_CHECKING:
    from ares.jobs import AnnotateEstimate
    from ares.store import Stores
    from ares.workspace import Workspace

_OTHER_OPTIONS = RequestError(
    "the run that failed had another model or other options than the settings of this server",
    "give them to the command below",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Failed work to try again.

    Attributes:
        work: Name of the annotator.
        maker_id: The maker whose work failed.
        episode_id: The only episode, or "" for all.
        reason: Text in the reason of the failures; "" for all.
    """

    work: str
    maker_id: str
    episode_id: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """What only one job can do at a time."""
        return "/".join(asdict(self).values())

    @property
    def where(self) -> str:
        """SQL filter over the episodes."""
        return f"episode_id = '{self.episode_id}'" if self.episode_id else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryQuote:
    """What another try would do.

    Attributes:
        retry: What is tried again.
        options: Options of the annotator that give the same maker.
        estimate: Subjects, calls and money.
    """

    retry: Retry
    options: Mapping[str, Json]
    estimate: AnnotateEstimate

    @property
    def is_free(self) -> bool:
        """Whether no call is paid for."""
        return self.estimate.cost.usd == 0.0


def quote_retry(workspace: Workspace, retry: Retry) -> RetryQuote:
    """What another try would do and cost, without a model being loaded.

    Raises:
        RequestError: The settings of this server name another model than the run that failed.
    """
    refused: AresError = _OTHER_OPTIONS
    for options in _possible_options(workspace.stores, retry):
        try:
            (estimate,) = workspace.estimate(
                retry.work, where=retry.where, options=options, retry_failed=True, reason=retry.reason
            )
        except RequestError as error:
            refused = error
            continue
        # Whether a model that was never loaded here is the same is known once it is.
        if estimate.planned or estimate.already is None:
            return RetryQuote(retry=retry, options=options, estimate=estimate)
        refused = _OTHER_OPTIONS
    raise refused


def start_retry(stores: Stores, quote: RetryQuote) -> Job:
    """Start another try.

    Raises:
        RequestError: It runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    retry = quote.retry
    return start_job(
        stores, "retry", subject=retry.episode_id, name=retry.name, total=quote.estimate.planned,
        arguments={"retry": asdict(retry), "options": dict(quote.options)},
    )  # fmt: skip


def retry_work(workspace: Workspace, job: Job) -> dict[str, Any]:
    """Try the work of a job again, in its process; returns the report.

    Raises:
        RequestError: The model that was loaded is another one than that of the run that failed.
    """
    retry = Retry(**job.arguments["retry"])
    (report,) = workspace.annotate(
        retry.work,
        where=retry.where,
        options=job.arguments["options"],
        retry_failed=True,
        reason=retry.reason,
    )
    if report.maker != retry.maker_id:
        raise _OTHER_OPTIONS
    return report.to_json()


def _possible_options(stores: Stores, retry: Retry) -> Iterator[Mapping[str, Json]]:
    """Those that the maker holds; then the default ones, as a maker may hold a hash in place of a path."""
    from annotators.options import options_model
    from ares.registry import annotators

    maker = stores.annotations.makers().get(retry.maker_id)
    fields = options_model(annotators.get(retry.work)).model_fields
    settings = maker.settings if maker else {}
    yield {retry.work: {field: settings[field] for field in fields if field in settings}}
    yield {}
