"""Page "Compare": two episodes, or what two producers say of one, on one clock, with what differs formatted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from ares.curation import list_duplicate_pairs
from ares.episode import Episode, Json, Signal, Trajectory
from ares.store import ids_filter
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import read_parameter, read_second, write_parameter, write_parameters
from ares_app.dashboard.annotation_rows import read_annotations, read_segments
from ares_app.dashboard.column_words import (
    VERDICTS,
    code_words,
    format_column_label,
    format_value_for_people,
    producer_words,
    value_words,
)
from ares_app.dashboard.components import draw_player, draw_table
from ares_app.dashboard.fields import entered_text, show_value
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.player_data import make_player_source, make_plot
from ares_app.dashboard.timeline_ticks import make_gripper_ticks
from ares_app.dashboard.view_state import AddressError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns that tell one episode from every other, or say nothing of what is in it.
_UNLIKE_COLUMNS = frozenset(
    (
        "episode_id",
        "key",
        "source",
        "content_hash",
        "ingested",
        "source_stamp",
        "camera_stamps",
        "label_stamp",
        "metadata",
    )
)
_SIDES = ("a", "b")
_NO_LANES: Json = {"lanes": [], "more": []}
# What a text and a grade are made of is shown by words and by rulings, and not as values.
_SHOWN_ELSEWHERE = frozenset(("text", "rulings", "slots", "why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One of the two: an episode as its columns show it, or as one producer describes it.

    Attributes:
        producer: Id of the producer, or "" for what the columns show.
        documents: What it says, of `ares.workspace.describe_annotations`.
        producers: Names of all producers that say something of the episode, by id.
        describers: Ids of those of them that wrote a caption, the newest first.
    """

    episode: Episode
    trajectory: Trajectory
    producer: str
    documents: Sequence[Mapping[str, Any]]
    producers: Mapping[str, str]
    describers: Sequence[str]

    @property
    def text(self) -> str:
        """Its caption, the newest first; "" without one."""
        texts = [document["value"]["text"] for document in self.documents if document["value"].get("text")]
        return str(texts[-1]) if texts else ""

    @property
    def rulings(self) -> dict[str, str]:
        """Verdicts by criterion, of the newest grade."""
        rows = [document["value"].get("rulings") for document in self.documents]
        lists = [rulings for rulings in rows if isinstance(rulings, list)]
        rulings = lists[-1] if lists else []
        return {
            str(ruling["criterion"]): str(ruling.get("verdict") or "")
            for ruling in rulings
            if isinstance(ruling, dict) and "criterion" in ruling
        }


def render() -> None:
    """Draw the two that the URL names, or a pair of the group of near duplicates that it names."""
    ids = _draw_pairs(read_parameter("group"), [read_parameter("a"), read_parameter("b")])
    if not ids[0]:
        st.info(
            "Nothing to compare yet. Tick two episodes in Browse and press Compare, or give two ids in the "
            "address: ?a=ID&b=ID. One id alone compares what two producers say of that episode, and ?group=ID the "
            "near duplicates of a group.",
            icon=":material/info:",
        )
        return
    producers = [read_parameter("maker_a"), read_parameter("maker_b")]
    first, second = (
        _read_side(episode_id or ids[0], producer, f"maker_{name}")
        for episode_id, producer, name in zip(ids, producers, _SIDES, strict=True)
    )
    if not any([ids[1], *producers]) and len(first.describers) > 1:
        # The columns beside themselves would differ in nothing: two that describe it do.
        first, second = (_read_side(ids[0], producer, "maker_a") for producer in first.describers[:2])
    sides = (first, second)
    for name, side, column in zip(_SIDES, sides, st.columns(2), strict=True):
        _draw_producer_choice(column, side, name)
    draw_player(_player_data(sides), None, key="compare.pair")
    _draw_captions(sides)
    rulings = (_ruling_words(side.rulings) for side in sides)
    rows = [*compare_rows(*rulings), *compare_rows(*map(_values_of, sides))]
    if rows:
        draw_table(rows, "compare.values")


