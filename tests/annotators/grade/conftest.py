"""A judge behind a server on loopback, and captions of a closing drawer that it grades."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Episode, Json
from ares.settings import Price
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.caption import count_prompt_tokens
from ares_annotators.grade import GradeAnnotator
from ares_annotators.models import estimate_image_tokens
from ares_annotators.success.annotator import COLUMNS
from tests.annotators.judge_replies import DRAWER
from tests.annotators.samples import make_annotation

SENTENCE = "close the green drawer"
# What is done in the video of that drawer.
TASK = "push the green drawer closed"
# A model whose tokens are published.
TOKENS_BY = "qwen3-vl-8b"


@pytest.fixture
def without_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No false text is put to a judge: what a server got is about captions."""
    for name in ("draw_battery", "draw_single"):
        monkeypatch.setattr(
            f"ares_annotators.grade.control_schedule.ControlMaker.{name}", lambda *arguments: []
        )


@pytest.fixture
def annotator_of(options: Options, ws: Workspace, model_server: Any, quick_retries: None) -> Any:
    """Makes the annotator, as a new run does."""

    def make(model: str = "Some/Judge-9B", **values: Json) -> GradeAnnotator:
        settings = replace(options.settings, price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0))
        spec = f"openai:{model}@{model_server.url}"
        return GradeAnnotator(replace(options, settings=settings, model=spec, values=values), ws.stores)

    return make


@pytest.fixture
def grade(
    annotator_of: Any,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    caption_of: Callable[..., Annotation],
) -> Callable[..., Any]:
    """Grades a typed caption of the closing drawer in a separate run, and stores what it makes.

    Slots that are given replace those of the true caption; "" leaves one out.
    """

    def run(sentence: str = SENTENCE, success: bool | None = None, values: Any = None, **slots: str) -> Any:
        annotator = annotator_of(**(values or {}))
        stated = {**DRAWER, **{name.rstrip("_"): value for name, value in slots.items()}}
        stated = {name: value for name, value in stated.items() if value}
        episode = replace(episodes["drawer-close_000"], success=success)
        caption = caption_of(episode, sentence, maker_id=f"maker {sentence} {stated}", slots=stated)
        (outcome,) = annotator.process([work_for(episode, [annotator], caption)])
        for producer in (annotator.producer, *annotator.side_producers):
            ws.stores.annotations.add_producer(producer)
        if isinstance(outcome, Result):
            ws.stores.annotations.append(list(outcome.annotations))
        return outcome

    return run


def success_producer(family: str = "somebody") -> Producer:
    """A model of a family that judges success."""
    settings: dict[str, Json] = {"success_from": 0.6, "failure_below": 0.4, "family": family}
    more: Any = {"settings": settings, "columns": COLUMNS, "kind": "model"}
    return Producer(annotator="success", version="2", model=f"clip:{family}", **more)


@pytest.fixture
def store_success(ws: Workspace, episodes: dict[str, Episode]) -> Callable[..., Producer]:
    """Stores a success of the drawer by another model, of which a caption has made the most."""

    def store(verdict: str = "success", producer: Producer | None = None) -> Producer:
        producer = producer or success_producer()
        sign = -1.0 if verdict == "failure" else 1.0
        value: dict[str, Json] = {
            "success_probability": {"failure": 0.02, "unsure": 0.5}.get(verdict, 0.98),
            "success_verdict": verdict,
            "task": TASK,
            "contributions": {"outcome_vote": sign * 1.2, "caption_outcome": sign * 1.0},
        }
        ws.stores.annotations.add_producer(producer)
        annotation = make_annotation(producer, episodes["drawer-close_000"], value, frames=(1.0, 2.0))
        ws.stores.annotations.append([annotation])
        ws.sync()
        return producer

    return store


def value_of(outcome: Any) -> Any:
    """The value of the grade."""
    assert isinstance(outcome, Result), outcome
    return next(item.value for item in outcome.annotations if item.name == "grade")


def rulings_of(outcome: Any) -> dict[str, Any]:
    """The rulings by criterion."""
    return {item["criterion"]: item for item in value_of(outcome)["rulings"]}


def print_request(system: str, prompt: str, schema: Any, sizes: Sequence[tuple[int, int]]) -> str:
    """A request as a golden file: what is sent, its images as height and width, and the tokens of both."""
    shown = ", ".join(f"{height} x {width}" for height, width in sizes)
    words, pixels = count_prompt_tokens(f"{system}\n{prompt}"), estimate_image_tokens(TOKENS_BY, list(sizes))
    tokens = f"{words} tokens of words, {pixels} of images with {TOKENS_BY}"
    head = f"[{len(sizes)} images{': ' * bool(sizes)}{shown}; {tokens}]"
    return f"[system]\n{system}\n\n{head}\n\n[prompt]\n{prompt}\n\n[schema]\n{json.dumps(schema, indent=1)}\n"
