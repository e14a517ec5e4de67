"""Six real architectures caption, judge, hold schemas and choose; the table of the manual is theirs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.rubric import SLOTS, shipped_verbs
from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.grade.observation import Observation, observation_schema, parse_observation
from ares_annotators.models import VlmReply, VlmRequest
from ares_annotators.models.huggingface.vlm import HuggingfaceVlm
from tests.annotators.models.huggingface.tiny_models import FAMILIES, SENTENCE
from tests.annotators.runs import annotate, estimate_cost
from tests.thinning import some_by_day

MANUAL = Path(__file__).resolve().parents[4] / "docs" / "models.md"
# Each judges the captions of the one before it, which is of another family.
ORDER = (
    "tiny-Qwen2.5-VL",
    "tiny-InternVL3",
    "tiny-LLaVA-NeXT",
    "tiny-Qwen3-VL",
    "tiny-SmolVLM",
    "tiny-LLaVA-OneVision",
)
CHOICES = ("MET", "UNMET", "UNSURE")
VERDICTS = (*CHOICES, "NA")
Tiny = Callable[[str], HuggingfaceVlm]
pytestmark = pytest.mark.slow


@pytest.fixture
def frames() -> list[Any]:
    """Three RGB frames of noise."""
    generator = np.random.default_rng(3)
    return [generator.integers(0, 255, (96, 128, 3), np.uint8) for _ in range(3)]


@pytest.mark.parametrize(
    ("captioner", "judge"), some_by_day(itertools.pairwise([*ORDER, ORDER[0]]), rows=True)
)
def test_each_architecture_captions_and_judges(
    captioner: str, judge: str, video_ws: Workspace, tiny_folder: Callable[[str], Path]
) -> None:
    settings = Settings(caption_model=f"hf:{tiny_folder(captioner)}", judge_model=f"hf:{tiny_folder(judge)}")
    options = Options(settings=settings, device="cpu")
    reports = annotate(video_ws.stores, ["caption", "grade"], options, quiet=True, limit=1)
    assert [(report.kept, report.failed) for report in reports] == [(1, 0), (1, 0)]
    facts = {entry.annotation.name: entry.annotation for entry in video_ws.stores.annotations.read()}
    # The tiny models write a sentence of their own under a schema; what it says is noise, its form is not.
    assert (
        json.loads(str(facts["caption"].value["raw"]))["sentence"].strip() == facts["caption"].value["text"]
    )
    value: Any = facts["grade"].value
    assert value["rulings"] and {ruling["verdict"] for ruling in value["rulings"]} <= set(VERDICTS)
    # Code refuses most sentences of noise before anything is observed.
    assert "observation" not in facts or list(facts["observation"].value) == list(SLOTS)
    # An estimate loads no model, and knows all the same what these have done.
    estimates = list(estimate_cost(video_ws.stores, ["caption", "grade"], options))
    assert [estimate.already for estimate in estimates] == [1, 1]


@pytest.mark.parametrize("name", some_by_day(FAMILIES))
def test_a_reply_has_the_form_of_its_schema(name: str, tiny_vlm: Tiny, frames: list[Any]) -> None:
    verbs = shipped_verbs()
    schema = observation_schema(len(frames), verbs)
    request = VlmRequest(images=frames, prompt="What is seen?", schema=schema, max_tokens=800)
    free = VlmRequest(images=frames[:1], prompt="Describe the task.")
    structured, sentence = tiny_vlm(name).ask([request, free])
    assert isinstance(structured, VlmReply) and isinstance(sentence, VlmReply)
    document = json.loads(structured.text)
    assert list(document) == list(SLOTS), "fields come in the order of the schema"
    observation = parse_observation(structured.text, [0.0, 1.0, 2.0], verbs)
    assert isinstance(observation, Observation) and observation.parts["action"].value
    assert _cells(name)["structured observation"] == "yes"
    assert sentence.text == SENTENCE


@pytest.mark.parametrize("name", some_by_day(FAMILIES))
def test_the_probability_of_a_choice_is_the_product_of_its_tokens(
    name: str, tiny_vlm: Tiny, frames: list[Any]
) -> None:
    vlm = tiny_vlm(name)
    # Two beginnings, one choice that begins another, and prompts of different lengths in one batch.
    phrases = ("open the drawer", "open the", "close the drawer", "close")
    requests = [
        VlmRequest(images=frames, prompt="Is it met?", choices=CHOICES, probabilities=True),
        VlmRequest(images=frames[:1], prompt="What does the robot do?", choices=phrases, probabilities=True),
    ]
    for request, reply in zip(requests, vlm.ask(requests), strict=True):
        assert isinstance(reply, VlmReply)
        plain = {choice: _plain_probability(vlm, request, choice) for choice in request.choices}
        total = sum(plain.values())
        assert reply.probabilities == pytest.approx(
            {key: value / total for key, value in plain.items()}, rel=1e-3
        )
        assert reply.text == max(plain, key=lambda choice: plain[choice])
    other = replace(requests[0], images=[255 - frame for frame in frames])
    (answer,) = vlm.ask([other])
    (before,) = vlm.ask(requests[:1])
    assert isinstance(answer, VlmReply) and isinstance(before, VlmReply)
    assert answer.probabilities != before.probabilities, "the images have no influence"


def _plain_probability(vlm: HuggingfaceVlm, request: VlmRequest, choice: str) -> float:
    """Token by token, each after a forward pass of the whole text, until no other choice goes on like this."""
    import torch

    runtime = vlm._runtime
    tokens = {text: [*runtime.tokenizer.encode(text), runtime.stop_ids[0]] for text in request.choices}
    logprob = 0.0
    for position, token in enumerate(tokens[choice]):
        inputs = runtime.encode([request])
        before = torch.tensor([tokens[choice][:position]], dtype=torch.long)
        for key in [key for key, value in inputs.items() if value.shape == inputs["attention_mask"].shape]:
            more = {"input_ids": before, "attention_mask": torch.ones_like(before)}
            inputs[key] = torch.cat([inputs[key], more.get(key, torch.zeros_like(before))], dim=1)
        with torch.inference_mode():
            logits = runtime.model(**inputs, use_cache=False).logits[0, -1].float()
        logprob += float(torch.log_softmax(logits, dim=-1)[token])
        shared = [
            other for other in tokens.values() if other[: position + 1] == tokens[choice][: position + 1]
        ]
        if len(shared) == 1:
            break
    return math.exp(logprob)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_of_the_manual_says_what_an_architecture_can_do(
    name: str, tiny_vlm: Tiny, frames: list[Any]
) -> None:
    vlm = tiny_vlm(name)
    abilities = {
        "captions and grades": True,
        "JSON of a schema": "schema" in vlm.capabilities,
        "choice with probabilities": {"choices", "probabilities"} <= vlm.capabilities,
        "samples with a seed": {"samples", "seed"} <= vlm.capabilities,
        "clip": "clip" in vlm.capabilities,
    }
    stated = {ability: _cells(name)[ability] for ability in abilities}
    assert stated == {ability: "yes" if able else "no" for ability, able in abilities.items()}
    if abilities["clip"]:
        (reply,) = vlm.ask([VlmRequest(images=frames, prompt="What happens?", clip=True)])
        assert isinstance(reply, VlmReply) and reply.cost.tokens_in > 0


def _cells(name: str) -> dict[str, str]:
    """What the table of the manual says of an architecture, by column."""
    rows = [
        line.strip("| ").split(" | ") for line in MANUAL.read_text().splitlines() if line.startswith("| ")
    ]
    header, row = rows[0], next(row for row in rows if row[0] == FAMILIES[name].architecture)
    return dict(zip(header, row, strict=False))
