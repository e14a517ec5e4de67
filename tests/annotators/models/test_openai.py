"""The OpenAI-compatible back end against a real server on loopback that misbehaves in every known way."""

from __future__ import annotations

import base64
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from annotators.models import VlmFailure, VlmReply, VlmRequest
from annotators.models.inventory import check_server_has_model
from annotators.models.server.connection import ServerConnection
from annotators.models.server.vlm import OpenAiVlm, ServedModel, describe_served_model
from ares.errors import ModelError
from ares.settings import Price

SECRET = "sk-very-secret-0123456789"
REQUEST = VlmRequest(
    images=[np.full((8, 8, 3), (250, 10, 10), np.uint8)] * 2, prompt="what is it?", system="you look"
)


def _vlm(url: str, **changes: Any) -> OpenAiVlm:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    limits = {name: changes.pop(name) for name in ("retries", "timeout_seconds") if name in changes}
    connection = ServerConnection(url, SECRET, **{"retries": 2, "timeout_seconds": 5.0, **limits})
    return OpenAiVlm("Org/Model-1", connection, 64, price, **changes)


def _error(vlm: OpenAiVlm) -> ModelError:
    (failure,) = vlm.ask([REQUEST])
    assert isinstance(failure, VlmFailure)
    assert SECRET not in str(failure.error)
    return failure.error


def test_what_is_sent_and_the_cost_of_the_reply(model_server: Any) -> None:
    model_server.says("a red square")
    (reply,) = _vlm(model_server.url).ask([REQUEST])
    assert isinstance(reply, VlmReply) and reply.text == "a red square"
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
    import io

    from PIL import Image

    kind, data = url.split(",")
    assert kind == "data:image/jpeg;base64"
    pixel = Image.open(io.BytesIO(base64.b64decode(data))).getpixel((4, 4))
    assert isinstance(pixel, tuple)
    return tuple(int(value) for value in pixel)


def test_unknown_usage_is_no_price(model_server: Any) -> None:
    model_server.says("x", usage=False)
    (reply,) = _vlm(model_server.url).ask([REQUEST])
    assert isinstance(reply, VlmReply)
    assert reply.cost.usd is None


def test_waits_as_long_as_the_server_says(model_server: Any, quick_retries: None) -> None:
    model_server.fails(429, Retry_After="0.3")
    model_server.says("at last")
    started = time.monotonic()
    (reply,) = _vlm(model_server.url).ask([REQUEST])
    assert isinstance(reply, VlmReply)
    assert time.monotonic() - started >= 0.3
    assert len(model_server.requests) == 2


@pytest.mark.parametrize(("status", "calls"), [(429, 3), (500, 3), (503, 3), (400, 1), (401, 1), (404, 1)])
def test_what_may_mend_is_tried_again_within_the_retry_budget(
    model_server: Any, quick_retries: None, caplog: pytest.LogCaptureFixture, status: int, calls: int
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
        assert check_server_has_model("m", url, SECRET) == f"the server answers {status}"
        server.shutdown()
    assert asked == ["/v1/chat/completions", "/v1/models", "/v1/models"]


def test_a_server_of_another_protocol_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        server = threading.Thread(target=_greet_as_ssh, args=(listener, 2))
        server.start()
        assert "no answer of HTTP: SSH-2.0-x" in check_server_has_model("m", url, SECRET)
        assert describe_served_model(url, "m", SECRET) == ServedModel()
        server.join()


def _greet_as_ssh(listener: socket.socket, times: int) -> None:
    for _ in range(times):
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(b"SSH-2.0-x\r\n")


def test_a_timeout(model_server: Any, quick_retries: None) -> None:
    model_server.stalls(2.0)
    error = _error(_vlm(model_server.url, timeout_seconds=0.2, retries=1))
    assert error.reason == "model server did not answer in time"
    assert len(model_server.requests) == 2


@pytest.mark.parametrize("breaks", [1, 3])
def test_a_connection_that_breaks_off_is_tried_again(
    model_server: Any, quick_retries: None, breaks: int
) -> None:
    for _ in range(breaks):
        model_server.breaks_off()
    model_server.says("whole")
    (reply,) = _vlm(model_server.url).ask([REQUEST])
    if breaks == 1:
        assert isinstance(reply, VlmReply) and reply.text == "whole"
    else:
        assert isinstance(reply, VlmFailure) and reply.error.reason == "model server cannot be reached"
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
def test_garbage(model_server: Any, quick_retries: None, body: bytes, content_type: str) -> None:
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
