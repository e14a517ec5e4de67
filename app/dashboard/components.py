"""Page components written in JavaScript: how they are registered, fed with data, and answered."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.dashboard.column_words import format_column_label, format_value_for_people
from app.dashboard.view_state import ColumnFilter
from ares.episode import Json
from ares.errors import RequestError

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer


_FOLDER = Path(__file__).with_name("components")
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def load_component(name: str) -> ComponentRenderer:
    """Register a component and return the function that draws it, with its `data` and the Streamlit `key`.

    Args:
        name: Folder beside this file, with `index.js`, which says what the data are, and `style.css`.
    """
    import streamlit as st

    folder = _FOLDER / name
    code = bundle_javascript_modules(folder / "index.js")
    # Two players side by side are drawn as one is.
    shared = ["player/style.css"] if name == "compare" else []
    files = [_FOLDER / "common.css", *(_FOLDER / path for path in shared), folder / "style.css"]
    css = "".join(path.read_text() for path in files)
    return st.components.v2.component(f"ares_{name}", js=code, css=css, html="<div class='root'></div>")


def bundle_javascript_modules(entry: Path) -> str:
    """Join a JavaScript module with those that it imports into one text, since a component is one module.

    Every module comes once, behind those that it imports. Names at the top of modules must not be the same.
    """
    modules: dict[Path, str] = {}
    _add_module(entry.resolve(), modules)
    return "\n".join(modules.values())


def _add_module(path: Path, modules: dict[Path, str]) -> None:
    text = path.read_text()
    for imported in _IMPORT.findall(text):
        inner = (path.parent / imported).resolve()
        if inner not in modules:
            _add_module(inner, modules)
    modules[path] = _EXPORT.sub("", _IMPORT.sub("", text))


def sent_value(key: str, name: str) -> Any:
    """What a component has sent; None where something else has taken its place since it was clicked."""
    import streamlit as st

    return getattr(st.session_state.get(key), name, None)


def _when_sent(key: str, name: str, react: Callable[[Any], object]) -> Callable[[], None]:
    """A reaction to a click on a component, called with what the component has sent by a name."""

    def handle() -> None:
        if (sent := sent_value(key, name)) is not None:
            react(sent)

    return handle


def _when_clicked(
    key: str, name: str, react: Callable[[list[Mapping[str, Any]]], object]
) -> Callable[[], None]:
    """A reaction to clicks of which each counts, called with those that are not known yet."""

    def handle() -> None:
        if clicks := _take_new_clicks(key, name):
            react(clicks)

    return handle


def draw_filters(
    facets: Sequence[Mapping[str, Json]], key: str, on_change: Callable[[list[ColumnFilter]], None]
) -> None:
    """Draw the filters.

    Args:
        facets: Columns with their counts and their current filter.
        key: Streamlit key of the component.
        on_change: Called with the filters that the user changed since they were last drawn, before the page is drawn
            again.
    """

    handle = _when_clicked(key, "changed", lambda clicks: on_change(list(map(_column_filter, clicks))))
    data: dict[str, Json] = {"facets": list[Json](facets), "number": _newest_click(key)}
    load_component("filters")(data=data, key=key, on_changed_change=handle)


def _newest_click(key: str) -> int:
    """Number of the newest click on a component that is known; 0 before the first."""
    import streamlit as st

    return int(st.session_state.get(f"{key}.number", 0))


def _take_new_clicks(key: str, name: str) -> list[Mapping[str, Any]]:
    """The clicks on a component that are not known yet; they are, after this.

    Every message has all that the component has not been told to be known: of two that come close to each other only
    the later one arrives.
    """
    import streamlit as st

    known = _newest_click(key)
    clicks = [click for click in sent_value(key, name) or () if int(click["number"]) > known]
    st.session_state[f"{key}.number"] = max([known, *(int(click["number"]) for click in clicks)])
    return clicks


def _column_filter(value: Mapping[str, Any]) -> ColumnFilter:
    low, high = value["low"], value["high"]
    return ColumnFilter(
        column=str(value["column"]),
        values=tuple(str(text) for text in value["values"]),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        missing=bool(value["missing"]),
    )


def draw_grid(
    cards: Sequence[Json],
    key: str,
    on_open: Callable[[str, int, float], None],
    size: str = "",
    ticked: Collection[str] | None = None,
    on_tick: Callable[[Mapping[str, bool]], None] | None = None,
) -> None:
    """Draw cards, or a table of them.

    Args:
        cards: Cards of `app.dashboard.cards.build_cards`.
        key: Streamlit key of the component.
        on_open: Called with the episode id, its position in the results and the second of a card that is clicked.
        size: "small", "" (medium), "large", or "table": a row for each card, with its cells.
        ticked: Ids of the episodes that are ticked; None draws no boxes.
        on_tick: Called with the ids of cards that were ticked (True) or unticked. Both are called before the page is
            drawn again.
    """

    def open_card(sent: Sequence[Any]) -> None:
        episode_id, position, second = sent
        on_open(str(episode_id), int(position), float(second))

    def tick(clicks: list[Mapping[str, Any]]) -> None:
        if on_tick:
            on_tick({str(click["id"]): bool(click["on"]) for click in clicks})

    data: dict[str, Json] = {
        "cards": list(cards),
        "size": size,
        "ticked": None if ticked is None else list[Json](sorted(ticked)),
        "number": 0 if ticked is None else _newest_click(key),
    }
    load_component("grid")(
        data=data, key=key, on_opened_change=_when_sent(key, "opened", open_card),
        on_ticked_change=_when_clicked(key, "ticked", tick),
    )  # fmt: skip


def draw_table(
    rows: Sequence[Mapping[str, Any]],
    key: str,
    action: str = "",
    on_action: Callable[[int], None] | None = None,
) -> int | None:
    """Draw rows of text that wrap, can be searched and copied.

    Args:
        rows: Values by column; a value may be a pair of a text and its tip.
        key: Streamlit key of the component.
        action: What the button of each row says; "" draws none.
        on_action: Called with the number of a row whose button is clicked, before the page is drawn again.

    Returns:
        The number of the row whose button was clicked last, where nothing is called with it; else None.
    """
    import streamlit as st

    names = list(dict.fromkeys(name for row in rows for name in row))
    state = f"{key}.row"

    def select(sent: Mapping[str, Any]) -> None:
        if int(sent["row"]) < len(rows):
            st.session_state[state] = None if on_action else int(sent["row"])
            if on_action:
                on_action(int(sent["row"]))

    selected = st.session_state.get(state)
    selected = selected if selected is not None and selected < len(rows) else None
    data: dict[str, Json] = {
        "columns": [[format_column_label(name), name] for name in names],
        "rows": [[_text_and_tip(row.get(name)) for name in names] for row in rows],
        "action": action,
        "selected": -1 if selected is None else selected,
    }
    load_component("table")(data=data, key=key, on_selected_change=_when_sent(key, "selected", select))
    return selected


def _text_and_tip(value: Any) -> list[Json]:
    """Text and tip of a cell."""
    if isinstance(value, tuple):
        return list(value)
    return ["" if value is None else format_value_for_people(value), ""]


def draw_map(
    data: dict[str, Json],
    key: str,
    on_view: Callable[[Any], None],
    on_region: Callable[[Any], None],
    on_opened: Callable[[str], None],
) -> None:
    """Draw the map of the episodes.

    Args:
        data: What `app.dashboard.views.map` reads; see `components/map/index.js`.
        key: Streamlit key of the component: one for every part, so that the browser moves it and asks for points.
        on_view: Called with the four sides of the part that is shown.
        on_region: Called with the corners of a lasso.
        on_opened: Called with the id of an episode that is clicked.
    """
    load_component("map")(
        data=data, key=key, on_view_change=_when_sent(key, "view", on_view),
        on_region_change=_when_sent(key, "region", on_region), on_opened_change=_when_sent(key, "opened", on_opened),
    )  # fmt: skip


def draw_player(
    data: dict[str, Json],
    judge: Mapping[str, Json],
    key: str,
    on_frame_search: Callable[[str], None],
    on_acts: Callable[[list[Mapping[str, Any]]], None],
) -> None:
    """Draw the player, and beside it what people say of the episode.

    Args:
        data: Cameras, signals and timeline of the episode.
        judge: What the column beside the picture shows; a change of it leaves what plays alone.
        key: Streamlit key of the component, the same for every episode: a player stays until the next one is there.
        on_frame_search: Called with "EPISODE_ID/CAMERA@SECONDS" when the user searches for frames like that one.
        on_acts: Called with what the user ruled, ticked, tagged, corrected or took back, in order.
    """
    shown = {**data, "judge": {**judge, "number": _newest_click(key)}}
    load_component("player")(
        data=shown, key=key, on_frame_change=_when_sent(key, "frame", on_frame_search),
        on_acts_change=_when_clicked(key, "acts", on_acts),
    )  # fmt: skip


def draw_tab_state(data: dict[str, Json], key: str, on_restored: Callable[[list[str], Any], None]) -> None:
    """Draw nothing; let the tab keep the ticks and the scroll over a reload.

    Args:
        data: The workspace, the ticks, and whether this session knows of none yet.
        key: Streamlit key of the component.
        on_restored: Called with the ids that were ticked, and the view of which all was selected or None.
    """

    def restore(stored: Mapping[str, Any]) -> None:
        on_restored([str(id) for id in stored["ticked"]], stored["all"])

    load_component("tab_state")(data=data, key=key, on_restored_change=_when_sent(key, "restored", restore))


def draw_bars(rows: Sequence[Json], name: str, measure: str, key: str) -> None:
    """Draw shares as bars whose parts are links.

    Args:
        rows: As `app.dashboard.views.statistics` makes them; see `components/bars/index.js`.
        name: What the rows are.
        measure: What their numbers are.
        key: Streamlit key of the component.
    """
    data: dict[str, Json] = {"rows": list(rows), "name": name, "measure": measure}
    load_component("bars")(data=data, key=key)


def draw_review(
    data: dict[str, Json], key: str, on_answer: Callable[[Sequence[Mapping[str, Any]]], None]
) -> None:
    """Draw an item of a review queue.

    Args:
        data: What `app.dashboard.views.review` says of it.
        key: Streamlit key of the component, the same for every item.
        on_answer: Called with the answers of the user, before the page is drawn again.
    """

    handle = _when_sent(key, "said", lambda click: on_answer([click]))
    load_component("review")(data=data, key=key, on_said_change=handle)


def draw_search_input(key: str, on_image: Callable[[bytes], None]) -> None:
    """Draw nothing but the link; listen for the key and for images that are dropped on the search box.

    Args:
        key: Streamlit key of the component.
        on_image: Called with a JPEG of at most 768 pixels, before the page is drawn again.
    """

    handle = _when_sent(key, "dropped", lambda dropped: on_image(_decode_data_url(str(dropped))))
    load_component("search_input")(data={}, key=key, on_dropped_change=handle)


def _decode_data_url(data_url: str) -> bytes:
    """Bytes of a data URL. Raises RequestError when it is none."""
    try:
        return base64.b64decode(data_url.partition(",")[2], validate=True)
    except binascii.Error:
        raise RequestError("the image cannot be read", "drop a PNG, JPEG or WebP file") from None
