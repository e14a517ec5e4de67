"""What a server is asked in its dialect, and what is read from its replies: choices, probabilities, samples, usage."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from annotators.models import VlmFailure, VlmReply, VlmRequest
from annotators.models.server.connection import ServerConnection
from annotators.models.server.vlm import OpenAiVlm, ServedModel
from ares.errors import ModelError
from ares.settings import Price

CHOICES = ("yes", "no", "not visible")
CHOICE = VlmRequest(images=[], prompt="is it open?", choices=CHOICES)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"action": {"type": "string"}}}


def _vlm(url: str, software: str = "") -> OpenAiVlm:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    connection = ServerConnection(url, "", timeout_seconds=5, retries=0)
    return OpenAiVlm("m", connection, 64, price, served=ServedModel(software=software))


def _reply(outcome: VlmReply | VlmFailure) -> VlmReply:
    assert isinstance(outcome, VlmReply), outcome
    return outcome


def _error(outcome: VlmReply | VlmFailure) -> ModelError:
    assert isinstance(outcome, VlmFailure), outcome
    return outcome.error


def test_a_choice_is_asked_for_as_each_server_takes_it(model_server: Any) -> None:
    model_server.says("no")
    for software in ("vllm", "sglang"):
        assert _reply(_vlm(model_server.url, software).ask([CHOICE])[0]).text == "no"
    model_server.says('{"answer": "not visible"}')
    model_server.says('{"answer": "not visible"}')
    assert _reply(_vlm(model_server.url).ask([CHOICE])[0]).text in ("no", "not visible")
    vllm, sglang, other = model_server.requests
    assert vllm["structured_outputs"] == {"choice": list(CHOICES)}
    assert sglang["regex"] == "(yes|no|not\\ visible)"
    schema = other["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == list(CHOICES)
    assert vllm["chat_template_kwargs"] == {"enable_thinking": False} and "chat_template_kwargs" not in other


def test_a_schema_seed_and_length_are_sent(model_server: Any) -> None:
    model_server.says("{}")
    request = VlmRequest(images=[], prompt="x", schema=SCHEMA, seed=7, max_tokens=9, temperature=0.5)
    _vlm(model_server.url).ask([request])
    (sent,) = model_server.requests
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (sent["seed"], sent["max_tokens"], sent["temperature"]) == (7, 9, 0.5)


def test_a_reply_that_is_none_of_the_choices_is_paid_and_no_answer(model_server: Any) -> None:
    model_server.says("maybe")
    (failure,) = _vlm(model_server.url).ask([CHOICE])
    assert _error(failure).reason == "reply is none of the choices"
    assert isinstance(failure, VlmFailure) and failure.cost.tokens_in == 1000
    assert failure.cost.usd == pytest.approx(1000e-6 + 100e-6)


def _choice(text: str, tokens: list[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    content = [
        {
            "token": token,
            "logprob": math.log(options[token]),
            "top_logprobs": [{"token": name, "logprob": math.log(value)} for name, value in options.items()],
        }
        for token, options in tokens
    ]
    message = {"role": "assistant", "content": text}
    return {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": content}}


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("yes", [("yes", {"yes": 0.7, "no": 0.2, "not": 0.1})], {"yes": 0.7, "no": 0.2, "not visible": 0.1}),
        # "n" leads to two choices; what follows it decides.
        (
            "no",
            [("n", {"n": 0.6, "y": 0.4}), ("o", {"o": 0.9, "ot": 0.1})],
            {"yes": 0.4, "no": 0.54, "not visible": 0.06},
        ),
        # A choice within JSON; the token of the choice begins with the quote before it.
        (
            '{"answer": "no"}',
            [('{"answer":', {'{"answer":': 1.0}), (' "no', {' "no': 0.8, ' "yes': 0.2}), ('"}', {'"}': 1.0})],
            {"yes": 0.2, "no": 0.8, "not visible": 0.0},
        ),
    ],
)
def test_probabilities_of_choices(
    model_server: Any, text: str, tokens: list[tuple[str, dict[str, float]]], expected: dict[str, float]
) -> None:
    model_server.replies(lambda request: [_choice(text, tokens)])
    request = VlmRequest(images=[], prompt="x", choices=CHOICES, probabilities=True)
    reply = _reply(_vlm(model_server.url).ask([request])[0])
    assert reply.probabilities == pytest.approx(expected)
    assert model_server.requests[0]["logprobs"] is True


def test_a_server_without_probabilities_is_said(model_server: Any) -> None:
    model_server.says("yes")
    request = VlmRequest(images=[], prompt="x", choices=CHOICES, probabilities=True)
    assert _error(_vlm(model_server.url).ask([request])[0]).reason == "model server sent no probabilities"


def test_a_server_that_ignores_the_number_of_samples_is_asked_again(model_server: Any) -> None:
    model_server.says("one")
    request = VlmRequest(images=[], prompt="x", samples=3, temperature=1.0)
    reply = _reply(_vlm(model_server.url).ask([request])[0])
    assert (list(reply.samples), reply.cost.calls) == (["one"] * 3, 3)
    assert [sent["n"] for sent in model_server.requests] == [3, 3, 3]


def test_large_images_are_made_smaller(model_server: Any) -> None:
    import base64
    import io

    from PIL import Image

    model_server.says("x")
    _vlm(model_server.url).ask([VlmRequest(images=[np.zeros((1000, 4000, 3), np.uint8)], prompt="x")])
    url = model_server.requests[0]["messages"][0]["content"][0]["image_url"]["url"]
    assert Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).size == (1024, 256)


def test_a_clip_is_one_part_where_the_server_takes_clips(model_server: Any) -> None:
    model_server.says("x")
    vlm = _vlm(model_server.url, "vllm")
    assert "clip" in vlm.capabilities and "clip" not in _vlm(model_server.url).capabilities
    vlm.ask([VlmRequest(images=[np.zeros((8, 8, 3), np.uint8)] * 3, prompt="x", clip=True)])
    first, last = model_server.requests[0]["messages"][0]["content"]
    assert first["type"] == "video_url" and first["video_url"]["url"].count(",") == 3
    assert last == {"type": "text", "text": "x"}


def test_another_model_behind_the_same_name_is_an_error(model_server: Any) -> None:
    document = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    for model in ("m-2026-08", "m-2026-08", "m-2026-09"):
        model_server.sends(json.dumps({**document, "model": model}).encode())
    vlm = _vlm(model_server.url)
    assert [type(vlm.ask([CHOICE_FREE])[0]) for _ in range(3)] == [VlmReply, VlmReply, VlmFailure]


CHOICE_FREE = VlmRequest(images=[], prompt="x")


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 3},
        {"prompt_tokens": "many", "completion_tokens": 3},
        {"prompt_tokens": 10**12, "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
        {"prompt_tokens": float("nan"), "completion_tokens": 3},
        "free",
    ],
)
def test_a_usage_that_cannot_be_is_unknown(model_server: Any, usage: Any) -> None:
    document = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    model_server.sends(json.dumps(document).encode())
    cost = _reply(_vlm(model_server.url).ask([CHOICE_FREE])[0]).cost
    assert (cost.calls, cost.tokens_in, cost.usd) == (1, 0, None)


def test_a_reply_without_end_is_cut_off(model_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotators.models.server.connection._LARGEST_REPLY_BYTES", 1000)
    model_server.sends(b"x" * 2000)
    assert (
        _error(_vlm(model_server.url).ask([CHOICE_FREE])[0]).reason == "model server sent too large a reply"
    )


def test_a_text_far_longer_than_its_limit_is_no_reply(model_server: Any) -> None:
    model_server.says("word " * 400)
    model_server.says("word " * 500)
    vlm = _vlm(model_server.url)
    assert len(_reply(vlm.ask([CHOICE_FREE])[0]).text) == 2000
    (failure,) = vlm.ask([CHOICE_FREE])
    assert _error(failure).reason == "reply is longer than its length limit"
    assert isinstance(failure, VlmFailure) and failure.cost.tokens_in == 1000


def test_a_compressed_reply_is_refused(model_server: Any) -> None:
    import gzip

    bomb = gzip.compress(b"0" * 50_000_000)
    model_server.sends(bomb, Content_Encoding="gzip")
    assert (
        _error(_vlm(model_server.url).ask([CHOICE_FREE])[0]).reason == "model server sent a compressed reply"
    )
    assert model_server.headers[0]["accept-encoding"] == "identity"
