"""Failed work on the pages: what failed, what another try costs, and the job that tries again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.column_words import time_words
from app.dashboard.components import draw_table
from app.dashboard.job_panels import draw_jobs
from app.dashboard.navigation import escape_markdown
from app.dashboard.selection_bar import read_person_name
from app.server import Job, list_jobs, make_option, start_command
from ares.console import count_of
from ares.curation import Failure, FailureSelection, episodes_of_failures, failures_of, list_failures
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.jobs import AnnotateRequest, EpisodeSelection
from ares.store import Stores
from ares.workspace import estimate_run

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from ares.jobs import AnnotateEstimate
    from ares.workspace import Workspace


# What the jobs are shown with that try again more than one episode.
ALL_FAILURES = "failures"
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
    def subject(self) -> str:
        """What its jobs are shown with: the episode, or all that has failed."""
        return self.episode_id or ALL_FAILURES

    @property
    def where(self) -> str:
        """SQL filter over the episodes."""
        return f"episode_id = '{self.episode_id}'" if self.episode_id else ""

    def request(self, options: Mapping[str, Json]) -> AnnotateRequest:
        """The run that tries it again, with these options of the annotator."""
        return AnnotateRequest(
            names=(self.work,),
            selection=EpisodeSelection(where=self.where),
            options={self.work: options},
            retry_failed=True,
            reason=self.reason,
        )

    def words(self, options: Mapping[str, Json]) -> list[str]:
        """The command that tries it again, with those of these options of the annotator that are not the default."""
        fields = _option_fields(self.work) if options else {}
        flags = [
            f"--{self.work}.{name.replace('_', '-')}={item}"
            for name, value in options.items()
            if value != fields[name].get_default(call_default_factory=True)
            for item in (value if isinstance(value, list | tuple) else [value])
        ]
        selected = [*make_option("reason", self.reason), *make_option("where", self.where)]
        return ["annotate", self.work, "--retry-failed", *selected, *flags]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryQuote:
    """What another try would do.

    Attributes:
        retry: What is tried again.
        words: The command that tries it, with options that give the same maker.
        estimate: Subjects, calls and money.
    """

    retry: Retry
    words: Sequence[str]
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
            (estimate,) = estimate_run(workspace.stores, retry.request(options))
        except RequestError as error:
            refused = error
            continue
        # Whether a model that was never loaded here is the same is known once it is.
        if estimate.planned or estimate.already is None:
            return RetryQuote(retry=retry, words=retry.words(options), estimate=estimate)
        refused = _OTHER_OPTIONS
    raise refused


def start_retry(stores: Stores, quote: RetryQuote, person: str) -> Job:
    """Start another try.

    Raises:
        RequestError: It runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_command(stores, quote.words, person, quote.retry.subject)


def _possible_options(stores: Stores, retry: Retry) -> Iterator[Mapping[str, Json]]:
    """Those that the maker holds; then the default ones, as a maker may hold a hash in place of a path."""
    maker = stores.annotations.makers().get(retry.maker_id)
    kept = maker.settings if maker else {}
    options = {field: kept[field] for field in _option_fields(retry.work) if field in kept}
    settings = stores.settings
    # Whoever made the workspace must not choose the server that gets the key and the frames.
    if _model_servers(options) <= _model_servers([settings.caption_model, settings.judge_model]):
        yield options
    yield {}


def _option_fields(work: str) -> Mapping[str, FieldInfo]:
    """The options of an annotator."""
    from annotators.options import options_model
    from ares.registry import annotators

    return options_model(annotators.get(work)).model_fields


def _model_servers(value: Json) -> set[str]:
    """The servers, as "SCHEME://HOST:PORT", of all model specs within a value."""
    if isinstance(value, str):
        url = urlsplit(value.rpartition("@")[2]) if value.startswith("openai:") else None
        return {f"{url.scheme}://{url.netloc}"} if url else set()
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*map(_model_servers, items))


_READ_ONLY = "The workspace is read-only for the user of this server."


def draw_retry_button(retry: Retry, label: str) -> None:
    """Draw the button that tries failed work again; where it is paid for, what it costs is said before it starts.

    Args:
        retry: The failed work.
        label: Text of the button.
    """
    key = f"retry.{'/'.join(asdict(retry).values())}"
    is_writable = cached_reads.workspace().stores.is_writable
    answer: RetryQuote | AresError | None = st.session_state.get(key)
    st.button(
        label, key=f"{key}.ask", icon=":material/replay:", on_click=_quote_or_start, args=(key, retry),
        disabled=not is_writable, help=None if is_writable else _READ_ONLY,
    )  # fmt: skip
    if isinstance(answer, AresError):
        navigation.show_error(answer)
    elif answer is not None:
        _draw_quote(key, answer)


def draw_retry_jobs(subject: str = ALL_FAILURES) -> None:
    """Draw the jobs that try again what failed: of one episode, or of all."""
    stores = cached_reads.workspace().stores
    draw_jobs(lambda: list_jobs(stores, "annotate", subject), summarise=_summarise_retry, most=3)


