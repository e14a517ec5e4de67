"""Captions that are asked again: a captioner heeds the critique, or flatters the judge; and the command for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from annotators.base import Options
from annotators.revise import RevisionRequest, RevisionRun, quote_revision, run_revision
from ares.errors import RequestError
from ares.review import compare_producers
from ares.workspace import Workspace
from tests.annotators.conftest import ModelServer
from tests.annotators.revise.conftest import (
    CAPTIONER,
    EPISODES,
    FLATTERY,
    JUDGE,
    REFUSED,
    SECOND,
    TRUE,
    Script,
)
from tests.annotators.runs import annotate
from tests.workspaces import CommandResult

# With this seed ATTRIBUTES is hidden, and VERB is told.
REQUEST = RevisionRequest(seed=3)
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
    assert [(made.refused, made.changed, made.is_adopted) for made in run.rounds] == [(8, 8, True)]
    assert run.stopped == "no caption fails a criterion of which the captioner may be told"
    assert shown(graded) == {(TRUE, "acceptable")}
    compared = compare_producers(graded.stores, run.first, run.second, judge=run.judge)
    assert compared == run.comparison and (compared.first_rate, compared.second_rate) == (0.0, 1.0)
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
    assert len(images) == 5, "three frames of the captioner, and two that the ruling cites"


def test_a_captioner_that_flatters_the_judge_is_stopped_by_what_it_is_not_told(
    graded: Workspace, judging: Options, script: Script
) -> None:
    script.charmed = frozenset({"VERB"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    run = revise(graded, judging)
    (made,) = run.rounds
    assert made.changed == 8 and not made.is_adopted and made.anchors and made.anchors.difference == 0
    assert run.stopped == "the hidden criteria are not met more often"
    assert shown(graded) == {(REFUSED, "not_acceptable")} and run.comparison is None


@pytest.mark.slow
def test_a_second_judge_sees_that_the_first_is_charmed(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    script.charmed = frozenset({"VERB", "ATTRIBUTES"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    second = f"openai:{SECOND}@{model_server.url}"
    run = revise(graded, judging, replace(REQUEST, second_judge=second))
    (made,) = run.rounds
    assert made.judge and made.judge.difference == 1.0 and made.anchors and made.anchors.low > 0
    assert made.second_judge and made.second_judge.difference == 0 and not made.is_adopted
    assert run.stopped.endswith("although the judge accepts more: the captioner may please the judge")
    graded.sync()
    assert shown(graded) == {(REFUSED, "not_acceptable")}, "a grade of what was not adopted is not shown"
    rows = graded.stores.tables.episodes.read_columns(["acceptable_unproven"]).to_pylist()
    assert {row["acceptable_unproven"] for row in rows} == {False}


def test_a_captioner_that_changes_nothing_costs_one_round_and_no_grade(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    script.revises = lambda caption, prompt: caption
    calls = len(model_server.requests)
    run = revise(graded, judging)
    assert [(made.changed, made.is_adopted) for made in run.rounds] == [(0, False)]
    assert run.stopped == "the captioner changed nothing"
    assert len(model_server.requests) - calls == run.cost.calls == 8 + 1, (
        "with the test call of the captioner"
    )


@pytest.mark.nightly
def test_a_second_round_goes_on_from_the_first(graded: Workspace, judging: Options, script: Script) -> None:
    """The first round mends the colour, which is hidden. The second mends the verb, which nothing hidden can show."""
    script.revises = lambda caption, prompt: TRUE if "green" in caption else caption.replace("red", "green")
    run = revise(graded, judging)
    assert [made.is_adopted for made in run.rounds] == [True, False]
    assert run.rounds[1].judge and run.rounds[1].judge.difference == 1.0
    assert run.stopped.startswith("all captions met the hidden criteria before: only a second judge")
    assert shown(graded) == {("open the green drawer", "not_acceptable")}


@pytest.mark.slow
def test_what_changes_without_a_critique_is_noise(
    graded: Workspace, judging: Options, script: Script
) -> None:
    run = revise(graded, judging, replace(REQUEST, has_noise_floor=True))
    assert run.noise and run.noise.difference == 1.0, "this captioner mends whatever it is asked again"
    plain = [prompt for prompt in script.prompts if "does not meet" not in prompt]
    assert len(plain) == 8 and len(script.prompts) == 16
    assert shown(graded) == {(TRUE, "acceptable")}


@pytest.mark.slow
def test_money_is_quoted_kept_within_the_budget_and_paid_once(
    graded: Workspace, judging: Options, script: Script, model_server: ModelServer
) -> None:
    calls = len(model_server.requests)
    quote = quote_revision(graded.stores, judging, REQUEST)
    assert (quote.captions, quote.refused) == (8, 8) and len(model_server.requests) == calls
    assert quote.cost.usd and quote.first_round.usd and quote.first_round.usd < quote.cost.usd
    cut = revise(graded, judging, replace(REQUEST, budget_usd=11.5 * USD_OF_A_CALL))
    assert cut.stopped.startswith("the budget is spent") and shown(graded) == {(REFUSED, "not_acceptable")}
    assert cut.cost.usd and cut.cost.usd <= 11.5 * USD_OF_A_CALL
    assert len(model_server.requests) - calls == cut.cost.calls
    whole = revise(graded, judging)
    assert whole.cost.usd == pytest.approx(whole.cost.calls * USD_OF_A_CALL)
    assert (
        whole.cost.calls + cut.cost.calls == len(model_server.requests) - calls <= quote.first_round.calls + 4
    )
    again = revise(graded, judging)
    assert again.rounds == whole.rounds and again.cost.calls <= 2, "the test calls alone"


def test_captions_are_revised_by_the_model_that_wrote_them(
    graded: Workspace, judging: Options, model_server: ModelServer
) -> None:
    with pytest.raises(RequestError, match="captions are revised by the model that wrote them"):
        revise(graded, judging, replace(REQUEST, captioner=f"openai:{SECOND}@{model_server.url}"))


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
        quote_revision(graded.stores, own, REQUEST)
    shipped = set(graded.stores.annotations.producers())
    annotate(graded.stores, ["caption"], replace(own, values={**own.values, "layout": "tiles"}), quiet=True)
    annotate(graded.stores, ["grade"], replace(own, values={**own.values, "calibrate": "no"}), quiet=True)
    producers = graded.stores.annotations.producers().items()
    (producer,) = [
        key for key, producer in producers if producer.annotator == "caption" and key not in shipped
    ]
    run = revise(graded, own, replace(REQUEST, captions=producer))
    assert run.rounds and script.prompts and all("- pipette: move liquid" in text for text in script.prompts)


RunAres = Callable[..., CommandResult]


@pytest.fixture
def command(graded: Workspace, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command with the models of the server."""
    monkeypatch.setenv("ARES_CAPTION_MODEL", f"openai:{CAPTIONER}@{model_server.url}")
    monkeypatch.setenv("ARES_JUDGE_MODEL", f"openai:{JUDGE}@{model_server.url}")
    monkeypatch.setenv("ARES_PRICE", "1,10")
    return ["rubric", "revise", "-w", str(graded.path), "--seed", "3", "-q"]


