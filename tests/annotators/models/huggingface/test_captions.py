"""Local models write captions: forward passes of real architectures under the schema of a caption and of its slots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from annotators.base import Options
from annotators.caption import FilledSlots, fill_slots, load_captioner
from annotators.caption.captioner import caption_prompt, caption_schema, choose_writing, parse_caption_reply
from annotators.caption.frame_plan import plan_test_frames
from annotators.models import VlmFailure, VlmRequest
from annotators.models.huggingface.vlm import HuggingfaceVlm
from ares.rubric import shipped_verbs
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.annotators.models.huggingface.tiny_models import FAMILIES
from tests.thinning import some_by_day

Tiny = Callable[[str], HuggingfaceVlm]


@pytest.mark.parametrize("name", some_by_day(FAMILIES))
def test_a_caption_by_schema_is_typed_or_cut(tiny_vlm: Tiny, name: str) -> None:
    vlm, verbs = tiny_vlm(name), shipped_verbs()
    assert choose_writing(vlm) == "typed"
    plan = plan_test_frames("auto", 64, 96)
    images = plan.arrange(lambda camera, seconds: np.full((len(seconds), 64, 96, 3), 99, np.uint8))
    (reply,) = vlm.ask(
        [
            VlmRequest(
                images=images,
                prompt=caption_prompt("typed", plan.legend(), verbs),
                schema=caption_schema(verbs),
                max_tokens=60,
            )
        ]
    )
    assert reply.cost.calls == 1 and reply.cost.tokens_in > 300
    if isinstance(reply, VlmFailure):
        assert reply.error.reason == "reply was cut at its length limit"
    else:
        assert set(json.loads(reply.text)) >= {"action", "sentence"}
        assert isinstance(parse_caption_reply(reply.text, "typed", verbs), tuple)


@pytest.mark.parametrize("name", list(FAMILIES)[:1])
def test_slots_are_filled_without_images(tiny_vlm: Tiny, name: str) -> None:
    (filled,) = fill_slots(["open the drawer"], tiny_vlm(name), shipped_verbs())
    assert isinstance(filled, FilledSlots | VlmFailure)
    assert filled.cost.calls == 1 and filled.cost.tokens_in > 300


def test_a_template_without_a_place_for_a_prompt_makes_a_captioner_of_sentences(
    reference_models: Path, tmp_path: Path
) -> None:
    settings = Settings(caption_model=f"hf:{reference_models / 'reference-captioner'}")
    with open_workspace(str(tmp_path / "ws"), settings) as workspace:
        options = Options(settings=settings, device="cpu")
        captioner = load_captioner(options, workspace.stores)
        assert captioner.writing == "sentence"
        # An estimate, which loads no model, knows it too.
        unloaded = load_captioner(Options(settings=settings, load_models=False), workspace.stores)
        assert unloaded.producer.maker_id == captioner.producer.maker_id
