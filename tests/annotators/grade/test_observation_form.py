"""The form of an observation: a reply may cite the frames that were shown, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from annotators.grade.observation import observation_schema, parse_observation
from tests.annotators.judge_replies import observation, part


def _bounds(schema: Any) -> set[tuple[str, int]]:
    parts = schema["$defs"].items()
    return {(name, part["properties"]["frames"]["items"]["maximum"]) for name, part in parts}


@pytest.mark.parametrize(("frames", "last"), [(1, 1), (3, 3), (64, 64), (90, 64)])
def test_every_part_is_bound_to_the_frames_that_were_shown(frames: int, last: int) -> None:
    schema: Any = observation_schema(frames)
    bounds = _bounds(schema)
    assert len(bounds) == 4 and {bound for _, bound in bounds} == {last}
    assert schema["$defs"]["_ActionForm"]["properties"]["confidence"]["maximum"] == 100


def test_a_frame_that_was_not_shown_is_no_evidence() -> None:
    reply = observation(where_to=part("in the bin", [3]))
    assert not isinstance(parse_observation(reply, [0.0, 1.0, 2.0]), str)
    assert parse_observation(reply, [0.0, 1.0]) == "reply cites a frame that was not shown"
