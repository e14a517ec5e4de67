"""Episodes that a person has ticked on the page, or all of a view, and the actions on them; each can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.cached_reads import SearchCut
from app.dashboard.escape import escape_markdown
from app.dashboard.panels.set_form import select_view
from app.dashboard.results import search_cut
from app.dashboard.view_state import ViewState, view_to_params, where_sql
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.store.filters import ids_filter
from ares.store.sync import TAGS

if TYPE_CHECKING:
    from ares.curation import StagedIds
    from ares.store.actions import Action

_TICKED, _ALL, _LAST, _PERSON = "selection.ticked", "selection.all", "selection.last", "selection.person"
# So many tags of the selection have a button.
_MAX_TAGS = 12


class LastAction(NamedTuple):
    """What a person did last on this page.

    Attributes:
        number: Of the action in the log.
        text: What was done, for people.
    """

    number: int
    text: str


def ticked_ids() -> set[str]:
    """Return the ids that are ticked, on any page of the results."""
    ids: set[str] = st.session_state.setdefault(_TICKED, set())
    return ids


def change_ticks(shown: list[str], ticked: list[str]) -> None:
    """Tick some episodes of a page and no other one of it."""
    st.session_state[_TICKED] = (ticked_ids() - set(shown)) | set(ticked)
    st.session_state[_ALL] = None


def draw_selection_bar(view: ViewState, shown: int) -> None:
    """Draw how many episodes are selected, and the actions on them.

    Args:
        view: The view on the page.
        shown: Number of its episodes.
    """
    is_all = st.session_state.get(_ALL) == view_to_params(view)
    count = shown if is_all else len(ticked_ids())
    with st.container(horizontal=True, vertical_alignment="center", key="selection.bar"):
        if count:
            st.markdown(f"**{count:,} selected**", width="content")
            _draw_tags(view, is_all, count)
            _draw_note(view, is_all, count)
            _draw_exclusion(view, is_all, count)
            _draw_person()
            st.button("Clear", key="selection.clear", type="tertiary", on_click=_clear)
        if shown and not is_all:
            st.button(
                f"Select all {shown:,}", key="selection.everything", type="tertiary",
                on_click=_select_all, args=(view,),
            )  # fmt: skip
        _draw_last_action()


def _select_all(view: ViewState) -> None:
    st.session_state[_ALL] = view_to_params(view)


def _clear() -> None:
    st.session_state[_TICKED], st.session_state[_ALL] = set(), None


def _draw_tags(view: ViewState, is_all: bool, count: int) -> None:
    with st.popover("Tags", icon=":material/label:"):
        for tag, tagged in _tag_counts(view, is_all).items():
            icon = ":material/check_box:" if tagged == count else ":material/indeterminate_check_box:"
            st.button(
                f"{escape_markdown(tag)}: {tagged:,} of {count:,}", key=f"selection.tag.{tag}", icon=icon,
                on_click=_change_tag, args=(view, is_all, tag, tagged < count), width="stretch",
                help="Remove it from all" if tagged == count else "Add it to the others",
            )  # fmt: skip
        with st.form("selection.new_tag", border=False, clear_on_submit=True):
            st.text_input("New tag", key="selection.tag_name", placeholder="blurred")
            st.form_submit_button(
                "Add the tag",
                on_click=lambda: _change_tag(view, is_all, _entered("selection.tag_name"), True),
            )


def _draw_note(view: ViewState, is_all: bool, count: int) -> None:
    with (
        st.popover("Note", icon=":material/edit_note:"),
        st.form("selection.note_form", border=False, clear_on_submit=True),
    ):
        st.text_area("Text of the note", key="selection.note", placeholder="the gripper slips")
        st.form_submit_button(f"Write it to {count:,}", on_click=lambda: _write_note(view, is_all))


def _draw_exclusion(view: ViewState, is_all: bool, count: int) -> None:
    with st.popover("Exclude", icon=":material/visibility_off:"):
        st.caption(
            "They leave the workspace, its searches and new sets. Sources stay, and an undo brings them back."
        )
        with st.form("selection.exclusion", border=False):
            st.text_input("Why", key="selection.reason", placeholder="black picture")
            st.form_submit_button(
                f"Exclude {count:,}", type="primary", on_click=lambda: _exclude(view, is_all)
            )


def current_person() -> str:
    """Return the name that the log has for what is done on this page."""
    from ares.settings import user_name

    return _entered(_PERSON) or user_name()


def _draw_person() -> None:
    # Set again in every run: Streamlit forgets the value of a field that is not drawn.
    st.session_state[_PERSON] = current_person()
    with st.popover(f"as {escape_markdown(current_person())}", type="tertiary"):
        st.text_input("Your name, for the log", key=_PERSON)


def _entered(key: str) -> str:
    return str(st.session_state.get(key, "")).strip()


def _tag_counts(view: ViewState, is_all: bool) -> dict[str, int]:
    """Number of selected episodes with each tag of the workspace, the most frequent first."""
    if TAGS not in cached_reads.filter_columns():
        return {}
    where = where_sql(view, cached_reads.filter_columns())
    cut = SearchCut(**view.query, min_score=search_cut(view)) if is_all and view.is_search else None
    (facet,) = cached_reads.read_facets(where if is_all else ids_filter(ticked_ids()), TAGS, cut)
    (everywhere,) = cached_reads.read_facets("", TAGS)
    counts = {str(tag): 0 for tag, _ in everywhere.counts} | {str(tag): count for tag, count in facet.counts}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_TAGS])


def _change_tag(view: ViewState, is_all: bool, tag: str, is_added: bool) -> None:
    from ares.curation import add_tag, remove_tag

    change = add_tag if is_added else remove_tag
    stores = cached_reads.workspace().stores
    _act(
        view, is_all,
        lambda ids, recipe: change(stores, tag, ids, recipe, person=current_person()),
        f"tag {tag} {'added to' if is_added else 'removed from'}",
    )  # fmt: skip


def _write_note(view: ViewState, is_all: bool) -> None:
    from ares.curation import add_note

    stores, note = cached_reads.workspace().stores, _entered("selection.note")
    _act(
        view, is_all,
        lambda ids, recipe: add_note(stores, note, ids, recipe, person=current_person()),
        "noted of",
    )  # fmt: skip


def _exclude(view: ViewState, is_all: bool) -> None:
    from ares.curation import remove_episodes

    stores, note = cached_reads.workspace().stores, _entered("selection.reason")
    _act(
        view, is_all,
        lambda ids, recipe: remove_episodes(stores, ids, recipe, person=current_person(), note=note),
        "excluded",
    )  # fmt: skip
    _clear()


def _act(
    view: ViewState, is_all: bool, change: Callable[[StagedIds, dict[str, Json]], Action], text: str
) -> None:
    from ares.curation import StagedIds

    selected, recipe = _selected(view, is_all)
    with StagedIds(selected) as ids:
        action = change(ids, recipe)
    st.session_state[_LAST] = LastAction(action.number, f"{text} {action.count:,} episodes")
    cached_reads.clear_caches()


def _selected(view: ViewState, is_all: bool) -> tuple[Iterator[str], dict[str, Json]]:
    if is_all:
        return select_view(view)
    # What another person has excluded meanwhile is left out.
    ids = cached_reads.workspace().stores.tables.episodes.ids(ids_filter(ticked_ids()))
    if not ids:
        raise RequestError("no episode is selected", "tick some, or select all")
    return iter(sorted(ids)), {"ids": len(ids)}


def _draw_last_action() -> None:
    last: LastAction | None = st.session_state.get(_LAST)
    if last is None:
        return
    st.markdown(escape_markdown(last.text.capitalize()), width="content")
    # By its number: what somebody else has done since stays.
    st.button("Undo", key="selection.undo", icon=":material/undo:", on_click=_undo, args=(last,))


def _undo(last: LastAction) -> None:
    from ares.curation import undo

    st.session_state[_LAST] = None
    try:
        undo(cached_reads.workspace().stores, last.number, person=current_person())
    except AresError as error:
        pages.show_error(error)
    cached_reads.clear_caches()
