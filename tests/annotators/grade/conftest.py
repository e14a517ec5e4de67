"""A judge behind a server on loopback, and captions of a closing drawer that it grades."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from annotators.base import Options, Result, Work
from annotators.caption import count_prompt_tokens
from annotators.grade import GradeAnnotator
from annotators.models import estimate_image_tokens
from ares.annotation import Annotation
from ares.episode import Episode, Json
from ares.settings import Price
from ares.workspace import Workspace
from tests.annotators.judge_replies import DRAWER

SENTENCE = "close the green drawer"
# A model whose tokens are published.
TOKENS_BY = "qwen3-vl-8b"


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
