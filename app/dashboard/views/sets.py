"""Page "Sets": the frozen selections, what can be made of one, and their episodes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ares.console import count_of
from ares.curation import (
    WHAT_IS_KNOWN,
    CompositionRules,
    CurationSet,
    SplitRequest,
    compose_selection,
    draw_controls,
    parse_shares,
    plan_split,
)
from ares.errors import AresError
from ares.evaluation import bound_success, read_trials
from ares.export import TASK_SOURCES, TaskSource
from ares.names import check_name
from ares.registry import exporters
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import read_parameter, write_parameter
from ares_app.dashboard.cards import build_cards, make_episode_page_params
from ares_app.dashboard.column_words import code_words, time_words
from ares_app.dashboard.components import draw_grid, draw_table
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.fields import draw_refusal, guard_field
from ares_app.dashboard.job_panels import draw_command_line, draw_jobs
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.selection_bar import read_person_name
from ares_app.dashboard.user_limits import choose_export_destination, find_default_export_folder
from ares_app.dashboard.view_state import AddressError
from ares_app.server import Job, find_job_path, list_all_jobs, make_export_words, make_option, start_command

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_CARDS = 24
# Parts of a recipe whose names say too little.
_RECIPE_WORDS = {"where": "filter"}
_TASK_HELP = "The instruction; or the caption where it is acceptable, and the instruction elsewhere."
_REFUTED_HELP = (
    "Captions and texts of segments leave also where a judge accepts them that accepts false ones."
)
_PRECISION_HELP = "Empty: none is asked for. Else of each dataset; the page Quality measures it."
_BY_HELP = "Names with commas: task, scene, operator, day, columns, or keys of the metadata."
# The option that names the file of reasons, and how many of these are drawn.
_REASONS, _SHOWN_REASONS = "reasons", 200
# What can be done with a set of episodes, and with one of spans.
_ACTIONS = {
    "export": "Export",
    "dedupe": "Leave out copies",
    "rules": "Balance",
    "split": "Split",
    "controls": "Control sets",
    "compare": "Compare",
}
_ACTIONS_OF_SPANS = ("export", "compare")


class SetRequest(NamedTuple):
    """What a form asks for.

    Attributes:
        words: The words behind `ares set`.
        describe: Counts what would be made, in one line.
    """

    words: Sequence[str]
    describe: Callable[[], str]


def render() -> None:
    """Draw the list of sets, and the set that the URL names or the newest."""
    sets = cached_reads.list_sets()
    named = read_parameter("set")
    if named and not any(named in (known.label, known.name) for known in sets):
        labels = ", ".join(known.label for known in sets[:20])
        raise AddressError("set", f"there is no set {named!r}", f"there are: {labels or 'none yet'}")
    if not sets:
        st.header("No sets yet")
        st.write("Filter or search in Browse, then choose “Make a set of”.")
        st.button(
            "Choose episodes",
            key="sets.browse",
            type="primary",
            on_click=navigation.open_page,
            args=("browse",),
        )
        return
    rows = [
        {
            "set": episode_set.label,
            "episodes": episode_set.episodes,
            "created (UTC)": time_words(episode_set.created),
            "recipe": _recipe_text(episode_set),
        }
        for episode_set in sets
    ]
    draw_table(rows, "sets.list", "Open", lambda row: write_parameter("set", sets[row].label))
    _draw_policies()
    selected = next(known for known in sets if named in (known.label, known.name, ""))
    are_spans = selected.num_spans is not None
    others = [other for other in sets if other != selected and (other.num_spans is not None) == are_spans]
    _draw_set(selected, others)


def _draw_policies() -> None:
    """Draw the policies of which results were added, with the interval of their success."""
    policies = cached_reads.limited(lambda: read_trials(cached_reads.workspace().stores.annotations))
    rows = [
        {
            "policy": policy,
            "set": ", ".join(sorted({trial.set for trial in trials} - {""})),
            "trials": len(trials),
            "success": str(bound_success(trials)),
        }
        for policy, trials in policies.items()
    ]
    if rows:
        st.caption("Policies by the success of their rollouts; `ares evaluate compare` compares two.")
        draw_table(rows, "sets.policies")


def _recipe_text(episode_set: CurationSet) -> str:
    # Sets of earlier versions may have a certificate there.
    recipe = {name: value for name, value in episode_set.recipe.items() if value and name != "certified"}
    parts = (f"{_RECIPE_WORDS.get(name) or code_words(name)}: {value}" for name, value in recipe.items())
    return ", ".join(parts) or "every episode"


def _draw_set(episode_set: CurationSet, others: Sequence[CurationSet]) -> None:
    st.subheader(escape_markdown(episode_set.label))
    by = f" by {episode_set.person}" if episode_set.person else ""
    frozen = (
        f"{episode_set.size}, frozen {time_words(episode_set.created)} UTC{by}; {_recipe_text(episode_set)}"
    )
    st.caption(escape_markdown(frozen), help=f"Hash of the ids: {episode_set.ids_hash}")
    actions = _ACTIONS if episode_set.num_spans is None else _ACTIONS_OF_SPANS
    action = st.segmented_control(
        "What to do with it", list(actions), default="export", required=True, format_func=_ACTIONS.__getitem__,
        key=f"sets.action.{episode_set.label}", label_visibility="collapsed",
    )  # fmt: skip
    _draw_action(episode_set, others, str(action))
    stores = cached_reads.workspace().stores
    draw_jobs(
        lambda: [job for job in list_all_jobs(stores) if job.subject == episode_set.label],
        summarise=_summarise_job, draw_more=_draw_reasons, most=3,
    )  # fmt: skip
    ids = cached_reads.limited(
        lambda: list(islice(cached_reads.workspace().sets.ids(episode_set), _MAX_CARDS))
    )
    _draw_cards(ids, episode_set.episodes, "members")


def _draw_action(episode_set: CurationSet, others: Sequence[CurationSet], action: str) -> None:
    """Draw the form of an action: its fields, the counts of what would be made, and the button that makes it."""
    if action == "export":
        _draw_export(episode_set)
    elif action == "compare":
        _draw_comparison(episode_set, others)
    else:
        fields = {
            "dedupe": _draw_dedupe,
            "rules": _draw_rules,
            "split": _draw_split,
            "controls": _draw_controls,
        }
        _draw_request(episode_set, fields[action](episode_set))


def _draw_request(episode_set: CurationSet, request: SetRequest) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        is_started = st.button("Make it", type="primary", key="sets.make")
        if st.button("Count first", key="sets.count", help="As far as ten seconds allow"):
            _draw_count(request)
    # Not by `on_click`, whose arguments are of the last drawing: a name that is typed right before the click counts.
    if is_started:
        guard_field("sets.make", _start_action)(episode_set, request.words)
    draw_refusal("sets.make")
    draw_command_line(["set", *request.words])


def _draw_count(request: SetRequest) -> None:
    try:
        st.caption(escape_markdown(cached_reads.limited(request.describe)), width="content")
    except AresError as error:
        show_error(error)


def _start_action(episode_set: CurationSet, words: Sequence[str]) -> None:
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


def _draw_seed(action: str) -> int:
    return st.number_input("Seed", value=0, min_value=0, step=1, key=f"sets.compose.seed.{action}")


def _enter_names(label: str, action: str) -> tuple[str, ...]:
    names = _enter_text(label, f"by.{action}", help=_BY_HELP).split(",")
    return tuple(filter(None, (name.strip() for name in names)))


def _enter_name(episode_set: CurationSet, action: str) -> str:
    default = f"{episode_set.name}-{action}"
    return _enter_text("Name of the new set", f"name.{episode_set.label}.{action}", default) or "NAME"


def _count_composed(episode_set: CurationSet, rules: CompositionRules) -> str:
    """For example "9 kept, 3 near duplicate"."""
    workspace = cached_reads.workspace()
    counts = compose_selection(workspace.stores, list(workspace.sets.ids(episode_set)), rules).counts()
    return ", ".join(f"{number:,} {reason}" for reason, number in counts.items())


def _draw_dedupe(episode_set: CurationSet) -> SetRequest:
    st.caption("Of each group of copies the best stays.", help=WHAT_IS_KNOWN)
    words = ["create", _enter_name(episode_set, "deduped"), f"--set={episode_set.label}", "--dedupe"]
    return SetRequest(words, partial(_count_composed, episode_set, CompositionRules(dedupe=True)))


def _draw_rules(episode_set: CurationSet) -> SetRequest:
    name = _enter_name(episode_set, "balanced")
    kinds, least, most, shared = st.columns([2, 1, 1, 2])
    with kinds:
        names = _enter_names("Kinds by", "rules")
    with least:
        floor = _enter_number("Least of a kind", "floor")
    with most:
        cap = _enter_number("Most of a kind", "cap")
    with shared:
        shares = _enter_text(
            "Shares of datasets", "shares", help="Such as bridge=.6,droid=.4; they sum to 1."
        )
    seed = _draw_seed("rules")
    words = ["create", name, f"--set={episode_set.label}", *make_option("balance", ",".join(names))]
    options = {"floor": floor, "cap": cap, "share": shares, "seed": seed}
    words += [word for option, value in options.items() for word in make_option(option, value)]

    def count() -> str:
        mix = parse_shares(shares) if shares else {}
        rules = CompositionRules(balance=names, floor=floor, cap=cap, shares=mix, seed=seed)
        return _count_composed(episode_set, rules)

    return SetRequest(words, count)


def _draw_split(episode_set: CurationSet) -> SetRequest:
    words = ["split", episode_set.label]
    shares: dict[str, float] = {}
    defaults = {"train": 0.9, "val": 0.1, "test": 0.0}
    for (part, default), column in zip(defaults.items(), st.columns(len(defaults)), strict=True):
        key = f"sets.compose.{part}"
        share = round(column.number_input(f"Share of {part}", 0.0, 1.0, default, 0.05, key=key), 6)
        words += make_option(part, share)
        shares |= {part: share} if share else {}
    names = _enter_names("No value in two parts of", "split")
    words += make_option("by", ",".join(names))
    is_fresh = st.checkbox(
        "Draw all sides again", key="sets.compose.fresh", help="Else what has a side keeps it."
    )
    seed = _draw_seed("split")
    words += [*(["--fresh"] if is_fresh else []), *make_option("seed", seed)]

    def count() -> str:
        request = SplitRequest(shares=shares, by=names, seed=seed, fresh=is_fresh)
        plan = plan_split(cached_reads.workspace().stores, episode_set, request)
        parts = ", ".join(f"{len(ids):,} {part}" for part, ids in plan.parts.items())
        return f"{parts}; {len(plan.joined):,} left out, as they join two sides"

    return SetRequest(words, count)


def _draw_controls(episode_set: CurationSet) -> SetRequest:
    st.caption("Two sets to compare with: as many episodes at random, and for each member one that is alike.")

    def count() -> str:
        drawn = draw_controls(cached_reads.workspace().stores, episode_set)
        sizes = ", ".join(f"{len(ids):,} {kind}" for kind, ids in drawn.members.items())
        return f"{sizes}, of {drawn.pool:,}; {drawn.unmatched:,} without a match"

    return SetRequest(["controls", episode_set.label], count)


def _draw_export(episode_set: CurationSet) -> None:
    kinds, texts, measured = st.columns(3)
    format = str(kinds.selectbox("Format", _list_formats(), key="sets.format"))
    task: TaskSource = texts.selectbox(
        "Task of every episode", TASK_SOURCES, key="sets.task", help=_TASK_HELP
    )
    precision = measured.number_input(
        "Least measured share of true captions", 0.5, 0.99, None, 0.01, key="sets.precision", help=_PRECISION_HELP
    )  # fmt: skip
    refuted = st.checkbox("Also captions by a refuted judge", key="sets.refuted", help=_REFUTED_HELP)
    signals = _enter_text("Further signals", "signals", help="With commas; empty: those of all episodes.")
    folder = _select_export_folder()
    stem = re.sub(r"[/:\\]", "-", episode_set.name).lstrip(".")
    name = st.text_input(
        "Name of the new folder", f"{stem}-v{episode_set.version}-{format}",
        key=f"sets.dest.{episode_set.label}.{format}",
        help=f"Below {escape_markdown(folder)} on the server; `ARES_EXPORT_DIRS` allows other folders.",
    ).strip()  # fmt: skip
    make_words = partial(
        make_export_words,
        episode_set.label,
        format=format,
        task=task,
        min_precision=precision,
        refuted=refuted,
        signals=signals,
    )
    # Not by `on_click`, as `_draw_request`.
    if st.button(f"Export {episode_set.size}", type="primary", key="sets.export", disabled=not name):
        guard_field("sets.export", _start_export)(episode_set, folder, name, make_words)
    draw_refusal("sets.export")
    draw_command_line(make_words(folder / (name or "NAME")))


def _list_formats() -> list[str]:
    """The formats of exports, first the one that policies are trained from."""
    return sorted(exporters.names(), key=lambda name: (name != "lerobot", name))


def _start_export(
    episode_set: CurationSet, folder: Path, name: str, make_words: Callable[[Path], list[str]]
) -> None:
    words = make_words(choose_export_destination(folder, name))
    start_command(cached_reads.workspace().stores, words, read_person_name(), episode_set.label)


def _select_export_folder() -> Path:
    """Draw a list of the folders that the owner of the server allows, if there are several; returns one of them."""
    allowed = cached_reads.page_limits().export_folders
    folders = allowed or (find_default_export_folder(cached_reads.workspace().stores),)
    if len(folders) == 1:
        return folders[0]
    labels = [str(folder) for folder in folders]
    return folders[labels.index(str(st.selectbox("Folder on the server", labels, key="sets.folder")))]


def _summarise_job(job: Job) -> str:
    """For example "all-train@1 has 90 episodes, all-val@1 has 10 episodes; on two sides: copies 0"."""
    report: Mapping[str, Any] = job.document
    if job.words[0] == "export":
        lost = f"; {count_of(report['failed'], 'episode', comma=True)} of the set failed: not in the export"
        return f"Exported to {report['path']}{lost if report['failed'] else ''}"
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


def _draw_comparison(episode_set: CurationSet, others: Sequence[CurationSet]) -> None:
    """Draw a list of the other sets, the nearest first, and what differs from the selected one."""
    ordered = {
        other.label: other for other in sorted(others, key=lambda other: other.name != episode_set.name)
    }
    if not ordered:
        st.caption("There is no other set to compare with.")
        return
    label = str(
        st.selectbox("Compare with", list(ordered), key=f"sets.compare.{episode_set.label}", width=420)
    )
    diff = cached_reads.limited(partial(cached_reads.workspace().sets.diff, ordered[label], episode_set))
    own, other = escape_markdown(episode_set.label), escape_markdown(label)
    st.markdown(
        f"**{diff.common:,}** episodes in both, **{diff.added:,}** only in {own}, **{diff.removed:,}** only in {other}"
    )
    for name, total, members in ((own, diff.added, diff.added_ids), (other, diff.removed, diff.removed_ids)):
        if total:
            with st.expander(f"Only in {name}: {total:,}"):
                # A line of a span begins with its episode.
                episodes = (member.partition(" ")[0] for member in members())
                shown = cached_reads.limited(lambda: list(dict.fromkeys(islice(episodes, _MAX_CARDS))))  # noqa: B023
                _draw_cards(shown, total, name)


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
