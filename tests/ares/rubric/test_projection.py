"""Grades carry what the controls of their judge say in their dataset: from the cut-off on they do not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json, Record
from ares.export.text_states import find_text_states
from ares.rubric import CONTROL, GradeProjection, read_tripwires
from ares.store import reset_applied_sequence
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import apply_log
from ares.store.sync.producers import ProducerCatalog
from tests.ares.grade_producers import CAPTIONER, JUDGE, OTHER_JUDGE, PERSON

MakeAnnotation = Callable[..., Annotation]
Write = Callable[..., None]

_CAPTION: dict[str, Json] = {"caption": "open the drawer", "text": "open the drawer"}


@pytest.fixture
def ids(tables: Tables, sqlite: SqliteAnnotationStore, make_record: Callable[..., Record]) -> list[str]:
    """Episodes of datasets set0 and set1, 30 of each, by turns."""
    records = [make_record(number, dataset=f"set{number % 2}") for number in range(60)]
    tables.episodes.add(records)
    for producer in (CAPTIONER, JUDGE, OTHER_JUDGE, PERSON):
        sqlite.add_producer(producer)
    return [record.episode.episode_id for record in records]


@pytest.fixture
def write(sqlite: SqliteAnnotationStore, make_annotation: MakeAnnotation) -> Write:
    """Captions episodes and grades them, one a second from a time on; every third caption is refused."""

    def run(episodes: Sequence[str], judge: Producer = JUDGE, since: float = 1_000.0, **more: Json) -> None:
        for number, episode in enumerate(episodes):
            caption = make_annotation(episode, maker_id=CAPTIONER.maker_id, value=_CAPTION)
            value = {**_grade("acceptable" if number % 3 else "not_acceptable", since + number), **more}
            grade = make_annotation(
                episode,
                name="grade",
                maker_id=judge.maker_id,
                subject=caption.annotation_id,
                value=value,
            )
            sqlite.append([caption, grade])

    return run


@pytest.fixture
def control(sqlite: SqliteAnnotationStore, make_annotation: MakeAnnotation) -> Callable[..., None]:
    """Stores a battery, or later controls, that a judge has graded at a time."""

    def run(
        episode: str, grades: Sequence[str], time: float, *, battery: bool = True, judge: Producer = JUDGE
    ) -> None:
        rows: list[Json] = [
            {"kind": "object", "text": "x", "battery": battery, "grade": grade} for grade in grades
        ]
        value: dict[str, Json] = {"gradings": rows, "time": time}
        sqlite.append(
            [make_annotation(episode, name=CONTROL, maker_id=judge.maker_id, value=value, part=f"{time}")]
        )

    return run


ACCEPTS, REFUSES = ["acceptable"] * 3 + ["not_acceptable"] * 3, ["not_acceptable"] * 6


def _grade(grade: str, time: float = 1_000.0) -> dict[str, Json]:
    verdict = {"acceptable": "MET", "not_acceptable": "UNMET"}[grade]
    return {
        "grade": grade,
        "acceptable": grade == "acceptable",
        "grade_time": time,
        "grade_score": 0.5,
        "grade_verdicts": f"VERB={verdict}",
    }


def _shown(table: Any, where: str = "true") -> set[tuple[Any, Any]]:
    """`acceptable` and `grade_refuted` of captions that are graded acceptable."""
    rows = table.read_columns(["grade", "acceptable", "grade_refuted"], where).to_pylist()
    return {(row["acceptable"], row["grade_refuted"]) for row in rows if row["grade"] == "acceptable"}


COUNTS, DOES_NOT = {(True, None)}, {(None, True)}


def test_a_judge_is_refuted_in_the_dataset_in_which_it_fell_for_false_texts(
    ids: list[str], write: Write, control: Any, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids)
    control(ids[0], REFUSES, 2_000.0)
    control(ids[1], ACCEPTS, 2_000.0)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "dataset = 'set0'") == COUNTS
    assert _shown(tables.episodes, "dataset = 'set1'") == DOES_NOT
    assert tables.episodes.count("acceptable IS NOT NULL AND dataset = 'set1'") == 0, "refusals neither"
    segments = tables.segments.read().to_pylist()
    shown = {(row["acceptable"], row["grade_refuted"]) for row in segments if row["grade"] == "acceptable"}
    assert shown == COUNTS | DOES_NOT
    states = {name: item["state"] for name, item in read_tripwires(sqlite)[JUDGE.maker_id].items()}
    assert states == {"set0": "not refuted", "set1": "refuted"}


def test_grades_long_before_the_first_wrong_control_stay(
    ids: list[str],
    write: Write,
    control: Any,
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty captions in place of 150: of thirty in a dataset the first ten are older."""
    monkeypatch.setattr("ares.rubric.tripwire._GRADES_BEFORE", 20)
    own = ids[::2]
    write(own)
    control(own[0], REFUSES, 1_005.5)
    for number in range(4):
        control(own[number], ["acceptable"], 1_050.0 + number, battery=False)
    apply_log(tables, sqlite)
    (document,) = read_tripwires(sqlite)[JUDGE.maker_id].values()
    assert (document["state"], document["since"]) == ("refuted", 1_010.0)
    assert _shown(tables.episodes, "grade_time < 1010") == COUNTS
    assert _shown(tables.episodes, "grade_time >= 1010") == DOES_NOT
    reset_applied_sequence(tables)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade_time < 1010") == COUNTS
    assert _shown(tables.episodes, "grade_time >= 1010") == DOES_NOT


