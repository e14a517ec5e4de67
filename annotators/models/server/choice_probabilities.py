"""The probability of each of several choices, from the most probable tokens at every position of a reply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply.

    Attributes:
        text: Its text.
        logprob: Natural logarithm of its probability.
        alternatives: The same of the most probable tokens at its position, itself included or not.
    """

    text: str
    logprob: float
    alternatives: Mapping[str, float]


def choice_probabilities(choices: Sequence[str], tokens: Sequence[Token], reply: str) -> dict[str, float]:
    """The probability of each choice, summing to 1; empty where the tokens cannot say it.

    At each position a token that leads away from the reply gives its probability to the choices that it leads to, in
    equal parts. Where one choice is left, it gets what remains.

    Args:
        choices: The choices.
        tokens: Tokens of the whole reply.
        reply: The choice that was made; the tokens may have other text around it, such as JSON.
    """
    before, path = _tokens_of_choice(tokens, reply)
    mass = dict.fromkeys(choices, 0.0)
    prefix, remaining = "", 1.0
    for position, token in enumerate(path):
        junk = before if position == 0 else ""
        texts = {**token.alternatives, token.text: token.logprob}
        for text, logprob in texts.items():
            if text != token.text and text.startswith(junk):
                _share(mass, choices, prefix + text[len(junk) :], remaining * math.exp(logprob))
        prefix += token.text[len(junk) :]
        remaining *= math.exp(token.logprob)
        if sum(choice.startswith(prefix) or prefix.startswith(choice) for choice in choices) <= 1:
            break
    if not path:
        return {}
    mass[reply] += remaining
    total = sum(mass.values())
    return {choice: value / total for choice, value in mass.items()} if 0 < total < math.inf else {}


def _share(mass: dict[str, float], choices: Sequence[str], text: str, probability: float) -> None:
    """Give a probability to the choices that a text is the beginning of, or that it continues."""
    text = text.lstrip() if not any(choice.startswith(text) for choice in choices) else text
    if text in mass:
        mass[text] += probability
        return
    fitting = [
        choice for choice in choices if text and (choice.startswith(text) or _ends_choice(text, choice))
    ]
    for choice in fitting:
        mass[choice] += probability / len(fitting)


def _ends_choice(text: str, choice: str) -> bool:
    """Whether a text is a choice with something behind it that is no letter or digit, such as a quote."""
    return text.startswith(choice) and not text[len(choice) :][:1].isalnum()


def _tokens_of_choice(tokens: Sequence[Token], reply: str) -> tuple[str, Sequence[Token]]:
    """The tokens from the one in which a choice begins, and the text of that token before the choice."""
    text = "".join(token.text for token in tokens)
    start = text.rfind(reply)
    if start < 0:
        return "", ()
    offset = 0
    for index, token in enumerate(tokens):
        if offset + len(token.text) > start:
            return token.text[: start - offset], tokens[index:]
        offset += len(token.text)
    return "", ()
