"""Vectors of words to start from: the sum of the random vectors of the meanings that a word stands for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from annotators.grade.entailment.words import split_words, stem
from benchmarks.entailment.lexicon import Lexicon

WIDTH = 64
# What the last word of a name, or a verb, means, against the other words.
_OTHER_WORD, _NEAR = 0.3, 0.5


def start_vectors(lexicon: Lexicon, vocabulary: Mapping[str, int], seed: int) -> NDArray[np.float32]:
    """(words, WIDTH): similar for words of one meaning, a little for words that are near, of length about 2.4."""
    dice = np.random.default_rng(seed)
    sums: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(WIDTH))
    for name, weight, vector in _meanings(lexicon, dice):
        words = split_words(name)
        for index, word in enumerate(words):
            sums[stem(word)] += vector * (weight if index == len(words) - 1 else weight * _OTHER_WORD)
    table = dice.normal(size=(len(vocabulary) + 2, WIDTH))
    for word, number in vocabulary.items():
        if stem(word) in sums:
            table[number] = sums[stem(word)]
    table *= 2.4 / np.linalg.norm(table, axis=1, keepdims=True)
    # A word that is not known is like no other.
    table[:2] = 0.0
    return table.astype(np.float32)


def _meanings(lexicon: Lexicon, dice: np.random.Generator) -> list[tuple[str, float, NDArray[np.float64]]]:
    """Words, their weight, and the vector of what they mean."""
    groups: list[tuple[list[str], list[float], str]] = []
    for key, names in lexicon.names.items():
        groups.append((list(names), [1.0] * len(names), f"thing {key}"))
    for values in lexicon.attributes.values():
        groups += [(names, [1.0] * len(names), f"attribute {names[0]}") for names in values]
    for table in (lexicon.relations, lexicon.sources, lexicon.directions):
        groups += [(names, [1.0] * len(names), f"relation {key}") for key, names in table.items()]
    for key, action in lexicon.actions.items():
        verbs = [word for pattern in action.patterns for word in pattern if word.startswith("~")]
        # The first wordings are the usual ones.
        weights = [1.0 / (1.0 + 0.15 * rank) for rank in range(len(verbs))]
        groups.append((verbs, weights, f"action {key}"))
    vectors = {meaning: dice.normal(size=WIDTH) for _, _, meaning in groups}
    _bring_near(lexicon, vectors, dice)
    return [
        (word.removeprefix("~"), weight, vectors[meaning])
        for words, weights, meaning in groups
        for word, weight in zip(words, weights, strict=True)
    ]


def _bring_near(lexicon: Lexicon, vectors: dict[str, NDArray[np.float64]], dice: np.random.Generator) -> None:
    """Give things and actions that are near each other a common part."""
    keys = list(lexicon.names)
    for index, first in enumerate(keys):
        for second in keys[index + 1 :]:
            if lexicon.thing_relation(first, second) == 1:
                common = dice.normal(size=WIDTH) * _NEAR
                vectors[f"thing {first}"] += common
                vectors[f"thing {second}"] += common
