"""The OpenAI-compatible back end: what a server is asked, what is read of its replies, and how it may misbehave."""

from __future__ import annotations

import base64
import io
import json
import logging
import math
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ares.errors import ModelError
from ares.settings import Price
from ares_annotators.models import VlmFailure, VlmReply, VlmRequest
from ares_annotators.models.server.connection import ServerConnection
from ares_annotators.models.server.vlm import OpenAiVlm, ServedModel, describe_served_model

SECRET = "sk-very-secret-0123456789"
REQUEST = VlmRequest(
    images=[np.full((8, 8, 3), (250, 10, 10), np.uint8)] * 2, prompt="what is it?", system="you look"
)


pytestmark = pytest.mark.usefixtures("quick_retries")


def _vlm(url: str, software: str = "", retries: int = 2, timeout_seconds: float = 5.0) -> OpenAiVlm:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    connection = ServerConnection(url, SECRET, retries=retries, timeout_seconds=timeout_seconds)
    return OpenAiVlm("Org/Model-1", connection, 64, price, served=ServedModel(software=software))


def _reply(vlm: OpenAiVlm, request: VlmRequest = REQUEST) -> VlmReply:
    (reply,) = vlm.ask([request])
    assert isinstance(reply, VlmReply), reply
    return reply


def _failure(vlm: OpenAiVlm, request: VlmRequest = REQUEST) -> VlmFailure:
    (failure,) = vlm.ask([request])
    assert isinstance(failure, VlmFailure), failure
    assert SECRET not in str(failure.error)
    return failure


def _error(vlm: OpenAiVlm, request: VlmRequest = REQUEST) -> ModelError:
    return _failure(vlm, request).error


def test_what_is_sent_and_the_cost_of_the_reply(model_server: Any) -> None:
    model_server.says("a red square")
    reply = _reply(_vlm(model_server.url))
    assert reply.text == "a red square"
    assert (reply.cost.calls, reply.cost.tokens_in, reply.cost.tokens_out) == (1, 1000, 10)
    assert reply.cost.usd == pytest.approx(1000e-6 + 100e-6)
    (request,) = model_server.requests
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("Org/Model-1", 0.0, 64)
    assert request["messages"][0] == {"role": "system", "content": "you look"}
    *images, text = request["messages"][1]["content"]
    assert text == {"type": "text", "text": "what is it?"}
    assert len(images) == 2
    assert _pixel(images[0]["image_url"]["url"]) == pytest.approx((250, 10, 10), abs=8)
    assert model_server.headers[0]["authorization"] == f"Bearer {SECRET}"


def _pixel(url: str) -> tuple[int, ...]:
    kind, data = url.split(",")
    assert kind == "data:image/jpeg;base64"
    pixel = Image.open(io.BytesIO(base64.b64decode(data))).getpixel((4, 4))
    assert isinstance(pixel, tuple)
    return tuple(int(value) for value in pixel)


def test_unknown_usage_is_no_price(model_server: Any) -> None:
    model_server.says("x", usage=False)
    assert _reply(_vlm(model_server.url)).cost.usd is None


def test_waits_as_long_as_the_server_says(model_server: Any) -> None:
    model_server.fails(429, Retry_After="0.3")
    model_server.says("at last")
    started = time.monotonic()
    assert _reply(_vlm(model_server.url)).text == "at last"
    assert time.monotonic() - started >= 0.3
    assert len(model_server.requests) == 2


@pytest.mark.parametrize(("status", "calls"), [(429, 3), (500, 3), (503, 3), (400, 1), (401, 1), (404, 1)])
def test_what_may_mend_is_tried_again_within_the_retry_budget(
    model_server: Any, caplog: pytest.LogCaptureFixture, status: int, calls: int
) -> None:
    model_server.fails(status, f'{{"error": {{"message": "bad key {SECRET}"}}}}')
    with caplog.at_level(logging.DEBUG):
        error = _error(_vlm(model_server.url))
    assert error.reason == f"model server answered {status}" and model_server.url in error.detail
    assert len(model_server.requests) == calls
    assert caplog.records and SECRET not in caplog.text


@pytest.mark.parametrize("status", [302, 308])
def test_a_redirect_takes_the_key_nowhere(status: int) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Location", f"http://localhost:{server.server_port}/stranger")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        assert _error(_vlm(url)).reason == f"model server answered {status}"
        assert describe_served_model(url, "m", SECRET) == ServedModel()
        server.shutdown()
    assert asked == ["/v1/chat/completions", "/v1/models"]


def test_a_server_of_another_protocol_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        server = threading.Thread(target=_greet_as_ssh, args=(listener, 1))
        server.start()
        assert describe_served_model(url, "m", SECRET) == ServedModel()
        server.join()


def _greet_as_ssh(listener: socket.socket, times: int) -> None:
    for _ in range(times):
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(b"SSH-2.0-x\r\n")


def test_a_timeout(model_server: Any) -> None:
    model_server.stalls(2.0)
    error = _error(_vlm(model_server.url, timeout_seconds=0.2, retries=1))
    assert error.reason == "model server did not answer in time"
    assert len(model_server.requests) == 2


