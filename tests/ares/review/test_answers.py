"""What a person says is stored at once, changes grade and filters, and goes back by its id, in any order."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from ares.review import (
    Answer,
    find_earlier_answer,
    find_last_answer,
    give_answer,
    read_answer,
    withdraw_answer,
)
from ares.store import keep_newest_annotations
from ares.workspace import Workspace
from ares_app.cli.main import main
from ares_app.dashboard.annotation_rows import read_annotations
from tests.ares.review.conftest import make_annotation

ADA = Answer(question="acceptable", subject_id="", subject_kind="annotation", verdict="met", person="Ada")


def _about(annotation: Annotation, question: str, verdict: str, **fields: Any) -> Answer:
    return replace(ADA, question=question, verdict=verdict, subject_id=annotation.annotation_id, **fields)


def test_an_answer_about_the_whole_caption_decides_until_it_is_taken_back(
    workspace: Workspace,
    judged: Annotation,
    row: Any,
) -> None:
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)
    refused = give_answer(workspace.stores, _about(judged, "acceptable", "unmet", reason="no lid"))
    assert (row()["grade"], row()["acceptable"]) == ("not_acceptable", False)
    accepted = give_answer(workspace.stores, _about(judged, "acceptable", "met"))
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)
    withdraw_answer(workspace.stores, accepted.annotation_id, "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("not_acceptable", False)
    with pytest.raises(RequestError, match="does not count any more"):
        withdraw_answer(workspace.stores, accepted.annotation_id, "Ada")
    withdraw_answer(workspace.stores, refused.annotation_id, "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)


def test_a_caption_that_no_judge_saw_is_accepted_by_a_person_alone(
    workspace: Workspace,
    caption: Annotation,
    row: Any,
) -> None:
    give_answer(workspace.stores, _about(caption, "acceptable", "met"))
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)


@pytest.mark.slow
def test_what_is_refuted_later_stands_above_an_earlier_word_on_the_whole(
    workspace: Workspace,
    judged: Annotation,
    row: Any,
) -> None:
    give_answer(workspace.stores, _about(judged, "acceptable", "met"))
    given = give_answer(workspace.stores, _about(judged, "VERB", "unmet", reason="it pushes"))
    assert row()["grade"] == "not_acceptable"
    withdraw_answer(workspace.stores, given.annotation_id, "Ada")
    assert (row()["grade"], row()["acceptable"]) == ("acceptable", True)


def test_success_instruction_and_text_fill_columns_of_their_own(
    workspace: Workspace,
    judged: Annotation,
    row: Any,
) -> None:
    episode = replace(ADA, subject_id=judged.episode_id, subject_kind="episode")
    failed = replace(episode, question="success", verdict="failure", failure_kind="dropped", severity="major")
    given = give_answer(workspace.stores, failed)
    give_answer(
        workspace.stores, replace(episode, question="instruction", verdict="unmet", text="push the lid")
    )
    slots = {"action": "push", "object": "The red lid"}
    edited = give_answer(workspace.stores, _about(judged, "text", "", text="push the lid", slots=slots))
    assert (edited.value["slots"], edited.value["caption_objects"]) == (slots, ["red lid"])
    assert (row()["caption"], row()["grade"]) == ("push the lid", "acceptable"), "as Ada wrote it"
    count = workspace.stores.tables.episodes.count
    assert count("person_success = false AND failure_kind = 'dropped' AND failure_severity = 'major'") == 1
    assert count("instruction_fits = false AND corrected_instruction = 'push the lid'") == 1
    withdraw_answer(workspace.stores, given.annotation_id, "Ada")
    withdraw_answer(workspace.stores, edited.annotation_id, "Ada")
    assert not count("person_success IS NOT NULL")
    assert (row()["caption"], row()["grade"]) == ("lift the lid", "acceptable")


def test_what_nobody_can_say_is_refused_in_one_line(
    workspace: Workspace,
    judged: Annotation,
) -> None:
    given = give_answer(workspace.stores, _about(judged, "acceptable", "met"))
    for answer, message in (
        (_about(judged, "acceptable", "yes"), "cannot be 'yes'"),
        (_about(judged, "NOPE", "met"), "no criterion 'NOPE'"),
        (_about(judged, "text", "", text=" "), "new text is empty"),
        (replace(ADA, subject_id="ffff"), "nothing is said there"),
        (replace(ADA, question="success", verdict="success", subject_id="ffff"), "no such episode"),
        (_about(judged, "acceptable", "met", failure_kind="gone"), "no kind of failure 'gone'.*dropped"),
        (_about(judged, "acceptable", "met", person=" "), "a person needs a name"),
    ):
        with pytest.raises(RequestError, match=message):
            give_answer(workspace.stores, answer)
    with pytest.raises(RequestError, match="is of Ada"):
        withdraw_answer(workspace.stores, given.annotation_id, "Ben")
    with pytest.raises(RequestError, match="no answer"):
        withdraw_answer(workspace.stores, judged.annotation_id, "Ada")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 9))]
)
def test_whatever_was_said_and_taken_back_the_last_word_of_each_counts(
    workspace: Workspace,
    judged: Annotation,
    seed: int,
) -> None:
    """Random answers of two people and undos: what counts is what a stack of each says."""
    generator, log = random.Random(seed), workspace.stores.annotations
    said: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for _ in range(25):
        key = generator.choice(["Ada", "Ben"]), generator.choice(["acceptable", "VERB", "OBJECT"])
        own = said.setdefault(key, [])
        if own and generator.random() < 0.4:
            withdraw_answer(workspace.stores, own.pop()[0], key[0])
            continue
        verdict = generator.choice(["met", "unmet", "unsure"])
        given = give_answer(workspace.stores, _about(judged, key[1], verdict, person=key[0]))
        own.append((given.annotation_id, verdict))
    newest = keep_newest_annotations(log.find_annotations([judged.episode_id]))
    counting = {(item.person, item.question): item.verdict for item in map(read_answer, newest) if item}
    assert counting == {key: own[-1][1] for key, own in said.items() if own}


def test_filters_tell_what_people_reviewed_who_did_and_where_they_differ(
    workspace: Workspace, judged: Annotation
) -> None:
    count = workspace.stores.tables.episodes.count
    given = give_answer(workspace.stores, _about(judged, "acceptable", "met"))
    assert (count("reviewed"), count("reviewed = false"), count("reviewer IS NULL")) == (1, 1, 1)
    assert count("array_has(reviewer, 'Ada') AND disagreement IS NULL") == 1
    give_answer(workspace.stores, _about(judged, "acceptable", "unmet", person="Ben"))
    assert count("array_has(disagreement, 'acceptable') AND array_has(reviewer, 'Ben')") == 1
    withdraw_answer(workspace.stores, given.annotation_id, "Ada")
    assert count("array_has(disagreement, 'acceptable')") == 0
    assert count("reviewed AND NOT array_has(reviewer, 'Ada')") == 1


@pytest.mark.slow
def test_the_last_answer_that_counts_is_found_in_the_log_and_its_reason_is_kept(
    workspace: Workspace, judged: Annotation
) -> None:
    stores, episode_id = workspace.stores, judged.episode_id
    assert find_last_answer(stores, episode_id, "Ada") is None
    give_answer(stores, _about(judged, "VERB", "met"))
    give_answer(stores, _about(judged, "OBJECT", "unmet", reason="a box"))
    changed = give_answer(stores, _about(judged, "VERB", "unmet", reason="it pushes"))
    give_answer(stores, _about(judged, "VERB", "met", person="Ben"))
    taken = []
    while last := find_last_answer(stores, episode_id, "Ada"):
        taken.append((last[1].question, last[1].verdict))
        withdraw_answer(stores, last[0].annotation_id, "Ada")
    # What counts again after an undo was said first of all.
    assert taken == [("VERB", "unmet"), ("OBJECT", "unmet"), ("VERB", "met")]
    earlier = find_earlier_answer(stores, episode_id, "OBJECT", judged.annotation_id, "Ada")
    assert earlier is not None and earlier.reason == "a box"
    assert find_earlier_answer(stores, episode_id, "OBJECT", judged.annotation_id, "Ben") is None
    assert read_answer(changed) is not None


@pytest.mark.slow
def test_every_ruling_is_shown_by_the_command_python_the_page_and_an_export(
    workspace: Workspace, judged: Annotation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episode = replace(ADA, subject_id=judged.episode_id, subject_kind="episode")
    answers = [
        replace(episode, question="success", verdict="failure", failure_kind="dropped", reason="it slipped"),
        replace(episode, question="instruction", verdict="unmet", text="push the lid", person="Ben"),
        _about(judged, "VERB", "unmet", reason="it pushes", person="Cem"),
        _about(judged, "acceptable", "unsure", reason="too dark", person="Dora"),
        _about(judged, "text", "", text="shove the lid", person="Eve"),
    ]
    for answer in answers:
        workspace.review.give(answer)
    withdrawn = workspace.review.give(_about(judged, "OBJECT", "met", reason="gone", person="Fay"))
    workspace.review.withdraw(withdrawn, "Fay")
    texts = {"it slipped", "push the lid", "it pushes", "too dark", "shove the lid"}

    assert main(["show", judged.episode_id, "-w", workspace.path]) == 0
    shown = capsys.readouterr().out.partition("people say")[2].partition("\n\n")[0]
    rows = {row.answer_id: row.answer for row in workspace.review.answers()}
    assert sorted(rows.values(), key=lambda row: row.person) == answers
    for answer_id, answer in rows.items():
        (line,) = (line for line in shown.splitlines() if answer_id in line)
        assert answer.person in line and answer.question in line and (answer.reason or answer.text) in line
    assert "gone" not in shown

    stored = workspace.stores.tables.episodes.get_episode(judged.episode_id)
    page = json.dumps(read_annotations(workspace.stores, stored, []).annotations)
    assert all(text in page for text in texts)

    workspace.sets.create("one", [judged.episode_id])
    workspace.export("one", tmp_path / "out", format="parquet", quiet=True)
    lines = (tmp_path / "out" / "manifest.answers.jsonl").read_text().splitlines()
    exported = [json.loads(line) for line in lines]
    said = {(answer.person, answer.reason or answer.text) for answer in answers}
    assert {(row["person"], row["reason"] or row["text"]) for row in exported} == said
    assert {row["answer_id"] for row in exported} == rows.keys()


@pytest.mark.slow
def test_a_new_text_of_one_segment_leaves_the_others_in_sight(workspace: Workspace) -> None:
    stores = workspace.stores
    producer = Producer(annotator="segments", version="1", model="m", kind="model", fills_segments=True)
    stores.annotations.add_producer(producer)
    episode_id = min(stores.tables.episodes.ids())
    draft = make_annotation(producer, episode_id, episode_id, {})
    spans = [
        replace(
            draft, start_seconds=float(start), stop_seconds=start + 1.0, value={"text": text, "name": "step"}
        )
        for start, text in enumerate(("reach", "lift", "put down"))
    ]
    stores.annotations.append(spans)

    def shown() -> list[str]:
        stores.sync()
        rows = stores.tables.segments.scan(["text", "start_seconds"], "annotator = 'segments'").to_pylist()
        return [row["text"] for row in sorted(rows, key=lambda row: row["start_seconds"])]

    assert shown() == ["reach", "lift", "put down"]
    first = give_answer(stores, _about(spans[1], "text", "", text="lift the lid"))
    assert shown() == ["reach", "lift the lid", "put down"]
    second = give_answer(stores, _about(first, "text", "", text="lift the red lid"))
    assert shown() == ["reach", "lift the red lid", "put down"]
    withdraw_answer(stores, second.annotation_id, "Ada")
    assert shown() == ["reach", "lift the lid", "put down"]
    withdraw_answer(stores, first.annotation_id, "Ada")
    assert shown() == ["reach", "lift", "put down"]
    stores.annotations.append([replace(spans[2], value={"text": "drop", "name": "step"}, revision=1)])
    assert shown() == ["reach", "lift", "drop"], "nothing of the person stands above the model any more"
