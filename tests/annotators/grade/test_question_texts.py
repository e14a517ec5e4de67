"""The requests of a judge, letter by letter; and what is the same whatever stands on which side, or in which order."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares_annotators.caption import make_shared_fill_request
from ares_annotators.grade.judge import ImagesForJudge
from ares_annotators.grade.questions import (
    ExtraWords,
    SlotOptions,
    choice_request,
    comparison_request,
    make_pair,
    parse_choices,
    slot_options,
    words_request,
)
from ares_annotators.models import VlmRequest
from tests.annotators.grade.conftest import print_request
from tests.annotators.judge_replies import kind_of, prompt_of
from tests.annotators.scripted_vlm import StubVlm

GOLDEN = Path(__file__).parent / "golden"
LEGEND = "3 images in order of time, at 0.00 s, 1.00 s, 2.00 s."
SLOTS: Any = {"action": "close", "object": "drawer", "outcome": "completed"}


def _shown() -> ImagesForJudge:
    images = [np.zeros((480, 640, 3), np.uint8)] * 3
    plan: Any = SimpleNamespace(legend=lambda: LEGEND, shown_seconds=(0.0, 1.0, 2.0))
    return ImagesForJudge(plan=plan, images=images)


def _requests() -> dict[str, VlmRequest]:
    choices = [
        slot_options("segment", "object", "drawer", "cabinet door"),
        SlotOptions("hand", ("left hand", "cannot tell", "other", "right hand")),
    ]
    return {
        "4-comparisons": comparison_request(
            [make_pair("object", "spanner", "wrench"), make_pair("to", "in the bin", "on the shelf")]
        ),
        "5-choices": choice_request(choices, _shown()),
        "6-words": words_request([ExtraWords(("lid",), tuple(SLOTS.items()))] * 2),
        "8-slots": make_shared_fill_request(
            ["close the drawer", "open the box"], StubVlm(), {"open": "move from closed to open"}
        ),
    }


def _printed(request: VlmRequest) -> str:
    sizes = [(image.shape[0], image.shape[1]) for image in request.images]
    return print_request(request.system, request.prompt, request.schema, sizes)


@pytest.mark.parametrize("name", sorted(_requests()))
def test_a_request_is_this_text(name: str) -> None:
    assert _printed(_requests()[name]) == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_the_observation_is_this_request(grade: Any, model_server: Any) -> None:
    from tests.annotators.judge_replies import judge

    model_server.replies(judge())
    grade()
    (request,) = [item for item in model_server.requests if kind_of(item) == "observation"]
    images = [item for item in request["messages"][-1]["content"] if item["type"] == "image_url"]
    schema = request["response_format"]["json_schema"]["schema"]
    sizes = [_size_of(item["image_url"]["url"]) for item in images]
    printed = print_request(request["messages"][0]["content"], prompt_of(request), schema, sizes)
    assert printed == (GOLDEN / "3-observation.txt").read_text("utf-8")


def _size_of(url: str) -> tuple[int, int]:
    image = cv2.imdecode(np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return int(image.shape[0]), int(image.shape[1])


values = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(segment=values, claimed=values, seen=values)
def test_a_choice_is_the_same_question_whoever_says_which(segment: str, claimed: str, seen: str) -> None:
    one = slot_options(segment, "object", claimed, seen)
    assert one == slot_options(segment, "object", seen, claimed)
    assert {claimed, seen, "other", "cannot tell"} == set(one.options)
    for number, option in enumerate(one.options, 1):
        reply = json.dumps({"1": {"option": number, "frames": [1], "confidence": 80}})
        answers = parse_choices([one], reply, (0.0,))
        assert not isinstance(answers, str) and [answer.value for answer in answers] == [option]


@given(first=values, second=values)
def test_data_stays_on_its_line_and_holds_no_markup(first: str, second: str) -> None:
    prompt = comparison_request([make_pair("object", first, second)]).prompt
    assert prompt == comparison_request([make_pair("object", second, first)]).prompt
    (line,) = [line for line in prompt.splitlines() if line.startswith('{"1"')]
    data = json.loads(line)["1"]
    assert {data["first"], data["second"]} == {first, second}
    assert not set(line) & set("<>&`|")
    empty = comparison_request([make_pair("object", "a", "b")]).prompt.splitlines()
    assert len(prompt.splitlines()) == len(empty)
