"""Pairs as rows of texts and labels, made by all processors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from multiprocessing import get_context

from benchmarks.entailment.labels import NOT_STATED, SLOTS, whole
from benchmarks.entailment.lexicon import NEUTRAL, Lexicon
from benchmarks.entailment.pairs import Pair, PairMaker

_READING = {"outcome": ("success", "failure", "attempt"), "negated": (False, True),
            "actor": ("robot", "person", "left", "right")}  # fmt: skip
# Classes by the name of a head; "whole" is the caption as a whole: contradicted, neutral, entailed.
HEADS = {**dict.fromkeys(SLOTS, 4), **{name: len(classes) for name, classes in _READING.items()}, "whole": 3}
_PART = 10_000
_SHARE_OUT_OF_ORDER = 0.025
_SMALL_WORDS = frozenset(("the", "a", "in", "on", "and", "to", "of", "is"))

Row = tuple[str, str, tuple[int, ...]]


def make_rows(count: int, seed: int) -> list[Row]:
    """So many rows; the same for the same seed."""
    jobs = [(seed * 1_000_003 + part, min(_PART, count - part * _PART)) for part in range(-(-count // _PART))]
    with get_context("spawn").Pool() as pool:
        return [row for rows in pool.imap(_make_part, jobs) for row in rows]


def _make_part(job: tuple[int, int]) -> list[Row]:
    seed, count = job
    maker, dice = PairMaker(Lexicon(), seed), random.Random(seed)
    rows = [make_row(maker.pair()) for _ in range(count)]
    return [_out_of_order(row, dice) if dice.random() < _SHARE_OUT_OF_ORDER else row for row in rows]


def make_row(pair: Pair) -> Row:
    """Texts and labels of a pair, those of its reading included."""
    caption = pair.caption
    reading = (caption.outcome, caption.is_negated, caption.actor)
    return pair.observed, pair.claimed, (
        *pair.labels,
        *(classes.index(value) for classes, value in zip(_READING.values(), reading, strict=True)),
        whole(caption, pair.labels),
    )  # fmt: skip


def _out_of_order(row: Row, dice: random.Random) -> Row:
    """A caption whose words stand in any order says nothing for sure."""
    observed, claimed, labels = row
    words = claimed.split()
    if len(set(words)) < 4:
        return row
    slots = tuple(label if label == NOT_STATED else NEUTRAL for label in labels[: len(SLOTS)])
    return observed, " ".join(_reordered(words, dice)), (*slots, *labels[len(SLOTS) : -1], NEUTRAL)


def _reordered(words: Sequence[str], dice: random.Random) -> list[str]:
    kind = dice.random()
    if kind < 0.35:
        return list(words)[::-1]
    chosen = [word for word in words if word not in _SMALL_WORDS] if kind > 0.8 else list(words)
    return dice.sample(chosen, len(chosen))
