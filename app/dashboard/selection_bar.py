"""What can be done with the selected episodes: act on them, take it back, or freeze them as a set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.settings import acting_as, user_name
from ares.store import TAGS, ids_filter
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import settle_address
from ares_app.dashboard.components import load_component, when_sent
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.results import read_shown_filter, search_threshold
from ares_app.dashboard.user_limits import search_image
from ares_app.dashboard.view_state import ViewState, view_to_params
from ares_app.server import PERSON_HEADER, check_person_name

if TYPE_CHECKING:
    from ares.curation import SelectedEpisodes
    from ares.jobs import EpisodeSelection
    from ares.store import Action


_PRECISION = "set_form.precision"


def draw_set_form(view: ViewState, episodes: int) -> None:
    """Draw the button with its form; a submit opens the new set."""
    with st.popover(f"Make a set of {episodes:,}", icon=":material/inventory_2:", type="primary"):
        with st.form("set_form", border=False, enter_to_submit=True):
            name = st.text_input("Name of the set", key="set_form.name", placeholder="spoon-v1")
            st.number_input(
                "Least measured share of true captions", 0.5, 0.99, None, 0.01, key=_PRECISION,
                help="Empty: none is asked for. Else only measured captions; the page Quality measures.",
            )  # fmt: skip
            create = guard_field("set_form.name", _create_set)
            st.form_submit_button("Make the set", type="primary", on_click=create, args=(view,))
        draw_refusal("set_form.name")
        st.caption("A set is frozen: the same name with other episodes becomes its next version.")
        precision: float | None = st.session_state.get(_PRECISION)
        line = make_set_create_command(cached_reads.workspace().path, name or "NAME", view, precision)
        st.code(line, language=None, wrap_lines=True)


def make_set_create_command(
    workspace: str, name: str, view: ViewState, min_precision: float | None = None
) -> str:
    """Return the command line that creates the same set."""
    selected = asdict(select_episodes_of_view(view))
    if view.is_search:
        selected["min_score"] = f"{selected['min_score']:.4g}"
    options = {**selected, "min_precision": min_precision, "workspace": workspace}
    values = {f"--{name.replace('_', '-')}": str(value) for name, value in options.items() if value}
    parts = [part for option in values.items() for part in option]
    return shlex.join(["ares", "set", "create", name, *parts])


def select_episodes_of_view(view: ViewState) -> EpisodeSelection:
    """All episodes of a view, of a search those above its cut.

    Raises:
        RequestError: A filter cannot be read.
        QueryTimeout: The search took longer than the limit.
    """
    from ares.jobs import EpisodeSelection

    return EpisodeSelection(
        where=read_shown_filter(view),
        search=view.text,
        like=view.like,
        image=search_image(view.image),
        by=view.by,
        min_score=search_threshold(view) if view.is_search else None,
    )


def _create_set(view: ViewState) -> None:
    """Create the set that the form names, and open it."""
    from ares.workspace import create_measured_set

    selection, name = select_episodes_of_view(view), entered_text("set_form.name")
    precision: float | None = st.session_state.get(_PRECISION)
    with acting_as(read_person_name()):
        created = create_measured_set(cached_reads.workspace().stores, name, selection, precision)
    navigation.open_page("sets", {"set": [created.label]})


_TICKED, _ALL, _LAST = "selection.ticked", "selection.all", "selection.last"
# Who acts, and the field for it.
_PERSON, _PERSON_FIELD = "selection.person", "selection.person_field"
_NEW_TAG, _NOTE, _REASON = "selection.tag_name", "selection.note", "selection.reason"
# Whether this session has heard of ticks, from the user or from what the tab kept over a reload.
_IS_KNOWN = "selection.known"
# What a tab keeps is not more than this session would let a user tick.
_MAX_TICKS, _EPISODE_ID = 100_000, re.compile("[0-9a-f]{16}")
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


def read_ticked_ids() -> set[str]:
    """Return the ids that are ticked, on any page of the results."""
    ids: set[str] = st.session_state.setdefault(_TICKED, set())
    return ids


def change_ticks(changes: Mapping[str, bool]) -> None:
    """Tick (True) or untick episodes."""
    settle_address()
    ticked = {id for id, is_ticked in changes.items() if is_ticked}
    st.session_state[_TICKED] = (read_ticked_ids() - changes.keys()) | ticked
    st.session_state[_ALL], st.session_state[_IS_KNOWN] = None, True


def keep_ticks() -> None:
    """Draw nothing; let the tab of the browser keep the ticks, so that they survive a reload."""
    data: dict[str, Json] = {
        "workspace": cached_reads.workspace().stores.workspace_id,
        "isNew": not st.session_state.get(_IS_KNOWN, False),
        "ticked": list[Json](sorted(read_ticked_ids())),
        "all": st.session_state.get(_ALL),
    }
    with st.container(key="tab_state"):
        restore = when_sent("tab_state.kept", "restored", _restore_ticks)
        load_component("tab_state")(data=data, key="tab_state.kept", on_restored_change=restore)


def _restore_ticks(stored: Mapping[str, Any]) -> None:
    """Tick again what the tab has kept: ids, and the view of which all was selected or None."""
    kept = {id for id in map(str, stored["ticked"][:_MAX_TICKS]) if _EPISODE_ID.fullmatch(id)}
    st.session_state[_TICKED] = read_ticked_ids() | kept
    st.session_state[_ALL], st.session_state[_IS_KNOWN] = stored["all"], True


def draw_selection_bar(view: ViewState, shown: int) -> None:
    """Draw how many episodes are selected with the actions on them, and what was done last; nothing for nothing.

    Args:
        view: The view on the page.
        shown: Number of its episodes.
    """
    is_all = st.session_state.get(_ALL) == view_to_params(view)
    count = shown if is_all else len(read_ticked_ids())
    if not count:
        _draw_last_action()
        return
    with st.container(horizontal=True, vertical_alignment="center", key="selection.bar", gap="small"):
        st.markdown(f"**{count:,} selected**", width="content")
        _draw_tags(view, is_all, count)
        _draw_note(view, is_all, count)
        _draw_exclusion(view, is_all, count)
        if count == 2 and not is_all:
            st.button(
                "Compare", key="selection.compare", icon=":material/compare:",
                on_click=navigation.open_page,
                args=("compare", {name: [id] for name, id in zip("ab", sorted(read_ticked_ids()), strict=True)}),
            )  # fmt: skip
        _draw_person()
        st.button("Clear", key="selection.clear", type="tertiary", on_click=_clear_selection)
        _draw_last_action()


def draw_select_all(view: ViewState, shown: int) -> None:
    """Draw the button that selects all episodes of a view."""
    st.button(
        f"Select all {shown:,}",
        key="selection.everything",
        type="tertiary",
        on_click=select_all,
        args=(view,),
    )


def select_all(view: ViewState) -> None:
    """Select all episodes of a view."""
    settle_address()
    st.session_state[_ALL], st.session_state[_IS_KNOWN] = view_to_params(view), True


def _clear_selection() -> None:
    settle_address()
    st.session_state[_TICKED], st.session_state[_ALL], st.session_state[_IS_KNOWN] = set(), None, True


def _draw_tags(view: ViewState, is_all: bool, count: int) -> None:
    with st.popover("Edit tags", icon=":material/label:"):
        for tag, tagged in _tag_counts(view, is_all).items():
            icon = ":material/check_box:" if tagged == count else ":material/indeterminate_check_box:"
            st.button(
                f"{escape_markdown(tag)}: {tagged:,} of {count:,}", key=f"selection.tag.{tag}", icon=icon,
                on_click=guard_field(_NEW_TAG, _change_tag),
                args=(view, is_all, tag, tagged < count), width="stretch",
                help="Remove it from all" if tagged == count else "Add it to the others",
            )  # fmt: skip
        with st.form("selection.new_tag", border=False):
            st.text_input("New tag", key=_NEW_TAG, placeholder="blurred")
            add = guard_field(
                _NEW_TAG, lambda: _change_tag(view, is_all, entered_text(_NEW_TAG), True), clears=True
            )
            st.form_submit_button("Add the tag", on_click=add)
        draw_refusal(_NEW_TAG)


def _draw_note(view: ViewState, is_all: bool, count: int) -> None:
    with (
        st.popover("Note", icon=":material/edit_note:"),
        st.form("selection.note_form", border=False),
    ):
        st.text_area("Text of the note", key=_NOTE, placeholder="the gripper slips")
        write = guard_field(_NOTE, _write_note, clears=True)
        st.form_submit_button(f"Write it to {count:,}", on_click=write, args=(view, is_all))
        draw_refusal(_NOTE)


def _draw_exclusion(view: ViewState, is_all: bool, count: int) -> None:
    with st.popover("Exclude", icon=":material/visibility_off:"):
        st.caption(
            "They leave the workspace, its searches and new sets. Sources stay, and an undo brings them back."
        )
        with st.form("selection.exclusion", border=False):
            st.text_input("Why", key=_REASON, placeholder="black picture")
            exclude = guard_field(_REASON, _exclude_episodes)
            st.form_submit_button(f"Exclude {count:,}", type="primary", on_click=exclude, args=(view, is_all))
        draw_refusal(_REASON)


def read_person_name() -> str:
    """Return the name that the log has for what is done on this page: that of the log-in, where there is one."""
    return read_login_name() or str(st.session_state.get(_PERSON) or "") or user_name()


def read_login_name() -> str:
    """The name of who has logged in by a trusted proxy or an identity provider, which no page changes; "" without."""
    text = st.context.headers.get(PERSON_HEADER) or ""
    return text.encode("latin-1", "replace").decode("utf-8", "replace")


def remember_person_name(name: str) -> None:
    """Let the log have this name for what is done on this page from now on; "" leaves it."""
    if name.strip():
        check_person_name(name.strip())
        st.session_state[_PERSON] = name.strip()


def _draw_person() -> None:
    if person := read_login_name():
        st.caption(f"as {escape_markdown(person)}", width="content")
        return
    # Set in every run: Streamlit forgets the value of a field that is not drawn.
    show_value(_PERSON_FIELD, read_person_name())
    with st.popover(f"as {escape_markdown(read_person_name())}", type="tertiary"):
        st.text_input(
            "Your name, for the log", key=_PERSON_FIELD,
            on_change=guard_field(_PERSON_FIELD, _rename_person),
        )  # fmt: skip
        draw_refusal(_PERSON_FIELD)


def _rename_person() -> None:
    remember_person_name(entered_text(_PERSON_FIELD))


def _tag_counts(view: ViewState, is_all: bool) -> dict[str, int]:
    """Number of selected episodes with each tag of the workspace, the most frequent first."""
    if TAGS not in cached_reads.filter_columns():
        return {}
    where = read_shown_filter(view) if is_all else ids_filter(read_ticked_ids())
    search = (view.query, search_threshold(view)) if is_all and view.is_search else ()
    (facet,) = cached_reads.read_facets(where, TAGS, *search)
    (everywhere,) = cached_reads.read_facets("", TAGS)
    counts = {str(tag): 0 for tag, _ in everywhere.counts} | {str(tag): count for tag, count in facet.counts}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_TAGS])


def _change_tag(view: ViewState, is_all: bool, tag: str, is_added: bool) -> None:
    from ares.curation import add_tag, remove_tag

    change = add_tag if is_added else remove_tag
    stores = cached_reads.workspace().stores
    _act_on_selection(
        view, is_all,
        lambda selected: change(stores, tag, selected, person=read_person_name()),
        f"Tag {tag} {'added to' if is_added else 'removed from'}",
    )  # fmt: skip


def _write_note(view: ViewState, is_all: bool) -> None:
    from ares.curation import add_note

    stores, note = cached_reads.workspace().stores, entered_text(_NOTE)
    _act_on_selection(
        view, is_all,
        lambda selected: add_note(stores, note, selected, person=read_person_name()),
        "Noted of",
    )  # fmt: skip


def _exclude_episodes(view: ViewState, is_all: bool) -> None:
    from ares.curation import remove_episodes

    stores, note = cached_reads.workspace().stores, entered_text(_REASON)
    _act_on_selection(
        view, is_all,
        lambda selected: remove_episodes(stores, selected, person=read_person_name(), note=note),
        "Excluded",
    )  # fmt: skip
    _clear_selection()


def _act_on_selection(
    view: ViewState, is_all: bool, change: Callable[[SelectedEpisodes], Action], text: str
) -> None:
    from ares.curation import select_episodes

    selection = select_episodes_of_view(view) if is_all else _ticked_selection()
    with select_episodes(cached_reads.workspace().stores, selection) as selected:
        action = change(selected)
    st.session_state[_LAST] = LastAction(
        action.number, f"{text} {count_of(action.count, 'episode', comma=True)}"
    )
    cached_reads.clear_caches()
    navigation.draw_all_again()


def _ticked_selection() -> EpisodeSelection:
    """The ticked episodes without those that another person has excluded meanwhile."""
    from ares.jobs import EpisodeSelection

    ids = cached_reads.workspace().stores.tables.episodes.ids(ids_filter(read_ticked_ids()))
    if not ids:
        raise RequestError("no episode is selected", "tick some, or select all")
    return EpisodeSelection(ids=sorted(ids))


def _draw_last_action() -> None:
    last: LastAction | None = st.session_state.get(_LAST)
    draw_refusal("selection.undo")
    if last is None:
        return
    st.markdown(escape_markdown(last.text), width="content")
    # By its number: what somebody else has done since stays.
    undo_last = guard_field("selection.undo", _undo_last_action)
    st.button("Undo", key="selection.undo", icon=":material/undo:", on_click=undo_last, args=(last,))


def _undo_last_action(last: LastAction) -> None:
    from ares.curation import undo

    st.session_state[_LAST] = None
    undo(cached_reads.workspace().stores, last.number, person=read_person_name())
    cached_reads.clear_caches()
    navigation.draw_all_again()
