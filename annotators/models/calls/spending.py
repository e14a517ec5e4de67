"""Sets aside the most that a call can cost, learnt from the calls before, and charges what it did cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from annotators.budget import Budget
from annotators.models.base import VlmRequest, price_usd
from annotators.models.images import image_shapes
from ares.annotation import Cost
from ares.settings import Price

# The tokens of a prompt vary with its words; those of an image do not vary with its content.
_TOKENS_FACTOR, _TOKENS_MARGIN = 1.05, 64
# A prompt has at least this many characters a token.
_CHARACTERS_PER_TOKEN = 1.0

_Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class PaidCall:
    """A call that is being made.

    Attributes:
        is_paid: Whether the budget pays for it; otherwise it must not be made.
        cost: What it cost; set by whoever makes the call.
    """

    is_paid: bool
    cost: Cost = field(default_factory=lambda: Cost(usd=None))


class Spending:
    """The calls of one model and their money; safe to use from threads.

    The first call for images of one size is made alone: what it used tells what the others can use.

    Args:
        budget: Money of the run.
        price: Price of the model, or None.
    """

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self._budget, self._price = budget, price
        self._most_tokens_in: dict[_Shapes, int] = {}
        self._first_call = threading.Lock()

    def is_stopped(self) -> bool:
        """Whether the run is ending, so that no call is to be made any more."""
        return self._budget.is_stopped

    @contextmanager
    def call(self, request: VlmRequest, max_tokens: int) -> Iterator[PaidCall]:
        """Make one call within the budget.

        Args:
            request: The request.
            max_tokens: Most tokens of one reply.
        """
        shapes: _Shapes = image_shapes(request.images)
        if self._budget.is_stopped or not self._budget.is_limited:
            yield PaidCall(not self._budget.is_stopped)
        elif shapes in self._most_tokens_in:
            yield from self._paid_call(request, shapes, max_tokens)
        else:
            with self._first_call:
                yield from self._paid_call(request, shapes, max_tokens)

    def _paid_call(self, request: VlmRequest, shapes: _Shapes, max_tokens: int) -> Iterator[PaidCall]:
        reserved = self._most_usd(request, shapes, max_tokens)
        call = PaidCall(self._budget.reserve(reserved))
        try:
            yield call
        finally:
            if call.is_paid:
                self._budget.settle(reserved, _charged_usd(call.cost, reserved))
                if call.cost.tokens_in:
                    known = self._most_tokens_in.get(shapes, 0)
                    self._most_tokens_in[shapes] = max(known, call.cost.tokens_in)

    def _most_usd(self, request: VlmRequest, shapes: _Shapes, max_tokens: int) -> float:
        tokens_in = self._most_tokens_in.get(shapes)
        if tokens_in is None:
            tokens_in = round(len(request.prompt + request.system) / _CHARACTERS_PER_TOKEN)
        most_in = round(tokens_in * _TOKENS_FACTOR) + _TOKENS_MARGIN
        return price_usd(self._price, most_in, max_tokens * request.samples) or 0.0


def _charged_usd(cost: Cost, most_usd: float) -> float:
    """What a budget is charged: for every call whose usage is not known, the most that it can have cost."""
    if cost.usd is None:
        return most_usd * max(cost.unknown_calls, 1)
    return cost.usd + most_usd * cost.unknown_calls
