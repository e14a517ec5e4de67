"""The money that an annotation run may spend."""

from __future__ import annotations

import threading

from ares.errors import ModelError


class Budget:
    """Money of a run, shared by its annotators; safe to use from threads.

    A call sets aside the most that it can cost and is charged what it did cost. A call that finds too little waits
    while other calls are in flight, as they mostly cost less: the run ends when what is left pays for no call more.

    Args:
        usd: Hard limit, or None for none.
    """

    def __init__(self, usd: float | None) -> None:
        self._left_usd = usd
        self._calls_in_flight = 0
        self._is_spent = False
        self._is_stopped = False
        self._settled = threading.Condition()

    def __reduce__(self) -> tuple[type[Budget], tuple[float | None]]:
        """A worker on another machine gets what is left."""
        return Budget, (self._left_usd,)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._left_usd is not None

    @property
    def is_spent(self) -> bool:
        """Whether a call has found too little."""
        return self._is_spent

    @property
    def is_stopped(self) -> bool:
        """Whether no call is to be made any more."""
        return self._is_stopped

    def stop(self) -> None:
        """The run is ending: calls that have not been sent are not made."""
        with self._settled:
            self._is_stopped = True
            self._settled.notify_all()

    def reserve(self, usd: float) -> bool:
        """Set the most that a call can cost aside; False, with nothing set aside, when that is more than is left."""
        with self._settled:
            while self._left_usd is not None and usd > self._left_usd and self._calls_in_flight:
                if self._is_stopped:
                    return False
                self._settled.wait()
            if self._left_usd is not None and usd > self._left_usd:
                self._is_spent = True
                return False
            self._calls_in_flight += 1
            if self._left_usd is not None:
                self._left_usd -= usd
            return True

    def settle(self, reserved_usd: float, actual_usd: float | None) -> None:
        """Charge a call what it cost in place of what was set aside; where that is not known, what was set aside."""
        with self._settled:
            self._calls_in_flight -= 1
            if self._left_usd is not None:
                self._left_usd += reserved_usd - (reserved_usd if actual_usd is None else actual_usd)
            self._settled.notify_all()


def budget_spent() -> ModelError:
    """The error of a call that the budget does not pay for."""
    return ModelError("the budget is spent", "give a larger --budget to go on")
