"""Failures of annotators: those of one episode, and the work behind a reason on the page "Status"."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.escape import escape_markdown
from app.dashboard.jobs import Retry, draw_retries, draw_retry
from ares.curation import Failure, episodes_of_failures, failures_of, list_failures
from ares.store import Stores

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
        st.warning(f"{text} ({escape_markdown(failure.created)}){detail}", icon=":material/error:")
    for work, maker_id in _makers(failures):
        retry = Retry(work=work, maker_id=maker_id, episode_id=episode_id)
        draw_retry(retry, f"Try {escape_markdown(work)} again")
        _draw_command(retry)
    draw_retries(episode_id)


def _makers(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    """The annotators that failed and their makers, each once."""
    return list(dict.fromkeys((failure.work, failure.maker_id) for failure in failures))


def _draw_command(retry: Retry) -> None:
    with st.expander("The same on the command line, with the options of the run that failed"):
        st.code(retry_command(retry), language=None, wrap_lines=True)


def retry_command(retry: Retry) -> str:
    """The command line that tries failed work again."""
    selection = ["--reason", retry.reason] if retry.reason else []
    selection += ["--where", retry.where] if retry.where else []
    path = cached_reads.workspace().path
    return shlex.join(["ares", "annotate", retry.work, "--retry-failed", *selection, "--workspace", path])


def draw_failed_work(work: str, reason: str) -> None:
    """Draw the failures of one job with one reason: a click on a row opens its episode, a button tries all again."""
    stores = cached_reads.workspace().stores
    failures = cached_reads.limited(
        lambda: list(islice(list_failures(stores, work=work, reason=reason), _MAX_LISTED))
    )
    rows = cached_reads.limited(lambda: failure_rows(stores, failures))
    st.caption(f"{escape_markdown(work)}: {escape_markdown(reason)}. Select a row to open its episode.")
    key = f"status.failed.{work}.{reason}"
    st.dataframe(
        rows,
        hide_index=True,
        key=key,
        selection_mode="single-row",
        on_select=lambda: _open_selected(key, rows),
    )
    for work, maker_id in _makers(failures):
        if maker_id:
            retry = Retry(work=work, maker_id=maker_id, reason=reason)
            draw_retry(retry, f"Try all of them again with {escape_markdown(work)}")
            _draw_command(retry)


def failure_rows(stores: Stores, failures: Sequence[Failure]) -> list[dict[str, str]]:
    """Some failures as rows: episode, detail and time of each."""
    owners = episodes_of_failures(stores, failures)
    return [
        {"episode": owners[failure.subject], "detail": failure.detail, "when": failure.created}
        for failure in failures
    ]


def _open_selected(key: str, rows: Sequence[Mapping[str, str]]) -> None:
    selected = st.session_state[key]["selection"]["rows"]
    if selected:
        pages.open_page("episode", {"episode": [rows[selected[0]]["episode"]]})
