"""The tables follow the log: once, in order, and whatever one of its annotations says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json, Record
from ares.errors import StoreError
from ares.store import AnnotationStore
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync import apply as progress
from ares.store.sync.apply import apply_log

_MOTION = Producer(
    annotator="motion",
    version="1",
    columns=(
        Column(name="path_length", type="float64", meaning="Way of the hand.", unit="m"),
        Column(name="idle", type="bool", meaning="Whether nothing moves."),
        Column(name="events", type="int64", meaning="Gripper events."),
        Column(name="phase", type="string", meaning="Phase."),
    ),
)
_CAPTION = Producer(
    annotator="caption",
    version="1",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
_GRADE = Producer(
    annotator="grade",
    version="1",
    columns=(
        Column(name="grade", type="string", meaning="Grade."),
        Column(name="acceptable", type="bool", meaning="Is it?", needs_current_maker=True),
        Column(name="score", type="float64", meaning="Score."),
    ),
    subject_kind="annotation",
    after=("caption",),
)


@pytest.fixture
def ids(tables: Tables, sqlite: SqliteAnnotationStore, make_record: Callable[..., Record]) -> list[str]:
    """Ids of five episodes; the log knows the producers."""
    records = [make_record(number) for number in range(5)]
    tables.episodes.add(records)
    for producer in (_MOTION, _CAPTION, _GRADE):
        sqlite.add_producer(producer)
    return [record.episode.episode_id for record in records]


def _annotation(
    producer: Producer, episode_id: str, value: Mapping[str, Json], start: float = 0.0, subject: str = ""
) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value=dict(value),
        maker_id=producer.maker_id,
        subject=subject or episode_id,
        start_seconds=start,
        stop_seconds=5.0,
        created="",
    )


def _column(tables: Tables, name: str) -> dict[str, object]:
    rows = tables.episodes.read_columns(["episode_id", name]).to_pylist()
    return {row["episode_id"]: row[name] for row in rows}


def test_values_become_columns(tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]) -> None:
    full: dict[str, Json] = {
        "path_length": 1.5,
        "idle": False,
        "events": 2,
        "phase": "reach",
        "other": "not a column",
    }
    sqlite.append(
        [
            _annotation(_MOTION, ids[0], full),
            _annotation(_MOTION, ids[1], {"path_length": 2, "idle": None}),
            _annotation(_MOTION, "an episode that is not there", {"path_length": 9.0}),
        ]
    )
    assert apply_log(tables, sqlite) == 3
    assert _column(tables, "path_length") == {ids[0]: 1.5, ids[1]: 2.0} | dict.fromkeys(ids[2:])
    assert _column(tables, "events")[ids[0]] == 2
    assert tables.episodes.count("idle IS NOT NULL AND phase = 'reach'") == 1
    assert "other" not in tables.episodes.columns()
    assert tables.episodes.count() == 5


def test_the_log_of_every_store_is_followed_once(
    tables: Tables, open_store: Callable[[], AnnotationStore], ids: list[str]
) -> None:
    store = open_store()
    store.add_producer(_MOTION)
    assert apply_log(tables, store) == 0
    for number in (0, 1):
        store.append([_annotation(_MOTION, ids[number], {"path_length": 1.0})])
        assert (apply_log(tables, store), apply_log(tables, store)) == (1, 0)
    assert tables.episodes.count("path_length = 1.0") == 2


def test_captions_and_grades_become_segments(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]
) -> None:
    caption = _annotation(_CAPTION, ids[0], {"text": "open it", "caption": "open it"})
    part = _annotation(_CAPTION, ids[0], {"text": "grasp it"}, start=1.0)
    verdict: dict[str, Json] = {"grade": "acceptable", "acceptable": True, "score": 1}
    sqlite.append([caption, part, _annotation(_GRADE, ids[0], verdict, subject=caption.annotation_id)])
    apply_log(tables, sqlite)
    first, second = tables.segments.read().to_pylist()
    assert (first["annotation_id"], first["text"]) == (caption.annotation_id, "open it")
    assert first["maker_id"] == _CAPTION.maker_id
    assert (first["grade"], first["acceptable"], first["score"]) == ("acceptable", True, 1.0)
    assert (second["start_seconds"], second["stop_seconds"], second["text"]) == (1.0, 5.0, "grasp it")
    assert (second["grade"], second["acceptable"], second["score"]) == (None, None, None)
    assert _column(tables, "grade")[ids[0]] == "acceptable"
    assert _column(tables, "caption")[ids[0]] == "open it"
    (hit,) = tables.segments.search_text("grasping", 3)
    assert (hit.annotation_id, hit.start_seconds) == (second["annotation_id"], 1.0)

    # A grade that comes later, in a separate batch, is the one that counts.
    unsure = {"grade": "unsure", "acceptable": None, "score": None}
    sqlite.append([_annotation(_GRADE, ids[0], unsure, start=4.0, subject=caption.annotation_id)])
    apply_log(tables, sqlite)
    first, _ = tables.segments.read().to_pylist()
    assert (first["grade"], first["acceptable"], first["score"]) == ("unsure", None, None)


def _guest(column: str) -> Producer:
    columns = (Column(name=column, type="string", meaning="A guest's own idea."),)
    return Producer(annotator="guest", version="1", columns=columns)


@pytest.mark.parametrize(
    ("producer", "value", "message"),
    [
        (_MOTION, {"path_length": "far"}, "column 'path_length' is float64, but got 'far'"),
        (_MOTION, {"path_length": True}, "column 'path_length' is float64, but got True"),
        (_MOTION, {"idle": 1}, "column 'idle' is bool, but got 1"),
        (_MOTION, {"events": 1.5}, "column 'events' is int64, but got 1.5"),
        (_MOTION, {"events": 2**63}, "column 'events' is int64, but got 9223372036854775808"),
        (_MOTION, {"phase": ["a"]}, r"column 'phase' is string, but got \['a'\]"),
        (_guest("instruction"), {"instruction": "no"}, "'instruction' is a column of the source"),
        (_guest("events"), {"events": "many"}, "'events' is int64, but its producer declares string"),
    ],
)
def test_a_value_that_fits_no_column_is_told_and_holds_up_nothing(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    ids: list[str],
    producer: Producer,
    value: dict[str, Json],
    message: str,
) -> None:
    sqlite.append([_annotation(_MOTION, ids[1], {"path_length": 2.0, "events": 3})])
    apply_log(tables, sqlite)
    sqlite.add_producer(producer)
    bad = _annotation(producer, ids[0], value)
    sqlite.append([bad, _annotation(_MOTION, ids[2], {"path_length": 2.0, "events": 3})])
    told = rf"^1 value .*{message}.*{bad.annotation_id} \({bad.name} of episode {ids[0]}\)"
    with pytest.raises(StoreError, match=told):
        apply_log(tables, sqlite)
    assert tables.episodes.count("path_length = 2.0 AND events = 3") == 2
    assert _column(tables, "instruction")[ids[0]] == "open drawer 0"
    assert apply_log(tables, sqlite) == 0


def test_two_versions_that_declare_a_column_of_the_source_leave_it_as_it_is(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]
) -> None:
    first = _guest("instruction")
    second = replace(first, version="2")
    for producer in (first, second):
        sqlite.add_producer(producer)
        sqlite.append([_annotation(producer, ids[0], {"instruction": "no"})])
    with pytest.raises(StoreError, match="'instruction' is a column of the source"):
        apply_log(tables, sqlite)
    assert _column(tables, "instruction")[ids[0]] == "open drawer 0"


def test_an_unknown_producer_holds_up_no_other_annotation(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]
) -> None:
    """Neither those of its batch, nor later ones, nor those of an episode that several producers describe."""
    newer, unknown = replace(_MOTION, version="2"), replace(_MOTION, version="3")
    sqlite.add_producer(newer)
    idle = {"idle": True}
    sqlite.append(
        [_annotation(unknown, ids[0], idle), *(_annotation(_MOTION, episode, idle) for episode in ids[:2])]
    )
    told = rf"^1 value of the annotation log cannot be shown.*{unknown.maker_id} is unknown"
    with pytest.raises(StoreError, match=told):
        apply_log(tables, sqlite)
    assert _column(tables, "idle") == dict.fromkeys(ids) | dict.fromkeys(ids[:2], True)
    sqlite.append([_annotation(newer, ids[0], {"idle": False}), _annotation(newer, ids[2], idle)])
    assert apply_log(tables, sqlite) == 2
    # The newer one leaves an episode of the other out, which keeps its value.
    assert _column(tables, "idle") == dict.fromkeys(ids) | {ids[0]: False} | dict.fromkeys(ids[1:3], True)


def test_half_an_emoji_does_not_stop_the_index(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]
) -> None:
    """A model's JSON can carry a lone surrogate; Arrow cannot."""
    text = "grasp \ud83e the cup"
    sqlite.append([_annotation(_CAPTION, ids[0], {"text": text, "caption": text})])
    apply_log(tables, sqlite)
    assert tables.segments.read()["text"].to_pylist() == ["grasp ? the cup"]
    assert sqlite.read()[0].annotation.value["text"] == text


