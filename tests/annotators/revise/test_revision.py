"""Captions that are asked again: a captioner heeds the critique, or flatters the judge; and the command for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.rubric import GATES
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.grade import load_rubric
from ares_annotators.revise import RevisionRequest, RevisionRun, run_revision
from ares_annotators.revise.critique import choose_hidden_criteria
from tests.annotators.conftest import ModelServer
from tests.annotators.revise.conftest import (
    CAPTIONER,
    FLATTERY,
    JUDGE,
    OTHER,
    REFUSED,
    TRUE,
    Script,
)
from tests.annotators.runs import annotate
from tests.workspaces import CommandResult

# ATTRIBUTES is hidden, and VERB is told.
REQUEST = RevisionRequest()
# What a call of the test server costs: 1,000 tokens in and 10 out at 1 and 10 dollars a million.
USD_OF_A_CALL = 0.0011


def revise(ws: Workspace, options: Options, request: RevisionRequest = REQUEST) -> RevisionRun:
    return run_revision(ws.stores, options, request, quiet=True)


def shown(ws: Workspace) -> set[tuple[str, str]]:
    rows = ws.stores.tables.episodes.read_columns(["caption", "grade"]).to_pylist()
    return {(row["caption"], row["grade"]) for row in rows}


def test_a_captioner_that_heeds_the_critique_improves(
    graded: Workspace, judging: Options, script: Script
) -> None:
    assert shown(graded) == {(REFUSED, "not_acceptable")}
    run = revise(graded, judging)
    assert (run.refused, run.changed, run.compared, run.is_adopted) == (8, 8, 8, True)
    assert run.reason == "the hidden criteria are met more often"
    assert shown(graded) == {(TRUE, "acceptable")}
    assert run.hidden_criteria is not None
    assert (run.hidden_criteria.only_first, run.hidden_criteria.only_second) == (0, 8)
    episodes = sorted(graded.stores.tables.episodes.ids())
    kept = graded.stores.annotations.find_annotations(episodes, ["caption"], maker_ids=[run.first])
    assert {item.value["text"] for item in kept} == {REFUSED}, "the former captions stay in the log"


def test_the_critique_says_what_failed_and_where_and_nothing_else(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    run = revise(graded, judging)
    assert "ATTRIBUTES" in run.hidden and "VERB" not in run.hidden
    prompt = script.prompts[0]
    assert "The stated action is the one that the robot does" in prompt and " s)" in prompt
    assert "colour, size or material" not in prompt, "a hidden criterion"
    assert "a drawer closes" not in prompt, "what the judge saw"
    instructions = graded.stores.tables.episodes.read_columns(["instruction"])["instruction"].to_pylist()
    assert not any(instruction in text for instruction in instructions for text in script.prompts)
    request = next(
        item for item in model_server.requests if "frames before" in str(item["messages"][-1]["content"])
    )
    images = [part for part in request["messages"][-1]["content"] if part["type"] == "image_url"]
    assert len(images) == 3, "the frames of the captioner"


def test_a_captioner_that_flatters_the_judge_is_stopped_by_what_it_is_not_told(
    graded: Workspace, judging: Options, script: Script
) -> None:
    script.charmed = frozenset({"VERB"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    before = sorted(graded.stores.tables.episodes.ids())
    stored = len(graded.stores.annotations.find_annotations(before))
    run = revise(graded, judging)
    assert run.changed == 8 and not run.is_adopted
    assert run.hidden_criteria and run.hidden_criteria.difference == 0
    assert run.reason == "the hidden criteria are not met more often"
    assert shown(graded) == {(REFUSED, "not_acceptable")}
    assert len(graded.stores.annotations.find_annotations(before)) == stored, "what is refused is not stored"


def test_a_captioner_that_changes_nothing_costs_no_grade(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    script.revises = lambda caption, prompt: caption
    calls = len(model_server.requests)
    run = revise(graded, judging)
    assert (run.changed, run.is_adopted, run.reason) == (0, False, "the captioner changed nothing")
    assert len(model_server.requests) - calls == run.cost.calls == 8


@pytest.mark.slow
def test_hidden_criteria_that_were_met_before_show_nothing(
    graded: Workspace, judging: Options, script: Script
) -> None:
    """The colour is hidden and right, the verb is told and wrong: that the judge accepts more proves nothing."""
    script.first = "open the green drawer"
    shipped = set(graded.stores.annotations.producers())
    annotate(graded.stores, ["caption"], replace(judging, values={"layout": "sheets"}), quiet=True)
    annotate(graded.stores, ["grade"], judging, quiet=True)
    producers = graded.stores.annotations.producers().items()
    (made,) = [key for key, producer in producers if producer.annotator == "caption" and key not in shipped]
    run = revise(graded, judging, replace(REQUEST, captions=made))
    assert run.reason.startswith("all captions met the hidden criteria before") and not run.is_adopted


def test_what_earlier_versions_stored_is_read_and_not_shown(
    graded: Workspace, judging: Options, script: Script
) -> None:
    """Proposals of a round, grades by a second judge, and captions that were asked again without a critique."""
    log, (episode, *_) = graded.stores.annotations, sorted(graded.stores.tables.episodes.ids())
    for annotation in log.find_annotations([episode], ["caption", "grade"]):
        producer = log.producers()[annotation.maker_id]
        older = [
            replace(producer, annotator={"grade": "anchor_grade"}.get(annotation.name, "caption_proposal"))
        ]
        older = [replace(item, columns=(), after=(), fills_segments=False) for item in older]
        if annotation.name == "caption":
            older.append(replace(producer, settings={**producer.settings, "repeats": producer.maker_id}))
        for item in older:
            log.add_producer(item)
        stored = replace(annotation, name=older[0].annotator, maker_id=older[0].maker_id, revision=1)
        log.append([stored])
    graded.stores.sync()
    assert shown(graded) == {(REFUSED, "not_acceptable")} and graded.doctor() == []
    names = {item.name for item in log.find_annotations([episode])}
    assert {"anchor_grade", "caption_proposal"} <= names
    assert revise(graded, judging).is_adopted and shown(graded) == {(TRUE, "acceptable")}


@pytest.mark.slow
def test_money_is_kept_within_the_budget_and_paid_once(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    calls = len(model_server.requests)
    cut = revise(graded, judging, replace(REQUEST, budget_usd=8.5 * USD_OF_A_CALL))
    assert cut.reason.startswith("the budget is spent") and cut.ended_by == "budget"
    assert shown(graded) == {(REFUSED, "not_acceptable")}
    assert cut.cost.usd and cut.cost.usd <= 8.5 * USD_OF_A_CALL
    assert len(model_server.requests) - calls == cut.cost.calls
    whole = revise(graded, judging)
    assert whole.cost.usd == pytest.approx(whole.cost.calls * USD_OF_A_CALL)
    assert whole.cost.calls + cut.cost.calls == len(model_server.requests) - calls
    stored = len(graded.stores.annotations.find_annotations(sorted(graded.stores.tables.episodes.ids())))
    again = revise(graded, judging)
    assert replace(again, cost=whole.cost) == whole and again.cost.calls <= 2, "the test calls alone"
    episodes = sorted(graded.stores.tables.episodes.ids())
    assert len(graded.stores.annotations.find_annotations(episodes)) == stored, "nothing is stored twice"


def test_captions_are_revised_by_the_model_that_wrote_them(
    graded: Workspace, judging: Options, model_server: ModelServer
) -> None:
    other = replace(judging.settings, caption_model=f"openai:{OTHER}@{model_server.url}")
    with pytest.raises(RequestError, match="captions are revised by the model that wrote them"):
        revise(graded, replace(judging, settings=other))


@pytest.mark.slow
def test_a_later_grading_has_nothing_to_do(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    revise(graded, judging)
    (caption,) = annotate(
        graded.stores, ["caption"], replace(judging, values={"layout": "tiles"}), quiet=True
    )
    (grade,) = annotate(graded.stores, ["grade"], judging, quiet=True)
    assert (caption.kept, grade.kept, grade.failed) == (0, 0, 0)
    assert graded.doctor() == []


@pytest.mark.slow
def test_captions_are_revised_with_the_verbs_of_the_lab(
    graded: Workspace, judging: Options, script: Script, tmp_path: Path
) -> None:
    """Both the captioner that is asked again and the judge get them; with other verbs nothing is asked."""
    guide = tmp_path / "verbs.yaml"
    guide.write_text("open: open a thing\npush: push a thing\npipette: move liquid\n")
    own = replace(judging, values={"verbs": str(guide)})
    with pytest.raises(RequestError, match="revised with the verbs that they were written with"):
        revise(graded, own)
    shipped = set(graded.stores.annotations.producers())
    annotate(graded.stores, ["caption"], replace(own, values={**own.values, "layout": "tiles"}), quiet=True)
    annotate(graded.stores, ["grade"], own, quiet=True)
    producers = graded.stores.annotations.producers().items()
    (producer,) = [
        key for key, producer in producers if producer.annotator == "caption" and key not in shipped
    ]
    run = revise(graded, own, replace(REQUEST, captions=producer))
    assert run.refused and script.prompts and all("- pipette: move liquid" in text for text in script.prompts)


RunAres = Callable[..., CommandResult]


@pytest.fixture
def command(graded: Workspace, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command with the models of the server."""
    monkeypatch.setenv("ARES_CAPTION_MODEL", f"openai:{CAPTIONER}@{model_server.url}")
    monkeypatch.setenv("ARES_JUDGE_MODEL", f"openai:{JUDGE}@{model_server.url}")
    monkeypatch.setenv("ARES_PRICE", "1,10")
    return ["rubric", "revise", "-w", str(graded.path), "-q"]


