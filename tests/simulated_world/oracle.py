"""A judge that reads the event log. It tests what is done with rulings, and says nothing of any model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.annotators.judge_replies import criterion_of, ruling
from tests.simulated_world.events import Claim, EventLog, false_criteria
from tests.simulated_world.requests import grey_share, request_caption, request_images

_MOST_GREY = 0.3


def oracle(known: Mapping[str, tuple[Claim, EventLog]]) -> Callable[[Mapping[str, Any]], str]:
    """Rules on claims by the log, for the argument `rules` of `judge_replies.judge`.

    Args:
        known: What captions say, and what happened in their episodes, by the text of the caption.
    """

    def rule(request: Mapping[str, Any]) -> str:
        if grey_share(request_images(request)) > _MOST_GREY:
            return ruling("UNSURE")
        false = false_criteria(*known[request_caption(request)])
        return ruling("UNMET" if criterion_of(request) in false else "MET")

    return rule