def _draw_pairs(group: str, ids: list[str]) -> list[str]:
    """Draw the choice among the pairs of a group; returns the pair of the URL, or without one the most similar."""
    if not group:
        return ids
    pairs = cached_reads.limited(lambda: list_duplicate_pairs(cached_reads.workspace().stores, group))
    if not pairs:
        detail = "`ares audit duplicates` finds the groups; the filter duplicate group in Browse lists them"
        raise AddressError("group", f"there is no group {group!r} of near duplicates", detail)
    labels = {
        f"{pair.first} {pair.second}": f"{number} of {len(pairs):,}: {pair.first} and {pair.second}, "
        f"{'equal content' if pair.way == 'content' else f'{pair.way} {pair.score:.3f}'}"
        for number, pair in enumerate(pairs, 1)
    }
    value = " ".join(ids) if ids[0] else next(iter(labels))
    options = labels if value in labels else {value: "another pair", **labels}
    show_value("compare.pairs", value)
    st.selectbox(
        "Near duplicates of this group", list(options), key="compare.pairs", on_change=_open_pair, args=(group,),
        format_func=lambda choice: options.get(choice, choice),
    )  # fmt: skip
    return [*value.split(" "), ""][:2]


def _open_pair(group: str) -> None:
    first, _, second = entered_text("compare.pairs").partition(" ")
    write_parameters({"group": [group], "a": [first], "b": [second]})


def _read_side(episode_id: str, producer: str, parameter: str) -> _Side:
    """Read an episode and what one producer, or the columns, say of it. Raises RequestError for an unknown one."""
    stores = cached_reads.workspace().stores
    episode = cached_reads.limited(lambda: stores.tables.episodes.get_episode(episode_id))
    segments = cached_reads.limited(lambda: read_segments(stores, episode))
    documents: Sequence[Mapping[str, Any]] = cached_reads.limited(
        lambda: read_annotations(stores, episode, segments).annotations
    )
    known = cached_reads.read_producers()
    producers = {
        str(document["maker_id"]): f"{code_words(str(document['annotator']))}: "
        + producer_words(known, str(document["maker_id"]))
        for document in documents
    }
    if producer and producer not in producers:
        raise AddressError(
            parameter, f"no producer {producer!r} says anything of {episode_id}", "select one again"
        )
    shown_documents = [
        document
        for document in documents
        if (document["maker_id"] == producer if producer else document.get("shown"))
    ]
    return _Side(
        episode=episode,
        trajectory=cached_reads.limited(lambda: stores.tables.trajectories.get(episode.episode_id)),
        producer=producer,
        documents=shown_documents,
        producers=producers,
        describers=list(
            dict.fromkeys(
                str(entry["maker_id"]) for entry in reversed(documents) if entry["value"].get("text")
            )
        ),
    )


def _draw_producer_choice(column: Any, side: _Side, name: str) -> None:
    key, names = f"compare.maker_{name}", {"": "what the columns show", **side.producers}
    show_value(key, side.producer)
    column.selectbox(
        f"{name.upper()} as described by", list(names), key=key, format_func=lambda choice: names.get(choice, choice),
        on_change=lambda: write_parameter(f"maker_{name}", entered_text(key)),
    )  # fmt: skip


def _player_data(sides: tuple[_Side, _Side]) -> dict[str, Json]:
    """The cameras of both on one clock, and their curves over each other; of one episode its own, once."""
    shown = sides if sides[0].episode.episode_id != sides[1].episode.episode_id else sides[:1]
    sources = [make_player_source(side.episode, side.trajectory, 0.0) for side in shown]
    duration = max(side.episode.duration_seconds for side in shown)
    data: dict[str, Json] = {
        **sources[0],
        "duration": duration,
        "rate": max(side.episode.rate_hz for side in shown),
        "start": read_second(duration) or 0.0,
        "signals": [],
        "ticks": _make_event_ticks(shown),
        "segments": _NO_LANES,
    }
    if len(shown) == 1:
        return data
    cameras: list[Json] = [
        {**camera, "name": f"{name.upper()} {camera['name']}"}
        for name, source in zip(_SIDES, sources, strict=True)
        for camera in cast("list[dict[str, Json]]", source["cameras"])
    ]
    # A clock for both cannot be that of one.
    own_clock: dict[str, Json] = {"stamps": [], "paired_by_index": False}
    return {**data, **own_clock, "cameras": cameras, "signals": _make_curves(sides)}


