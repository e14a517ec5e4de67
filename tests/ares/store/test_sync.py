"""The tables follow the log: once, in order, and after a crash at any point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ares.annotation import Annotation, Column, Producer
from ares.episode import Record
from ares.errors import StoreError
from ares.store import AnnotationStore
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import apply_log

MakeAnnotation = Callable[..., Annotation]

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


@pytest.fixture
def motion(make_annotation: MakeAnnotation) -> MakeAnnotation:
    """Makes a annotation of the motion annotator."""

    def make(episode: str, start: float = 0.0, **value: object) -> Annotation:
        return make_annotation(
            episode, name="motion", value=value, maker_id=_MOTION.maker_id, start_seconds=start
        )

    return make


def _column(tables: Tables, name: str) -> dict[str, object]:
    batches = tables.episodes.scan(["episode_id", name])
    return {row["episode_id"]: row[name] for batch in batches for row in batch.to_pylist()}


def test_values_become_columns(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], motion: MakeAnnotation
) -> None:
    sqlite.append(
        [
            motion(ids[0], path_length=1.5, idle=False, events=2, phase="reach", other="not a column"),
            motion(ids[1], path_length=2, idle=None),
            motion("an episode that is not there", path_length=9.0),
        ]
    )
    assert apply_log(tables, sqlite) == 3
    assert _column(tables, "path_length") == {ids[0]: 1.5, ids[1]: 2.0} | dict.fromkeys(ids[2:])
    assert _column(tables, "events")[ids[0]] == 2
    assert tables.episodes.count("idle IS NOT NULL AND phase = 'reach'") == 1
    assert "other" not in tables.episodes.columns()
    assert tables.episodes.count() == 5


def test_nothing_new_is_nothing_to_do(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], motion: MakeAnnotation
) -> None:
    assert apply_log(tables, sqlite) == 0
    sqlite.append([motion(ids[0], path_length=1.0)])
    assert apply_log(tables, sqlite) == 1
    assert apply_log(tables, sqlite) == 0
    sqlite.append([motion(ids[1], path_length=1.0)])
    assert apply_log(tables, sqlite) == 1


def test_captions_and_grades_become_segments(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], make_annotation: MakeAnnotation
) -> None:
    caption = make_annotation(
        ids[0], value={"text": "open it", "caption": "open it"}, maker_id=_CAPTION.maker_id, camera="front"
    )
    part = make_annotation(
        ids[0], value={"text": "grasp it"}, maker_id=_CAPTION.maker_id, start_seconds=1.0, stop_seconds=2.0
    )
    verdict = {"grade": "acceptable", "acceptable": True, "score": 1}
    sqlite.append([caption, part, _graded(make_annotation, caption, verdict)])
    apply_log(tables, sqlite)
    first, second = tables.segments.read().to_pylist()
    assert (first["annotation_id"], first["text"], first["camera"], first["maker_id"]) == (
        caption.annotation_id,
        "open it",
        "front",
        _CAPTION.maker_id,
    )
    assert (first["grade"], first["acceptable"], first["score"]) == ("acceptable", True, 1.0)
    assert (second["start_seconds"], second["stop_seconds"], second["text"]) == (1.0, 2.0, "grasp it")
    assert (second["grade"], second["acceptable"], second["score"]) == (None, None, None)
    assert _column(tables, "grade")[ids[0]] == "acceptable"
    assert _column(tables, "caption")[ids[0]] == "open it"
    (hit,) = tables.segments.search_text("grasping", 3)
    assert (hit.annotation_id, hit.start_seconds) == (second["annotation_id"], 1.0)

    # A grade that comes later, in a separate batch, is the one that counts.
    unsure: dict[str, object] = {"grade": "unsure", "acceptable": None, "score": None}
    sqlite.append([_graded(make_annotation, caption, unsure, start_seconds=9.0)])
    apply_log(tables, sqlite)
    first, _ = tables.segments.read().to_pylist()
    assert (first["grade"], first["acceptable"], first["score"]) == ("unsure", None, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"path_length": "far"}, "column 'path_length' is float64, but got 'far'"),
        ({"path_length": True}, "column 'path_length' is float64, but got True"),
        ({"idle": 1}, "column 'idle' is bool, but got 1"),
        ({"events": 1.5}, "column 'events' is int64, but got 1.5"),
        ({"events": 2**63}, "column 'events' is int64, but got 9223372036854775808"),
        ({"phase": ["a"]}, r"column 'phase' is string, but got \['a'\]"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_and_holds_up_nothing(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    ids: list[str],
    motion: MakeAnnotation,
    value: dict[str, object],
    message: str,
) -> None:
    bad = motion(ids[0], **value)
    sqlite.append([bad, motion(ids[1], path_length=2.0)])
    with pytest.raises(
        StoreError, match=rf"^1 value .*{message}.*{bad.annotation_id} \(motion of episode {ids[0]}\)"
    ):
        apply_log(tables, sqlite)
    assert _column(tables, "path_length")[ids[1]] == 2.0
    assert apply_log(tables, sqlite) == 0


def test_a_producer_cannot_overwrite_the_source(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], make_annotation: MakeAnnotation
) -> None:
    column = Column(name="instruction", type="string", meaning="A guest's own idea.")
    guest = Producer(annotator="guest", version="1", columns=(column,))
    sqlite.add_producer(guest)
    sqlite.append(
        [make_annotation(ids[0], name="guest", value={"instruction": "no"}, maker_id=guest.maker_id)]
    )
    with pytest.raises(StoreError, match="'instruction' is a column of the source"):
        apply_log(tables, sqlite)
    assert _column(tables, "instruction")[ids[0]] == "open drawer 0"


def test_two_producers_that_disagree_on_a_type(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    ids: list[str],
    make_annotation: MakeAnnotation,
    motion: MakeAnnotation,
) -> None:
    other = Producer(
        annotator="guest", version="1", columns=(Column(name="events", type="string", meaning="Words."),)
    )
    sqlite.add_producer(other)
    sqlite.append(
        [
            motion(ids[0], events=3),
            make_annotation(ids[1], name="g", value={"events": "many"}, maker_id=other.maker_id),
        ]
    )
    with pytest.raises(StoreError, match="column 'events' is int64, but its producer declares string"):
        apply_log(tables, sqlite)
    assert _column(tables, "events")[ids[0]] == 3


def test_an_unknown_producer_holds_up_no_other_annotation(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], make_annotation: MakeAnnotation
) -> None:
    """Neither those of its batch, nor later ones, nor those of an episode that several producers describe."""
    newer = replace(_MOTION, version="2")
    sqlite.add_producer(newer)

    def idle(number: int, maker_id: str, value: bool = True) -> Annotation:
        return make_annotation(ids[number], name="motion", value={"idle": value}, maker_id=maker_id)

    sqlite.append([idle(0, "never stored"), idle(0, _MOTION.maker_id), idle(1, _MOTION.maker_id)])
    with pytest.raises(StoreError, match=r"^1 value of the annotation log cannot be shown.*never stored"):
        apply_log(tables, sqlite)
    assert _column(tables, "idle") == {**dict.fromkeys(ids), ids[0]: True, ids[1]: True}
    sqlite.append([idle(0, newer.maker_id, False), idle(2, newer.maker_id)])
    assert apply_log(tables, sqlite) == 2
    # The newer one leaves an episode of the other out, which keeps its value.
    assert _column(tables, "idle") == {
        **dict.fromkeys(ids),
        ids[0]: False,
        **dict.fromkeys(ids[1:3], True),
    }


def test_half_an_emoji_does_not_stop_the_index(
    tables: Tables, sqlite: SqliteAnnotationStore, ids: list[str], make_annotation: MakeAnnotation
) -> None:
    """A model's JSON can carry a lone surrogate; Arrow cannot."""
    text = "grasp \ud83e the cup"
    sqlite.append(
        [make_annotation(ids[0], value={"text": text, "caption": text}, maker_id=_CAPTION.maker_id)]
    )
    apply_log(tables, sqlite)
    assert tables.segments.read()["text"].to_pylist() == ["grasp ? the cup"]
    assert sqlite.read()[0].annotation.value["text"] == text


def test_the_log_of_every_store_is_followed(
    tables: Tables, open_store: Callable[[], AnnotationStore], ids: list[str], motion: MakeAnnotation
) -> None:
    store = open_store()
    store.add_producer(_MOTION)
    store.append([motion(episode_id, path_length=1.0) for episode_id in ids])
    assert apply_log(tables, store) == 5
    assert apply_log(tables, store) == 0
    assert tables.episodes.count("path_length = 1.0") == 5


def _graded(
    make_annotation: MakeAnnotation, caption: Annotation, verdict: dict[str, object], **changes: object
) -> Annotation:
    fields = {
        "name": "grade",
        "value": verdict,
        "maker_id": _GRADE.maker_id,
        "subject": caption.annotation_id,
    }
    return make_annotation(caption.episode_id, **(fields | changes))
