"""Grades carry what the controls of their judge say in their dataset: an untrusted judge decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from ares.annotation import Annotation, Column, Producer
from ares.episode import Json, Record
from ares.rubric import CONTROL, GradeProjection, find_text_states, read_judge_trust
from ares.store import reset_applied_sequence
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import _StateTable, apply_log
from ares.store.sync.producers import ProducerCatalog
from tests.ares.grade_producers import CAPTIONER, JUDGE, OTHER_JUDGE, PERSON

MakeAnnotation = Callable[..., Annotation]
Write = Callable[..., None]

_COLUMNS = ["episode_id", "dataset", "grade", "acceptable", "acceptable_unproven", "grade_trust"]
_HONEST = {"own": "acceptable"}
_GATES: list[Json] = [{"gate": "VERB", "slot": "action"}, {"gate": "OUTCOME", "slot": "outcome"}]
# The source says how each episode ended.
_VERDICTS = {"acceptable": "VERB=MET OUTCOME=MET(label)", "not_acceptable": "VERB=UNMET OUTCOME=MET(label)"}
_KINDS = ("foreign", "foreign", "foreign", "near_miss", "injected", "blank", "scrambled")


@pytest.fixture
def ids(tables: Tables, sqlite: SqliteAnnotationStore, make_record: Callable[..., Record]) -> list[str]:
    """Episodes of datasets set0 and set1, 30 of each, all with a caption that the judge accepts or refuses by turns."""
    records = [make_record(number, dataset=f"set{number % 2}") for number in range(60)]
    tables.episodes.add(records)
    for producer in (CAPTIONER, JUDGE, OTHER_JUDGE, PERSON):
        sqlite.add_producer(producer)
    return [record.episode.episode_id for record in records]


@pytest.fixture
def write(sqlite: SqliteAnnotationStore, make_annotation: MakeAnnotation) -> Write:
    """Captions episodes and grades them, with controls that the judge rules on in a given way."""

    def run(episodes: Sequence[str], controls: Mapping[str, str] | None, judge: Producer = JUDGE) -> None:
        for number, episode in enumerate(episodes):
            value = {"caption": "open the drawer", "text": "open the drawer"}
            caption = make_annotation(episode, maker_id=CAPTIONER.maker_id, value=value)
            grade = make_annotation(
                episode,
                name="grade",
                maker_id=judge.maker_id,
                subject=caption.annotation_id,
                value=_grade("acceptable" if number % 3 else "not_acceptable"),
            )
            sqlite.append([caption, grade])
            if controls is not None:
                own = {"kind": "own", "grade": controls.get("own", "not_acceptable")}
                rows: list[Json] = [own, *(_row(kind, controls) for kind in _KINDS)]
                control = make_annotation(
                    episode,
                    name=CONTROL,
                    maker_id=judge.maker_id,
                    value={"gradings": rows, "gates": _GATES},
                    part=caption.annotation_id,
                )
                sqlite.append([control])

    return run


def _row(kind: str, controls: Mapping[str, str]) -> dict[str, Json]:
    grade = controls.get(kind, "not_acceptable")
    slot: dict[str, Json] = {"slot": "action"} if kind == "near_miss" else {}
    return {"kind": kind, **slot, "grade": grade, "known_false": True, "gates": _VERDICTS[grade]}


def _grade(grade: str) -> dict[str, Json]:
    decision = {"acceptable": True, "not_acceptable": False}.get(grade)
    return {
        "grade": grade,
        "acceptable": decision,
        "grade_score": 0.5,
        "grade_verdicts": _VERDICTS[grade],
    }


def _rows(tables: Tables) -> dict[str, dict[str, Any]]:
    rows = tables.episodes.read_columns(_COLUMNS).to_pylist()
    return {row["episode_id"]: row for row in rows}


def _states(tables: Tables) -> dict[str, set[tuple[Any, Any]]]:
    """The words for judges and the decisions that stand beside accepted captions, by dataset."""
    states: dict[str, set[tuple[Any, Any]]] = {}
    for row in _rows(tables).values():
        if row["grade"] == "acceptable":
            states.setdefault(row["dataset"], set()).add((row["grade_trust"], row["acceptable"]))
    return states


def test_each_dataset_has_a_word_of_its_own(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[::2], _HONEST)
    write(ids[1::2], dict.fromkeys(("own", *_KINDS), "acceptable"))
    apply_log(tables, sqlite)
    assert _states(tables) == {"set0": {("trusted", True)}, "set1": {("untrusted", None)}}
    assert tables.episodes.count("acceptable IS NOT NULL AND dataset = 'set1'") == 0, "refusals neither"
    assert tables.episodes.count("grade = 'acceptable' AND grade_trust = 'untrusted'") == 20, "by name"
    segments = tables.segments.read().to_pylist()
    shown = {(row["grade_trust"], row["acceptable"]) for row in segments if row["grade"] == "acceptable"}
    assert shown == {("trusted", True), ("untrusted", None)}


def test_a_judge_without_controls_is_unproven_and_decides(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids, None)
    apply_log(tables, sqlite)
    assert _states(tables) == {key: {("unproven", None)} for key in ("set0", "set1")}
    assert tables.episodes.count("acceptable_unproven") == tables.episodes.count("grade = 'acceptable'") > 0
    assert not read_judge_trust(sqlite)


def test_the_word_changes_with_later_controls_for_all_grades_of_the_dataset(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[:20:2], _HONEST)
    apply_log(tables, sqlite)
    assert _states(tables) == {"set0": {("unproven", None)}}
    write(ids[20::2], _HONEST)
    apply_log(tables, sqlite)
    assert _states(tables) == {"set0": {("trusted", True)}}
    before = _rows(tables)
    reset_applied_sequence(tables)
    apply_log(tables, sqlite)
    assert _rows(tables) == before


def test_the_word_of_a_person_stands_beside_no_word_for_a_judge(
    ids: list[str],
    write: Write,
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_annotation: MakeAnnotation,
) -> None:
    write(ids, dict.fromkeys(("own", *_KINDS), "acceptable"))
    apply_log(tables, sqlite)
    caption = make_annotation(
        ids[0],
        maker_id=CAPTIONER.maker_id,
        value={"caption": "open the drawer", "text": "open the drawer"},
    )
    label = make_annotation(
        ids[0],
        name="grade",
        maker_id=PERSON.maker_id,
        subject=caption.annotation_id,
        value=_grade("acceptable"),
    )
    sqlite.append([label])
    apply_log(tables, sqlite)
    row = _rows(tables)[ids[0]]
    assert (row["grade"], row["acceptable"], row["grade_trust"]) == ("acceptable", True, None)


@pytest.mark.slow
def test_each_judge_decides_where_its_own_controls_prove_it(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    """A trial of another judge counts for what it is: the controls of the first one do not prove it."""
    write(ids[::2], _HONEST)
    write(ids[1::2], dict.fromkeys(("own", *_KINDS), "acceptable"), judge=OTHER_JUDGE)
    apply_log(tables, sqlite)
    assert _states(tables) == {"set0": {("trusted", True)}, "set1": {("untrusted", None)}}
    segments = tables.segments.read().to_pylist()
    decided = {row["episode_id"] for row in segments if row["acceptable"] or row["acceptable_unproven"]}
    assert decided and decided <= set(ids[::2])
    write(ids[::2], None, judge=OTHER_JUDGE)
    apply_log(tables, sqlite)
    assert _states(tables)["set0"] == {("unproven", None)}, "a judge without controls there"
    trust = read_judge_trust(sqlite)
    assert {maker: [*datasets] for maker, datasets in trust.items()} == {
        JUDGE.maker_id: ["set0"],
        OTHER_JUDGE.maker_id: ["set1"],
    }


@pytest.mark.slow
def test_controls_of_removed_episodes_count_no_more(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(ids[::2], _HONEST)
    apply_log(tables, sqlite)
    sqlite.delete_episodes(ids[:40:2])
    write(ids[40:42:2], _HONEST)
    reset_applied_sequence(tables)
    apply_log(tables, sqlite)
    assert read_judge_trust(sqlite)[JUDGE.maker_id]["set0"]["state"] == "unproven"


@pytest.mark.slow
def test_a_table_that_an_older_version_counted_is_counted_anew_once(
    ids: list[str],
    write: Write,
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_annotation: MakeAnnotation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has the rows `controls` and `trust` in place of `counted/NAME`, and columns as that version filled them."""
    write(ids[::2], _HONEST)
    write(ids[1::2], dict.fromkeys(("own", *_KINDS), "acceptable"))
    apply_log(tables, sqlite)
    expected, state = _states(tables), _StateTable(tables)
    rows = state.load()
    counted = [key for key in rows if key.startswith("counted2/")]
    state.save(dict.fromkeys(counted, 0) | {"controls": rows["log"], "trust": rows["log"]})
    columns = {"episode_id": ids, "grade_trust": [None] * len(ids), "acceptable": [None] * len(ids)}
    types = pa.schema([("episode_id", pa.string()), ("grade_trust", pa.string()), ("acceptable", pa.bool_())])
    tables.episodes.set_values(pa.table(columns, schema=types))
    counts, count = list[int](), GradeProjection.count

    def count_and_note(*arguments: Any) -> Any:
        counts.append(1)
        return count(*arguments)

    monkeypatch.setattr(GradeProjection, "count", count_and_note)
    other = Producer(annotator="speed", version="1")
    sqlite.add_producer(other)
    for episode in ids[:2]:
        sqlite.append([make_annotation(episode, name="speed", maker_id=other.maker_id, value={})])
        apply_log(tables, sqlite)
        assert _states(tables) == expected
    assert len(counts) == 1
    after = state.load()
    assert after.keys() >= set(counted) and after.keys().isdisjoint({"controls", "trust"})