def test_what_an_earlier_version_chose_is_chosen_again_by_the_rule_of_today(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str]
) -> None:
    """Tables that show an older judge, as its successor had not graded all that it had, and say what is stale."""
    newer = replace(_GRADE, version="2")
    sqlite.add_producer(newer)
    caption = _annotation(_CAPTION, ids[0], {"caption": "lift", "text": "lift"})
    grades = [
        _annotation(judge, ids[0], {"acceptable": judge is _GRADE}, subject=caption.annotation_id)
        for judge in (_GRADE, newer)
    ]
    sqlite.append([caption, *grades])
    apply_log(tables, sqlite)
    old = {
        "episode_id": ids[:1],
        "acceptable": [True],
        "grade_maker": [_GRADE.maker_id],
        "grade_stale": [False],
    }
    tables.episodes.set_values(pa.table(old))
    covering = {f"covering/grade/{_GRADE.maker_id}": 1, "mixed/grade": 1, "views2": 3, "views3": 0}
    progress._StateTable(tables).save(covering)
    apply_log(tables, sqlite)
    assert tables.episodes.count(f"acceptable = false AND grade_maker = '{newer.maker_id}'") == 1
    assert "grade_stale" not in tables.episodes.columns()
    assert not [key for key in tables.applied_numbers() if key.startswith(("covering/", "mixed/"))]