def _draw_captions(sides: tuple[_Side, _Side]) -> None:
    """Draw both captions, with the words formatted that the other one lacks."""
    texts = compare_words(*(side.text for side in sides))
    for name, side, words, column in zip(_SIDES, sides, texts, st.columns(2), strict=True):
        by = f" · {side.producers[side.producer]}" if side.producer else ""
        title = side.episode.instruction or side.episode.key
        formatted = [
            f":orange-background[{escape_markdown(word)}]" if differs else escape_markdown(word)
            for word, differs in words
        ]
        column.caption(f"**{name.upper()}** {escape_markdown(title + by)}")
        column.markdown(" ".join(formatted) or "no caption")
        column.button(
            "Open it", key=f"compare.open.{name}", type="tertiary", on_click=navigation.open_page,
            args=("episode", {"episode": [side.episode.episode_id]}),
        )  # fmt: skip


def _make_event_ticks(sides: Sequence[_Side]) -> list[Json]:
    """The gripper events of both."""
    return [
        {**tick, "label": f"{name.upper()}: {tick['label']}"}
        for name, side in zip(_SIDES, sides, strict=False)
        for tick in make_gripper_ticks(side.trajectory, None)
    ]


def compare_words(first: str, second: str) -> list[list[tuple[str, bool]]]:
    """The words of two texts, each with whether the other text lacks it at that place."""
    words = first.split(), second.split()
    folded = [[word.casefold().strip(".,;:!?") for word in text] for text in words]
    same = SequenceMatcher(a=folded[0], b=folded[1], autojunk=False).get_matching_blocks()
    shared = [
        {index for block in same for index in range(block[side], block[side] + block.size)} for side in (0, 1)
    ]
    return [[(word, index not in shared[side]) for index, word in enumerate(words[side])] for side in (0, 1)]


def compare_rows(first: Mapping[str, str], second: Mapping[str, str]) -> list[dict[str, Any]]:
    """Name, both values and whether they differ; those that differ come first, in the order of the first."""
    rows = [
        {
            "what": name,
            "A": first.get(name),
            "B": second.get(name),
            "differs": first.get(name) != second.get(name),
        }
        for name in dict.fromkeys([*first, *second])
    ]
    return sorted(rows, key=lambda row: not row["differs"])


def _ruling_words(rulings: Mapping[str, str]) -> dict[str, str]:
    return {code_words(code): VERDICTS.get(verdict, verdict) for code, verdict in rulings.items()}


def _values_of(side: _Side) -> dict[str, str]:
    """What a producer has written, or the columns of the episode."""
    producers = cached_reads.read_producers()
    if side.producer:
        return {
            f"{code_words(str(document['name']))}: {format_column_label(field)}": value_words(
                field, format_value_for_people(value), producers
            )
            for document in side.documents
            for field, value in document["value"].items()
            if field not in _SHOWN_ELSEWHERE and not isinstance(value, dict)
        }
    names = sorted(set(cached_reads.filter_columns()) - _UNLIKE_COLUMNS)
    table = cached_reads.workspace().stores.tables.episodes
    rows = cached_reads.limited(
        lambda: table.read_columns(names, ids_filter([side.episode.episode_id])).to_pylist()
    )
    return {
        format_column_label(name): value_words(name, format_value_for_people(value), producers)
        for name, value in rows[0].items()
        if value is not None
    }


def _make_curves(sides: tuple[_Side, _Side]) -> list[Json]:
    """Dimensions that both have by name, the second over the first, as plots of the player."""
    import numpy as np

    clock = np.union1d(*(side.trajectory.timestamps for side in sides))
    plots: list[Json] = []
    for title in ("state", "action"):
        left, right = (getattr(side.trajectory, title) for side in sides)
        names = [name for name in left.names if name in right.names] if left and right else []
        if names:
            first, second = (
                _sample_signal(signal, names, side.trajectory.timestamps, clock)
                for signal, side in zip((left, right), sides, strict=True)
            )
            plot = make_plot(title.title(), clock, first, second, {n: n for n in range(len(names))})
            plots.append({**plot, "pair": ["A", "B"]})
    return plots


def _sample_signal(
    signal: Signal, names: Sequence[str], stamps: NDArray[np.float64], times: NDArray[np.float64]
) -> Signal:
    """Some dimensions at some seconds, each with the value of the last step before; NaN beyond both ends."""
    import numpy as np

    steps = np.searchsorted(stamps, times + 1e-6, side="right") - 1
    period = float(stamps[-1] - stamps[0]) / max(1, len(stamps) - 1)
    numbers = [signal.names.index(name) for name in names]
    values = signal.values[np.clip(steps, 0, len(stamps) - 1)][:, numbers]
    values[(steps < 0) | (times > float(stamps[-1]) + period)] = np.nan
    return Signal(values=values, names=tuple(names))
