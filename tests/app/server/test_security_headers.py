"""Headers of every response; that the pages work with them is tested in a browser."""

from __future__ import annotations

from typing import Any

from app.server.protection import SecurityHeadersMiddleware
from tests.app.server.asgi_client import answer_ok, headers_of, send_request


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
