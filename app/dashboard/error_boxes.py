"""The box of an error: of what was asked for, or of a bug."""

from __future__ import annotations

import logging

import streamlit as st

from ares.errors import AresError, FilterError
from ares_app.dashboard.markdown_text import escape_markdown


def show_error(error: AresError) -> None:
    """Show an error in one box, with the position in a filter that cannot be parsed."""
    detail = f"\n\n{escape_markdown(error.detail)}" if error.detail else ""
    st.error(f"**{escape_markdown(error.reason)}**{detail}", icon=":material/error:")
    if isinstance(error, FilterError) and error.pointer:
        st.code(error.pointer, language=None)


def show_script_error(error: Exception) -> None:
    """Show what a page or a reaction to a click raised; the traceback of a bug goes to the log of the server only."""
    if isinstance(error, AresError):
        show_error(error)
        return
    logging.getLogger("ares.dashboard").error("a page failed because of a bug", exc_info=error)
    st.error(
        "**This page failed because of a bug.** The log of the server has the details.",
        icon=":material/error:",
    )