def test_the_command_prints_the_measurement(
    command: list[str], script: Script, model_server: ModelServer, run_ares: RunAres
) -> None:
    assert run_ares(*command, "--dry-run").status == 2 and not model_server.requests
    script.charmed = frozenset({"VERB"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    printed = run_ares(*command)
    assert printed.status == 0
    text = printed.out
    assert "8 captions asked again, 8 changed, 8 compared" in text
    assert "hidden criteria: after - before: +0.000" in text
    assert "the revised captions are not shown: the hidden criteria are not met more often" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--options", "{annotators: {grade: {verbs: none.yaml}}}"], "guide of verbs cannot be read"),
        (["--captions", "zz"], "no single producer of captions 'zz'"),
        (["--where", "caption IS NULL"], "no caption was graded by this judge and rubric"),
    ],
)
def test_what_cannot_be_revised_is_one_line(
    command: list[str], script: Script, wrong: list[str], message: str, run_ares: RunAres
) -> None:
    printed = run_ares(*command, *wrong)
    assert printed.status == 2 and message in printed.err.strip().splitlines()[-1]


@pytest.mark.parametrize(("judged", "hidden"), [(0, 0), (1, 0), (2, 1), (3, 1), (10, 3)])
def test_something_is_always_told_and_something_hidden(judged: int, hidden: int) -> None:
    rubric = load_rubric("caption")
    slots = [item for item in rubric.criteria if item.category in GATES and item.slot]
    others = [item for item in rubric.criteria if item not in slots]
    small = rubric.model_copy(update={"criteria": (*slots[:judged], *others)})
    assert len(choose_hidden_criteria(small)) == hidden
    assert choose_hidden_criteria(rubric) == ["ATTRIBUTES", "HAND", "COUNT"]
