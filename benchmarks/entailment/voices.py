"""Puts what stands around an action: who acts, whether it succeeds, and openings."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from benchmarks.entailment.meanings import Caption


class Dresser:
    """Dresses actions.

    Args:
        voices: Words by kind, from voices.yaml.
        dice: The randomness.
    """

    def __init__(self, voices: Mapping[str, Sequence[str]], dice: random.Random) -> None:
        self._voices, self._dice = voices, dice

    def dress(self, text: str, form: str, caption: Caption) -> str:
        """The words of an action, bent in its form, with who acts, how it ends, and what stands around it."""
        if caption.is_negated or caption.outcome != "success":
            text = self._outcome(text, caption)
        elif form == "infinitive":
            text = self._dice.choice(
                (*self._voices["modals"], *self._voices["commands"], *self._voices["managed"])
            ).format(text)
            if not text.startswith(
                ("have", "let", "make", "use", "get", "the ", "someone", "try", "manage to")
            ):
                text = f"{self._subject(caption)} {text}"
        elif form in ("third", "past"):
            text = (
                f"{self._subject(caption)} {text}"
                if caption.actor != "robot" or self._dice.random() < 0.8
                else text
            )
        elif form == "progressive":
            text = f"{self._subject(caption)} {self._dice.choice(('is', 'is', 'was'))} {text}"
        elif form == "passive" and self._dice.random() < 0.3:
            text = f"{text} by {self._subject(caption)}"
        elif form == "imperative" and self._dice.random() < 0.15:
            text = self._dice.choice(self._voices["openings"]).format(text)
        return text

    def _outcome(self, text: str, caption: Caption) -> str:
        if caption.is_negated:
            text = self._dice.choice(self._voices["negations"]).format(text)
        elif caption.outcome == "attempt":
            text = self._dice.choice(self._voices["attempts"]).format(text)
        elif self._dice.random() < 0.3:
            start = self._dice.choice((*self._voices["attempts"], "{}"))
            text = f"{start} {self._dice.choice(self._voices['failed_ends'])}".format(text)
        else:
            text = self._dice.choice(self._voices["failures"]).format(text)
        return (
            f"{self._subject(caption)} {text}"
            if caption.actor != "robot" or self._dice.random() < 0.5
            else text
        )

    def _subject(self, caption: Caption) -> str:
        if caption.actor == "person":
            return self._dice.choice(self._voices["persons"])
        if caption.actor in ("left", "right"):
            return self._dice.choice(self._voices["sides"]).format(side=caption.actor)
        return self._dice.choice(self._voices["robots"])
