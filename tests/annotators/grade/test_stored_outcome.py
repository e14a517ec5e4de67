"""OUTCOME by the stored success of an episode: where it holds, where the judge decides, and what a run says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from annotators.base import Options, Result, Work
from annotators.grade import GradeAnnotator, load_rubric
from annotators.grade.judge import ChangedFrames, blank
from annotators.success.annotator import COLUMNS
from app.demo.run import GRADE_OPTIONS
from ares.annotation import Annotation, Producer
from ares.episode import Episode, Json
from ares.workspace import Workspace

_TASK = "push the green drawer closed"
_OUTCOME_TEXT = 1.2
_CAPTION = 1.0


@pytest.fixture
def options(options: Options) -> Options:
    """A judge that sees nothing: its own word on any outcome is not that of the stored success."""
    return replace(options, model="clip:hash:64", values=GRADE_OPTIONS)


def _producer(family: str = "somebody") -> Producer:
    settings: dict[str, Json] = {"success_from": 0.6, "failure_below": 0.4, "family": family}
    return Producer(
        annotator="success",
        version="2",
        model=f"clip:{family}",
        settings=settings,
        columns=COLUMNS,
        kind="model",
    )


@pytest.fixture
def store_success(ws: Workspace, episodes: dict[str, Episode]) -> Callable[..., Producer]:
    def store(verdict: str = "success", producer: Producer | None = None) -> Producer:
        producer = producer or _producer()
        episode = episodes["drawer-close_000"]
        sign = -1.0 if verdict == "failure" else 1.0
        value: dict[str, Json] = {
            "success_probability": {"failure": 0.02, "unsure": 0.5}.get(verdict, 0.98),
            "success_verdict": verdict,
            "task": _TASK,
            "contributions": {"outcome_text": sign * _OUTCOME_TEXT, "caption_outcome": sign * _CAPTION},
        }
        ws.stores.annotations.add_producer(producer)
        annotation = Annotation(
            episode_id=episode.episode_id,
            name="success",
            value=value,
            maker_id=producer.maker_id,
            subject=episode.episode_id,
            start_seconds=0.0,
            stop_seconds=episode.duration_seconds,
            created="2026-01-01T00:00:00+00:00",
            frames=(1.0, 2.0),
        )
        ws.stores.annotations.append([annotation])
        ws.sync()
        return producer

    return store


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


@pytest.mark.parametrize(
    ("stored", "text", "verdict"),
    [
        ("success", _TASK, "MET"),
        ("success", f"fail to {_TASK}", "UNMET"),
        ("failure", _TASK, "UNMET"),
        ("failure", f"fail to {_TASK}", "MET"),
        ("unsure", _TASK, "UNSURE"),
        ("success", f"the robot manages to {_TASK}", "MET"),
    ],
)
def test_the_stored_success_decides(
    store_success: Callable[..., Producer], grade: Callable[..., Any], stored: str, text: str, verdict: str
) -> None:
    store_success(stored)
    ruling = grade(text)
    assert (ruling["verdict"], ruling["source"], ruling["judge"]) == (verdict, "stored", "clip:somebody")
    assert ruling["evidence"] == [1.0, 2.0]


def test_the_caption_is_no_witness_for_itself(
    store_success: Callable[..., Producer], grade: Callable[..., Any]
) -> None:
    store_success("success")
    # Log-odds of 0.98 are 3.89, of which the caption has contributed 1.
    assert grade(_TASK)["confidence"] == pytest.approx(0.9474, abs=1e-3)


def test_without_stored_success_the_judge_decides(grade: Callable[..., Any]) -> None:
    assert grade(_TASK)["source"] == "probe"


@pytest.mark.parametrize(
    "text",
    ["pull the green drawer open by its handle", "push the green drawer closed and open the safe door"],
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
    assert grade(_TASK, slots=slots)["source"] == "stored"
    assert grade("push the green drawer shut", slots=slots)["source"] == "probe"
    assert grade("shut the green drawer", slots={**slots, "action": "close"})["source"] == "stored"


def test_a_stored_outcome_says_nothing_of_a_segment(
    store_success: Callable[..., Producer], grade: Callable[..., Any]
) -> None:
    store_success()
    assert grade(_TASK, start_seconds=0.5)["source"] == "probe"


def test_a_success_by_kin_of_the_captioner_is_not_used(
    store_success: Callable[..., Producer], grade: Callable[..., Any], options: Options, ws: Workspace
) -> None:
    store_success(producer=_producer("cousin"))
    captioner = Producer(annotator="caption", version="1", model="hf:cousin", settings={"family": "cousin"})
    ws.stores.annotations.add_producer(captioner)
    assert grade(_TASK, captioner.maker_id)["source"] == "probe"
    assert grade(_TASK)["source"] == "stored"
    warnings = GradeAnnotator(options, ws.stores).preflight([]).warnings
    assert any("model family of captioner 'hf:cousin'" in text for text in warnings)


def test_a_new_success_makes_another_producer_of_grades(
    store_success: Callable[..., Producer], options: Options, ws: Workspace
) -> None:
    producers = [GradeAnnotator(options, ws.stores).producer]
    for family in ("one", "other"):
        success = store_success(producer=_producer(family))
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
    work = work_for(episode, [judge], caption_of(episode, _TASK))
    frames = ChangedFrames(work.frames, blank) if change else work.frames
    (result,) = judge.process([replace(work, frames=frames)])
    assert isinstance(result, Result)
    sources = {ruling["criterion"]: ruling["source"] for ruling in result.annotations[0].value["rulings"]}  # type: ignore[union-attr,call-overload,index]
    assert sources["OUTCOME"] == ("probe" if change else "stored")


@pytest.mark.parametrize(
    ("claimed", "verdict", "probability", "said"),
    [
        ("completed", "success", 0.9, ("MET", "completed", "the stored success fits the caption", 0.9, 0.9)),
        (
            "completed",
            "failure",
            0.2,
            ("UNMET", "not completed", "the stored success says otherwise", 0.2, 0.8),
        ),
        (
            "not completed",
            "failure",
            0.2,
            ("MET", "not completed", "the stored success fits the caption", 0.8, 0.8),
        ),
        (
            "not completed",
            "success",
            0.7,
            ("UNMET", "completed", "the stored success says otherwise", 0.3, 0.7),
        ),
        ("completed", "unsure", 0.5, ("UNSURE", "not visible", "the stored success is unsure", 0.5, 0.5)),
    ],
)
def test_a_ruling_by_a_stored_success_says_why_and_how_sure_it_is(
    claimed: str, verdict: str, probability: float, said: Any
) -> None:
    from annotators.grade.outcome_rulings import _model_ruling

    stored: Any = SimpleNamespace(verdict=verdict, probability=probability, frames=(1.0,), judge="seer")
    criterion = next(item for item in load_rubric("caption").criteria if item.slot == "outcome")
    ruling = _model_ruling(criterion, claimed, stored)
    assert (ruling.verdict, ruling.observed, ruling.reason, ruling.confidence, ruling.margin) == said
    assert (ruling.claimed, ruling.evidence, ruling.judge, ruling.source) == (
        claimed,
        (1.0,),
        "seer",
        "stored",
    )
