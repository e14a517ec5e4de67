"""The form of an observation: a reply may cite the frames that were shown, and name the verbs of the guide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from annotators.grade.observation import observation_schema, parse_observation, read_observation
from ares.rubric import shipped_verbs
from tests.annotators.judge_replies import observation, part

SECONDS = [0.0, 1.0, 2.0]


def _parsed(reply: str, seconds: Any = SECONDS) -> Any:
    return parse_observation(reply, seconds, shipped_verbs())


@pytest.mark.parametrize(("frames", "last"), [(1, 1), (3, 3), (64, 64), (90, 64)])
def test_every_slot_is_bound_to_the_frames_that_were_shown(frames: int, last: int) -> None:
    schema: Any = observation_schema(frames, {"open": "", "close": ""})
    bounds = {part["properties"]["frames"]["items"]["maximum"] for part in schema["$defs"].values()}
    assert bounds == {last}
    assert schema["$defs"]["_ActionForm"]["properties"]["value"]["enum"] == ["open", "close", "other"]
    assert list(schema["properties"]) == [
        "action", "object", "attributes", "from", "to", "hand", "manner", "count", "outcome",
    ]  # fmt: skip


def test_a_frame_that_was_not_shown_is_no_evidence() -> None:
    reply = observation(to=part("in the bin", [3]))
    assert not isinstance(_parsed(reply), str)
    assert _parsed(reply, SECONDS[:2]) == "reply cites a frame that was not shown"


@pytest.mark.parametrize(
    ("value", "own", "action"),
    [
        ("Close", "", "close"),
        ("other", "juggle", "other: juggle"),
        ("juggle", "", "other: juggle"),
        ("other", "not visible", "not visible"),
        ("other", "", "not visible"),
        ("not visible", "", "not visible"),
    ],
)
def test_an_action_is_a_verb_of_the_guide_or_words_of_its_own(value: str, own: str, action: str) -> None:
    reply = observation(action={**part(value), "other_action": own})
    assert _parsed(reply).parts["action"].value == action


def test_a_stored_observation_is_read_again_and_one_of_an_earlier_version_is_none() -> None:
    seen = _parsed(observation(attributes="green, large"))
    assert read_observation(json.loads(json.dumps(seen.to_json()))) == seen
    assert seen.parts["attributes"].value == "green, large"
    assert read_observation({"action": {"text": "close the drawer"}, "objects": []}) is None
