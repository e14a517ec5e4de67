"""How often an address may try a password."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

# Failures of an address without a wait; then the wait doubles with each, up to the maximum.
FREE_FAILURES, MAX_WAIT_SECONDS = 5, 900.0

# Failures of all addresses together within a minute; addresses that have logged in before are exempt.
MAX_FAILURES_PER_MINUTE = 100

_FORGET_SECONDS = 3600.0

_MAX_ADDRESSES = 10_000


@dataclass(slots=True)
class _Address:
    """What is known of an address."""

    failures: int = 0
    blocked_until: float = 0.0
    last_failure: float = 0.0
    has_logged_in: bool = False


class LoginAttempts:
    """Failed log-ins by address, in bounded memory.

    Args:
        clock: Seconds that only increase.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._recent_failures: deque[float] = deque(maxlen=MAX_FAILURES_PER_MINUTE)

    def wait_seconds(self, address: str) -> float:
        """Return how long an address has to wait before its next attempt; 0 when it may try now."""
        now, entry = self._clock(), self._entry(address)
        wait = max(0.0, entry.blocked_until - now)
        is_full = len(self._recent_failures) == MAX_FAILURES_PER_MINUTE
        if is_full and not entry.has_logged_in:
            wait = max(wait, self._recent_failures[0] + 60.0 - now)
        return wait

    def add_failure(self, address: str) -> int:
        """Record a failed attempt. Returns the failures of the address that are not forgotten."""
        now, entry = self._clock(), self._entry(address)
        entry.failures, entry.last_failure = entry.failures + 1, now
        excess = entry.failures - FREE_FAILURES
        if excess >= 0:
            entry.blocked_until = now + min(2.0 ** min(excess, 20), MAX_WAIT_SECONDS)
        self._recent_failures.append(now)
        return entry.failures

    def add_success(self, address: str, *, forgets: bool = True) -> bool:
        """Record a right password. Returns whether it is the first of the address.

        Args:
            address: Who sent it.
            forgets: Whether the failures of the address are forgotten. With each request of a program another one
                behind its address could guess without end.
        """
        entry = self._entry(address)
        is_first, entry.has_logged_in = not entry.has_logged_in, True
        if forgets:
            entry.failures, entry.blocked_until = 0, 0.0
        return is_first

    def _entry(self, address: str) -> _Address:
        key = group_client_address(address)
        entry = self._addresses.pop(key, None) or _Address()
        if self._clock() - entry.last_failure > _FORGET_SECONDS:
            entry.failures = 0
        self._addresses[key] = entry
        while len(self._addresses) > _MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return entry


def group_client_address(address: str) -> str:
    """Return an IPv4 address as it is and of an IPv6 address its /64, which one user has; "unknown" for others."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)
