"""Finds the pairs of near vectors among a million: cells around drawn pivots propose pairs, exact products decide."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.statistics import wilson_interval
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Matrix = NDArray[np.float32]


# Up to so many rows every pair is computed: some seconds.
EXACT_ROWS = 16_384
# Pairs that are kept in memory; more of them are no near duplicates, but one scene.
_MOST_PAIRS = 40_000_000
# Dimensions of the random projection that proposes pairs, and how much longer than it is a difference may look there:
# a squared length has a relative deviation of sqrt(2 / 128) = 0.125, so 1 of 1,000 is longer than this.
_SKETCH_WIDTH, _SKETCH_SLACK = 128, 1.4
# What half precision may add to a squared distance.
_ROUNDING = 2e-3
# Rows of a cell in which all pairs are compared, how many of them at once, and pivots of one division.
_CELL_ROWS, _AT_ONCE, _MOST_PIVOTS = 1_024, 256, 64
_BLOCK_ROWS = 8_192
# How far beyond a border a cell reaches, in lengths of the longest difference that counts: a difference of 128
# dimensions has 0.09 of its length, in the mean of squares, in the direction of a border.
_MARGIN = 0.05
# Rounds are drawn independently: where one has a share p of what another proposed, all but (1 - p) ** n of the pairs
# are among those of n rounds. They end where less than this is missing; there are at least two, and at most so many.
_MISSING_SHARE, _MOST_ROUNDS = 0.005, 12
# Rows whose neighbours are computed exactly, to measure what was missed.
_SAMPLED_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearPairs:
    """Pairs of rows whose cosine similarity reaches a cut.

    Attributes:
        first: (P,) the smaller row number of each pair; pairs are sorted by both.
        second: (P,) the larger one.
        scores: (P,) float32 cosine similarities.
        rounds: Divisions into cells that proposed pairs; 0 where every pair was computed.
        sampled: True pairs of sampled rows, computed exactly; 0 where every pair was.
        sampled_hits: How many of them are among the pairs.
    """

    first: Rows
    second: Rows
    scores: Matrix
    rounds: int = 0
    sampled: int = 0
    sampled_hits: int = 0

    @property
    def recall_bounds(self) -> tuple[float, float]:
        """The 95 % interval of the share of true pairs that are here, by the sampled rows; (1, 1) where exact."""
        if not self.rounds:
            return 1.0, 1.0
        return wilson_interval(self.sampled_hits, self.sampled) if self.sampled else (0.0, 1.0)


def find_near_pairs(vectors: NDArray[np.floating], cut: float, *, seed: int = 0) -> NearPairs:
    """All pairs of rows with a cosine similarity of at least `cut`, nearly all of them above 16,384 rows.

    Beside the vectors it keeps 256 bytes for each row, and 24 for each pair.

    Args:
        vectors: (N, D) unit vectors, float32 or float16; may be mapped from a file.
        cut: Least cosine similarity, above 0 and at most 1.
        seed: Of the pivots, of the projection, and of the rows that measure the recall.

    Raises:
        RequestError: There are more than 40,000,000 pairs.
    """
    import numpy as np

    if len(vectors) <= EXACT_ROWS:
        whole = vectors.astype(np.float32)
        parts = list(_pairs_of_cell(whole, np.arange(len(whole)), 2 * (1 - cut) + _ROUNDING))
        keys = _merge_keys([np.empty(0, np.int64), *(_make_keys(*part, len(vectors)) for part in parts)])
        return _confirm_pairs(vectors, keys, cut)
    rng = np.random.default_rng(seed)
    sketches, slack = _project_rows(vectors, rng)
    keys, rounds = _propose_pairs(sketches, 2 * (1 - cut) * slack + _ROUNDING, rng)
    pairs = _confirm_pairs(vectors, keys, cut, rounds)
    return _measure_recall(vectors, pairs, cut, rng)


def _project_rows(
    vectors: NDArray[np.floating], rng: np.random.Generator
) -> tuple[NDArray[np.float16], float]:
    """(N, W) projections that keep differences, half precision, and by how much squared lengths may look longer."""
    import numpy as np

    width = min(vectors.shape[1], _SKETCH_WIDTH)
    basis = np.linalg.qr(rng.normal(size=(vectors.shape[1], width)))[0].astype(np.float32)
    basis *= np.float32(np.sqrt(vectors.shape[1] / width))
    sample = vectors[np.sort(rng.choice(len(vectors), min(len(vectors), 4_096), replace=False))]
    # Half precision is finer near zero, and only differences count.
    centre = sample.astype(np.float32).mean(axis=0) @ basis
    sketches = np.empty((len(vectors), width), np.float16)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS].astype(np.float32)
        sketches[start : start + len(block)] = block @ basis - centre
    return sketches, _SKETCH_SLACK if width < vectors.shape[1] else 1.0


def _propose_pairs(sketches: NDArray[np.float16], reach: float, rng: np.random.Generator) -> tuple[Rows, int]:
    """Keys of the pairs whose squared distance is at most `reach` in any round, and the number of rounds."""
    import numpy as np

    keys, missing = np.empty(0, np.int64), 1.0
    for number in range(1, _MOST_ROUNDS + 1):
        own = _propose_in_round(sketches, reach, rng)
        if number > 1:
            again = np.isin(own, keys, assume_unique=True).sum() / max(1, len(own))
            missing = float(1 - again) ** (number / (number - 1))
        keys = _merge_keys([keys, own])
        if number > 1 and missing <= _MISSING_SHARE:
            break
    return keys, number


def _propose_in_round(sketches: NDArray[np.float16], reach: float, rng: np.random.Generator) -> Rows:
    """Keys of the pairs of one division into cells, sorted. Cells are compared in threads, one for each processor."""
    total, threads = len(sketches), os.cpu_count() or 1

    def compare(cell: Rows) -> Rows:
        pairs = _pairs_of_cell(sketches[cell].astype(np.float32), cell, reach)
        return np.concatenate([_make_keys(first, second, total) for first, second in pairs])

    import numpy as np

    parts, waiting = [np.empty(0, np.int64)], 0
    with ThreadPoolExecutor(threads, thread_name_prefix="near-pairs") as pool:
        for cells in batched(
            _divide_rows(sketches, np.arange(total, dtype=np.int64), reach, rng), 16 * threads
        ):
            for keys in pool.map(compare, cells):
                parts.append(keys)
                waiting += len(keys)
            if waiting > _MOST_PAIRS // 4:
                parts, waiting = [_merge_keys(parts)], 0
    return _merge_keys(parts)


def _make_keys(first: Rows, second: Rows, total: int) -> Rows:
    """(P,) one number for each pair, the same in whichever order its rows come."""
    import numpy as np

    return np.minimum(first, second) * total + np.maximum(first, second)


def _merge_keys(parts: list[Rows]) -> Rows:
    """The distinct keys, sorted. Raises RequestError for too many."""
    import numpy as np

    keys = np.unique(np.concatenate(parts))
    if len(keys) > _MOST_PAIRS:
        raise RequestError(
            "too many near duplicates to list",
            f"more than {_MOST_PAIRS:,} pairs are that similar; give a higher similarity",
        )
    return keys


def _divide_rows(
    sketches: NDArray[np.float16], rows: Rows, reach: float, rng: np.random.Generator
) -> Iterator[Rows]:
    """Cells of rows that lie near one drawn pivot; a row beside a border belongs to the cells of both sides."""
    import numpy as np

    waiting = [rows]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= _CELL_ROWS:
            yield rows
            continue
        count = min(_MOST_PIVOTS, 2 + 2 * len(rows) // _CELL_ROWS)
        pivots = sketches[rng.choice(rows, count, replace=False)].astype(np.float32)
        members, cells = _assign_rows(sketches, rows, pivots, reach)
        order = np.argsort(cells, kind="stable")
        starts = np.searchsorted(cells[order], np.arange(count + 1))
        for start, stop in pairwise(starts.tolist()):
            cell = members[order[start:stop]]
            if len(cell) > 0.9 * len(rows):  # rows that no pivot divides, such as equal ones
                yield cell
            elif len(cell) > 1:
                waiting.append(cell)


def _assign_rows(
    sketches: NDArray[np.float16], rows: Rows, pivots: Matrix, reach: float
) -> tuple[Rows, Rows]:
    """(M,) row numbers and the cell of each: that of its nearest pivot, and those whose border is near."""
    import numpy as np

    lengths = (pivots * pivots).sum(axis=1) / 2
    gaps = np.sqrt(np.maximum(lengths[:, None] * 2 + lengths * 2 - 2 * pivots @ pivots.T, 1e-12))
    margins = (_MARGIN * np.sqrt(reach) * gaps).astype(np.float32)
    members, cells = [], []
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        scores = sketches[block].astype(np.float32) @ pivots.T - lengths
        best = scores.argmax(axis=1)
        scores += margins[best]
        near = scores >= np.take_along_axis(scores, best[:, None], 1) - margins[best, best][:, None]
        steps, own = np.divmod(np.flatnonzero(near), len(pivots))
        members.append(block[steps])
        cells.append(own)
    return np.concatenate(members), np.concatenate(cells)


def _pairs_of_cell(points: Matrix, rows: Rows, reach: float) -> Iterator[tuple[Rows, Rows]]:
    """Pairs (first, second) of row numbers whose points (C, W) have a squared distance of at most `reach`."""
    import numpy as np

    halves = (points * points).sum(axis=1, keepdims=True) / 2
    units = np.ones_like(halves)
    # One product then is half of what is missing to `reach`: reach / 2 - |x - y|^2 / 2.
    left_points = np.hstack([points, units, reach / 2 - halves])
    right_points = np.hstack([points, -halves, units])
    for start in range(0, len(points), _AT_ONCE):
        near = left_points[start : start + _AT_ONCE] @ right_points[start:].T >= 0
        left, right = np.divmod(np.flatnonzero(near), near.shape[1])
        is_pair = left < right
        yield rows[left[is_pair] + start], rows[right[is_pair] + start]


def _confirm_pairs(vectors: NDArray[np.floating], keys: Rows, cut: float, rounds: int = 0) -> NearPairs:
    """Those of the proposed pairs whose exact cosine similarity reaches the cut."""
    import numpy as np

    total, kept, scores = max(len(vectors), 1), [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for start in range(0, len(keys), _BLOCK_ROWS):
        block = keys[start : start + _BLOCK_ROWS]
        left, right = (vectors[rows].astype(np.float32) for rows in np.divmod(block, total))
        cosines = np.einsum("nd,nd->n", left, right)
        is_near = cosines >= cut - 1e-6
        kept.append(block[is_near])
        scores.append(cosines[is_near])
    first, second = np.divmod(np.concatenate(kept), total)
    return NearPairs(first=first, second=second, scores=np.concatenate(scores), rounds=rounds)


def _measure_recall(
    vectors: NDArray[np.floating], pairs: NearPairs, cut: float, rng: np.random.Generator
) -> NearPairs:
    """The same pairs with how many of the true pairs of sampled rows are among them."""
    import numpy as np

    total = len(vectors)
    sample = np.sort(rng.choice(total, min(total, _SAMPLED_ROWS), replace=False))
    queries = vectors[sample].astype(np.float32)
    parts = [np.empty(0, np.int64)]
    for start in range(0, total, _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS].astype(np.float32)
        rows, columns = np.nonzero(block @ queries.T >= cut + 1e-6)
        first, second = rows + start, sample[columns]
        parts.append(_make_keys(first[first != second], second[first != second], total))
    true_keys = np.unique(np.concatenate(parts))
    hits = np.isin(true_keys, pairs.first * total + pairs.second)
    return NearPairs(
        first=pairs.first,
        second=pairs.second,
        scores=pairs.scores,
        rounds=pairs.rounds,
        sampled=len(true_keys),
        sampled_hits=int(hits.sum()),
    )
