"""What people say stands above what models say, criterion by criterion, and they may change their mind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from ares.review import (
    Answer,
    SegmentChange,
    correct_segments,
    give_answer,
    store_prepared,
)
from ares.review.labels import prepare_correction
from ares.rubric import CONTROL, GRADE_COLUMNS, Rubric, make_grade_value
from ares.workspace import Workspace
from tests.ares.review.conftest import CAPTIONER, JUDGE, make_annotation


def rule(workspace: Workspace, text: Annotation, criterion: str, verdict: str, person: str) -> None:
    """A person rules on a criterion of a text."""
    about: dict[str, Any] = {
        "question": criterion,
        "subject_id": text.annotation_id,
        "subject_kind": "annotation",
    }
    give_answer(workspace.stores, Answer(**about, verdict=verdict, person=person))


def test_the_verdict_on_a_criterion_filters_episodes_as_people_have_corrected_it(
    workspace: Workspace, judged: Annotation, rubric: Rubric, row: Callable[[], dict[str, Any]]
) -> None:
    episodes, segments = workspace.stores.tables.episodes, workspace.stores.tables.segments
    row()
    assert (episodes.count("grade_verb = 'MET'"), episodes.count("grade_verb = 'UNMET'")) == (1, 0)
    rule(workspace, judged, "VERB", "unmet", "Ada")
    row()
    assert (episodes.count("grade_verb = 'MET'"), episodes.count("grade_verb = 'UNMET'")) == (0, 1)
    assert episodes.count("grade_object = 'MET' AND grade_verb IS NOT NULL") == 1
    assert [member["grade_verb"] for member in segments.read().to_pylist()] == ["UNMET"]


def test_a_criterion_that_another_rubric_lacks_leaves_no_verdict(
    workspace: Workspace, judged: Annotation, rubric: Rubric, row: Callable[[], dict[str, Any]]
) -> None:
    """A later grade by another rubric empties the columns of the criteria that it does not have."""
    row()
    shorter = replace(JUDGE, version="2", columns=GRADE_COLUMNS)
    workspace.stores.annotations.add_producer(shorter)
    rulings: list[dict[str, Any]] = [{"criterion": "VERB", "verdict": "MET", "category": "essential"}]
    grade = make_annotation(shorter, judged.episode_id, judged.annotation_id, make_grade_value(rulings))
    workspace.stores.annotations.append([grade])
    assert row()["grade"] == "acceptable"
    assert workspace.stores.tables.episodes.count("grade_object IS NULL") == 2


def test_a_ruling_of_a_person_changes_the_grade_and_back(
    workspace: Workspace, judged: Annotation, rubric: Rubric, row: Callable[[], dict[str, Any]]
) -> None:
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)
    rule(workspace, judged, "VERB", "unmet", "Ada")
    refused = row()
    assert (refused["grade"], refused["acceptable"]) == ("not_acceptable", False)
    assert refused["acceptable"] is False and refused["grade_score"] < 1.0
    rule(workspace, judged, "VERB", "met", "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)
    rule(workspace, judged, "OBJECT", "unsure", "Ben")
    assert (row()["grade"], row()["acceptable"]) == ("unsure", None)


@pytest.mark.slow
def test_a_caption_whose_deciding_criteria_people_have_ruled_on_counts_though_its_judge_is_refuted(
    workspace: Workspace, judged: Annotation, rubric: Rubric, row: Callable[[], dict[str, Any]]
) -> None:
    gates = [name for name, category in rubric.categories if category in ("essential", "pitfall")]
    accepted = {"kind": "object", "grade": "acceptable", "battery": True}
    value = {"gradings": [accepted] * 6, "time": 1.0}
    control = make_annotation(JUDGE, judged.episode_id, judged.episode_id, value)
    control = replace(control, name=CONTROL, subject_kind="episode")
    workspace.stores.annotations.append([control])
    workspace.stores.sync()
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", None)
    for name in gates[:-1]:
        rule(workspace, judged, name, "met", "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", None), "one criterion is the judge's word"
    rule(workspace, judged, gates[-1], "met", "Ben")
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)
    rule(workspace, judged, gates[0], "unsure", "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("unsure", None)


def test_a_corrected_caption_is_shown_ungraded_whatever_a_model_says_later(
    workspace: Workspace, judged: Annotation, row: Callable[[], dict[str, Any]]
) -> None:
    new = {"text": "push the lid", "caption": "push the lid"}
    store_prepared(workspace.stores, prepare_correction(workspace.stores, judged, new, "Ada"))
    assert (row()["caption"], row()["grade"], row()["acceptable"]) == ("push the lid", None, None)
    other = Producer(
        annotator="caption", version="2", model="n", columns=CAPTIONER.columns, fills_segments=True
    )
    workspace.stores.annotations.add_producer(other)
    later = make_annotation(
        other, judged.episode_id, judged.episode_id, {"text": "drop it", "caption": "drop it"}
    )
    workspace.stores.annotations.append([later])
    assert row()["caption"] == "push the lid"
    again = {"text": "press the lid", "caption": "press the lid"}
    store_prepared(workspace.stores, prepare_correction(workspace.stores, judged, again, "Ada"))
    assert row()["caption"] == "press the lid"


@pytest.mark.parametrize(
    ("change", "person"),
    [
        (SegmentChange(annotation_id="0" * 16, start_seconds=0.0, stop_seconds=1.0), "Ada"),
        (SegmentChange(annotation_id="", start_seconds=2.0, stop_seconds=2.0), "Ada"),
        (SegmentChange(annotation_id="", start_seconds=-0.1, stop_seconds=1.0), "Ada"),
        (SegmentChange(annotation_id="", start_seconds=0.0, stop_seconds=float("nan")), "Ada"),
        (SegmentChange(annotation_id="", start_seconds=0.0, stop_seconds=1.0), " "),
    ],
    ids=["of another annotator", "empty", "before the start", "no number", "nobody"],
)
def test_a_change_of_segments_that_cannot_be_is_refused_and_stores_nothing(
    workspace: Workspace, caption: Annotation, change: SegmentChange, person: str
) -> None:
    log = workspace.stores.annotations
    before, producers = log.last_sequence(), log.producers()
    wrong = change if change.annotation_id else replace(change, annotation_id=caption.annotation_id)
    with pytest.raises(RequestError, match=r"the segments cannot be changed|name"):
        correct_segments(workspace.stores, [caption], [wrong], person)
    with pytest.raises(RequestError, match="cannot be changed"):
        correct_segments(workspace.stores, [], [], person)
    assert (log.last_sequence(), log.producers()) == (before, producers)


def test_a_changed_segment_keeps_what_was_not_changed(workspace: Workspace, caption: Annotation) -> None:
    change = SegmentChange(annotation_id=caption.annotation_id, start_seconds=0.5, stop_seconds=1.5)
    (written,) = correct_segments(workspace.stores, [caption], [change], "Ada")
    assert (written.start_seconds, written.stop_seconds) == (0.5, 1.5)
    assert (written.value["text"], written.value["author"]) == ("lift the lid", "person")
