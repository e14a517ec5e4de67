"""Page "Compare": two episodes, or what two producers say of one, on one clock, with what differs marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.address import read_parameter, write_parameter, write_parameters
from app.dashboard.annotation_rows import read_annotations, read_segments
from app.dashboard.column_words import (
    VERDICTS,
    code_words,
    format_column_label,
    format_value_for_people,
    producer_words,
    value_words,
)
from app.dashboard.components import load_component
from app.dashboard.fields import entered_text, show_value
from app.dashboard.player_data import group_dimensions, make_player_source, short_name
from app.dashboard.timeline_ticks import make_gripper_ticks
from app.dashboard.view_state import AddressError
from ares.curation import list_duplicate_pairs
from ares.episode import Episode, Json, Signal, Trajectory
from ares.store import ids_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Points of a curve: more than the pixels of a plot.
_POINTS = 600
# Columns that tell one episode from every other, or say nothing of what is in it.
_UNLIKE_COLUMNS = frozenset(
    ("episode_id", "key", "source", "content_hash", "ingested", "source_stamp", "camera_stamps", "metadata")
)
_SIDES = ("a", "b")
# What a text and a grade are made of is shown by words and by rulings, and not as values.
_SHOWN_ELSEWHERE = frozenset(("text", "rulings", "slots", "why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One of the two: an episode as its columns show it, or as one producer describes it.

    Attributes:
        producer: Id of the producer, or "" for what the columns show.
        documents: What it says, of `ares.workspace.describe_annotations`.
        producers: Names of all producers that say something of the episode, by id.
        describers: Ids of those of them that wrote a caption.
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
    events = [_event_seconds(side.trajectory) for side in (first, second)]
    aligned = _draw_choices(first, second, min(map(len, events)))
    shifts = (0.0, 0.0)
    if aligned:
        at = [seconds[aligned - 1] for seconds in events]
        shifts = (max(0.0, at[1] - at[0]), max(0.0, at[0] - at[1]))
    load_component("compare")(data=_compare_data((first, second), shifts, events), key="compare.pair")


def _draw_pairs(group: str, ids: list[str]) -> list[str]:
    """Draw the choice among the pairs of a group; returns the pair of the URL, or without one the most similar."""
    if not group:
        return ids
    pairs = cached_reads.limited(lambda: list_duplicate_pairs(cached_reads.workspace().stores, group))
    if not pairs:
        detail = "`ares check --duplicates` finds the groups; the filter duplicate group in Browse lists them"
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
            dict.fromkeys(str(entry["maker_id"]) for entry in documents if entry["value"].get("text"))
        ),
    )


def _event_seconds(trajectory: Trajectory) -> list[float]:
    return sorted(float(str(tick["seconds"])) for tick in make_gripper_ticks(trajectory, None))


def _draw_choices(first: _Side, second: _Side, events: int) -> int:
    """Draw what is compared and how it is aligned; returns the number of the gripper event, or 0 for the start."""
    text = read_parameter("align") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise AddressError(
            "align", "an alignment cannot be read", f"got {text!r}; give 0 for the start, or 1 for the first"
        )
    number = int(text)
    if number > events:
        st.warning(
            f"Both have {events} gripper events in common, so there is no event {number}: aligned at the start.",
            icon=":material/help:",
        )
        number = 0
    columns = st.columns(3)
    for column, side, name in zip(columns, (first, second), _SIDES, strict=False):
        names = {"": "what the columns show", **side.producers}
        _draw_choice(column, f"{name.upper()} as described by", f"maker_{name}", names, side.producer)
    at = {"0": "the start", **{str(event): f"gripper event {event}" for event in range(1, events + 1)}}
    _draw_choice(columns[2], "Aligned at", "align", at, str(number))
    return number


def _draw_choice(column: Any, label: str, parameter: str, names: Mapping[str, str], value: str) -> None:
    key = f"compare.{parameter}"
    show_value(key, value)
    column.selectbox(
        label, list(names), key=key, format_func=lambda choice: names.get(choice, choice),
        on_change=lambda: write_parameter(parameter, entered_text(key)),
    )  # fmt: skip


def _compare_data(
    sides: tuple[_Side, _Side], shifts: tuple[float, float], events: Sequence[Sequence[float]]
) -> dict[str, Json]:
    """What the component draws: both players, curves of both, and tables of what each says."""
    first, second = sides
    is_same_episode = first.episode.episode_id == second.episode.episode_id
    duration = max(side.episode.duration_seconds + shift for side, shift in zip(sides, shifts, strict=True))
    texts = compare_words(first.text, second.text)
    return {
        "isOne": is_same_episode,
        "duration": duration,
        "rate": max(side.episode.rate_hz for side in sides),
        "start": _requested_second(duration),
        "sides": [
            {
                **make_player_source(side.episode, side.trajectory, 0.0),
                "name": name.upper(),
                "shift": shift,
                "title": side.episode.instruction or side.episode.key,
                "maker": side.producers.get(side.producer, ""),
                "words": words,
            }
            for name, side, shift, words in zip(_SIDES, sides, shifts, texts, strict=True)
        ],
        "ticks": _make_event_ticks(events[:1] if is_same_episode else events, shifts),
        "signals": [] if is_same_episode else _make_curves(sides, shifts, duration),
        "tables": [
            {"title": "Rulings", "rows": compare_rows(*(_ruling_words(side.rulings) for side in sides))},
            {"title": "Values", "rows": compare_rows(_values_of(first), _values_of(second))},
        ],
    }


def _make_event_ticks(events: Sequence[Sequence[float]], shifts: Sequence[float]) -> list[Json]:
    """The gripper events of both on the common clock; of one episode they are the same."""
    return [
        {"seconds": second + shift, "kind": "changes", "label": f"{name.upper()}: gripper event {number}"}
        for name, seconds, shift in zip(_SIDES, events, shifts, strict=False)
        for number, second in enumerate(seconds, 1)
    ]


def _requested_second(duration: float) -> float:
    text = read_parameter("t") or "0"
    try:
        return min(max(float(text), 0.0), duration)
    except ValueError:
        raise AddressError("t", "a second cannot be read", f"got {text!r}; give a number") from None


def compare_words(first: str, second: str) -> tuple[list[Json], list[Json]]:
    """The words of two texts, each with whether the other text lacks it at that place."""
    words = first.split(), second.split()
    folded = [[word.casefold().strip(".,;:!?") for word in text] for text in words]
    matcher = SequenceMatcher(a=folded[0], b=folded[1], autojunk=False)
    same = matcher.get_matching_blocks()
    shared = [
        {index for block in same for index in range(block[side], block[side] + block.size)} for side in (0, 1)
    ]
    first_words, second_words = (
        [list[Json]((word, index not in shared[side])) for index, word in enumerate(words[side])]
        for side in (0, 1)
    )
    return list[Json](first_words), list[Json](second_words)


def compare_rows(first: Mapping[str, str], second: Mapping[str, str]) -> list[Json]:
    """Name, both values and whether they differ; those that differ come first, in the order of the first."""
    names = dict.fromkeys([*first, *second])
    rows = [(name, first.get(name, ""), second.get(name, "")) for name in names]
    rows.sort(key=lambda row: row[1] == row[2])
    return [[name, left, right, left != right] for name, left, right in rows]


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


def _make_curves(sides: tuple[_Side, _Side], shifts: tuple[float, float], duration: float) -> list[Json]:
    """Dimensions that both have by name, the second over the first, as plots of the player."""
    import numpy as np

    times = np.linspace(0, duration, _POINTS)
    plots: list[Json] = []
    for title in ("state", "action"):
        signals: list[Signal | None] = [getattr(side.trajectory, title) for side in sides]
        left, right = signals
        if left is None or right is None:
            continue
        names = [name for name in left.names if name in right.names]
        rows = [
            _sample_signal(signal, names, side.trajectory.timestamps, times - shift)
            for signal, side, shift in zip((left, right), sides, shifts, strict=True)
        ]
        groups: list[Json] = [
            {
                "name": group,
                "lines": [
                    {
                        "name": names[number],
                        "label": short_name(names[number], group),
                        "values": rows[0][number],
                        "action": rows[1][number],
                    }
                    for number in numbers
                ],
            }
            for group, numbers in group_dimensions(names)
            if numbers
        ]
        plots.append(
            {
                "title": title.title(),
                "times": times.tolist(),
                "groups": groups,
                "block": 0.0,
                "pair": ["A", "B"],
            }
        )
    return plots


def _sample_signal(
    signal: Signal, names: Sequence[str], stamps: NDArray[np.float64], times: NDArray[np.float64]
) -> list[list[Json]]:
    """Values of some dimensions at some seconds, each that of the last step before; None beyond both ends."""
    import numpy as np

    steps = np.searchsorted(stamps, times + 1e-6, side="right") - 1
    period = float(stamps[-1] - stamps[0]) / max(1, len(stamps) - 1)
    is_inside = (steps >= 0) & (times <= float(stamps[-1]) + period)
    values = signal.values[np.clip(steps, 0, len(stamps) - 1)][
        :, [signal.names.index(name) for name in names]
    ]
    is_drawn = is_inside[:, None] & np.isfinite(values)
    return [
        [float(f"{value:.6g}") if drawn else None for value, drawn in zip(column, flags, strict=True)]
        for column, flags in zip(values.T.tolist(), is_drawn.T.tolist(), strict=True)
    ]
