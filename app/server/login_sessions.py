"""Who is logged in: random tokens that the server issues and forgets, known to it only by their hashes."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

# A session ends so long after its last request, and so long after its log-in.
IDLE_SECONDS, MAX_AGE_SECONDS = 12 * 3600.0, 7 * 24 * 3600.0
_MAX_SESSIONS = 10_000


class LoginSessions:
    """Sessions of logged-in browsers; the oldest end when there are too many.

    Args:
        clock: Seconds that only increase.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By hash of the token: when it was issued and last used.
        self._sessions: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def open(self) -> str:
        """Return the token of a new session; a token of the browser is never taken over."""
        token, now = secrets.token_urlsafe(32), self._clock()
        self._sessions[_hash(token)] = (now, now)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token

    def is_open(self, token: str) -> bool:
        """Return whether a token belongs to a session, which this use prolongs."""
        key, now = _hash(token), self._clock()
        if key not in self._sessions:
            return False
        issued, used = self._sessions[key]
        if now - used > IDLE_SECONDS or now - issued > MAX_AGE_SECONDS:
            del self._sessions[key]
            return False
        self._sessions[key] = (issued, now)
        return True

    def close(self, token: str) -> None:
        """End a session; an unknown token is ignored."""
        self._sessions.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
