"""Page "Sets": the frozen selections, their episodes, and their export."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import read_parameter, write_parameter
from app.dashboard.cards import build_cards, make_episode_page_params
from app.dashboard.column_words import code_words, time_words
from app.dashboard.components import draw_grid, draw_table
from app.dashboard.error_boxes import show_error
from app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from app.dashboard.job_panels import draw_command_line, draw_jobs
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.selection_bar import read_person_name
from app.dashboard.user_limits import choose_export_destination, find_default_export_folder
from app.dashboard.view_state import AddressError
from app.server import Job, find_job_path, list_jobs, make_export_words, make_option, start_command
from ares.console import count_of
from ares.curation import SET_OPERATIONS, WHAT_IS_KNOWN, CurationSet
from ares.errors import AresError
from ares.export import TASK_SOURCES, TaskSource
from ares.names import check_name
from ares.registry import exporters

if TYPE_CHECKING:
    pass

_MAX_CARDS = 24
# Parts of a recipe whose names say too little.
_RECIPE_WORDS = {"where": "filter"}
# Keys of the fields of an export.
_FORMAT, _TASK, _REFUTED, _FOLDER = "sets.format", "sets.task", "sets.refuted", "sets.folder"
_PRECISION = "sets.precision"
_TASK_HELP = "The instruction; or the caption where it is acceptable, and the instruction elsewhere."
_REFUTED_HELP = (
    "Captions and texts of segments leave also where a judge accepts them that accepts false ones."
)

_PRECISION_HELP = "Empty: none is asked for. Else of each dataset; the page Review measures it."


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
            "created (UTC)": (time_words(episode_set.created), episode_set.created),
            "recipe": _recipe_text(episode_set),
        }
        for episode_set in sets
    ]
    draw_table(rows, "sets.list")
    labels = [episode_set.label for episode_set in sets]
    requested = _label_of(sets, read_parameter("set"))
    show_value("sets.selected", requested)
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
    # Sets of earlier versions may have a certificate there.
    recipe = {name: value for name, value in episode_set.recipe.items() if value and name != "certified"}
    return ", ".join(
        f"{_RECIPE_WORDS.get(name) or code_words(name)}: {value}" for name, value in recipe.items()
    )


def _draw_set(episode_set: CurationSet, others: list[CurationSet]) -> None:
    st.subheader(escape_markdown(episode_set.label))
    recipe = _recipe_text(episode_set) or "every episode"
    counts = f"{episode_set.size}, frozen {time_words(episode_set.created)} UTC"
    counts += f" by {episode_set.person}" if episode_set.person else ""
    st.caption(escape_markdown(f"{counts}; {recipe}"), help=f"Hash of the ids: {episode_set.ids_hash}")
    sets = cached_reads.workspace().sets
    measured = cached_reads.limited(lambda: sets[episode_set.label].measured)
    for dataset, shares in cast("Mapping[str, Mapping[str, Any]]", measured).items():
        for share in shares.values():
            st.caption(escape_markdown(f"{dataset}: {share['says']}"))
    left_column, right_column = st.columns([1, 1], gap="large")
    with left_column:
        _draw_export(episode_set)
    with right_column, st.expander("Recipe"):
        document = json.dumps(episode_set.to_json(), indent=1, ensure_ascii=False)
        st.code(document, language=None, wrap_lines=True)
    if episode_set.num_spans is None:
        _draw_composition(episode_set, others)
    elif others:
        with st.expander("Combine with other sets"):
            _draw_action(episode_set, others, "combine")
    _draw_comparison(episode_set, others)
    _draw_members(episode_set)


def _draw_export(episode_set: CurationSet) -> None:
    st.markdown("**Export**")
    format = str(st.selectbox("Format", _list_formats(), key=_FORMAT))
    task: TaskSource = st.selectbox("Task of every episode", TASK_SOURCES, key=_TASK, help=_TASK_HELP)
    refuted = st.checkbox("Also captions by a refuted judge", key=_REFUTED, help=_REFUTED_HELP)
    st.number_input(
        "Share of true captions that people have shown",
        0.5,
        0.99,
        None,
        0.01,
        key=_PRECISION,
        help=_PRECISION_HELP,
    )
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
        on_click=guard_field("sets.export", _start_export), args=(episode_set,),
    )  # fmt: skip
    draw_refusal("sets.export")
    destination = folder / (name or "NAME")
    words = make_export_words(
        episode_set.label, destination, format, task, _read_precision(), refuted=refuted
    )
    draw_command_line(words)
    draw_jobs(lambda: list_jobs(workspace.stores, "export", episode_set.label), summarise=_summarise_export)


def _summarise_export(job: Job) -> str:
    """For example "Exported to exports/lids; 2 episodes of the set failed: not in the export"."""
    failed = job.document["failed"]
    lost = f"; {count_of(failed, 'episode', comma=True)} of the set failed: not in the export"
    return f"Exported to {job.document['path']}{lost if failed else ''}"


def _list_formats() -> list[str]:
    """The formats of exports, first the one that policies are trained from."""
    return sorted(exporters.names(), key=lambda name: (name != "lerobot", name))


def _name_key(episode_set: CurationSet, format: str) -> str:
    return f"sets.dest.{episode_set.label}.{format}"


def _default_folder_name(episode_set: CurationSet, format: str) -> str:
    name = re.sub(r"[/:\\]", "-", episode_set.name).lstrip(".")
    return f"{name}-v{episode_set.version}-{format}"


def _start_export(episode_set: CurationSet) -> None:
    """Start an export by what the fields hold now, which may not be drawn yet."""
    format = entered_text(_FORMAT)
    name = entered_text(_name_key(episode_set, format), _default_folder_name(episode_set, format))
    task: TaskSource = st.session_state.get(_TASK, TASK_SOURCES[0])
    labels = {str(folder): folder for folder in _list_export_folders()}
    folder = labels.get(entered_text(_FOLDER), next(iter(labels.values())))
    destination = choose_export_destination(folder, name)
    refuted = bool(st.session_state.get(_REFUTED))
    words = make_export_words(
        episode_set.label, destination, format, task, _read_precision(), refuted=refuted
    )
    start_command(cached_reads.workspace().stores, words, read_person_name(), episode_set.label)


def _read_precision() -> float | None:
    """The least share of true captions that was entered."""
    precision: float | None = st.session_state.get(_PRECISION)
    return precision


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


# What can be made of a set, by the key of its fields.
_ACTIONS = {
    "rules": "A set by rules: without copies, kinds of a size, datasets in shares",
    "split": "A split that keeps copies together",
    "combine": "A union, an intersection or a difference",
}
_BY_HELP = "Names with commas: task, scene, operator, day, columns, or keys of the metadata."
# The option that names the file of reasons, and how many of these are drawn.
_REASONS, _SHOWN_REASONS = "reasons", 200


def _draw_composition(episode_set: CurationSet, others: list[CurationSet]) -> None:
    """Draw what can be made of a set, with the same request as a command, and what came of it."""
    with st.expander("Compose from this set"):
        action = st.selectbox(
            "What is made", list(_ACTIONS), format_func=_ACTIONS.__getitem__, key="sets.action"
        )
        _draw_action(episode_set, others, str(action))


def _draw_action(episode_set: CurationSet, others: list[CurationSet], action: str) -> None:
    fields: dict[str, Callable[[CurationSet, list[CurationSet]], list[str]]] = {
        "rules": _draw_rules,
        "split": _draw_split,
        "combine": _draw_combination,
    }
    words = fields[action](episode_set, others)
    make = guard_field("sets.make", _start_action)
    # Not by `on_click`, whose arguments are of the last drawing: a name that is typed right before the click counts.
    if st.button("Make it", type="primary", key="sets.make"):
        make(episode_set, words)
    draw_refusal("sets.make")
    draw_command_line(["set", *words])
    workspace = cached_reads.workspace()
    draw_jobs(
        lambda: list_jobs(workspace.stores, "set", episode_set.label), summarise=_summarise_action,
        draw_more=_draw_reasons, most=3,
    )  # fmt: skip


def _start_action(episode_set: CurationSet, words: list[str]) -> None:
    if words[1] != episode_set.label:  # no other word that is typed stands without its option
        check_name("set", words[1], lambda: cached_reads.workspace().sets)
    stores, words = cached_reads.workspace().stores, ["set", *words]
    if words[1] == "create":
        words += make_option(_REASONS, find_job_path(stores, words).with_suffix(".csv"))
    start_command(stores, words, read_person_name(), episode_set.label)


def _enter_text(label: str, key: str, default: str = "", help: str | None = None) -> str:
    return st.text_input(label, value=default, key=f"sets.compose.{key}", help=help).strip()


def _enter_number(label: str, key: str) -> int | None:
    return st.number_input(label, value=None, min_value=1, step=1, key=f"sets.compose.{key}")


def _draw_seed() -> list[str]:
    return make_option("seed", st.number_input("Seed", value=0, min_value=0, step=1, key="sets.compose.seed"))


def _draw_rules(episode_set: CurationSet, others: list[CurationSet]) -> list[str]:
    name = _enter_text("Name of the new set", f"name.{episode_set.label}", f"{episode_set.name}-composed")
    words = ["create", name or "NAME", f"--set={episode_set.label}"]
    if st.checkbox("Leave out copies", value=True, key="sets.compose.dedupe", help=WHAT_IS_KNOWN):
        words += ["--dedupe"]
    balance, floor, cap = st.columns(3)
    with balance:
        words += make_option("balance", _enter_text("Kinds by", "balance", help=_BY_HELP))
    with floor:
        words += make_option("floor", _enter_number("Least of a kind", "floor"))
    with cap:
        words += make_option("cap", _enter_number("Most of a kind", "cap"))
    shares = _enter_text("Shares of datasets", "shares", help="Such as bridge=.6,droid=.4; they sum to 1.")
    return [*words, *make_option("share", shares), *_draw_seed()]


def _draw_split(episode_set: CurationSet, others: list[CurationSet]) -> list[str]:
    words = ["split", episode_set.label]
    defaults = {"train": 0.9, "val": 0.1, "test": 0.0}
    for (part, default), column in zip(defaults.items(), st.columns(len(defaults)), strict=True):
        with column:
            share = st.number_input(
                f"Share of {part}", value=default, min_value=0.0, max_value=1.0, step=0.05,
                key=f"sets.compose.{part}",
            )  # fmt: skip
        words += make_option(part, round(share, 6))
    words += make_option("by", _enter_text("No value in two parts of", "by", help=_BY_HELP))
    if st.checkbox("Draw all sides again", key="sets.compose.fresh", help="Else what has a side keeps it."):
        words += ["--fresh"]
    return [*words, *_draw_seed()]


def _draw_combination(episode_set: CurationSet, others: list[CurationSet]) -> list[str]:
    operation = str(st.selectbox("Operation", SET_OPERATIONS, key="sets.compose.operation"))
    labels = [other.label for other in others]
    parts = st.multiselect("With", labels, key=f"sets.compose.parts.{episode_set.label}")
    default = f"{episode_set.name}-{operation}"
    name = _enter_text("Name of the new set", f"name.{episode_set.label}.{operation}", default)
    return [operation, name or "NAME", episode_set.label, *parts]


def _summarise_action(job: Job) -> str:
    """For example "all-train@1 has 90 episodes, all-val@1 has 10 episodes; on two sides: copies 0"."""
    report: Mapping[str, Any] = job.document
    new_sets = report["sets"].values() if "sets" in report else [report] if "name" in report else []
    parts = [
        f"{part['name']}@{part['version']} has {count_of(part['episodes'], 'episode')}" for part in new_sets
    ]
    shared = ", ".join(f"{name} {count}" for name, count in report.get("on_two_sides", {}).items())
    joined = report.get("joins_two_sides")
    return (
        ", ".join(parts)
        + (f"; on two sides: {shared} ({report['known']})" if shared else "")
        + (f"; left out, as they join two sides: {', '.join(joined)}" if joined else "")
    )


def _draw_reasons(job: Job) -> None:
    """Draw why the first episodes were kept or left out, and a file of all of them."""
    named = [word.partition("=")[2] for word in job.words if word.startswith(f"--{_REASONS}=")]
    path = Path(named[0]) if named else None
    if path is None or not path.exists():
        return
    with path.open(newline="") as file:
        rows = list(islice(csv.DictReader(file), _SHOWN_REASONS))
    with st.expander("Why each episode is kept or left out"):
        draw_table(rows, f"sets.reasons.{job.name}")
        st.download_button(
            "All reasons as CSV", path.read_bytes(), file_name="reasons.csv", mime="text/csv",
            key=f"sets.reasons.file.{job.name}",
        )  # fmt: skip


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
        show_error(AresError("episodes of this set are not in the workspace", missing))
    cards = build_cards(episodes, cached_reads.read_captions(ids), {}, {})
    draw_grid(cards, f"sets.grid.{name}", _open_member, size="small")


def _open_member(episode_id: str, position: int, second: float) -> None:
    navigation.open_page("episode", make_episode_page_params({}, episode_id, None, 0.0))