@pytest.mark.parametrize("breaks", [1, 3])
def test_a_connection_that_breaks_off_is_tried_again(model_server: Any, breaks: int) -> None:
    for _ in range(breaks):
        model_server.breaks_off()
    model_server.says("whole")
    if breaks == 1:
        assert _reply(_vlm(model_server.url)).text == "whole"
    else:
        assert _error(_vlm(model_server.url)).reason == "model server cannot be reached"
        assert len(model_server.requests) == 3


def test_a_port_where_nobody_listens(quick_retries: None) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        error = _error(_vlm(url))
    assert error.reason == "model server cannot be reached"
    assert url in error.detail


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"id": "x", "choices": [{"message": {"con', "application/json"),
        (b"<html>gateway</html>", "text/html"),
        (b"[]", "application/json"),
        (b"null", "application/json"),
        (b'{"error": "who are you"}', "application/json"),
    ],
)
def test_garbage(model_server: Any, body: bytes, content_type: str) -> None:
    model_server.sends(body, Content_Type=content_type)
    assert _error(_vlm(model_server.url)).reason == "model server did not answer with a completion"


def test_replies_that_are_none(model_server: Any) -> None:
    model_server.says("half a sen", finish="length")
    model_server.says("", finish="content_filter")
    model_server.says(None, refusal="I would rather not")
    model_server.says(None)
    model_server.replies(lambda request: [])
    reasons = [_error(_vlm(model_server.url)).reason for _ in range(5)]
    assert reasons == [
        "reply was cut at its length limit",
        "reply was blocked by a content filter",
        "model refused",
        "model server sent no text",
        "model server sent no choice",
    ]


def test_one_bad_reply_loses_no_other(model_server: Any) -> None:
    model_server.answers(lambda request: None if "bad" in str(request["messages"]) else "good")
    requests = [VlmRequest(images=[], prompt=prompt) for prompt in ("one", "bad", "three")]
    replies = _vlm(model_server.url).ask(requests)
    assert [reply.text if isinstance(reply, VlmReply) else "error" for reply in replies] == [
        "good",
        "error",
        "good",
    ]


CHOICES = ("yes", "no", "not visible")
CHOICE = VlmRequest(images=[], prompt="is it open?", choices=CHOICES)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"action": {"type": "string"}}}


def test_a_choice_is_asked_for_as_each_server_takes_it(model_server: Any) -> None:
    model_server.says("no")
    for software in ("vllm", "sglang"):
        assert _reply(_vlm(model_server.url, software), CHOICE).text == "no"
    model_server.says('{"answer": "not visible"}')
    model_server.says('{"answer": "not visible"}')
    assert _reply(_vlm(model_server.url), CHOICE).text in ("no", "not visible")
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
    failure = _failure(_vlm(model_server.url), CHOICE)
    assert failure.error.reason == "reply is none of the choices" and failure.cost.tokens_in == 1000
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
    reply = _reply(_vlm(model_server.url), request)
    assert reply.probabilities == pytest.approx(expected)
    assert model_server.requests[0]["logprobs"] is True


def test_a_server_without_probabilities_is_said(model_server: Any) -> None:
    model_server.says("yes")
    request = VlmRequest(images=[], prompt="x", choices=CHOICES, probabilities=True)
    assert _error(_vlm(model_server.url), request).reason == "model server sent no probabilities"


def test_a_server_that_ignores_the_number_of_samples_is_asked_again(model_server: Any) -> None:
    model_server.says("one")
    request = VlmRequest(images=[], prompt="x", samples=3, temperature=1.0)
    reply = _reply(_vlm(model_server.url), request)
    assert (list(reply.samples), reply.cost.calls) == (["one"] * 3, 3)
    assert [sent["n"] for sent in model_server.requests] == [3, 3, 3]


def test_large_images_are_made_smaller(model_server: Any) -> None:
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
    cost = _reply(_vlm(model_server.url), CHOICE_FREE).cost
    assert (cost.calls, cost.tokens_in, cost.usd) == (1, 0, None)


def test_a_reply_without_end_is_cut_off(model_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares_annotators.models.server.connection._LARGEST_REPLY_BYTES", 1000)
    model_server.sends(b"x" * 2000)
    assert _error(_vlm(model_server.url), CHOICE_FREE).reason == "model server sent too large a reply"


def test_a_text_far_longer_than_its_limit_is_no_reply(model_server: Any) -> None:
    model_server.says("word " * 400)
    model_server.says("word " * 500)
    vlm = _vlm(model_server.url)
    assert len(_reply(vlm, CHOICE_FREE).text) == 2000
    failure = _failure(vlm, CHOICE_FREE)
    assert failure.error.reason == "reply is longer than its length limit"
    assert failure.cost.tokens_in == 1000


def test_a_compressed_reply_is_refused(model_server: Any) -> None:
    import gzip

    bomb = gzip.compress(b"0" * 50_000_000)
    model_server.sends(bomb, Content_Encoding="gzip")
    assert _error(_vlm(model_server.url), CHOICE_FREE).reason == "model server sent a compressed reply"
    assert model_server.headers[0]["accept-encoding"] == "identity"
