"""How pages are reached: their list, links and error box, and the parameters of the URL."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.view_state import FILTER_PREFIX, AddressError, ViewState, view_from_params, view_to_params
from app.server import CONNECTION_HEADER, UNKNOWN_PAGE, release_next_message
from ares.console import count_of
from ares.errors import AresError, FilterError, RequestError

if TYPE_CHECKING:
    from streamlit.navigation.page import Page


class PageEntry(NamedTuple):
    """A page of the dashboard; `render()` of the file of its name in `app/dashboard/views` draws it.

    Attributes:
        title: Its name in the navigation.
        icon: Its icon there, by Streamlit's name.
        parameters: Parameters of the URL that it reads, beside those of the filters of columns ("f.COLUMN").
    """

    title: str
    icon: str
    parameters: tuple[str, ...] = ()


_VIEW_PARAMETERS = (
    *("q", "like", "image", "by", "words", "where", "region", "region_name", "sort", "page", "cut"),
    *("show", "columns"),
)
PAGES = {
    "browse": PageEntry("Browse", ":material/grid_view:", _VIEW_PARAMETERS),
    "map": PageEntry("Map", ":material/scatter_plot:", (*_VIEW_PARAMETERS, "colour")),
    "statistics": PageEntry(
        "Statistics", ":material/bar_chart:", (*_VIEW_PARAMETERS, "group", "number", "episode")
    ),
    "episode": PageEntry("Episode", ":material/movie:", (*_VIEW_PARAMETERS, "episode", "at", "t")),
    "compare": PageEntry(
        "Compare", ":material/compare:", ("a", "b", "group", "maker_a", "maker_b", "align", "t")
    ),
    "review": PageEntry("Review", ":material/rate_review:", ("queue", "person", "tab")),
    "sets": PageEntry("Sets", ":material/inventory_2:", ("set",)),
    "health": PageEntry("Health", ":material/health_metrics:", ("dataset",)),
    "jobs": PageEntry("Jobs", ":material/conveyor_belt:", ("job", "names")),
    "status": PageEntry("Status", ":material/monitoring:"),
}
# Parameters beside the view that a change of the view leaves as they are.
_KEPT_PARAMETERS = ("colour",)
_ALL_PARAMETERS = frozenset(name for page in PAGES.values() for name in page.parameters)
# Session keys: the page that was drawn last, and the parameters of each page.
_PAGE, _SAVED = "url.page", "url.saved"
# Pages that show the same episodes.
_SHARED_PARAMETERS = {"map": "browse", "statistics": "browse"}
# A longer URL is no link that a page made.
_MAX_CHARACTERS, _MAX_VALUES = 20_000, 2_000
# Session key of what was written into the URL, and how many older ones are known.
_WRITTEN, _MAX_SUPERSEDED = "url.written", 20

# Session key of the errors of what was refused, by key of the field.
_REFUSED = "fields.refused"

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
    params = {name: read(name) for name in names if name in _VIEW_PARAMETERS or _is_filter(name)}
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


def _check_parameters(page: str) -> None:
    """Raise AddressError for a parameter that no page knows, and for a page that does not exist.

    A parameter of another page is said, and no error: the button "back" of the browser leads over such addresses.
    """
    if UNKNOWN_PAGE in st.query_params:
        titles = ", ".join(entry.title for entry in PAGES.values())
        reason = f"there is no page {st.query_params[UNKNOWN_PAGE][:100]!r}"
        raise AddressError(UNKNOWN_PAGE, reason, f"there are: {titles}")
    known = PAGES[page].parameters
    others = [name for name in st.query_params if name not in known]
    if "where" in known:
        known, others = (*known, f"{FILTER_PREFIX}COLUMN"), [name for name in others if not _is_filter(name)]
    for name in others:
        if name not in _ALL_PARAMETERS and not _is_filter(name):
            detail = f"it reads: {', '.join(known) or 'none'}"
            raise AddressError(name, f"this page reads no parameter {name[:100]!r}", detail)
    if others:
        st.caption(
            escape_markdown(
                f"The address also names {', '.join(others)[:200]}, which this page does not read."
            )
        )


def _is_filter(name: str) -> bool:
    return name.startswith(FILTER_PREFIX)


def restore_tab_parameters(page: str) -> None:
    """Give a page that a tab has opened without parameters those that it had before; Browse and Map share theirs.

    A page that is drawn again keeps the URL as it is, so that "Clear all" and the button "back" of the browser hold.
    """
    written = st.session_state.get(_WRITTEN)
    if written and _shown_parameters() != written.params:
        # Where no click has led: the button "back" of the browser, or a link.
        st.session_state.pop(_WRITTEN)
    name = _SHARED_PARAMETERS.get(page, page)
    saved: dict[str, dict[str, list[str]]] = st.session_state.setdefault(_SAVED, {})
    is_new = st.session_state.get(_PAGE) not in (None, page)
    if is_new:
        st.session_state.pop(_REFUSED, None)
    if is_new and not st.query_params and saved.get(name):
        write_parameters(
            {
                key: texts
                for key, texts in saved[name].items()
                if key in PAGES[page].parameters or _is_filter(key)
            }
        )
    st.session_state[_PAGE] = page
    saved[name] = {key: st.query_params.get_all(key) for key in st.query_params}


def write_parameter(name: str, value: str) -> None:
    """Set one parameter of the URL; the others stay."""
    if name not in _ALL_PARAMETERS:
        raise KeyError(name)
    st.query_params[name] = value


def _drop_parameter(error: AddressError) -> None:
    del st.query_params[error.parameter]


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


def _shown_parameters() -> Parameters:
    """The parameters that came with the click, or that were written since."""
    names = list(st.query_params)
    return dict(zip(names, map(st.query_params.get_all, names), strict=True))


def _newest_parameters() -> Parameters:
    """The parameters of the URL, or what was written in their place before the browser could show it."""
    shown, written = _shown_parameters(), st.session_state.get(_WRITTEN, _NOTHING_WRITTEN)
    return written.params if shown in written.superseded else shown


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&\"'=^])")
_SPACE = re.compile(r"\s+")


def escape_markdown(text: object) -> str:
    """Return the text on one line, escaped so that Markdown shows it as it is: no markup, image or link."""
    return _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", str(text)))


# Session key of the page that a click opens: its name and its query parameters.
_NEXT_PAGE = "pages.next"


def build_pages() -> dict[str, Page]:
    """Return the pages by name; the module of a page is imported when the page is drawn."""
    return {
        name: st.Page(
            make_page_function(name),
            title=page.title,
            icon=page.icon,
            url_path=name,
            default=name == "browse",
        )
        for name, page in PAGES.items()
    }


def draw_header(title: str) -> None:
    """Draw into the header what opens things by name, what runs, what others have changed, and what is shown.

    Args:
        title: Name of the page, which the title of the tab begins with.
    """
    from app.dashboard.components import load_component

    # The dataset that the address names, by itself or by an episode; none for several or all.
    datasets = st.query_params.get_all(f"{FILTER_PREFIX}dataset") or st.query_params.get_all("dataset")
    if episode_ids := st.query_params.get_all("episode")[:1]:
        with suppress(AresError):
            datasets = [episode.dataset for episode in cached_reads.read_episodes(episode_ids)]
    named = [datasets[0][:60]] if len(datasets) == 1 and not datasets[0].startswith("~") else []
    shown = [*named, cached_reads.workspace().path.rstrip("/").rpartition("/")[2]]
    st.set_page_config(page_title=" · ".join((title, *shown, "ARES")))
    pages = [{"name": "" if name == "browse" else name, "title": page.title} for name, page in PAGES.items()]
    with st.container(key="find"):
        load_component("find")(data={"pages": pages}, key="find.dialog")
    version = cached_reads.newest_version()
    load_component("changes")(
        data={"version": version, "shown": " · ".join(reversed(shown))},
        key="changes",
        on_shown_change=cached_reads.clear_caches,
    )


def open_page(name: str, params: Mapping[str, Sequence[str]] | None = None) -> None:
    """Open another page with these query parameters; called by a reaction to a click.

    The page that was clicked is not drawn again: `switch_page` comes before it.
    """
    st.session_state[_NEXT_PAGE] = (name, {key: list(texts) for key, texts in (params or {}).items()})


def draw_job_button(label: str, kind: str, names: Sequence[str] = (), key: str = "") -> None:
    """Draw a button that opens the form of a job, beside what says that nothing is there yet.

    Args:
        label: Text of the button.
        kind: "ingest", "annotate" or "check".
        names: Annotators that the form has selected.
        key: What tells the button from others on the page.
    """
    params = {"job": [kind], **({"names": [",".join(names)]} if names else {})}
    st.button(
        label, key=f"jobs.open.{key or kind}", icon=":material/conveyor_belt:", on_click=open_page,
        args=("jobs", params),
    )  # fmt: skip


def switch_page(page_list: Mapping[str, Page]) -> None:
    """Go to the page that a click has opened, if any; called before the current page is drawn."""
    name, params = st.session_state.pop(_NEXT_PAGE, ("", {}))
    if name:
        st.switch_page(page_list[name], query_params=params)


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
    for key in keys:
        if key in refused:
            show_error(refused[key])


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


def accept_next_message() -> None:
    """Let the next click of the tab come, as the reactions to the last one have run; the server holds it back so long.

    Any access to the session, as here, ends a script that a newer click has overtaken: it must not speak for that one.
    """
    st.session_state.get(_PAGE)
    if connection := st.context.headers.get(CONNECTION_HEADER):
        release_next_message(connection)


def show_error(error: AresError) -> None:
    """Show an error in one box, with the position in a filter that cannot be parsed."""
    detail = f"\n\n{escape_markdown(error.detail)}" if error.detail else ""
    st.error(f"**{escape_markdown(error.reason)}**{detail}", icon=":material/error:")
    if isinstance(error, FilterError) and error.pointer:
        st.code(error.pointer, language=None)


def show_script_error(error: Exception) -> bool:
    """Show what a page or a reaction to a click raised; the traceback of a bug goes to the log of the server only.

    Returns:
        True: Streamlit shows nothing of its own.
    """
    if isinstance(error, AresError):
        show_error(error)
        accept_next_message()
        return True
    logging.getLogger("ares.dashboard").error("a page failed because of a bug", exc_info=error)
    st.error(
        "**This page failed because of a bug.** The log of the server has the details.",
        icon=":material/error:",
    )
    accept_next_message()
    return True


def import_view(name: str) -> Any:
    """Return the module of a page."""
    return import_module(f"app.dashboard.views.{name}")


def make_page_function(name: str) -> Callable[[], None]:
    """Return the function that draws a page; an error of ARES becomes a box on the page."""

    def draw() -> None:
        try:
            restore_tab_parameters(name)
            _check_parameters(name)
            import_view(name).render()
        except AresError as error:
            show_error(error)
            if isinstance(error, AddressError):
                st.button(
                    "Open the page without it", key="address.without", on_click=_drop_parameter, args=(error,)
                )

    draw.__name__ = name
    return draw
