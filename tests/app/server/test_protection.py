"""Which requests pass: those of pages of this server, by names of this machine or of the log-in; headers of answers."""

from __future__ import annotations

from typing import Any

import pytest

from ares_app.server.protection import SameOriginMiddleware, is_loopback
from ares_app.server.security_headers import SecurityHeadersMiddleware
from tests.app.server.asgi_client import answer_ok, headers_of, send_request, status_of


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


def test_every_response_says_what_a_page_may_load_and_that_nobody_may_embed_it() -> None:
    headers = headers_of(send_request(SecurityHeadersMiddleware(answer_ok), "http"))
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy["script-src"]
    assert "sha256-" in policy["script-src"], "the inline script of Streamlit's own page"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in headers


def test_a_response_keeps_its_caching_and_loses_a_weaker_policy() -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        own = [(b"Cache-Control", b"private, max-age=60"), (b"X-Frame-Options", b"ALLOWALL")]
        await send({"type": "http.response.start", "status": 200, "headers": own})

    headers = headers_of(send_request(SecurityHeadersMiddleware(answer), "http"))
    assert headers["Cache-Control"] == "private, max-age=60"
    assert "cache-control" not in headers
    assert "X-Frame-Options" not in headers
    assert headers["x-frame-options"] == "DENY"


def test_behind_https_browsers_are_bound_to_it_and_cookies_are_secure() -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        own = [(b"set-cookie", b"_streamlit_xsrf=1; Path=/")]
        await send({"type": "http.response.start", "status": 200, "headers": own})

    headers = headers_of(send_request(SecurityHeadersMiddleware(answer), "http", scheme="https"))
    assert "max-age" in headers["strict-transport-security"]
    assert headers["set-cookie"] == "_streamlit_xsrf=1; Path=/; Secure"
    behind = headers_of(send_request(SecurityHeadersMiddleware(answer, behind_https=True), "http"))
    assert behind["set-cookie"].endswith("; Secure")
    assert "Secure" not in headers_of(send_request(SecurityHeadersMiddleware(answer), "http"))["set-cookie"]
