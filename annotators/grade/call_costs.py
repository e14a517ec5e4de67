"""What calls of a judge are for, and how many are expected for a caption before any was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from annotators.models import price_usd
from ares.annotation import Cost

if TYPE_CHECKING:
    from ares.settings import Price


# "failed" are those of captions that got no grade.
CallKind = Literal["slots", "observation", "comparison", "choice", "words", "question", "failed"]


@dataclass(frozen=True, slots=True)
class CallTotals:
    """Calls and their tokens, as numbers that need not be whole.

    Attributes:
        calls: Requests.
        tokens_in: Tokens that a model reads in them.
        tokens_out: Tokens that it writes.
    """

    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(
            self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        )

    def scaled(self, factor: float) -> CallTotals:
        """So many times as many."""
        return CallTotals(self.calls * factor, self.tokens_in * factor, self.tokens_out * factor)

    def to_cost(self, price: Price | None, is_remote: bool) -> Cost:
        """The cost in whole calls and tokens."""
        calls, tokens_in, tokens_out = round(self.calls), round(self.tokens_in), round(self.tokens_out)
        usd = price_usd(price, tokens_in, tokens_out) if is_remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


# Calls for one caption, by kind.
CallRates = Mapping[CallKind, CallTotals]
