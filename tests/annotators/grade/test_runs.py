"""Runs of the annotator: what is asked when, what a quote says of the bill, and what is read of the same run."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from annotators.grade.control_plan import ControlPlan

from annotators.base import Options, make_episode_subject
from annotators.grade import GradeAnnotator
from ares.annotation import Producer
from ares.episode import Json
from ares.settings import Price
from ares.workspace import Workspace
from tests.annotators.judge_replies import DRAWER, data_of, judge, kind_of, observation, prompt_of
from tests.annotators.runs import annotate, estimate_cost
from tests.annotators.samples import choice, make_annotation
from tests.thinning import some_by_day

THINGS = ("chest", "box", "door", "mug", "spoon", "lid")


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    return video_ws


@pytest.fixture
def remote(options: Options, model_server: Any, quick_retries: None) -> Options:
    """Captioner and judge behind one server, with a price."""
    settings = replace(
        options.settings,
        price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0),
        caption_model=f"openai:Some/Vlm-7B@{model_server.url}",
        judge_model=f"openai:Other/Judge-9B@{model_server.url}",
    )
    return replace(options, settings=settings)


def _write_captions(ws: Workspace, producers: int) -> int:
    """Typed captions of every episode by several producers, each of another thing; returns how many."""
    annotations = []
    for number in range(producers):
        producer = Producer(annotator="caption", version=str(number), model=f"writer-{number}", kind="model")
        ws.stores.annotations.add_producer(producer)
        for place, episode in enumerate(ws.stores.tables.episodes.read()):
            # Half of them are true; no two of the others are alike.
            thing = "drawer" if (number + place) % 2 else f"{THINGS[number]} of kind {place}"
            text = f"close the green {thing}"
            value = {"text": text, "caption": text, "slots": {**DRAWER, "object": thing}}
            annotations.append(make_annotation(producer, episode, value))
    ws.stores.annotations.append(annotations)
    ws.sync()
    return len(annotations)


def _is_wrong(request: Any, rate: float) -> bool:
    """Whether a judge errs on a request; the same for the same question."""
    digest = hashlib.blake2b(prompt_of(request).encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32 < rate


def _judge_with_errors(rate: float) -> Any:
    def answer(request: Any) -> Any:
        wrong = _is_wrong(request, rate)
        if kind_of(request) != "choice":
            return judge(observation(), compares="same" if wrong else "different")(request)
        options = data_of(request)["options"]
        chosen = "other" if "other" in options else options[0]
        return judge(chooses=chosen if wrong or "drawer" not in options else "drawer")(request)

    return answer


def test_a_run_without_work_makes_no_test_call(ws: Workspace, remote: Options, model_server: Any) -> None:
    model_server.replies(judge())
    (nothing,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert (nothing.planned, nothing.cost.calls, len(model_server.requests)) == (0, 0, 0)
    written = _write_captions(ws, 1)
    (first,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert first.kept + first.failed == written
    asked = len(model_server.requests)
    (again,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert (again.kept, len(model_server.requests)) == (0, asked)


def _judge_of_success(request: Any) -> Any:
    """Answers the questions of `success`, and those of `grade`."""
    prompt = prompt_of(request)
    replies = {
        "one to five": {"criteria": ["it is closed"]},
        "Compare the start": {
            "observation": "closed",
            "conditions": ["met"],
            "frames": [1],
            "outcome": "success",
        },
        "in random order": {"progress": list(range(len(request["messages"][-1]["content"]) - 1))},
    }
    document = next((reply for words, reply in replies.items() if words in prompt), None)
    if document is None:
        return judge()(request)
    return [choice(json.dumps(document))]


@pytest.mark.slow
def test_success_and_grade_in_one_command_run_in_that_order(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.replies(_judge_of_success)
    _write_captions(ws, 1)
    values: dict[str, Json] = {"success.votes": 1, "grade.layout": "tiles"}
    reports = annotate(ws.stores, ["grade", "success"], replace(remote, values=values), quiet=True, limit=2)
    by_name = {report.annotator: report for report in reports}
    assert by_name["grade"].kept == by_name["success"].kept == 2
    producers = ws.stores.annotations.producers()
    assert producers[by_name["grade"].producer].settings["success"] == by_name["success"].producer
    ids = [episode.episode_id for episode in ws.stores.tables.episodes.read()]
    grades = list(ws.stores.annotations.find_annotations(ids, ["grade"]))
    assert len(grades) == 2 and all(item.value["success_id"] for item in grades)


def test_no_missing_success_is_told_where_the_source_labels_every_episode(
    ws: Workspace, remote: Options, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotator = GradeAnnotator(remote, ws.stores)
    model_server.replies(judge())
    table = type(ws.stores.tables.episodes)
    monkeypatch.setattr(table, "count", lambda self, where="": 1 if where == "success IS NULL" else 0)
    assert any("no success is stored" in text for text in annotator.preflight([]).warnings)
    monkeypatch.setattr(table, "count", lambda self, where="": 0)
    assert not any("no success is stored" in text for text in annotator.preflight([]).warnings)


@pytest.mark.slow
@pytest.mark.parametrize("rate", some_by_day([0.3, 0.0, 1.0]))
def test_a_quote_after_a_first_run_is_the_bill_of_the_rest(
    ws: Workspace, remote: Options, model_server: Any, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.replies(_judge_with_errors(rate))
    monkeypatch.setattr("annotators.grade.annotator.plan_controls", lambda *args, **more: ControlPlan())
    _write_captions(ws, 6)
    (first,) = annotate(ws.stores, ["grade"], remote, quiet=True, limit=6)
    (quote,) = estimate_cost(ws.stores, ["grade"], remote)
    (rest,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    assert first.kept > 20 and rest.kept > 20
    assert quote.cost.calls == pytest.approx(rest.cost.calls, rel=0.1)
    assert quote.cost.tokens_in == pytest.approx(rest.cost.tokens_in, rel=0.15)
    assert quote.cost.tokens_out == pytest.approx(rest.cost.tokens_out, rel=0.15)
    assert quote.cost.usd == pytest.approx(rest.cost.usd, rel=0.15)


@pytest.mark.slow
def test_the_price_of_a_calibration_is_said_before_the_run(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    model_server.replies(_judge_with_errors(0.0))
    everything = GradeAnnotator(replace(remote, planned_episodes=1_000), ws.stores)
    lines = [
        line for line in everything.preflight([]).warnings if line.startswith("calibration of the judge on")
    ]
    for line in lines:
        calls, usd = re.fullmatch(r".*: about ([\d,]+) calls, ([\d.]+) USD, once", line).groups()  # type: ignore[union-attr]
        assert int(calls.replace(",", "")) > 10 and float(usd) > 0.001
    assert lines
    unmeasured = GradeAnnotator(
        replace(remote, planned_episodes=1_000, values={"calibrate": "no"}), ws.stores
    )
    assert "calibration" not in str(unmeasured.preflight([]).warnings)
    sample = [make_episode_subject(episode) for episode in ws.stores.tables.episodes.read(limit=3)]
    with_controls, without = (run.estimate_run(sample, 100).calls for run in (everything, unmeasured))
    assert with_controls > 2 * without > 0


def test_shuffled_frames_that_a_typed_caption_and_a_sentence_share_are_quoted_once(
    ws: Workspace, remote: Options, model_server: Any, caption_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A correction by a person stands beside the caption of the model, and is graded, too."""
    model_server.replies(_judge_with_errors(0.0))
    seen: list[int] = []
    monkeypatch.setattr(
        "annotators.grade.rates.RunQuote.add_controls",
        lambda quote, subject, calls: seen.append(calls.observations["scrambled"]),
    )
    sample = []
    for episode in ws.stores.tables.episodes.read(limit=3):
        for slots in (None, DRAWER):
            caption = caption_of(episode, "close the drawer", slots=slots)
            sample.append(replace(make_episode_subject(episode), annotation=caption))
    GradeAnnotator(replace(remote, planned_episodes=1_000), ws.stores).estimate_run(sample, len(sample))
    assert seen == [3, 0]