def test_the_price_comes_before_and_the_rounds_after(
    command: list[str], script: Script, model_server: ModelServer, run_ares: RunAres
) -> None:
    quote = run_ares(*command, "--dry-run", "--json").json
    assert (quote["captions"], quote["refused"], quote["rounds"]) == (EPISODES, EPISODES, 3)
    assert quote["usd"] > quote["first_round"]["usd"] > 0 and not model_server.requests
    script.charmed = frozenset({"VERB"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    printed = run_ares(*command)
    assert printed.status == 0
    text = printed.out
    assert "round 1: 8 captions asked again, 8 changed, 8 compared; its captions are not shown" in text
    assert "hidden criteria: after - before: +0.000" in text
    assert "stopped: the hidden criteria are not met more often" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--verbs", "none.yaml"], "guide of verbs cannot be read"),
        (["--captions", "zz"], "no single producer of captions 'zz'"),
        (["--where", "caption IS NULL"], "no caption was graded by this judge and rubric"),
    ],
)
def test_what_cannot_be_revised_is_one_line(
    command: list[str], script: Script, wrong: list[str], message: str, run_ares: RunAres
) -> None:
    printed = run_ares(*command, *wrong)
    assert printed.status == 2 and message in printed.err.strip().splitlines()[-1]


def test_something_is_always_told_and_something_hidden(command: list[str], run_ares: RunAres) -> None:
    assert "'1' is no share; give a number between 0 and 1" in run_ares(*command, "--anchors", "1").err
