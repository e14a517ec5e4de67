"""The money that an annotation run may spend."""

from __future__ import annotations

import threading

from ares.annotation import Cost


class Budget:
    """Money of a run, shared by its annotators; safe to use from threads.

    Args:
        usd: Hard limit, or None for none.
    """

    def __init__(self, usd: float | None) -> None:
        self._remaining_usd = usd
        self._lock = threading.Lock()

    def reserve(self, expected: Cost) -> bool:
        """Set the expected cost aside; False, with nothing set aside, when it is more than what remains."""
        with self._lock:
            if self._remaining_usd is None:
                return True
            if (expected.usd or 0.0) > self._remaining_usd:
                return False
            self._remaining_usd -= expected.usd or 0.0
            return True

    def settle(self, expected: Cost, actual: Cost) -> None:
        """Replace an expected cost by the actual one."""
        with self._lock:
            if self._remaining_usd is not None:
                self._remaining_usd += (expected.usd or 0.0) - (actual.usd or 0.0)
