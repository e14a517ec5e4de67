"""Which requests pass: those of this server's own pages, by names of this machine or of the log-in."""

from __future__ import annotations

import pytest

from app.server.protection import SameOriginMiddleware, is_loopback
from tests.app.server.asgi_client import answer_ok, send_request, status_of


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([("host", "127.0.0.1:8501")], True),
        ([("host", "localhost:9"), ("origin", "http://localhost:9")], True),
        ([("host", "rebound.example:8501")], False),
        ([("host", "[::1")], False),
        ([("host", "localhost:8501"), ("origin", "http://evil.example")], False),
        ([("host", "localhost:8501"), ("origin", "http://[")], False),
        ([("host", "localhost:8501"), ("origin", "null")], False),
    ],
)
def test_foreign_pages_and_rebound_names_are_refused(headers: list[tuple[str, str]], passes: bool) -> None:
    for kind in ("http", "websocket"):
        messages = send_request(SameOriginMiddleware(answer_ok, served_host=""), kind, headers)
        assert (status_of(messages) == 200) is passes


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("ares.example.org", True),
        ("ARES.example.org:443", True),
        ("localhost:8501", True),
        ("10.0.0.5:8501", True),
        ("[fd00::5]:8501", True),
        ("rebound.example:8501", False),
        ("10.0.0.5.rebound.example", False),
        ("", False),
    ],
)
def test_where_people_log_in_the_host_is_that_of_the_log_in_or_an_address(host: str, passes: bool) -> None:
    for kind in ("http", "websocket"):
        middleware = SameOriginMiddleware(answer_ok, served_host="ares.example.org")
        assert (status_of(send_request(middleware, kind, [("host", host)])) == 200) is passes


def test_beyond_loopback_with_a_password_any_host_passes() -> None:
    middleware = SameOriginMiddleware(answer_ok, served_host=None)
    assert status_of(send_request(middleware, "http", [("host", "lab.example")])) == 200
