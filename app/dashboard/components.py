"""Page components written in JavaScript: how they are registered, fed with data, and answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares_app.dashboard.column_words import format_column_label, format_value_for_people
from ares_app.dashboard.markdown_text import escape_markdown

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
    css = "".join(path.read_text() for path in (_FOLDER / "common.css", folder / "style.css"))
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


def when_sent(key: str, name: str, react: Callable[[Any], object]) -> Callable[[], None]:
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


def draw_grid(
    cards: Sequence[Json],
    key: str,
    on_open: Callable[[str, int, float], None],
    size: str = "",
    ticked: Collection[str] | None = None,
    on_tick: Callable[[Mapping[str, bool]], None] | None = None,
) -> None:
    """Draw cards.

    Args:
        cards: Cards of `ares_app.dashboard.cards.build_cards`.
        key: Streamlit key of the component.
        on_open: Called with the episode id, its position in the results and the second of a card that is clicked.
        size: "small" or "".
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
        data=data, key=key, on_opened_change=when_sent(key, "opened", open_card),
        on_ticked_change=_when_clicked(key, "ticked", tick),
    )  # fmt: skip


def draw_table(
    rows: Sequence[Mapping[str, Any]],
    key: str,
    action: str = "",
    on_action: Callable[[int], object] | None = None,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Draw rows that are sorted by a click on a name, searched, copied and loaded as CSV.

    Args:
        rows: Values by column: numbers, flags, texts, or pairs of which the first is drawn; None is unknown.
        key: Streamlit key of the table.
        action: What the button of each row says.
        on_action: Called with the number of a row whose button is clicked, before the page is drawn again. What it
            keeps is the identity of the row: the next table may have another row at that place.
        config: How a column is drawn, by its name, as `st.column_config` makes it.
    """
    import pyarrow as pa
    import streamlit as st

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {format_column_label(name): [row.get(name) for row in rows] for name in names}
    configs = {format_column_label(name): shown for name, shown in (config or {}).items()}
    clicked, selecting = f"{key}.clicked", dict[str, Any]()
    if on_action:
        # The button for the pointer; shift and space, which tick a row, for the keyboard.
        button = st.column_config.ButtonColumn(
            action,
            type="tertiary",
            pinned=True,
            key=clicked,
            on_click=when_sent(clicked, "row", on_action),
        )
        columns, configs = {action: [action] * len(rows), **columns}, {**configs, action: button}
        selecting = {
            "selection_mode": "single-row",
            "on_select": when_sent(key, "selection", lambda ticked: list(map(on_action, ticked["rows"]))),
        }
    table = pa.table({label: _as_column(values) for label, values in columns.items()})
    with st.container(key=f"{key}.table"):
        st.dataframe(table, key=key, hide_index=True, column_config=configs, placeholder="", **selecting)


def draw_pairs(rows: Mapping[str, str]) -> None:
    """Draw names with their values; one without a value is left out."""
    import streamlit as st

    lines = [f"| {escape_markdown(name)} | {escape_markdown(text)} |" for name, text in rows.items() if text]
    st.markdown("\n".join(["| | |", "|---|---|", *lines]))


def _as_column(values: Sequence[Any]) -> list[Any]:
    """Numbers as they are, so that they are sorted; all else as a person reads it."""
    texts = [value[0] if isinstance(value, tuple) else value for value in values]
    if all(value is None or type(value) in (int, float) for value in texts):
        return texts
    return ["" if value is None else format_value_for_people(value) for value in texts]


def draw_player(
    data: dict[str, Json],
    judge: Mapping[str, Json] | None,
    key: str,
    on_frame_search: Callable[[str], object] = lambda frame: None,
    on_acts: Callable[[list[Mapping[str, Any]]], object] = lambda acts: None,
) -> None:
    """Draw the player, and beside it what people say of the episode.

    Args:
        data: Cameras, signals and timeline of the episode.
        judge: What the column beside the picture shows, or None; a change of it leaves what plays alone.
        key: Streamlit key of the component, the same for every episode: a player stays until the next one is there.
        on_frame_search: Called with "EPISODE_ID/CAMERA@SECONDS" when the user searches for frames like that one.
        on_acts: Called with what the user ruled, ticked, tagged, corrected or took back, in order.
    """
    shown = {**data, "judge": None if judge is None else {**judge, "number": _newest_click(key)}}
    load_component("player")(
        data=shown, key=key, on_frame_change=when_sent(key, "frame", on_frame_search),
        on_acts_change=_when_clicked(key, "acts", on_acts),
    )  # fmt: skip