def _quote_or_start(key: str, retry: Retry) -> None:
    """Start what is free; keep the price of the rest for the page."""
    workspace = cached_reads.workspace()
    try:
        quote = cached_reads.limited(lambda: quote_retry(workspace, retry))
        st.session_state[key] = quote
        if quote.is_free:
            _start_quoted_retry(key, quote)
    except AresError as error:
        st.session_state[key] = error


def _start_quoted_retry(key: str, quote: RetryQuote) -> None:
    try:
        start_retry(cached_reads.workspace().stores, quote, read_person_name())
    except AresError as error:
        st.session_state[key] = error
    else:
        st.session_state[key] = None


def _cancel_quote(key: str) -> None:
    st.session_state[key] = None


def _draw_quote(key: str, quote: RetryQuote) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"{_price_text(quote)} {_calls_text(quote)}", width="content")
        st.button(
            "Start", key=f"{key}.start", type="primary", on_click=_start_quoted_retry, args=(key, quote)
        )
        st.button("Cancel", key=f"{key}.cancel", type="tertiary", on_click=_cancel_quote, args=(key,))


def _price_text(quote: RetryQuote) -> str:
    usd = quote.estimate.cost.usd
    if usd is None:
        return "**The price is not known** (`ARES_PRICE` sets it)."
    return f"**About {usd:.2g} US dollars.**" if usd < 0.1 else f"**About {usd:,.2f} US dollars.**"


def _calls_text(quote: RetryQuote) -> str:
    cost = quote.estimate.cost
    tokens_in = count_of(cost.tokens_in, "token", comma=True)
    return f"{count_of(cost.calls, 'call', comma=True)}, {tokens_in} in and {cost.tokens_out:,} out."


def _summarise_retry(job: Job) -> str | AresError:
    """For example "caption again: 2 done, 1 failed: no reply (1)"; an error where no failure was tried."""
    report = job.document
    if not (report["kept"] or report["failed"]):
        return RequestError("nothing was tried", str(_OTHER_OPTIONS))
    reasons = ", ".join(f"{failure['reason']} ({failure['count']:,})" for failure in report["failures"])
    failed = f"{report['failed']:,} failed: {reasons}" if report["failed"] else "none failed"
    return f"{job.words[1]} again: {report['kept']:,} done, {failed}"


_MAX_LISTED = 200


def draw_episode_failures(episode_id: str, subjects: Sequence[str]) -> None:
    """Draw what failed about an episode and was not done since, each with a button that tries it again.

    Args:
        episode_id: The episode.
        subjects: Its id, and those of its segments and annotations.
    """
    stores = cached_reads.workspace().stores
    failures = cached_reads.limited(lambda: failures_of(stores, subjects))
    for failure in failures:
        text = f"**{escape_markdown(failure.work)} failed: {escape_markdown(failure.reason)}**"
        detail = f"\n\n{escape_markdown(failure.detail)}" if failure.detail else ""
        st.warning(f"{text} ({time_words(failure.created)} UTC){detail}", icon=":material/error:")
    for work, maker_id in _failed_makers(failures):
        retry = Retry(work=work, maker_id=maker_id, episode_id=episode_id)
        draw_retry_button(retry, f"Try {escape_markdown(work)} again")
        _draw_command(retry)
    draw_retry_jobs(episode_id)


def _failed_makers(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    """The annotators that failed and their makers, each once."""
    return list(dict.fromkeys((failure.work, failure.maker_id) for failure in failures))


def _draw_command(retry: Retry) -> None:
    with st.expander("The same on the command line, with the options of the run that failed"):
        st.code(make_retry_command(retry), language=None, wrap_lines=True)


def make_retry_command(retry: Retry) -> str:
    """The command line that tries failed work again."""
    return shlex.join(["ares", *retry.words({}), "--workspace", cached_reads.workspace().path])


def draw_failed_work(work: str, reason: str) -> None:
    """Draw the failures of one job with one reason: a click on a row opens its episode, a button tries all again."""
    stores = cached_reads.workspace().stores
    failures = cached_reads.limited(
        lambda: list(islice(list_failures(stores, FailureSelection(work=work, reason=reason)), _MAX_LISTED))
    )
    rows = cached_reads.limited(lambda: make_failure_rows(stores, failures))
    st.caption(f"{escape_markdown(work)}: {escape_markdown(reason)}. A button opens the episode.")
    key = f"status.failed.{work}.{reason}"
    draw_table(
        rows, key, "Open", lambda row: navigation.open_page("episode", {"episode": [rows[row]["episode"]]})
    )
    for work, maker_id in _failed_makers(failures):
        if maker_id:
            retry = Retry(work=work, maker_id=maker_id, reason=reason)
            draw_retry_button(retry, f"Try all of them again with {escape_markdown(work)}")
            _draw_command(retry)


def make_failure_rows(stores: Stores, failures: Sequence[Failure]) -> list[dict[str, str]]:
    """Some failures as rows: episode, detail and time of each."""
    owners = episodes_of_failures(stores, failures)
    return [
        {
            "episode": owners[failure.subject],
            "detail": failure.detail,
            "when (UTC)": time_words(failure.created),
        }
        for failure in failures
    ]
