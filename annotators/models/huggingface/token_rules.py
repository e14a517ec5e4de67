"""The rules of each row of a generation: tokens that a grammar allows, and sampling that its seed repeats."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch
    from llguidance import LLMatcher
    from numpy.typing import NDArray

_BITS = 32


@dataclass(slots=True, kw_only=True)
class RowRules:
    """What holds for one reply.

    Attributes:
        matcher: Follows the reply in its grammar; None for free text.
        temperature: 0 for the most probable token.
        random: Chooses tokens where the temperature is above 0.
    """

    matcher: LLMatcher | None
    temperature: float
    random: random.Random


def seeded_random(seed: int | None, sample: int) -> random.Random:
    """The random numbers of one sample of a request: the same in any batch. Without a seed, as for seed 0."""
    return random.Random(f"{seed or 0}:{sample}")


class TokenRules:
    """A logits processor of transformers that gives each row rules of its own.

    Args:
        rows: Rules by row, of replies that all begin with the next token.
        stop_ids: Tokens that end a reply: all that is left where its grammar is complete.
    """

    def __init__(self, rows: Sequence[RowRules], stop_ids: Sequence[int]) -> None:
        self._rows, self._stop_ids = rows, stop_ids
        self._has_begun = False

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (N, V) of the next tokens, -inf where a token is not allowed or not forced."""
        if self._has_begun:
            self._consume(input_ids[:, -1].tolist())
        self._has_begun = True
        if any(row.matcher for row in self._rows):
            scores = _mask_scores(scores, self._allowed_bits(scores.shape[1]))
        for index, row in enumerate(self._rows):
            if row.temperature > 0:
                scores[index] = _choose_token(scores[index], row.temperature, row.random.random())
        return scores

    def _consume(self, tokens: Sequence[int]) -> None:
        for row, token in zip(self._rows, tokens, strict=True):
            if row.matcher and not row.matcher.is_stopped():
                row.matcher.consume_token(token)

    def _allowed_bits(self, vocabulary_size: int) -> NDArray[np.int32]:
        """Bits (N, ceil(V / 32)) int32 of the tokens that the grammars allow."""
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(len(self._rows), vocabulary_size)
        for index, row in enumerate(self._rows):
            if row.matcher and row.matcher.is_stopped():
                bits[index] = _bits_of(self._stop_ids, bits.shape[1])
            elif row.matcher:
                fill_next_token_bitmask(row.matcher, bits, index)
        return bits


def _bits_of(tokens: Sequence[int], words: int) -> NDArray[np.int32]:
    """Bits (words,) int32 that are set for some tokens."""
    import numpy as np

    bits = np.zeros(words, np.uint32)
    for token in tokens:
        bits[token // _BITS] |= np.uint32(1 << token % _BITS)
    return bits.view(np.int32)


def _mask_scores(scores: torch.Tensor, bits: NDArray[np.int32]) -> torch.Tensor:
    import torch

    words = torch.from_numpy(bits).to(scores.device)
    shifts = torch.arange(_BITS, dtype=torch.int32, device=scores.device)
    allowed = ((words[:, :, None] >> shifts) & 1).flatten(1)[:, : scores.shape[1]]
    return scores.masked_fill(allowed == 0, -torch.inf)


def _choose_token(scores: torch.Tensor, temperature: float, uniform: float) -> torch.Tensor:
    """0 for the token at a quantile of the distribution (V,), -inf for all others."""
    import torch

    cumulative = torch.softmax(scores.double() / temperature, dim=0).cumsum(dim=0)
    token = torch.searchsorted(cumulative, uniform * cumulative[-1], right=True)
    forced = torch.full_like(scores, -torch.inf)
    forced[token.clamp(max=len(scores) - 1)] = 0.0
    return forced
