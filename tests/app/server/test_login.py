"""Log-in beyond loopback: pages and websockets ask for the password, guessing is slowed down and logged."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from string import ascii_letters, digits
from typing import Any

import pytest

from ares_app.server.login import MAX_AGE_SECONDS, LoginMiddleware
from ares_app.server.login_attempts import (
    FREE_FAILURES,
    MAX_FAILURES_PER_MINUTE,
    MAX_WAIT_SECONDS,
    LoginAttempts,
    group_client_address,
)
from tests.app.server.asgi_client import Messages, answer_ok, headers_of, send_request, status_of

_HTML = ("accept", "text/html,*/*")


def _basic(password: str) -> tuple[str, str]:
    return "authorization", "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def _cookie(messages: Messages) -> str:
    return headers_of(messages)["set-cookie"].split(";")[0]


def _post(middleware: LoginMiddleware, password: str, next_url: str = "/", **options: Any) -> Messages:
    body = f"password={password}&next={next_url}".encode()
    return send_request(middleware, "http", path="/api/login", method="POST", body=body, **options)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_login_guards_pages_and_websockets(kind: str) -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    refused = 401 if kind == "http" else 1008
    assert status_of(send_request(middleware, kind)) == refused
    assert status_of(send_request(middleware, kind, [_basic("s3cre")])) == refused
    assert status_of(send_request(middleware, kind, [("authorization", "Basic ***")])) == refused
    assert status_of(send_request(middleware, kind, [("cookie", "ares_login=guess")])) == refused
    assert status_of(send_request(middleware, kind, [("cookie", "ares_login=\xff; =;;")])) == refused
    assert status_of(send_request(middleware, kind, [_basic("s3cret")])) == 200
    cookie = _cookie(_post(middleware, "s3cret"))
    assert status_of(send_request(middleware, kind, [("cookie", f"other=1; {cookie}")])) == 200


def test_a_browser_logs_in_by_a_form_and_lands_on_the_page_that_it_wanted() -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    form = send_request(middleware, "http", [_HTML], path="/episode", query='episode=1&q="><b>')
    assert status_of(form) == 401
    text = form[1]["body"].decode()
    assert 'value="/episode?episode=1&amp;q=&quot;&gt;&lt;b&gt;"' in text
    assert "Basic" not in headers_of(form)["www-authenticate"]
    messages = _post(middleware, "s3cret", "/episode%3Fepisode=1")
    assert (status_of(messages), headers_of(messages)["location"]) == (303, "/episode?episode=1")
    assert status_of(send_request(middleware, "http", [("cookie", _cookie(messages))])) == 200
    assert status_of(_post(middleware, "wrong")) == 401


@pytest.mark.parametrize(
    "url",
    ["http://evil.example", "//evil.example", "/%5Cevil.example", "/a%0D%0AX: y", "/%C3%A9", "/api/logout"],
)
def test_the_form_leads_nowhere_else(url: str) -> None:
    messages = _post(LoginMiddleware(answer_ok, password="s3cret"), "s3cret", url)
    assert headers_of(messages)["location"] == "/"


def test_the_cookie_is_new_at_each_login_and_out_of_reach_of_scripts() -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    first = _post(middleware, "s3cret")
    planted = ("cookie", _cookie(first))
    second = _post(middleware, "s3cret", headers=[planted])
    assert _cookie(first) != _cookie(second)
    assert status_of(send_request(middleware, "http", [planted])) == 401
    attributes = headers_of(second)["set-cookie"].split("; ")[1:]
    assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/"]
    secure = headers_of(_post(middleware, "s3cret", scheme="https"))["set-cookie"]
    assert secure.endswith("; Secure")


def test_a_log_out_ends_other_spellings_of_the_cookie() -> None:
    """The last character of a signature in base64 has bits that mean nothing."""
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    cookie = _cookie(_post(middleware, "s3cret"))
    spellings = [("cookie", cookie[:-1] + character) for character in ascii_letters + digits + "-_"]

    def list_answers() -> set[int]:
        return {status_of(send_request(middleware, "http", [spelling])) for spelling in spellings}

    assert list_answers() == {200, 401}
    send_request(middleware, "http", [("cookie", cookie)], "/api/logout")
    assert list_answers() == {401}


def test_guesses_are_refused_for_longer_and_longer_and_the_right_password_too() -> None:
    now = [1000.0]
    middleware = LoginMiddleware(answer_ok, password="s3cret", attempts=LoginAttempts(lambda: now[0]))
    assert [status_of(_post(middleware, "guess")) for _ in range(FREE_FAILURES)] == [401] * FREE_FAILURES
    blocked = _post(middleware, "s3cret")
    assert status_of(blocked) == 429
    assert headers_of(blocked)["retry-after"] == "1"
    assert status_of(send_request(middleware, "http", [_basic("s3cret")])) == 429
    assert status_of(_post(middleware, "s3cret", client="192.0.2.8")) == 303
    now[0] += 1
    assert status_of(_post(middleware, "guess")) == 401
    assert headers_of(_post(middleware, "guess"))["retry-after"] == "2"
    now[0] += 2
    assert status_of(_post(middleware, "s3cret")) == 303
    assert status_of(_post(middleware, "guess")) == 401


def test_right_requests_of_a_program_let_nobody_guess_from_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [1000.0]
    middleware = LoginMiddleware(answer_ok, password="s3cret", attempts=LoginAttempts(lambda: now[0]))
    statuses = []
    with caplog.at_level(logging.INFO, "ares.login"):
        for _ in range(100):
            send_request(middleware, "http", [_basic("s3cret")])
            statuses.append(status_of(send_request(middleware, "http", [_basic("guess")])))
            now[0] += 0.01
    assert statuses == [401] * FREE_FAILURES + [429] * (100 - FREE_FAILURES)
    assert [record.getMessage() for record in caplog.records].count("log-in from 192.0.2.7") == 1
    # A mistake is forgotten after an hour without another, though right requests come in all the time.
    for _ in range(61):
        now[0] += 60
        send_request(middleware, "http", [_basic("s3cret")])
    assert status_of(send_request(middleware, "http", [_basic("guess")])) == 401
    assert status_of(send_request(middleware, "http", [_basic("s3cret")])) == 200


def test_waits_are_bounded_and_forgotten() -> None:
    now = [1000.0]
    attempts = LoginAttempts(lambda: now[0])
    for _ in range(40):
        attempts.add_failure("192.0.2.7")
    assert attempts.wait_seconds("192.0.2.7") == MAX_WAIT_SECONDS
    now[0] += 2 * 3600
    assert attempts.wait_seconds("192.0.2.7") == 0
    assert attempts.add_failure("192.0.2.7") == 1


def test_many_addresses_together_are_slowed_down_and_take_bounded_memory() -> None:
    now = [1000.0]
    attempts = LoginAttempts(lambda: now[0])
    attempts.add_success("192.0.2.1")
    for number in range(MAX_FAILURES_PER_MINUTE):
        attempts.add_failure(f"10.0.0.{number}")
    assert attempts.wait_seconds("10.1.1.1") == 60
    assert attempts.wait_seconds("192.0.2.1") == 0, "who has logged in before is not locked out by others"
    now[0] += 61
    assert attempts.wait_seconds("10.1.1.1") == 0
    for number in range(12_000):
        attempts.add_failure(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(attempts._addresses) <= 10_000


def test_one_user_of_ipv6_is_one_address() -> None:
    assert group_client_address("2001:db8:1:2::3") == group_client_address("2001:db8:1:2:ffff::9")
    assert group_client_address("::ffff:192.0.2.7") == "192.0.2.7"
    assert group_client_address("evil\nline") == "unknown"


def test_each_login_and_each_failure_is_one_line_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    with caplog.at_level(logging.INFO, "ares.login"):
        _post(middleware, "guess-1")
        _post(middleware, "s3cret", client="2001:db8::1")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "failed log-in from 192.0.2.7, number 1; next in 0 s",
        "log-in from 2001:db8::/64",
    ]


def test_a_log_in_ends_after_some_days_and_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    cookie = ("cookie", _cookie(_post(middleware, "s3cret")))
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + MAX_AGE_SECONDS - 60)
    assert status_of(send_request(middleware, "http", [cookie])) == 200
    assert status_of(send_request(LoginMiddleware(answer_ok, password="s3cret"), "http", [cookie])) == 401
    monkeypatch.setattr(time, "time", lambda: began + MAX_AGE_SECONDS + 60)
    assert status_of(send_request(middleware, "http", [cookie])) == 401


def test_a_form_without_end_is_not_read() -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    reads = 0

    async def receive() -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": b"x" * 4096, "more_body": True}

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "path": "/api/login", "method": "POST", "headers": [], "client": ("::1", 1)}
    asyncio.run(middleware(scope, receive, send))
    assert reads < 5


def test_a_program_sends_the_password_with_each_request_and_gets_no_session() -> None:
    middleware = LoginMiddleware(answer_ok, password="s3cret")
    for kind in ("http", "websocket", "http"):
        messages = send_request(middleware, kind, [_basic("s3cret")], path="/api/episodes")
        assert status_of(messages) == 200 and "set-cookie" not in headers_of(messages)
    refused = send_request(middleware, "http", [("authorization", "Bearer s3cret")], path="/api/episodes")
    assert status_of(refused) == 401 and b"sends the password with each request" in refused[1]["body"]
