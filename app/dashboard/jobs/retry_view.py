"""Draws the button that tries failed work again, what that will cost, and the jobs that do so."""

from __future__ import annotations

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.escape import escape_markdown
from app.dashboard.jobs.job import Job
from app.dashboard.jobs.job_view import draw_jobs
from app.dashboard.jobs.retry import Retry, RetryQuote, quote_retry, start_retry
from ares.errors import AresError

_READ_ONLY = "The workspace is read-only for the user of this server."


def draw_retry(retry: Retry, label: str) -> None:
    """Draw the button that tries failed work again; where it is paid for, what it costs is said before it starts.

    Args:
        retry: The failed work.
        label: Text of the button.
    """
    key = f"retry.{retry.name}"
    is_writable = cached_reads.workspace().stores.is_writable
    answer: RetryQuote | AresError | None = st.session_state.get(key)
    st.button(
        label, key=f"{key}.ask", icon=":material/replay:", on_click=_ask, args=(key, retry),
        disabled=not is_writable, help=None if is_writable else _READ_ONLY,
    )  # fmt: skip
    if isinstance(answer, AresError):
        pages.show_error(answer)
    elif answer is not None:
        _draw_quote(key, answer)


def draw_retries(episode_id: str) -> None:
    """Draw the jobs that try again what failed: of one episode, or of all for an empty id."""
    stores = cached_reads.workspace().stores
    draw_jobs(
        stores, "retry", episode_id, _progress_text, _draw_end, on_end=cached_reads.clear_caches, most=3
    )


def _ask(key: str, retry: Retry) -> None:
    """Start what is free; keep the price of the rest for the page."""
    workspace = cached_reads.workspace()
    try:
        quote = cached_reads.limited(lambda: quote_retry(workspace, retry))
        st.session_state[key] = quote
        if quote.is_free:
            _start(key, quote)
    except AresError as error:
        st.session_state[key] = error


def _start(key: str, quote: RetryQuote) -> None:
    try:
        start_retry(cached_reads.workspace().stores, quote)
    except AresError as error:
        st.session_state[key] = error
    else:
        st.session_state[key] = None


def _cancel(key: str) -> None:
    st.session_state[key] = None


def _draw_quote(key: str, quote: RetryQuote) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"{_price(quote)} {_calls(quote)}", width="content")
        st.button("Start", key=f"{key}.start", type="primary", on_click=_start, args=(key, quote))
        st.button("Cancel", key=f"{key}.cancel", type="tertiary", on_click=_cancel, args=(key,))


def _price(quote: RetryQuote) -> str:
    usd = quote.estimate.cost.usd
    if usd is None:
        return "**The price is not known** (`ARES_PRICE` sets it)."
    return f"**About {usd:.2g} US dollars.**" if usd < 0.1 else f"**About {usd:,.2f} US dollars.**"


def _calls(quote: RetryQuote) -> str:
    cost = quote.estimate.cost
    return f"{cost.calls:,} calls, {cost.tokens_in:,} tokens in and {cost.tokens_out:,} out."


def _progress_text(job: Job) -> str:
    return f"{_label(job)}: {job.total:,} to do, since {escape_markdown(job.started)}"


def _label(job: Job) -> str:
    retry = Retry(**job.arguments["retry"])
    reason = f" ({escape_markdown(retry.reason)})" if retry.reason else ""
    return f"{escape_markdown(retry.work)} again{reason}"


def _draw_end(job: Job) -> None:
    label = _label(job)
    if job.report is not None:
        _draw_report(label, job)
    elif job.state == "failed":
        pages.show_error(AresError(job.reason, job.detail))
    elif job.state == "stopped":
        st.info(f"{label}: stopped; what was done stays", icon=":material/stop_circle:")
    else:
        st.warning(f"{label}: its process was killed; try it again", icon=":material/error:")


def _draw_report(label: str, job: Job) -> None:
    report = job.report or {}
    if report["failed"]:
        reasons = ", ".join(f"{failure['reason']} ({failure['count']:,})" for failure in report["failures"])
        text = f"{label}: {report['kept']:,} done, {report['failed']:,} failed: {escape_markdown(reasons)}"
        st.warning(text, icon=":material/error:")
    else:
        st.success(f"{label}: {report['kept']:,} done, none failed", icon=":material/check_circle:")
