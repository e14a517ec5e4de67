"""Failed work on the pages: what failed, the plan that says what another try costs, and the job that tries again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice

import streamlit as st

from ares.curation import Failure, FailureSelection, episodes_of_failures, failures_of, list_failures
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.io import ServerAddress, read_server_address
from ares.store import Stores
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.column_words import time_words
from ares_app.dashboard.components import draw_table
from ares_app.dashboard.fields import draw_refusal, guard_field
from ares_app.dashboard.job_panels import READ_ONLY, draw_command_line, draw_jobs
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.selection_bar import read_person_name
from ares_app.server import PLAN, Job, list_jobs, make_option, start_command

# What the jobs are shown with that try again more than one episode.
ALL_FAILURES = "failures"
_OTHER_OPTIONS = (
    "the run that failed had another model or other options than the settings of this server; "
    "give them to the command line"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Failed work to try again.

    Attributes:
        work: Name of the annotator.
        maker_id: The producer whose work failed.
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

    def words(self, stores: Stores) -> list[str]:
        """The command that tries it again, with those options of the run that failed that are not the default.

        Raises:
            RequestError: There is no such annotator.
            PluginError: Its module cannot be imported.
        """
        where = f"episode_id = '{self.episode_id}'" if self.episode_id else ""
        values = _options_of_run(stores, self)
        options = {
            **({"reason": self.reason} if self.reason else {}),
            **({"annotators": {self.work: values}} if values else {}),
        }
        in_file = make_option("options", json.dumps(options) if options else "")
        return ["annotate", self.work, "--retry-failed", *make_option("where", where), *in_file]


def plan_retry(stores: Stores, retry: Retry, person: str) -> Job:
    """Start the plan of another try, which says what it costs; the panel of the plan starts the try itself.

    Raises:
        RequestError: The same plan is being made.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_command(stores, [*retry.words(stores), PLAN], person, retry.subject)


def _options_of_run(stores: Stores, retry: Retry) -> Mapping[str, Json]:
    """The options that the producer holds and that are not the default.

    None where the annotator refuses them, as a producer may hold an id or a hash in place of a path, and where
    they name a server that the settings do not.
    """
    from ares.registry import annotators
    from ares_annotators.base import Options
    from ares_annotators.options import options_model

    make_annotator, settings = annotators.get(retry.work), stores.settings
    producer = stores.annotations.producers().get(retry.maker_id)
    kept = producer.settings if producer else {}
    values = {
        name: kept[name]
        for name, field in options_model(make_annotator).model_fields.items()
        if name in kept and kept[name] != field.get_default(call_default_factory=True)
    }
    # Whoever made the workspace must not choose the server that gets the key and the frames.
    if not values or _model_servers(values) - _model_servers([settings.caption_model, settings.judge_model]):
        return {}
    with suppress(Exception):  # a plug-in raises any
        make_annotator(Options(settings=settings, values=values, load_models=False), stores)
        return values
    return {}


def _model_servers(value: Json) -> set[ServerAddress | str]:
    """The servers of all model specs within a value; the spec itself where its address cannot be read."""
    if isinstance(value, str):
        if not value.startswith("openai:"):
            return set()
        try:
            return {read_server_address(value.rpartition("@")[2])}
        except ValueError:
            return {value}
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*map(_model_servers, items))


def draw_retry_button(retry: Retry, label: str) -> None:
    """Draw the button that plans another try of failed work, and the command that it tries.

    Args:
        retry: The failed work.
        label: Text of the button.
    """
    is_writable = cached_reads.workspace().stores.is_writable
    key = f"retry.{'/'.join(asdict(retry).values())}"
    st.button(
        label, key=key, icon=":material/replay:", on_click=guard_field(key, _plan_retry), args=(retry,),
        disabled=not is_writable, help="Says first what it costs" if is_writable else READ_ONLY,
    )  # fmt: skip
    draw_refusal(key)
    with suppress(AresError):  # the button says why
        stores = cached_reads.workspace().stores
        draw_command_line(cached_reads.limited(lambda: retry.words(stores)))


def _plan_retry(retry: Retry) -> None:
    plan_retry(cached_reads.workspace().stores, retry, read_person_name())


def draw_retry_jobs(subject: str = ALL_FAILURES) -> None:
    """Draw the jobs that try again what failed, and their plans: of one episode, or of all."""
    stores = cached_reads.workspace().stores
    draw_jobs(lambda: list_jobs(stores, "annotate", subject), summarise=_summarise_retry, most=3)


def _summarise_retry(job: Job) -> str | AresError:
    """For example "caption again: 2 done, 1 failed: no reply (1)"; an error where no failure was tried."""
    report = job.document
    if PLAN in job.words:
        # Whether a model that was never loaded here is the same is known once it is.
        is_known = report["planned"] or report["already"] is None
        return "" if is_known else RequestError("nothing would be tried", _OTHER_OPTIONS)
    if not (report["kept"] or report["failed"]):
        return RequestError("nothing was tried", _OTHER_OPTIONS)
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
    for work, maker_id in _failed_producers(failures):
        retry = Retry(work=work, maker_id=maker_id, episode_id=episode_id)
        draw_retry_button(retry, f"Try {escape_markdown(work)} again")
    draw_retry_jobs(episode_id)


def _failed_producers(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    """The annotators that failed and their producers, each once."""
    return list(dict.fromkeys((failure.work, failure.maker_id) for failure in failures))


def draw_failed_work(work: str, reason: str) -> None:
    """Draw the failures of one job with one reason: a click on a row opens its episode, a button tries all again."""
    stores = cached_reads.workspace().stores
    failures = cached_reads.limited(
        lambda: list(islice(list_failures(stores, FailureSelection(work=work, texts=[reason])), _MAX_LISTED))
    )
    rows = cached_reads.limited(lambda: make_failure_rows(stores, failures))
    st.caption(f"{escape_markdown(work)}: {escape_markdown(reason)}. A button opens the episode.")
    draw_table(
        rows,
        "quality.failed",
        "Open",
        lambda row: navigation.open_page("episode", {"episode": [rows[row]["episode"]]}),
    )
    for work, maker_id in _failed_producers(failures):
        if maker_id:
            retry = Retry(work=work, maker_id=maker_id, reason=reason)
            draw_retry_button(retry, f"Try all of them again with {escape_markdown(work)}")


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
