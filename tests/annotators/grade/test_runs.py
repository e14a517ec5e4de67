"""Runs of the annotator: what is asked when, what a quote says of the bill, and what is read of the same run."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Column, Producer
from ares.episode import Json
from ares.errors import ModelError
from ares.review import Answer, give_answer, withdraw_answer
from ares.rubric import CONTROL, describe_tripwire, shipped_verbs
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.grade import GradeAnnotator
from ares_annotators.grade.additions import DatasetWords, find_unknown_words
from tests.annotators.judge_replies import DRAWER, judge, kind_of, observation, prompt_of
from tests.annotators.runs import annotate
from tests.annotators.samples import choice, make_annotation

SHOWN = (Column(name="caption", type="string", meaning="Caption."),)
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


def _write_captions(ws: Workspace, producers: int, columns: Sequence[Column] = ()) -> int:
    """Typed captions of every episode by several producers, each of another thing; returns how many."""
    annotations = []
    for number in range(producers):
        model = f"writer-{number}"
        producer = Producer(
            annotator="caption", version="1", model=model, kind="model", columns=tuple(columns)
        )
        ws.stores.annotations.add_producer(producer)
        # The order of rows is that in which the workers of the ingestion end.
        in_order = sorted(
            ws.stores.tables.episodes.read(), key=lambda episode: (episode.success is True, episode.key)
        )
        for place, episode in enumerate(in_order):
            # Half of them are true; no two of the others are alike.
            thing = "drawer" if (number + place) % 2 else f"{THINGS[number]} of kind {place}"
            text = f"close the green {thing}"
            value = {"text": text, "caption": text, "slots": {**DRAWER, "object": thing}}
            annotations.append(make_annotation(producer, episode, value))
    ws.stores.annotations.append(annotations)
    ws.sync()
    return len(annotations)


def _sees_drawers(request: Any) -> Any:
    """A judge that sees a closing drawer in every frame with content, and tells it from all else."""
    if kind_of(request) == "observation" and not _shows_something(request):
        return judge(observation(action="", object="", attributes="", outcome=""))(request)
    return judge(compares="different", chooses=_choose_seen)(request)


def _choose_seen(data: Any) -> str:
    seen = [option for option in data["options"] if option in DRAWER.values()]
    return seen[0] if seen else "other"


def _shows_something(request: Any) -> bool:
    """Whether the first image is neither one colour nor noise."""
    import cv2
    import numpy as np

    content = request["messages"][-1]["content"]
    url = next(part["image_url"]["url"] for part in content if part["type"] == "image_url")
    data = np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8)
    image = np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE), np.int64)
    steps = np.abs(np.diff(image, axis=1)).mean()
    return bool(0.1 < steps < 20)


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


@pytest.fixture
def controls_in(ws: Workspace) -> Any:
    """Reads the gradings of false texts that a workspace has: those of batteries, and others."""

    def read() -> tuple[list[Any], list[Any]]:
        ids = sorted(ws.stores.tables.episodes.ids())
        values: list[Any] = [item.value for item in ws.stores.annotations.find_annotations(ids, [CONTROL])]
        rows = [row for value in values for row in value["gradings"]]
        return [row for row in rows if row["battery"]], [row for row in rows if not row["battery"]]

    return read


def _grades(ws: Workspace) -> set[tuple[Any, Any, Any]]:
    rows = ws.stores.tables.episodes.read_columns(["grade", "acceptable", "grade_refuted"]).to_pylist()
    return {(row["grade"], row["acceptable"], row["grade_refuted"]) for row in rows if row["grade"]}


def test_a_judge_is_tested_once_after_32_captions_then_by_one_text_for_every_25(
    ws: Workspace, remote: Options, model_server: Any, controls_in: Any
) -> None:
    model_server.replies(_sees_drawers)
    written = _write_captions(ws, 6, SHOWN)
    (first,) = annotate(ws.stores, ["grade"], remote, quiet=True, limit=6)
    battery, single = controls_in()
    assert first.kept >= 32 and 40 <= len(battery) <= 48 and not single
    assert first.cost.calls == len(model_server.requests), "what controls cost is in the report"
    assert {row["kind"] for row in battery} >= {"object", "action", "no_content", "note"}
    (rest,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    again, single = controls_in()
    assert len(again) == len(battery) and first.kept + rest.kept == written
    assert len(single) == written // 25 - first.kept // 25
    (document,) = rest.judge_tripwire.values()
    assert isinstance(document, dict)
    assert document["state"] == "not refuted" and document["controls"] == len(battery) + len(single)
    assert {("acceptable", True, None), ("not_acceptable", False, None)} <= _grades(ws)
    assert ws.stores.tables.episodes.count("grade_refuted IS NOT NULL") == 0


def test_a_short_run_tests_its_judge_at_its_end_and_the_next_one_does_not(
    ws: Workspace, remote: Options, model_server: Any, controls_in: Any
) -> None:
    model_server.replies(_sees_drawers)
    _write_captions(ws, 1)
    annotate(ws.stores, ["grade"], remote, quiet=True, limit=4)
    battery, single = controls_in()
    assert battery and not single
    annotate(ws.stores, ["grade"], remote, quiet=True)
    assert controls_in() == (battery, [])


def test_of_two_processes_one_tests_a_judge(
    ws: Workspace, remote: Options, work_for: Any, caption_of: Any, model_server: Any, controls_in: Any
) -> None:
    model_server.replies(_sees_drawers)
    episodes = list(ws.stores.tables.episodes.read(limit=2))
    for episode in episodes:
        annotator = GradeAnnotator(remote, ws.stores)
        ws.stores.annotations.add_producer(annotator.producer)
        caption = caption_of(episode, "close the green drawer", slots=DRAWER)
        annotator.process([work_for(episode, [annotator], caption)])
        asked = len(model_server.requests)
        assert annotator.finish().calls == len(model_server.requests) - asked
    assert asked == len(model_server.requests), "the second one puts nothing to it"
    assert controls_in()[0]


def test_a_judge_that_cannot_be_called_is_tested_by_the_next_run(
    ws: Workspace, remote: Options, model_server: Any, controls_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.replies(_sees_drawers)
    _write_captions(ws, 1)
    with monkeypatch.context() as patched:
        patched.setattr(
            "ares_annotators.grade.control_grading.grade_texts",
            lambda grader, texts: [ModelError("server is down", "500")] * len(texts),
        )
        (first,) = annotate(ws.stores, ["grade"], remote, quiet=True, limit=3)
    (document,) = first.judge_tripwire.values()
    assert isinstance(document, dict) and document["state"] == "not tested" and not first.failed
    annotate(ws.stores, ["grade"], remote, quiet=True)
    battery, _ = controls_in()
    assert {row["grade"] for row in battery} > {"error", "not_acceptable"}


def test_a_battery_whose_process_was_killed_is_put_by_another_after_an_hour(
    ws: Workspace, remote: Options, model_server: Any, controls_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.replies(_sees_drawers)
    _write_captions(ws, 1)
    (episode,) = ws.stores.tables.episodes.read(limit=1)
    key = f"{GradeAnnotator(remote, ws.stores).producer.maker_id}/{episode.dataset}"
    ws.stores.annotations.claim_document("judge_batteries", key, {"time": time.time()})
    annotate(ws.stores, ["grade"], remote, quiet=True, limit=3)
    assert controls_in() == ([], [])
    monkeypatch.setattr("ares_annotators.grade.control_schedule._LEASE_SECONDS", 0)
    annotate(ws.stores, ["grade"], remote, quiet=True)
    assert controls_in()[0]


def test_what_a_refuted_judge_says_does_not_count(ws: Workspace, remote: Options, model_server: Any) -> None:
    """It calls all values the same."""
    model_server.replies(judge(observation(object="chest"), compares="same"))
    _write_captions(ws, 1, SHOWN)
    (report,) = annotate(ws.stores, ["grade"], remote, quiet=True)
    ((_, document),) = report.judge_tripwire.items()
    assert describe_tripwire(document).startswith("REFUTED on ")  # type: ignore[arg-type]
    assert ("acceptable", None, True) in _grades(ws)
    assert ws.stores.tables.episodes.count("acceptable IS NOT NULL OR grade_refuted IS NULL") == 0


def test_a_grade_by_another_outcome_than_people_say_now_is_hidden_and_made_again(
    ws: Workspace, remote: Options, model_server: Any, without_controls: None
) -> None:
    model_server.replies(judge())
    _write_captions(ws, 1, SHOWN)
    table = ws.stores.tables.episodes
    (episode_id,) = [item.episode_id for item in table.read("success AND caption LIKE '%drawer'", limit=1)]
    about: dict[str, Any] = {
        "question": "success",
        "subject_id": episode_id,
        "subject_kind": "episode",
        "person": "Ada",
    }
    shown = f"episode_id = '{episode_id}' AND grade"
    failure = give_answer(ws.stores, Answer(**about, verdict="failure"))
    annotate(ws.stores, ["grade"], remote, quiet=True)
    assert table.count(f"{shown} = 'not_acceptable'") == 1
    # Nothing was asked of a caption that the outcome had refused.
    for change in (
        lambda: withdraw_answer(ws.stores, failure.annotation_id, "Ada"),
        lambda: give_answer(ws.stores, Answer(**about, verdict="success")),
    ):
        change()
        hidden = table.count("grade IS NULL")
        (again,) = annotate(ws.stores, ["grade"], remote, quiet=True)
        assert again.kept == hidden and table.count(f"{shown} = 'acceptable'") == 1


def test_what_a_judge_saw_last_night_is_no_unknown_word_tonight(
    ws: Workspace, remote: Options, model_server: Any
) -> None:
    words = DatasetWords(ws.stores, shipped_verbs())
    dataset = next(iter(ws.stores.tables.episodes.read())).dataset
    assert find_unknown_words("flange", words.known_words(dataset, "object")) == ["flange"]
    model_server.replies(judge(observation(object="flange"), compares="different"))
    _write_captions(ws, 1, SHOWN)
    annotate(ws.stores, ["grade"], remote, quiet=True, limit=2)
    tonight = DatasetWords(ws.stores, shipped_verbs())
    assert find_unknown_words("flange", tonight.known_words(dataset, "object")) == []
