"""The fields of a page: what they hold and show, and the errors of what was refused in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from ares.errors import AresError
from ares_app.dashboard.address import settle_address
from ares_app.dashboard.error_boxes import show_error

# Session key of the errors of what was refused, by key of the field.
_REFUSED = "fields.refused"


def guard_field(key: str, react: Callable[..., object], *, clears: bool = False) -> Callable[..., None]:
    """Return a reaction to what was typed into a field: an error is kept for `draw_refusal`, and the page is drawn.

    Args:
        key: Streamlit key of the field, or of what stands for several.
        react: Does what was asked for.
        clears: Whether the field is empty once it is done; what was refused stays in it.
    """

    def run(*arguments: Any) -> None:
        refused: dict[str, AresError] = st.session_state.setdefault(_REFUSED, {})
        refused.pop(key, None)
        settle_address()
        try:
            react(*arguments)
        except AresError as error:
            refused[key] = error
        if clears and key not in refused:
            st.session_state[key] = ""

    return run


def draw_refusal(*keys: str) -> None:
    """Draw why what was typed into these fields was refused, until it is corrected or another page is opened."""
    refused: dict[str, AresError] = st.session_state.get(_REFUSED, {})
    with st.container():  # what stands below keeps its place, and a popover that opens meanwhile stays open
        for key in keys:
            if key in refused:
                show_error(refused[key])


def forget_refusals() -> None:
    """Forget what was refused in the fields of the page that was left."""
    st.session_state.pop(_REFUSED, None)


def show_value(key: str, value: object) -> None:
    """Let a field show a value; one that shows it already is left alone, as it may hold what a user has just done.

    So is one whose text was refused: the user corrects it.

    Args:
        key: Streamlit key of the field, which is drawn behind this.
        value: The value.
    """
    # In a closed popover the browser keeps what was refused, and would send it once more.
    if st.session_state.get(key) != value and key not in st.session_state.get(_REFUSED, {}):
        st.session_state[key] = value


def entered_text(key: str, default: str = "") -> str:
    """Return what a field holds, without spaces around it; the default where another page has taken its place."""
    value = st.session_state.get(key)
    return default if value is None else str(value).strip()
