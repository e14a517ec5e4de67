"""Several judges as one: every judge must accept, any may refuse, no ERROR and no UNSURE passes, kin are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Episode, Json
from ares.errors import RequestError
from ares.workspace import Workspace
from ares_annotators.base import Annotator, Options, PaidFailure, Result, Work
from ares_annotators.grade import GradeAnnotator
from tests.annotators.judge_replies import DRAWER, judge, observation

Works = Callable[..., Work]
Captions = Callable[..., Annotation]
NAMES = ("Some/Judge-9B", "Other/Watcher-4B", "Third/Seer-2B")


@pytest.fixture
def panel_of(
    options: Options, ws: Workspace, model_server: Any, quick_retries: None
) -> Callable[..., Annotator]:
    def make(*names: str) -> Annotator:
        specs: list[Json] = [f"openai:{name}@{model_server.url}" for name in names]
        return GradeAnnotator(replace(options, values={"judge": specs}), ws.stores)

    return make


@pytest.fixture
def grade_by(
    panel_of: Any, episodes: dict[str, Episode], work_for: Works, caption_of: Captions
) -> Callable[..., Any]:
    """Grades a caption by a panel and gives the outcome."""

    def run(*names: str) -> Any:
        panel, episode = panel_of(*names), episodes["drawer-close_000"]
        caption = caption_of(episode, "close the green drawer", slots=DRAWER)
        (outcome,) = panel.process([work_for(episode, [panel], caption)])
        return outcome

    return run


def _by_model(chosen: dict[str, str]) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Answers of judges that all see a chest; each chooses by its name whether that is the drawer."""

    def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
        own = judge(observation(object="chest"), compares="different", chooses=chosen[request["model"]])
        return own(request)

    return answer


def _rulings(outcome: Any) -> dict[str, dict[str, Any]]:
    assert isinstance(outcome, Result)
    rulings: Any = outcome.annotations[0].value["rulings"]
    return {ruling["criterion"]: ruling for ruling in rulings}


def test_one_judge_refuses_and_the_other_votes_are_shown(grade_by: Any, model_server: Any) -> None:
    model_server.replies(_by_model(dict(zip(NAMES, ("drawer", "drawer", "chest"), strict=True))))
    outcome = grade_by(*NAMES)
    ruling = _rulings(outcome)["OBJECT"]
    assert (ruling["verdict"], ruling["source"]) == ("UNMET", "panel")
    votes = [
        f"{verdict} by {name}" for name, verdict in sorted(zip(NAMES, ("MET", "MET", "UNMET"), strict=True))
    ]
    assert ruling["reason"] == f"votes: {', '.join(votes)}"
    value = outcome.annotations[0].value
    assert (value["grade"], value["grade_object"]) == ("not_acceptable", "UNMET")


def test_a_caption_that_one_judge_doubts_is_not_accepted(grade_by: Any, model_server: Any) -> None:
    model_server.replies(_by_model(dict(zip(NAMES, ("drawer", "drawer", "cannot tell"), strict=True))))
    outcome = grade_by(*NAMES)
    assert "UNSURE by Third/Seer-2B" in _rulings(outcome)["OBJECT"]["reason"]
    value = outcome.annotations[0].value
    assert (value["grade"], value["acceptable"]) == ("unsure", None)


def test_a_panel_that_agrees_accepts(grade_by: Any, model_server: Any) -> None:
    model_server.replies(judge())
    outcome = grade_by(*NAMES)
    value = outcome.annotations[0].value
    assert value["grade"] == "acceptable"
    # Each judge was paid for: three observations.
    assert outcome.cost.calls == 3
    assert outcome.cost.calls == len(model_server.requests)
    assert {request["model"] for request in model_server.requests} == set(NAMES)


def test_a_judge_that_cannot_be_called_fails_the_caption(grade_by: Any, model_server: Any) -> None:
    """Two of three would be another panel: the caption stays ungraded, and what was paid is counted."""
    model_server.says("oops")
    model_server.replies(judge())
    failure = grade_by(*NAMES)
    assert isinstance(failure, PaidFailure) and failure.cost.calls == len(model_server.requests) == 3


def test_the_order_of_judges_makes_no_other_producer_but_another_judge_does(panel_of: Any) -> None:
    producers = [panel_of(*names).producer for names in (NAMES, NAMES[::-1], NAMES[:2])]
    assert producers[0].maker_id == producers[1].maker_id != producers[2].maker_id
    assert producers[0].model == " + ".join(sorted(NAMES))


def test_kin_of_the_captioner_are_refused(
    panel_of: Any, options: Options, ws: Workspace, model_server: Any
) -> None:
    from ares_annotators.caption import CaptionAnnotator

    with pytest.raises(RequestError, match="the option judge and --model both name the judge"):
        GradeAnnotator(replace(options, model="stub:MET", values={"judge": ["stub:MET"]}), ws.stores)
    captioner = CaptionAnnotator(
        replace(options, model=f"openai:Some/Watcher-2B@{model_server.url}"), ws.stores
    )
    ws.stores.annotations.add_producer(captioner.producer)
    with pytest.raises(RequestError, match="not be of the captioner's model family"):
        panel_of(*NAMES)
    ws.stores.annotations.add_producer(Producer(annotator="caption", version="1", model="hf:far/off-3B"))
    assert panel_of(*NAMES).producer, "captions of another producer may be graded"


def test_each_judge_of_a_panel_is_tried_before_a_run(panel_of: Any, model_server: Any) -> None:
    model_server.replies(judge())
    assert panel_of(*NAMES).preflight([]).cost.calls == 3
    assert sorted(request["model"] for request in model_server.requests) == sorted(NAMES)
