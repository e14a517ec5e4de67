"""OUTCOME by the stored success of an episode: where it holds, where the judge decides, and what a run says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Episode, Json
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.grade import GradeAnnotator
from ares_annotators.grade.grey_frames import GreyFrames
from ares_app.demo.run import GRADE_OPTIONS
from tests.annotators.grade.conftest import TASK, success_producer


@pytest.fixture
def options(options: Options) -> Options:
    """A judge that sees nothing: its own word on any outcome is not that of the stored success."""
    return replace(options, model="clip:hash:64", values=GRADE_OPTIONS)


@pytest.fixture
def grade(
    options: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    caption_of: Callable[..., Annotation],
) -> Callable[..., dict[str, Any]]:
    def run(
        text: str,
        captioner: str = "by-hand",
        start_seconds: float = 0.0,
        slots: dict[str, Json] | None = None,
    ) -> dict[str, Any]:
        judge = GradeAnnotator(options, ws.stores)
        episode = replace(episodes["drawer-close_000"], success=None)
        caption = replace(caption_of(episode, text, captioner), start_seconds=start_seconds)
        caption = replace(caption, value={**caption.value, **({"slots": slots} if slots else {})})
        (result,) = judge.process([work_for(episode, [judge], caption)])
        assert isinstance(result, Result)
        value = result.annotations[0].value
        (ruling,) = [r for r in value["rulings"] if r["criterion"] == "OUTCOME"]  # type: ignore[union-attr,call-overload,index]
        return dict(ruling)  # type: ignore[arg-type]

    return run


FITS, CONTRADICTS = "the stored success fits the caption", "the stored success says otherwise"


# Log-odds of 0.98 are 3.89, of which the caption has contributed 1: it is no witness for itself.
@pytest.mark.parametrize(
    ("stored", "text", "verdict", "observed", "reason", "margin"),
    [
        ("success", TASK, "MET", "completed", FITS, 0.9474),
        ("success", f"fail to {TASK}", "UNMET", "completed", CONTRADICTS, 0.9474),
        ("failure", TASK, "UNMET", "not completed", CONTRADICTS, 0.9474),
        ("failure", f"fail to {TASK}", "MET", "not completed", FITS, 0.9474),
        ("unsure", TASK, "UNSURE", "not visible", "the stored success is unsure", 0.7311),
        ("success", f"the robot manages to {TASK}", "MET", "completed", FITS, 0.9474),
    ],
)
def test_the_stored_success_decides(
    store_success: Callable[..., Producer],
    grade: Callable[..., Any],
    stored: str,
    text: str,
    verdict: str,
    observed: str,
    reason: str,
    margin: float,
) -> None:
    store_success(stored)
    ruling = grade(text)
    assert (ruling["verdict"], ruling["source"], ruling["judge"]) == (verdict, "stored", "clip:somebody")
    assert (ruling["observed"], ruling["reason"], ruling["evidence"]) == (observed, reason, [1.0, 2.0])
    assert ruling["margin"] == pytest.approx(margin, abs=1e-3)


def test_without_stored_success_the_judge_decides(grade: Callable[..., Any]) -> None:
    assert grade(TASK)["source"] == "probe"


@pytest.mark.parametrize(
    "text",
    [
        "pull the green drawer open by its handle",
        "push the green drawer closed and open the safe door",
        "push the closed drawer green",
    ],
)
def test_a_stored_outcome_says_nothing_of_another_action(
    store_success: Callable[..., Producer], grade: Callable[..., Any], text: str
) -> None:
    store_success()
    assert grade(text)["source"] == "probe"


def test_a_stored_outcome_is_of_the_same_sentence_whatever_words_a_captioner_put_into_its_slots(
    store_success: Callable[..., Producer], grade: Callable[..., Any]
) -> None:
    store_success()
    slots = {"action": "push", "object": "drawer", "attributes": "green, closed", "outcome": "completed"}
    assert grade(TASK, slots=slots)["source"] == "stored"
    assert grade("push the green drawer shut", slots=slots)["source"] == "probe"
    assert grade("gently push the large green drawer closed", slots=slots)["source"] == "stored"


def test_a_stored_outcome_says_nothing_of_a_segment(
    store_success: Callable[..., Producer], grade: Callable[..., Any]
) -> None:
    store_success()
    assert grade(TASK, start_seconds=0.5)["source"] == "probe"


def test_a_success_by_kin_of_the_captioner_is_not_used(
    store_success: Callable[..., Producer], grade: Callable[..., Any], ws: Workspace
) -> None:
    store_success(producer=success_producer("cousin"))
    captioner = Producer(annotator="caption", version="1", model="hf:cousin", settings={"family": "cousin"})
    ws.stores.annotations.add_producer(captioner)
    assert grade(TASK, captioner.maker_id)["source"] == "probe"
    assert grade(TASK)["source"] == "stored"


def test_a_new_success_makes_another_producer_of_grades(
    store_success: Callable[..., Producer], options: Options, ws: Workspace
) -> None:
    producers = [GradeAnnotator(options, ws.stores).producer]
    for family in ("one", "other"):
        success = store_success(producer=success_producer(family))
        producers.append(GradeAnnotator(options, ws.stores).producer)
        assert producers[-1].settings["success"] == success.maker_id
    assert len({producer.maker_id for producer in producers}) == 3


@pytest.mark.parametrize("change", [True, False])
def test_a_stored_outcome_says_nothing_of_changed_frames(
    store_success: Callable[..., Producer],
    options: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    caption_of: Callable[..., Annotation],
    change: bool,
) -> None:
    store_success()
    judge = GradeAnnotator(options, ws.stores)
    episode = replace(episodes["drawer-close_000"], success=None)
    work = work_for(episode, [judge], caption_of(episode, TASK))
    frames = GreyFrames(work.frames) if change else work.frames
    (graded,) = judge.captions.grade([replace(work, frames=frames)])
    result = graded.result
    assert isinstance(result, Result)
    sources = {ruling["criterion"]: ruling["source"] for ruling in result.annotations[0].value["rulings"]}  # type: ignore[union-attr,call-overload,index]
    assert sources["OUTCOME"] == ("probe" if change else "stored")
