"""Requests to a local model: samples and seeds, schemas that cannot be held, chats, and failures of one request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import ModelError, RequestError
from ares.rubric import shipped_verbs
from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.caption import FilledSlots, fill_slots, load_captioner
from ares_annotators.models import VlmFailure, VlmReply, VlmRequest, load_huggingface, require_capabilities
from ares_annotators.models.huggingface.vlm import HuggingfaceVlm
from tests.annotators.models.huggingface.tiny_models import FAMILIES, SENTENCE

QWEN, INTERN = "tiny-Qwen3-VL", "tiny-InternVL3"
NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"number": {"type": "integer", "minimum": 100, "maximum": 999}},
    "required": ["number"],
    "additionalProperties": False,
}
Tiny = Callable[[str], HuggingfaceVlm]


def _frames(count: int, seed: int = 0, height: int = 64, width: int = 96) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 255, (height, width, 3), np.uint8) for _ in range(count)]


def _reply(vlm: HuggingfaceVlm, *requests: VlmRequest) -> VlmReply:
    """The reply to the first of several requests, which are one batch."""
    reply, *_ = vlm.ask(requests)
    assert isinstance(reply, VlmReply), reply
    return reply


@pytest.fixture
def sampled() -> VlmRequest:
    return VlmRequest(
        images=_frames(2), prompt="Say a number.", schema=NUMBER, samples=6, temperature=1.5, seed=11
    )


def test_samples_differ_and_their_seed_repeats_them(tiny_vlm: Tiny, sampled: VlmRequest) -> None:
    vlm = tiny_vlm(QWEN)
    reply = _reply(vlm, sampled)
    numbers = [json.loads(text)["number"] for text in reply.samples]
    assert len(numbers) == 6 and len(set(numbers)) > 1 and reply.text == reply.samples[0]
    assert all(100 <= number <= 999 for number in numbers)
    # The same in another batch, where other requests draw too.
    others = [replace(sampled, prompt=f"Say {index} numbers, please.", seed=index) for index in range(3)]
    assert _reply(vlm, sampled, *others).samples == reply.samples
    assert _reply(vlm, replace(sampled, seed=12)).samples != reply.samples
    one = _reply(vlm, replace(sampled, samples=1))
    assert (one.cost.calls, one.cost.tokens_in) == (reply.cost.calls, reply.cost.tokens_in)
    assert reply.cost.tokens_out >= 6 * one.cost.tokens_out - 6 * 3, "every token that was written"


def test_a_drawn_choice_follows_its_probabilities_and_its_seed(tiny_vlm: Tiny) -> None:
    request = VlmRequest(
        images=_frames(1),
        prompt="Which?",
        choices=("robot", "arm", "frames"),
        probabilities=True,
        samples=200,
        temperature=1.0,
        seed=5,
    )
    reply = _reply(tiny_vlm(INTERN), request)
    assert sum(reply.probabilities.values()) == pytest.approx(1.0)
    for choice, probability in reply.probabilities.items():
        assert reply.samples.count(choice) / 200 == pytest.approx(probability, abs=0.12), "seed 5"
    assert _reply(tiny_vlm(INTERN), request).samples == reply.samples


def test_a_request_has_its_own_length_limit(tiny_vlm: Tiny) -> None:
    free = VlmRequest(images=_frames(1), prompt="Describe it.")
    short, long = tiny_vlm(QWEN).ask([replace(free, max_tokens=1), free])
    assert isinstance(long, VlmReply) and long.text == SENTENCE
    assert isinstance(short, VlmFailure) and short.is_unusable_reply
    assert str(short.error).startswith("reply was cut at its length limit: 1 token from")
    assert short.cost.tokens_out == 1


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": {"a": {"type": "wrong"}}}, "wrong"),
        ({"type": "string", "pattern": "(?=look)ahead"}, "look"),
    ],
)
def test_a_schema_that_cannot_be_held_is_an_error_and_costs_nothing(
    schema: dict[str, Any], problem: str, tiny_vlm: Tiny
) -> None:
    request = VlmRequest(images=_frames(1), prompt="x", schema=schema)
    refused, kept = tiny_vlm(QWEN).ask([request, replace(request, schema=NUMBER)])
    assert isinstance(kept, VlmReply)
    assert isinstance(refused, VlmFailure) and refused.error.reason == "JSON schema cannot be held"
    assert problem in refused.error.detail and refused.cost.calls == 0


def test_an_image_that_the_processor_refuses_costs_its_request_alone(tiny_vlm: Tiny) -> None:
    thin = VlmRequest(images=_frames(1, height=1, width=900), prompt="Describe it.")
    replies = tiny_vlm(QWEN).ask([replace(thin, images=_frames(1)), thin, replace(thin, images=_frames(2))])
    assert [isinstance(reply, VlmReply) for reply in replies] == [True, False, True]
    failure = replies[1]
    assert isinstance(failure, VlmFailure) and "aspect ratio" in str(failure.error)


def test_a_batch_that_memory_cannot_hold_is_halved(tiny_vlm: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    vlm = tiny_vlm(QWEN)
    requests = [VlmRequest(images=_frames(1, seed), prompt="Describe it.") for seed in range(5)]
    generate, sizes = vlm._runtime.model.generate, []

    def limited(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(**inputs)

    monkeypatch.setattr(vlm._runtime.model, "generate", limited)
    assert [reply.text for reply in vlm.ask(requests) if isinstance(reply, VlmReply)] == [SENTENCE] * 5
    assert sizes[0] == 5 and max(sizes[1:]) < 5
    monkeypatch.setattr(vlm._runtime.model, "generate", _out_of_memory)
    (failure,) = vlm.ask(requests[:1])
    assert isinstance(failure, VlmFailure) and failure.error.reason == "memory of the device is full"


def _out_of_memory(**inputs: Any) -> Any:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_larger_image_costs_more_tokens_up_to_a_bound(tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder(QWEN)
    vlm = load_huggingface(str(folder), "cpu", 8)
    processor = vlm._runtime.chats._processor.image_processor
    processor.size = {"shortest_edge": 4096, "longest_edge": 2**24}
    sizes = (256, 1024, 4096)
    requests = [
        VlmRequest(images=images, prompt="x", max_tokens=1)
        for images in ([], *(_frames(1, 0, side, side) for side in sizes))
    ]
    empty, *tokens = (vlm.ask([request])[0].cost.tokens_in for request in requests)
    # 32 x 32 pixels are one token of this architecture, and there is a mark before and after an image.
    assert [count - empty for count in tokens] == [66, 1026, 1026]


HYBRID = "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"


def test_thinking_is_switched_off_where_the_template_can(tmp_path: Path) -> None:
    template = _template(reply=HYBRID)
    FAMILIES[QWEN].save(tmp_path, template=template)
    vlm = load_huggingface(str(tmp_path), "cpu", 8)
    (text,) = vlm._runtime.tokenizer.batch_decode(
        vlm._runtime.encode([VlmRequest(images=[], prompt="x")])["input_ids"]
    )
    assert text.endswith("<think>\n\n</think>\n\n")


def test_a_model_that_always_thinks_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    FAMILIES[QWEN].save(tmp_path, template=_template(reply="<think>\n"))
    with pytest.raises(ModelError, match=r"thinks before every reply.*give its Instruct version"):
        load_huggingface(str(tmp_path), "cpu", 8)


@pytest.mark.parametrize("refusal", ["{{ raise_exception('no system role') }}", ""])
def test_a_system_prompt_reaches_a_template_without_one(refusal: str, tmp_path: Path) -> None:
    FAMILIES[INTERN].save(tmp_path, template=_template(system=refusal))
    vlm = load_huggingface(str(tmp_path), "cpu", 8)
    request = VlmRequest(images=[], prompt="question", system="be strict")
    (text,) = vlm._runtime.tokenizer.batch_decode(vlm._runtime.encode([request])["input_ids"])
    assert "be strict" in text and text.index("be strict") < text.index("question")


def _template(system: str = "{{ part['text'] }}", reply: str = "") -> str:
    return (
        "{% for message in messages %}{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}IMAGE{% elif part['type'] == 'video' %}VIDEO"
        "{% elif message['role'] == 'system' %}"
        + system
        + "{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n" + reply + "{% endif %}"
    )


def test_what_a_template_cannot_write_is_said_before_a_call(tmp_path: Path) -> None:
    template = _template().replace("{% elif part['type'] == 'video' %}VIDEO", "")
    template = template.replace("part['text'] }}{% endif %}", "part['text'] or '' }}{% endif %}")
    FAMILIES[INTERN].save(tmp_path, template=template)
    vlm = load_huggingface(str(tmp_path), "cpu", 8)
    request = VlmRequest(images=_frames(4), prompt="x", clip=True)
    with pytest.raises(RequestError, match=r"has no clip; it has choices"):
        require_capabilities(vlm, request.needs, "captions of clips")


def test_the_library_that_a_processor_lacks_is_one_line(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder("tiny-SmolVLM")
    monkeypatch.setattr("transformers.models.smolvlm.processing_smolvlm.num2words", None)
    with pytest.raises(RequestError) as caught:
        load_huggingface(str(folder), "cpu", 8)
    assert str(caught.value).endswith("pip install 'ares-curation[smolvlm]'")


def test_slots_are_filled_without_images(tiny_vlm: Tiny) -> None:
    (filled,) = fill_slots(["open the drawer"], tiny_vlm(QWEN), shipped_verbs())
    assert isinstance(filled, FilledSlots | VlmFailure)
    assert filled.cost.calls == 1 and filled.cost.tokens_in > 300


def test_a_template_without_a_place_for_a_prompt_makes_a_captioner_of_sentences(
    ws: Workspace, settings: Settings
) -> None:
    captioner = load_captioner(Options(settings=settings, device="cpu"), ws.stores)
    assert captioner.writing == "sentence"
    # An estimate, which loads no model, knows it too.
    unloaded = load_captioner(Options(settings=settings, load_models=False), ws.stores)
    assert unloaded.producer.maker_id == captioner.producer.maker_id
