"""Failed work on the pages: what failed, and the button that fills in the job that tries it again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import streamlit as st

from ares.curation import Failure, FailureSelection, episodes_of_failures, failures_of, list_failures
from ares.registry import annotators
from ares.store import Stores
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.column_words import time_words
from ares_app.dashboard.components import draw_table
from ares_app.dashboard.markdown_text import escape_markdown

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
    for work in dict.fromkeys(failure.work for failure in failures):
        _draw_retry(work, episode_id)


def _draw_retry(work: str, failed: str) -> None:
    """Draw the button that opens the form of the job: for one episode, or for "all"."""
    if work in annotators.names():
        st.button(
            f"Try {work} again", key=f"retry.{work}", icon=":material/replay:", on_click=navigation.open_page,
            args=("jobs", {"job": ["annotate"], "names": [work], "failed": [failed]}),
        )  # fmt: skip


def draw_failed_work(work: str, reason: str) -> None:
    """Draw the failures of one job with one reason: a click on a row opens its episode, a button leads to the job."""
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
    _draw_retry(work, "all")


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
