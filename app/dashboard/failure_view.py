"""Failures of annotators: those of one episode, and the work behind a reason on the page "Status"."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.escape import escape_markdown
from ares.curation import episodes_of_failures, failures_of, list_failures
from ares.store import Stores

_MAX_LISTED = 200


def draw_episode_failures(episode_id: str, subjects: Sequence[str]) -> None:
    """Draw what failed about an episode and was not done since, each with the command that tries it again.

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
    for work in dict.fromkeys(failure.work for failure in failures):
        st.caption(f"Try {escape_markdown(work)} again, with the options of the run that failed:")
        st.code(retry_command(work, episode_id), language=None, wrap_lines=True)


def retry_command(work: str, episode_id: str) -> str:
    """The command line that tries the work of an annotator on one episode again."""
    where = f"episode_id = '{episode_id}'"
    path = cached_reads.workspace().path
    return shlex.join(["ares", "annotate", work, "--retry-failed", "--where", where, "--workspace", path])


def draw_failed_work(work: str, reason: str) -> None:
    """Draw the failures of one job with one reason; a click on a row opens its episode."""
    stores = cached_reads.workspace().stores
    rows = cached_reads.limited(lambda: failure_rows(stores, work, reason))
    st.caption(f"{escape_markdown(work)}: {escape_markdown(reason)}. Select a row to open its episode.")
    key = f"status.failed.{work}.{reason}"
    st.dataframe(
        rows,
        hide_index=True,
        key=key,
        selection_mode="single-row",
        on_select=lambda: _open_selected(key, rows),
    )


def failure_rows(stores: Stores, work: str, reason: str) -> list[dict[str, str]]:
    """The first failures of one job with one reason: episode, detail and time of each."""
    failures = list(islice(list_failures(stores, work=work, reason=reason), _MAX_LISTED))
    owners = episodes_of_failures(stores, failures)
    return [
        {"episode": owners[failure.subject], "detail": failure.detail, "when": failure.created}
        for failure in failures
    ]


def _open_selected(key: str, rows: Sequence[Mapping[str, str]]) -> None:
    selected = st.session_state[key]["selection"]["rows"]
    if selected:
        pages.open_page("episode", {"episode": [rows[selected[0]]["episode"]]})