def test_controls_that_come_later_refute_grades_that_stand_already(
    ids: list[str], write: Write, control: Any, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[::2])
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade IS NOT NULL") == COUNTS and not read_tripwires(sqlite)
    control(ids[0], ACCEPTS, 2_000.0)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade IS NOT NULL") == DOES_NOT


def test_controls_of_an_earlier_version_say_nothing(
    ids: list[str],
    write: Write,
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_annotation: MakeAnnotation,
) -> None:
    write(ids[::2])
    rows: list[Json] = [{"kind": "foreign", "grade": "acceptable", "known_false": True}] * 9
    older = make_annotation(ids[0], name=CONTROL, maker_id=JUDGE.maker_id, value={"gradings": rows})
    sqlite.append([older])
    apply_log(tables, sqlite)
    (document,) = read_tripwires(sqlite)[JUDGE.maker_id].values()
    assert document["state"] == "not tested" and _shown(tables.episodes, "grade IS NOT NULL") == COUNTS


def test_the_word_of_a_person_stands_whatever_became_of_the_judge(
    ids: list[str],
    write: Write,
    control: Any,
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_annotation: MakeAnnotation,
) -> None:
    write(ids[2::2])
    control(ids[2], ACCEPTS, 2_000.0)
    write(ids[:1], grade_verdicts="VERB=UNMET(person)")
    caption = make_annotation(ids[4], maker_id=CAPTIONER.maker_id, value=_CAPTION)
    about = {"name": "grade", "maker_id": PERSON.maker_id, "subject": caption.annotation_id}
    sqlite.append([make_annotation(ids[4], value=_grade("acceptable"), **about)])
    apply_log(tables, sqlite)
    rows = tables.episodes.read_columns(["episode_id", "acceptable", "grade_refuted"]).to_pylist()
    shown = {row["episode_id"]: (row["acceptable"], row["grade_refuted"]) for row in rows}
    assert shown[ids[0]] == (False, None), "a person refuses it"
    assert shown[ids[4]] == (True, None) and shown[ids[6]] == (None, True)


@pytest.mark.slow
def test_each_judge_answers_for_its_own_controls(
    ids: list[str], write: Write, control: Any, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[::2])
    control(ids[0], REFUSES, 2_000.0)
    write(ids[1::2], judge=OTHER_JUDGE)
    control(ids[0], ACCEPTS, 2_000.0, judge=OTHER_JUDGE)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade IS NOT NULL") == COUNTS, "the other one fell in another dataset"
    control(ids[1], ACCEPTS, 2_000.0, judge=OTHER_JUDGE)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "dataset = 'set1'") == DOES_NOT
    assert _shown(tables.episodes, "dataset = 'set0'") == COUNTS


@pytest.mark.slow
def test_controls_of_removed_episodes_count_no_more(
    ids: list[str], write: Write, control: Any, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[::2])
    control(ids[0], ACCEPTS, 2_000.0)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade IS NOT NULL") == DOES_NOT
    sqlite.delete_episodes(ids[:2])
    write(ids[2:4:2])
    reset_applied_sequence(tables)
    apply_log(tables, sqlite)
    assert not read_tripwires(sqlite)


def test_what_texts_of_segments_are_by_their_grades() -> None:
    accepted = "VERB=MET OUTCOME=UNSURE SEG=NA"
    rows = {
        (accepted, None): "accepted",
        (accepted, True): "refuted",
        ("VERB=UNMET OUTCOME=MET", True): "refused",
        ("VERB=UNSURE SEG=MET", True): "unsure",
        ("VERB=MET OUTCOME=MET(label)", None): "ungraded",  # nobody looked at its span
        (None, None): "ungraded",
    }
    ids = [str(number) for number in range(len(rows))]
    table = pa.table(
        {
            "annotation_id": ids,
            "grade_verdicts": pa.array([row[0] for row in rows], pa.string()),
            "grade_refuted": pa.array([row[1] for row in rows], pa.bool_()),
        }
    )
    assert find_text_states(table) == dict(zip(ids, rows.values(), strict=True))
    assert set(find_text_states(table.drop_columns(["grade_verdicts"])).values()) == {"ungraded"}


@pytest.mark.slow
def test_a_judge_that_has_graded_nothing_yet_stops_no_other(
    ids: list[str], write: Write, control: Any, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    """Its run was killed at the first caption: the tables have no columns for it."""
    write(ids[::2])
    apply_log(tables, sqlite)
    seen = Column(name="grade_seen", type="string", meaning="Verdict.")
    sqlite.add_producer(replace(JUDGE, annotator="segment_grade", columns=(*JUDGE.columns, seen)))
    control(ids[0], ACCEPTS, 2_000.0)
    apply_log(tables, sqlite)
    assert _shown(tables.episodes, "grade IS NOT NULL") == DOES_NOT


def test_no_column_follows_from_controls_in_a_table_without_grades() -> None:
    catalog = ProducerCatalog({JUDGE.maker_id: JUDGE, PERSON.maker_id: PERSON})
    assert GradeProjection().followed_columns(catalog, ["grade", "acceptable"]) == {}
    followed = GradeProjection().followed_columns(catalog, ["grade", "grade_maker"])
    assert followed == dict.fromkeys(
        ("grade_refuted", "acceptable"), f"(grade_maker IN ('{JUDGE.maker_id}'))"
    )
