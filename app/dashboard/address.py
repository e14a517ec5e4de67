"""The parameters of the URL: reading them, writing them, and clicks that come before the browser has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from ares.console import count_of
from ares.errors import RequestError
from ares_app.dashboard.page_list import PAGES, VIEW_PARAMETERS
from ares_app.dashboard.view_state import (
    FILTER_PREFIX,
    AddressError,
    ViewState,
    view_from_params,
    view_to_params,
)
from ares_app.server import UNKNOWN_PAGE

# Parameters beside the view that a change of the view leaves as they are.
_KEPT_PARAMETERS = ("colour", "group", "number")
_ALL_PARAMETERS = frozenset(name for page in PAGES.values() for name in page.parameters)
# A longer URL is no link that a page made.
_MAX_CHARACTERS, _MAX_VALUES = 20_000, 2_000
# Session key of what was written into the URL, and how many older ones are known.
_WRITTEN, _MAX_SUPERSEDED = "url.written", 20
# Session key of the parameters of each page; pages that show the same episodes share them.
_SAVED = "url.saved"
_SHARED_PARAMETERS = {"map": "browse", "quality": "browse"}

_ROUNDING_SECONDS = 0.01

Parameters = dict[str, list[str]]


class WrittenAddress(NamedTuple):
    """What this session has written into the URL last.

    Attributes:
        params: The parameters.
        superseded: Those that it replaced, newest first: a click that comes with one of these was made before the
            browser had the new ones.
    """

    params: Parameters
    superseded: tuple[Parameters, ...]


_NOTHING_WRITTEN = WrittenAddress({}, ())


def read_view(parameters: Parameters | None = None) -> ViewState:
    """Return the view that the URL describes, or other parameters.

    Raises RequestError for a URL beyond the limits, or that has faults.
    """
    read = st.query_params.get_all if parameters is None else parameters.__getitem__
    names = st.query_params if parameters is None else parameters
    params = {name: read(name) for name in names if name in VIEW_PARAMETERS or is_filter(name)}
    texts = [text for values in params.values() for text in values]
    size = sum(map(len, texts)) + sum(map(len, params))
    if size > _MAX_CHARACTERS or len(texts) > _MAX_VALUES:
        limit = f"at most {_MAX_CHARACTERS:,} characters and {_MAX_VALUES:,} values"
        raise RequestError(
            "the address is too long",
            f"{count_of(size, 'character', comma=True)}, {count_of(len(texts), 'value', comma=True)}; {limit}",
        )
    return view_from_params(params)


def read_parameter(name: str, default: str = "") -> str:
    """Return the value of one parameter, at most 200 characters of it. Raises AddressError where it is given twice.

    Args:
        name: One of the parameters of `PAGES`.
        default: Value when it is not given.
    """
    if name not in _ALL_PARAMETERS:
        raise KeyError(name)
    texts = st.query_params.get_all(name)
    if len(texts) > 1:
        raise AddressError(name, f"the address has {name} {len(texts)} times", "give it once")
    return str(texts[0])[:200] if texts else default


def read_second(longest: float) -> float | None:
    """Return the second that the address names; None without one.

    Raises AddressError where an episode of so many seconds does not have it.
    """
    text = read_parameter("t")
    try:
        second = float(text) if text else None
    except ValueError:
        second = math.nan
    # A written second is rounded.
    if second is not None and not 0 <= second <= longest + _ROUNDING_SECONDS:
        detail = f"got {text!r}; this episode has 0 to {longest:.2f} s"
        raise AddressError("t", "a second cannot be shown", detail)
    return second if second is None else min(second, longest)


def read_values(name: str) -> list[str]:
    """Return all values of one parameter, or of the filter of a column."""
    return st.query_params.get_all(name)


def check_parameters(page: str) -> None:
    """Raise AddressError for a parameter that no page reads, and for a page that does not exist.

    A parameter of another page is no error: the button "back" of the browser leads over such addresses.
    """
    if UNKNOWN_PAGE in st.query_params:
        titles = ", ".join(entry.title for entry in PAGES.values())
        reason = f"there is no page {st.query_params[UNKNOWN_PAGE][:100]!r}"
        raise AddressError(UNKNOWN_PAGE, reason, f"there are: {titles}")
    known = PAGES[page].parameters
    if "where" in known:
        known = (*known, f"{FILTER_PREFIX}COLUMN")
    for name in st.query_params:
        if name not in _ALL_PARAMETERS and not is_filter(name):
            detail = f"it reads: {', '.join(known) or 'none'}"
            raise AddressError(name, f"this page reads no parameter {name[:100]!r}", detail)


def is_filter(name: str) -> bool:
    """Whether a parameter is the filter of a column."""
    return name.startswith(FILTER_PREFIX)


def write_parameter(name: str, value: str) -> None:
    """Set one parameter of the URL; the others stay."""
    if name not in _ALL_PARAMETERS:
        raise KeyError(name)
    st.query_params[name] = value


def drop_parameter(name: str) -> None:
    """Leave one parameter out of the URL; the others stay."""
    st.query_params.pop(name, None)


def change_view(change: Callable[[ViewState], ViewState]) -> None:
    """Change a part of the view, as a reaction to a click.

    The rest is as the last reaction has left it, not as the page was drawn: clicks come faster than it is drawn.

    Args:
        change: Returns the new view for the present one.

    Raises:
        RequestError: The new view cannot be read; then the old one stays.
    """
    newest = _newest_parameters()
    kept = {name: newest[name] for name in _KEPT_PARAMETERS if name in newest}
    params = view_to_params(change(read_view(newest)))
    read_view(params)
    write_parameters({**params, **kept})


def write_parameters(params: Mapping[str, Sequence[str]]) -> None:
    """Replace all parameters of the URL."""
    shown, written = _shown_parameters(), st.session_state.get(_WRITTEN, _NOTHING_WRITTEN)
    st.query_params.from_dict({name: list(texts) for name, texts in params.items()})
    new = _shown_parameters()
    older = [old for old in (shown, written.params, *written.superseded) if old != new]
    st.session_state[_WRITTEN] = WrittenAddress(new, tuple(older[:_MAX_SUPERSEDED]))


def settle_address() -> None:
    """Keep what was written last, in a reaction to a click that writes no parameters itself."""
    newest = _newest_parameters()
    if newest != _shown_parameters():
        write_parameters(newest)


def forget_left_address() -> None:
    """Forget what was written where no click has led: the button "back" of the browser, or a link."""
    written = st.session_state.get(_WRITTEN)
    if written and _shown_parameters() != written.params:
        st.session_state.pop(_WRITTEN)


def restore_parameters(page: str) -> None:
    """Give a page that a tab has opened without parameters those that it had before; Browse and Map share theirs.

    Not for a page that is drawn again: "Clear all" and the button "back" of the browser hold.
    """
    saved = _saved_parameters().get(_SHARED_PARAMETERS.get(page, page))
    if saved and not st.query_params:
        known = PAGES[page].parameters
        write_parameters({key: texts for key, texts in saved.items() if key in known or is_filter(key)})


def save_parameters(page: str) -> None:
    """Keep the parameters of the URL as those of a page, for `restore_parameters`."""
    _saved_parameters()[_SHARED_PARAMETERS.get(page, page)] = _shown_parameters()


def _saved_parameters() -> dict[str, Parameters]:
    saved: dict[str, Parameters] = st.session_state.setdefault(_SAVED, {})
    return saved


def _shown_parameters() -> Parameters:
    """The parameters that came with the click, or that were written since."""
    names = list(st.query_params)
    return dict(zip(names, map(st.query_params.get_all, names), strict=True))


def _newest_parameters() -> Parameters:
    """The parameters of the URL, or what was written in their place before the browser could show it."""
    shown, written = _shown_parameters(), st.session_state.get(_WRITTEN, _NOTHING_WRITTEN)
    return written.params if shown in written.superseded else shown