def test_what_texts_of_segments_are_by_the_grades_of_a_trusted_judge(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    """A grade of no dataset says nothing, whatever it says."""
    verdicts = Column(name="grade_verdicts", type="string", meaning="Verdicts.")
    judge = replace(JUDGE, version="3", columns=(*JUDGE.columns, verdicts))
    for producer in (
        judge,
        replace(judge, annotator="segment_grade"),
    ):  # the table has no grades by the second
        sqlite.add_producer(producer)
    write(ids[::2], _HONEST, judge=judge)
    apply_log(tables, sqlite)
    names = ("dataset", "grade_maker", "grade_verdicts")
    accepted = "VERB=MET OUTCOME=UNSURE SEG=NA"
    rows = {
        ("set0", judge.maker_id, accepted): "accepted",
        ("set0", judge.maker_id, "VERB=UNMET OUTCOME=MET"): "refused",
        ("set0", judge.maker_id, "VERB=UNSURE SEG=MET"): "unsure",
        ("set0", judge.maker_id, "VERB=MET OUTCOME=MET(label)"): "ungraded",  # nobody looked at its span
        ("set0", judge.maker_id, None): "ungraded",
        ("set0", None, accepted): "unproven",
        ("set1", judge.maker_id, accepted): "unproven",
        ("set1", judge.maker_id, "VERB=MET(person) SEG=MET(person)"): "accepted",
        (None, judge.maker_id, accepted): "ungraded",
    }
    table = pa.table({name: [row[number] for row in rows] for number, name in enumerate(names)})
    table = table.append_column("caption_maker", pa.array([CAPTIONER.maker_id] * len(rows)))
    assert find_text_states(table, sqlite).to_pylist() == list(rows.values())
    assert set(find_text_states(table.drop_columns(["grade_verdicts"]), sqlite).to_pylist()) == {"ungraded"}


@pytest.mark.slow
def test_a_judge_that_has_graded_nothing_yet_stops_no_other(
    ids: list[str], write: Write, tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    """Its run was killed at the first caption: the tables have no columns for it."""
    write(ids[::2], _HONEST)
    apply_log(tables, sqlite)
    verdicts = Column(name="grade_verdicts", type="string", meaning="Verdicts.")
    sqlite.add_producer(replace(JUDGE, annotator="segment_grade", columns=(*JUDGE.columns, verdicts)))
    write(ids[1::2], _HONEST)
    apply_log(tables, sqlite)
    assert _states(tables) == {"set0": {("trusted", True)}, "set1": {("trusted", True)}}


def test_no_column_follows_from_controls_in_a_table_without_grades() -> None:
    catalog = ProducerCatalog({JUDGE.maker_id: JUDGE, PERSON.maker_id: PERSON})
    assert GradeProjection().followed_columns(catalog, ["grade", "acceptable"]) == {}
    followed = GradeProjection().followed_columns(catalog, ["grade", "grade_maker"])
    is_judged = f"(grade_maker IN ('{JUDGE.maker_id}'))"
    assert followed == {
        "grade_trust": is_judged,
        "acceptable": is_judged,
        "acceptable_unproven": "(grade_maker IS NOT NULL)",
    }
