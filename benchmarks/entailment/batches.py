"""Pairs of texts as the tensors that the network reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from annotators.grade.entailment.words import PieceSplitter, pad, shared_stems
from benchmarks.entailment.network import Batch
from benchmarks.entailment.rows import Row


class BatchMaker:
    """Makes batches.

    Args:
        pieces: The word pieces in order of their numbers.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._splitter = PieceSplitter(pieces)
        self._padding, self._first, self._last = (pieces.index(mark) for mark in ("[PAD]", "[CLS]", "[SEP]"))

    def batch(self, pairs: Sequence[tuple[str, str]]) -> Batch:
        """N pairs."""
        texts = [[self._splitter.split(text) for text in pair] for pair in pairs]
        shared = [shared_stems(*pair) for pair in texts]
        sides = []
        for side in (0, 1):
            marked = [(self._first, *pair[side].pieces, self._last) for pair in texts]
            pieces = torch.from_numpy(pad(marked, self._padding))
            # The marks at both ends are cut off before texts are compared.
            matches = torch.from_numpy(pad([(*own[side], 0, 0) for own in shared], 0)[:, :-2])
            sides.append((pieces, pieces != self._padding, matches))
        first, second = sides
        return Batch(*((first[part], second[part]) for part in range(3)))

    def length(self, row: Row) -> tuple[int, int]:
        """Number of pieces of both texts, and of the first."""
        first, second = (len(self._splitter.split(text).pieces) for text in row[:2])
        return first + second, first

    def split(self, rows: Sequence[Row], size: int) -> list[list[Row]]:
        """Rows in parts of similar length."""
        ordered = sorted(rows, key=lambda row: (*self.length(row), row))
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]
