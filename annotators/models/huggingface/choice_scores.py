"""The probability of each choice as a reply, from the tokens that tell the choices apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Choices as tokens.

    Attributes:
        tokens: Tokens of each choice, up to the first that tells it apart from all others. Where a choice is the
            beginning of another, that is the token that ends a reply.
        contexts: Beginnings of replies after which the model is asked for the next token; none begins another.
    """

    tokens: Mapping[str, Tokens]
    contexts: Sequence[Tokens]


def tell_apart(choices: Mapping[str, Sequence[int]], stop_id: int) -> ChoiceTokens:
    """Cut the tokens of choices to those that tell them apart.

    Args:
        choices: All tokens of each choice; no two are equal.
        stop_id: Token that ends a reply.
    """
    whole = {choice: (*tokens, stop_id) for choice, tokens in choices.items()}
    cut = {choice: tokens[: 1 + _shared_length(tokens, whole.values())] for choice, tokens in whole.items()}
    contexts = {tokens[:-1] for tokens in cut.values()}
    longest = [context for context in contexts if not any(_begins(context, other) for other in contexts)]
    return ChoiceTokens(cut, sorted(longest))


def choice_probabilities(
    choices: ChoiceTokens, logprob: Callable[[Tokens, int, int], float]
) -> dict[str, float]:
    """The probability of each choice, summing to 1.

    Args:
        choices: The choices.
        logprob: Natural logarithm of the probability of a token, by a context, a position in it and the token.
    """
    sums = {
        choice: _sum_logprobs(tokens, choices.contexts, logprob) for choice, tokens in choices.tokens.items()
    }
    best = max(sums.values())
    weights = {choice: math.exp(value - best) for choice, value in sums.items()}
    total = sum(weights.values())
    return {choice: weight / total for choice, weight in weights.items()}


def choose(probabilities: Mapping[str, float], temperature: float, generator: random.Random) -> str:
    """The most probable choice, or one drawn at a temperature above 0."""
    best = max(probabilities, key=lambda choice: probabilities[choice])
    if temperature <= 0:
        return best
    weights = [(value / probabilities[best]) ** (1 / temperature) for value in probabilities.values()]
    return generator.choices(list(probabilities), weights)[0]


def _sum_logprobs(
    tokens: Tokens, contexts: Sequence[Tokens], logprob: Callable[[Tokens, int, int], float]
) -> float:
    context = next(context for context in contexts if context[: len(tokens) - 1] == tokens[:-1])
    return sum(logprob(context, position, token) for position, token in enumerate(tokens))


def _shared_length(tokens: Tokens, all_tokens: Iterable[Tokens]) -> int:
    """Tokens that a choice has in common with the most similar other one."""
    return max((_common_length(tokens, other) for other in all_tokens if other != tokens), default=0)


def _common_length(tokens: Tokens, other: Tokens) -> int:
    pairs = zip(tokens, other, strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), len(tokens))


def _begins(context: Tokens, other: Tokens) -> bool:
    return context != other and other[: len(context)] == context
