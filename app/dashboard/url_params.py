"""Query parameters of the pages: the only module that reads and writes the URL; unknown ones are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from app.dashboard.view_state import FILTER_PREFIX, ViewState, view_from_params, view_to_params
from ares.errors import RequestError

# Parameters by page, beside those of the filters of columns ("f.COLUMN"): the page reads no others.
_VIEW_PARAMETERS = ("q", "like", "image", "by", "words", "where", "sort", "page", "cut")
PAGE_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "browse": _VIEW_PARAMETERS,
    "map": _VIEW_PARAMETERS,
    "episode": (*_VIEW_PARAMETERS, "episode", "at", "t"),
    "sets": ("set",),
    "health": ("dataset",),
    "status": (),
}
_ALL_PARAMETERS = frozenset(name for names in PAGE_PARAMETERS.values() for name in names)
# Session keys: the page that was drawn last, and the parameters of each page.
_PAGE, _SAVED = "url.page", "url.saved"
# Pages that show the same episodes.
_SHARED_PARAMETERS = {"map": "browse"}
# A longer URL is no link that a page made.
_MAX_CHARACTERS, _MAX_VALUES = 20_000, 2_000


def read_view() -> ViewState:
    """Return the view that the URL describes. Raises RequestError for a URL beyond the limits."""
    params = {name: st.query_params.get_all(name) for name in st.query_params if _is_read(name)}
    texts = [text for values in params.values() for text in values]
    size = sum(map(len, texts)) + sum(map(len, params))
    if size > _MAX_CHARACTERS or len(texts) > _MAX_VALUES:
        limit = f"at most {_MAX_CHARACTERS:,} characters and {_MAX_VALUES:,} values"
        raise RequestError("the address is too long", f"{size:,} characters, {len(texts):,} values; {limit}")
    return view_from_params(params)


def read_parameter(name: str, default: str = "") -> str:
    """Return the value of one parameter, at most 200 characters of it.

    Args:
        name: One of `PAGE_PARAMETERS`.
        default: Value when it is not given.
    """
    if name not in _ALL_PARAMETERS:
        raise KeyError(name)
    return str(st.query_params.get(name, default))[:200]


def restore_parameters(page: str) -> None:
    """Give a page that a tab has opened without parameters those that it had before; Browse and Map share theirs.

    A page that is drawn again keeps the URL as it is, so that "Clear all" and the button "back" of the browser hold.
    """
    name = _SHARED_PARAMETERS.get(page, page)
    saved: dict[str, dict[str, list[str]]] = st.session_state.setdefault(_SAVED, {})
    is_new = st.session_state.get(_PAGE) not in (None, page)
    if is_new and not st.query_params and saved.get(name):
        write_parameters(saved[name])
    st.session_state[_PAGE] = page
    saved[name] = {key: st.query_params.get_all(key) for key in st.query_params}


def write_parameter(name: str, value: str) -> None:
    """Set one parameter of the URL; the others stay."""
    if name not in _ALL_PARAMETERS:
        raise KeyError(name)
    st.query_params[name] = value


def write_view(view: ViewState) -> None:
    """Replace all parameters of the URL by those of a view."""
    write_parameters(view_to_params(view))


def write_parameters(params: Mapping[str, Sequence[str]]) -> None:
    """Replace all parameters of the URL."""
    st.query_params.from_dict({name: list(texts) for name, texts in params.items()})


def _is_read(name: str) -> bool:
    return name in _VIEW_PARAMETERS or name.startswith(FILTER_PREFIX)
