"""Page "Sets": the frozen selections, their episodes, and their export."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.cards import build_cards, make_episode_page_params
from app.dashboard.components import draw_grid
from app.dashboard.jobs import draw_exports, start_export
from app.dashboard.navigation import entered_text, escape_markdown, read_parameter, write_parameter
from app.dashboard.user_limits import choose_export_destination, find_default_export_folder
from app.dashboard.view_state import AddressError
from ares.curation import CurationSet
from ares.errors import AresError
from ares.export import TASK_SOURCES, TaskSource
from ares.registry import exporters

if TYPE_CHECKING:
    from ares.episode import Json

_MAX_CARDS = 24
# Keys of the fields of an export.
_FORMAT, _TASK, _FOLDER = "sets.format", "sets.task", "sets.folder"
_TASK_HELP = "The instruction; or the caption where it is acceptable, and the instruction elsewhere."


def render() -> None:
    """Draw the list of sets, and the set that the URL names."""
    sets = cached_reads.list_sets()
    named = read_parameter("set")
    if named and not any(named in (known.label, known.name) for known in sets):
        labels = ", ".join(known.label for known in sets[:20])
        raise AddressError("set", f"there is no set {named!r}", f"there are: {labels or 'none yet'}")
    if not sets:
        st.header("No sets yet")
        st.write("Filter or search in Browse, then choose “Make a set from these”.")
        return
    selected = _draw_list(sets)
    st.divider()
    are_spans = selected.num_spans is not None
    others = (other for other in sets if (other.num_spans is not None) == are_spans)
    _draw_set(selected, [other for other in others if other != selected])


def _draw_list(sets: list[CurationSet]) -> CurationSet:
    """Draw a table of all sets and a list to select from; returns the selected set."""
    st.header("Sets")
    rows = [
        {
            "set": episode_set.name,
            "version": episode_set.version,
            "episodes": episode_set.episodes,
            "created": episode_set.created,
            "recipe": _recipe_text(episode_set),
        }
        for episode_set in sets
    ]
    st.dataframe(rows, hide_index=True, key="sets.list")
    labels = [episode_set.label for episode_set in sets]
    requested = _label_of(sets, read_parameter("set"))
    navigation.show_value("sets.selected", requested)
    label = st.selectbox("Show", labels, key="sets.selected", width=420, on_change=_put_selection_in_url)
    return sets[labels.index(label)]


def _label_of(sets: list[CurationSet], requested: str) -> str:
    """The label of the set that the URL names, its newest version where it names none; the newest set by default."""
    names = ((known.label, known.name, "") for known in sets)
    return next(labels[0] for labels in names if requested in labels)


def _put_selection_in_url() -> None:
    selected = st.session_state.get("sets.selected")
    if selected:
        write_parameter("set", str(selected))


def _recipe_text(episode_set: CurationSet) -> str:
    # What is certified is said in words below.
    recipe = {name: value for name, value in episode_set.recipe.items() if value and name != "certified"}
    return ", ".join(f"{name}: {value}" for name, value in recipe.items())


def _draw_set(episode_set: CurationSet, others: list[CurationSet]) -> None:
    st.subheader(escape_markdown(episode_set.label))
    recipe = _recipe_text(episode_set) or "every episode"
    counts = f"{episode_set.size}, frozen {episode_set.created}"
    st.caption(escape_markdown(f"{counts}, hash {episode_set.ids_hash}; {recipe}"))
    sets = cached_reads.workspace().sets
    certificate = cached_reads.limited(lambda: sets[episode_set.label].certificate)
    if certificate:
        void = "; ".join(map(str, cast("Sequence[Json]", certificate["void"])))
        text = f"certified: {certificate['says']}{f'; VOID: {void}' if void else ''}"
        (st.warning if void else st.success)(escape_markdown(text))
    left_column, right_column = st.columns([1, 1], gap="large")
    with left_column:
        _draw_export(episode_set)
    with right_column, st.expander("Recipe"):
        document = json.dumps(episode_set.to_json(), indent=1, ensure_ascii=False)
        st.code(document, language=None, wrap_lines=True)
    _draw_comparison(episode_set, others)
    _draw_members(episode_set)


def _draw_export(episode_set: CurationSet) -> None:
    st.markdown("**Export**")
    format = str(st.selectbox("Format", exporters.names(), key=_FORMAT))
    task: TaskSource = st.selectbox("Task of every episode", TASK_SOURCES, key=_TASK, help=_TASK_HELP)
    workspace = cached_reads.workspace()
    folder = _select_export_folder()
    name = st.text_input(
        "Name of the new folder",
        value=_default_folder_name(episode_set, format),
        key=_name_key(episode_set, format),
        help=f"Below {escape_markdown(folder)} on the server; `ares app --export-dir` allows other folders.",
    ).strip()
    st.button(
        "Export", type="primary", key="sets.export", disabled=not name,
        on_click=_start_export, args=(episode_set,),
    )  # fmt: skip
    st.caption("The same on the command line:")
    command = ["ares", "export", episode_set.label, str(folder / (name or "NAME")), "--format", format]
    command += [] if task == "instruction" else ["--task", task]
    line = shlex.join([*command, "--workspace", workspace.path])
    st.code(line, language=None, wrap_lines=True)
    draw_exports(workspace.stores, episode_set.label)


def _name_key(episode_set: CurationSet, format: str) -> str:
    return f"sets.dest.{episode_set.label}.{format}"


def _default_folder_name(episode_set: CurationSet, format: str) -> str:
    return f"{episode_set.name}-v{episode_set.version}-{format}"


def _start_export(episode_set: CurationSet) -> None:
    """Start an export by what the fields hold now, which may not be drawn yet."""
    navigation.settle_address()
    format = entered_text(_FORMAT)
    name = entered_text(_name_key(episode_set, format), _default_folder_name(episode_set, format))
    task: TaskSource = st.session_state.get(_TASK, TASK_SOURCES[0])
    labels = {str(folder): folder for folder in _list_export_folders()}
    folder = labels.get(entered_text(_FOLDER), next(iter(labels.values())))
    try:
        destination = choose_export_destination(folder, name)
        start_export(cached_reads.workspace().stores, episode_set, format, destination, task)
    except AresError as error:
        navigation.show_error(error)


def _list_export_folders() -> tuple[Path, ...]:
    """The folders that the owner of the server allows, at least one."""
    folders = cached_reads.page_limits().export_folders
    return folders or (find_default_export_folder(cached_reads.workspace().stores),)


def _select_export_folder() -> Path:
    """Draw a list of the folders that the owner of the server allows, if there are several; returns one of them."""
    folders = _list_export_folders()
    if len(folders) == 1:
        return folders[0]
    labels = [str(folder) for folder in folders]
    return folders[labels.index(str(st.selectbox("Folder on the server", labels, key=_FOLDER)))]


def _draw_comparison(episode_set: CurationSet, others: list[CurationSet]) -> None:
    """Draw a list of the other sets, the nearest first, and what differs from the selected one."""
    if not others:
        return
    ordered = sorted(others, key=lambda other: other.name != episode_set.name)
    labels = [other.label for other in ordered]
    label = st.selectbox(
        "Compare with", labels, index=None, key=f"sets.compare.{episode_set.label}", width=420,
        placeholder="Choose a set",
    )  # fmt: skip
    if label:
        _draw_differences(episode_set, ordered[labels.index(label)])


def _draw_differences(episode_set: CurationSet, other: CurationSet) -> None:
    sets = cached_reads.workspace().sets
    diff = cached_reads.limited(partial(sets.diff, other, episode_set))
    st.markdown(
        f"**{diff.common:,}** episodes in both, **{diff.added:,}** only in {escape_markdown(episode_set.label)}, "
        f"**{diff.removed:,}** only in {escape_markdown(other.label)}"
    )
    _draw_only_in(episode_set.label, diff.added, diff.added_ids)
    _draw_only_in(other.label, diff.removed, diff.removed_ids)


def _draw_only_in(label: str, count: int, ids: Callable[[], Iterable[str]]) -> None:
    if count:
        with st.expander(f"Only in {escape_markdown(label)}: {count:,}"):
            # A line of a span begins with its episode.
            episodes = (member.partition(" ")[0] for member in ids())
            shown = cached_reads.limited(lambda: list(dict.fromkeys(islice(episodes, _MAX_CARDS))))
            _draw_cards(shown, count, label)


def _draw_members(episode_set: CurationSet) -> None:
    sets = cached_reads.workspace().sets
    st.markdown("**Episodes**")
    ids = cached_reads.limited(lambda: list(islice(sets.ids(episode_set), _MAX_CARDS)))
    _draw_cards(ids, episode_set.episodes, "members")


def _draw_cards(ids: list[str], total: int, name: str) -> None:
    """Draw the first episodes of some."""
    if total > len(ids):
        st.caption(f"The first {len(ids)} of {total:,}")
    episodes = cached_reads.read_episodes(ids)
    if len(episodes) < len(ids):
        missing = f"{len(ids) - len(episodes)} of {len(ids)}"
        navigation.show_error(AresError("episodes of this set are not in the workspace", missing))
    cards = build_cards(episodes, cached_reads.read_captions(ids), {}, {})
    draw_grid(cards, f"sets.grid.{name}", _open_member, compact=True)


def _open_member(episode_id: str, position: int, second: float) -> None:
    navigation.open_page("episode", make_episode_page_params({}, episode_id, None, 0.0))
