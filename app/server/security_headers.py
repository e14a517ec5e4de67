"""Security headers of every answer."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
from ares_app.server.protection import Headers, change_headers

_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)

# Components of the pages are modules that Streamlit loads from blobs; styles are inline in all that it draws.
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' blob:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "worker-src": "'self' blob:",
    "manifest-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "object-src": "'none'",
    "frame-ancestors": "'none'",
}

_DENIED_FEATURES = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "hid", "magnetometer",
    "microphone", "midi", "payment", "serial", "usb",
)  # fmt: skip

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer", with which browsers hide the origin of the log-in form too.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _DENIED_FEATURES),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# Half a year, as browsers then go by https even when a link says http.
_TRANSPORT_SECURITY = (b"strict-transport-security", b"max-age=15552000")


class SecurityHeadersMiddleware:
    """Adds the headers to every response; those that limit caching only where a response has none.

    Args:
        app: Application whose responses get them.
        behind_https: Whether browsers come by https, also where the proxy that speaks it does not say so.
    """

    def __init__(self, app: ASGIApp, behind_https: bool = False) -> None:
        self._app, self._behind_https = app, behind_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_secure = self._behind_https or scope.get("scheme") in {"https", "wss"}
        await self._app(scope, receive, change_headers(send, partial(_with_security, is_secure)))


def _with_security(is_secure: bool, headers: Headers) -> Headers:
    ours = _security_headers()
    names = {name for name, _ in ours}
    kept = [(name, value) for name, value in headers if name.lower() not in names]
    has_cache_control = any(name.lower() == b"cache-control" for name, _ in kept)
    caching = [] if has_cache_control else [(b"cache-control", b"no-store")]
    if not is_secure:
        return [*kept, *ours, *caching]
    return [*map(_secure_cookie, kept), *ours, *caching, _TRANSPORT_SECURITY]


def _secure_cookie(item: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """The header with "Secure" if it is a cookie: Streamlit does not know of the proxy that speaks https."""
    name, value = item
    is_open = name.lower() == b"set-cookie" and b"; secure" not in value.lower()
    return (name, value + b"; Secure") if is_open else item


@cache
def _security_headers() -> tuple[tuple[bytes, bytes], ...]:
    policy = {**_POLICY, "script-src": " ".join([_POLICY["script-src"], *_inline_script_hashes()])}
    text = "; ".join(f"{name} {sources}" for name, sources in policy.items())
    headers = {"Content-Security-Policy": text, **_HEADERS}
    return tuple((name.lower().encode(), value.encode()) for name, value in headers.items())


def _inline_script_hashes() -> list[str]:
    """Hashes of the inline scripts in the page of Streamlit, whatever its version: no other inline script runs."""
    import streamlit

    page = Path(streamlit.__file__).parent / "static" / "index.html"
    scripts = _INLINE_SCRIPT.findall(page.read_bytes())
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts)
    return [f"'sha256-{digest}'" for digest in digests]
