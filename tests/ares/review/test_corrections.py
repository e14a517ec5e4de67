"""What people say of outcome and instruction is what every reader of an episode gets; the record stays beside it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Annotation
from ares.review import Answer, give_answer, withdraw_answer
from ares.rubric import Rubric, make_grade_value
from ares.store import Stores, find_corrections, rebuild_from_log
from ares.workspace import Workspace
from tests.ares.review.conftest import JUDGE, make_annotation
from tests.workspaces import CommandResult

ANSWER = Answer(question="success", subject_id="", subject_kind="episode", verdict="success", person="Ada")
OUTCOMES = {"success": True, "failure": False, "partial": None, "aborted": None}
COLUMNS = ("success", "success_source", "instruction", "instructions")


def _columns(stores: Stores, episode_id: str) -> dict[str, Any]:
    episodes = stores.tables.episodes
    names = [
        name for name in COLUMNS + tuple(f"{name}_original" for name in COLUMNS) if name in episodes.columns()
    ]
    row: dict[str, Any] = episodes.read_columns(names, f"episode_id = '{episode_id}'").to_pylist()[0]
    return row


def test_a_corrected_outcome_and_instruction_are_found_counted_and_given_back(workspace: Workspace) -> None:
    stores, episode = workspace.stores, workspace.episodes[0]
    episode_id, before = episode.episode_id, _columns(workspace.stores, episode.episode_id)
    said = replace(ANSWER, subject_id=episode_id, verdict="failure")
    outcome = give_answer(stores, said)
    text = give_answer(
        stores, replace(said, question="instruction", verdict="unmet", text="push the lid away")
    )
    shown = workspace.episodes[episode_id]
    assert (shown.success, shown.success_source) == (False, "person")
    assert (shown.instruction, shown.instructions) == ("push the lid away", ("push the lid away",))
    assert len(workspace.episodes.where("success = false AND instruction = 'push the lid away'")) == 1
    assert workspace.search("push the lid away")[0].episode_id == episode_id
    groups = {group.value: group for group in workspace.episodes.count_by("task")}
    assert groups["push the lid away"].failures == 1
    row = _columns(stores, episode_id)
    assert {name: row[f"{name}_original"] for name in COLUMNS} == before
    assert shown.to_json()["recorded"] == {"instruction": before["instruction"], "success": before["success"]}
    withdraw_answer(stores, text.annotation_id, "Ada")
    withdraw_answer(stores, outcome.annotation_id, "Ada")
    row = _columns(stores, episode_id)
    assert {name: row[name] for name in COLUMNS} == before
    assert not any(row[f"{name}_original"] for name in COLUMNS)


def test_an_instruction_that_people_refuse_without_another_is_no_task(workspace: Workspace) -> None:
    episode_id = workspace.episodes[0].episode_id
    said = replace(ANSWER, subject_id=episode_id, question="instruction", verdict="unmet")
    give_answer(workspace.stores, said)
    shown = workspace.episodes[episode_id]
    assert (shown.instruction, shown.instructions) == ("", ())
    give_answer(workspace.stores, replace(said, verdict="met"))
    assert workspace.episodes[episode_id].instruction


@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_the_source_shows_the_last_word_and_keeps_its_record(
    workspace: Workspace, seed: int
) -> None:
    """Answers of one person, taken back, removed, brought back and rebuilt in any order."""
    stores, generator = workspace.stores, random.Random(seed)
    ids = [episode.episode_id for episode in workspace.episodes]
    recorded = {key: _columns(stores, key) for key in ids}
    success: dict[str, bool | None] = {}
    texts: dict[str, str] = {}
    for _ in range(12):
        key, kind = generator.choice(ids), generator.choice(["outcome", "text", "rebuild", "remove"])
        said = replace(ANSWER, subject_id=key)
        if kind == "outcome":
            verdict = generator.choice([*OUTCOMES, "unsure"])
            give_answer(stores, replace(said, verdict=verdict))
            success.pop(key, None)
            if verdict in OUTCOMES:
                success[key] = OUTCOMES[verdict]
        elif kind == "text":
            text = generator.choice(["lift it", "drop it", ""])
            give_answer(stores, replace(said, question="instruction", verdict="unmet", text=text))
            texts[key] = text
        elif kind == "rebuild":
            rebuild_from_log(stores.tables, stores.annotations)
        else:
            workspace.remove([key])
            workspace.undo()
        for key in ids:
            row, source = _columns(stores, key), recorded[key]
            said_success = success.get(key)
            is_corrected = key in success and said_success != source["success"]
            assert row["success"] == (said_success if is_corrected else source["success"])
            assert row["success_source"] == ("person" if is_corrected else source["success_source"])
            assert row["instruction"] == texts.get(key, source["instruction"])


def test_what_a_person_says_of_the_outcome_rules_on_captions_that_state_it(
    workspace: Workspace, caption: Annotation, rubric: Rubric, row: Any
) -> None:
    """The judge saw a success, and the person a failure: the caption is refused until the answer is taken back."""
    stated = {"slot": "outcome", "claimed": "completed", "observed": "completed"}
    rulings: list[dict[str, Any]] = [
        {"criterion": name, "verdict": "MET", "category": category, **(stated if name == "OUTCOME" else {})}
        for name, category in rubric.categories
    ]
    length = workspace.episodes[caption.episode_id].duration_seconds
    grade = make_annotation(JUDGE, caption.episode_id, caption.annotation_id, make_grade_value(rulings))
    workspace.stores.annotations.append([replace(grade, stop_seconds=length)])
    assert row()["grade"] == "acceptable"
    said = replace(ANSWER, subject_id=caption.episode_id, verdict="failure")
    give_answer(workspace.stores, said)
    assert (row()["grade"], row()["acceptable"]) == ("not_acceptable", False)
    give_answer(workspace.stores, replace(said, verdict="unsure"))
    assert row()["grade"] == "acceptable"
    give_answer(workspace.stores, replace(said, verdict="failure", person="Ben"))
    assert row()["grade"] == "not_acceptable"
    rebuild_from_log(workspace.stores.tables, workspace.stores.annotations)
    assert row()["grade"] == "not_acceptable"


def test_a_caption_that_a_person_writes_counts_as_true(
    workspace: Workspace, caption: Annotation, row: Any
) -> None:
    """Of an episode with the caption of a model, and of one without any; also after a judge."""
    (other,) = workspace.stores.tables.episodes.ids() - {caption.episode_id}
    workspace.correct(caption.episode_id, caption="push the lid", person="Ada")
    assert (row()["caption"], row()["acceptable"]) == ("push the lid", True)
    workspace.correct(other, caption="open the box", person="Ada")
    assert len(workspace.episodes.where("acceptable AND caption = 'open the box'")) == 1
    second = workspace.correct(caption.episode_id, caption="turn the lid", person="Ada")
    assert (row()["caption"], row()["acceptable"]) == ("turn the lid", True)
    withdraw_answer(workspace.stores, second.ids[0], "Ada")
    assert (row()["caption"], row()["acceptable"]) == ("push the lid", True)


def test_a_table_of_corrections_is_stored_and_its_bad_rows_are_named(
    workspace: Workspace, tmp_path: Path, run_ares: Callable[..., CommandResult]
) -> None:
    first, second = workspace.episodes[0], workspace.episodes[1]
    table = tmp_path / "corrections.csv"
    table.write_text(
        "\ufeffepisode,instruction,outcome,caption\n"
        f"{first.episode_id},lift the lid,failure,\n"
        f"{second.key},,success,close it\n"
        "nobody,drop it,,\n"
        f"{first.episode_id},,perhaps,\n"
        f"{first.episode_id},,,\n"
        f"{first.episode_id},{'x' * 5000},success,\n"
        ",turn it,,\n"
    )
    done = run_ares("correct", table, "-w", workspace.path)
    assert done.status == 1 and "stored: 4 answers" in done.out and "not used: 5 rows" in done.out
    assert (
        "row 4" in done.out
        and "success cannot be 'perhaps'" in done.out
        and "no episode is named" in done.out
    )
    workspace.sync()
    assert (
        workspace.episodes[first.episode_id].instruction,
        workspace.episodes[first.episode_id].success,
    ) == (
        "lift the lid",
        False,
    )
    done = run_ares("correct", first.episode_id[:6], "--instruction", "drop the lid", "-w", workspace.path)
    assert done.status == 0 and "`ares undo ID` takes one back" in done.out
    identity = done.out.split()[-1]
    assert run_ares("undo", identity, "-w", workspace.path).status == 0
    table.write_text("id,text\n1,2\n")
    refused = run_ares("correct", table, "-w", workspace.path)
    assert (
        refused.status == 2 and "it has id, text; give episode, instruction, caption, outcome" in refused.err
    )


def test_a_correction_of_an_earlier_version_is_shown_once_the_log_is_applied(workspace: Workspace) -> None:
    """Its tables have the answer, and the record alone in the columns of the source."""
    stores, episode = workspace.stores, workspace.episodes[0]
    said = replace(
        ANSWER, subject_id=episode.episode_id, question="instruction", verdict="unmet", text="lift it"
    )
    give_answer(stores, said)
    for rows in find_corrections(stores.tables.episodes, undo=True):
        stores.tables.episodes.set_values(rows)
    state = stores.tables.connection.open_table("index_state")
    assert state is not None
    state.delete("key LIKE 'views%'")
    stores.sync()
    assert workspace.episodes[episode.episode_id].instruction == "lift it"
