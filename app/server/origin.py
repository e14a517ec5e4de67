"""Which requests come from this server's own pages: a check of Host and Origin."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.server.messages import header, is_request, refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def is_loopback(host: str) -> bool:
    """Whether a host name or address refers to this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SameOriginMiddleware:
    """Refuses requests sent by foreign pages: a wrong Origin, or on loopback a Host that is not this machine.

    The second protects from DNS rebinding.

    Args:
        app: Application behind the check.
        loopback_only: Whether the Host must be a name of this machine.
    """

    def __init__(self, app: ASGIApp, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_request(scope) or self._is_allowed(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, send, 403, "requests from this page or host are not allowed")

    def _is_allowed(self, scope: Scope) -> bool:
        host, origin = header(scope, b"host"), header(scope, b"origin")
        try:
            host_name, origin_host = urlsplit(f"//{host}").hostname or "", urlsplit(origin).netloc
        except ValueError:  # a bracket that is never closed
            return False
        if self._loopback_only and not is_loopback(host_name):
            return False
        return not origin or origin_host == host
