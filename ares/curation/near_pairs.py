"""Finds the pairs of near vectors among a million: cells around drawn pivots propose pairs, exact products decide."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.search import compute_motion_features, find_signal_layout
from ares.statistics import wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Matrix = NDArray[np.float32]
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Trajectory
    from ares.store import Stores


# Up to so many rows every pair is computed: some seconds.
EXACT_ROWS = 16_384
# Pairs that are kept in memory; more of them are no near duplicates, but one scene.
_MOST_PAIRS = 40_000_000
# Dimensions of the random projection that proposes pairs, and how much longer than it is a difference may look there:
# a squared length has a relative deviation of sqrt(2 / 128) = 0.125, so 1 of 1,000 is longer than this.
_SKETCH_WIDTH, _SKETCH_SLACK = 128, 1.4
# What half precision may add to a squared distance.
_ROUNDING = 2e-3
# Rows of a cell in which all pairs are compared, and pivots of one division.
_CELL_ROWS, _MOST_PIVOTS = 1_024, 64
_BLOCK_ROWS = 8_192
# A round that adds a smaller share of new pairs is the last; there are at least two, and at most so many.
_NEW_SHARE, _MOST_ROUNDS = 0.01, 12
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

    total, keys = len(sketches), np.empty(0, np.int64)
    for number in range(1, _MOST_ROUNDS + 1):
        parts, waiting = [keys], 0
        for cell in _divide_rows(sketches, np.arange(total, dtype=np.int64), reach, rng):
            for first, second in _pairs_of_cell(sketches[cell].astype(np.float32), cell, reach):
                parts.append(_make_keys(first, second, total))
                waiting += len(first)
                if waiting > _MOST_PAIRS // 4:
                    parts, waiting = [_merge_keys(parts)], 0
        merged = _merge_keys(parts)
        new = len(merged) - len(keys)
        keys = merged
        if number > 1 and new <= _NEW_SHARE * len(keys):
            break
    return keys, number


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
    """Cells of rows that lie near one drawn pivot; a row beside a border belongs to both cells."""
    import numpy as np

    waiting = [rows]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= _CELL_ROWS:
            yield rows
            continue
        count = min(_MOST_PIVOTS, 2 + 2 * len(rows) // _CELL_ROWS)
        pivots = sketches[rng.choice(rows, count, replace=False)].astype(np.float32)
        nearest, beside = _assign_rows(sketches, rows, pivots, reach)
        order = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[order], np.arange(count + 1))
        others = np.argsort(beside, kind="stable")
        other_starts = np.searchsorted(beside[others], np.arange(count + 1))
        for cell in range(count):
            own = rows[order[starts[cell] : starts[cell + 1]]]
            near = rows[others[other_starts[cell] : other_starts[cell + 1]]]
            both = np.concatenate([own, near])
            if len(both) > 0.9 * len(rows):  # rows that no pivot divides, such as equal ones
                yield both
            elif len(both) > 1:
                waiting.append(both)


def _assign_rows(
    sketches: NDArray[np.float16], rows: Rows, pivots: Matrix, reach: float
) -> tuple[Rows, Rows]:
    """(N,) the nearest pivot of each row, and the second where a pair may reach over their border, else -1."""
    import numpy as np

    lengths = (pivots * pivots).sum(axis=1) / 2
    gaps = np.sqrt(np.maximum(lengths[:, None] * 2 + lengths * 2 - 2 * pivots @ pivots.T, 1e-12))
    nearest, beside = np.empty(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    # Of two rows of a pair one lies within half their distance of the border.
    half = np.sqrt(reach) / 2
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = sketches[rows[start : start + _BLOCK_ROWS]].astype(np.float32)
        scores = block @ pivots.T - lengths
        steps = np.arange(len(block))
        best = scores.argmax(axis=1)
        top = scores[steps, best]
        scores[steps, best] = -np.inf
        second = scores.argmax(axis=1)
        border = (top - scores[steps, second]) / gaps[best, second]
        nearest[start : start + len(block)] = best
        beside[start : start + len(block)] = np.where(border <= half, second, -1)
    return nearest, beside


def _pairs_of_cell(points: Matrix, rows: Rows, reach: float) -> Iterator[tuple[Rows, Rows]]:
    """Pairs (first, second) of row numbers whose points (C, W) have a squared distance of at most `reach`."""
    import numpy as np

    lengths = (points * points).sum(axis=1)
    for start in range(0, len(points), _CELL_ROWS):
        block = points[start : start + _CELL_ROWS]
        rest = points[start:]
        products = block @ rest.T
        # Half the squared lengths minus the product is half the squared distance.
        products -= lengths[start:] / 2
        near = products >= ((lengths[start : start + len(block)] - reach) / 2)[:, None]
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


# Courses are compared at this rate, so that copies at another rate are found.
_RATE_HZ = 10.0
# Half the length of a window in steps, and the steps within which a course is fastest or slowest at its middle.
_HALF, _APART = 8, 4
_MOST_WINDOWS = 24
# Below this spread, in spreads of the dataset, a window is still and looks like every other.
_LEAST_SPREAD = 0.05
# Cosine similarity of two windows that may be copies, and the share of the shorter one's windows that must be.
_WINDOW_CUT, _WINDOW_SHARE = 0.96, 0.4
# Two courses are one motion where the squared difference over what they share is at most this share of the motion,
# and they share at least half of the shorter one.
_MOST_RESIDUAL, _LEAST_OVERLAP = 0.01, 0.5
_SHIFTS_TRIED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionCopies:
    """Pairs of episodes with one motion.

    Attributes:
        pairs: (P, 2) positions in the list of episodes, the smaller first.
        scores: (P,) 1 minus the share of the motion that differs.
        comparable: (N,) whether an episode has a motion that can be compared.
        searches: The searches for pairs of windows, with their measured recall.
    """

    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]
    comparable: NDArray[np.bool_]
    searches: Sequence[NearPairs] = ()


def find_motion_copies(stores: Stores, ids: Sequence[str], seed: int = 0) -> MotionCopies:
    """Compare the state of episodes, or the action of those without one, among signals of one layout.

    A window around each moment at which the motion is fastest or slowest is compared whatever its signs and where it
    starts, so that parts and mirror images are found. Then the whole courses are laid over each other. Courses at 10 Hz
    wait in temporary files; in memory are some windows of each episode.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes.
        seed: Of the search for pairs.
    """
    import numpy as np

    comparable, pairs, scores, searches = (
        np.zeros(len(ids), bool),
        [np.empty((0, 2), np.int64)],
        [np.empty(0)],
        [],
    )
    with tempfile.TemporaryDirectory(prefix="ares-courses-") as folder:
        for courses in _read_courses(stores, ids, Path(folder)):
            comparable[courses.positions] = True
            windows = _Windows(courses)
            if not len(windows.vectors):
                continue
            near = find_near_pairs(windows.vectors, _WINDOW_CUT, seed=seed)
            searches.append(near)
            confirmed, confirmed_scores = _confirm_candidates(courses, windows, near)
            pairs.append(np.sort(np.array(courses.positions)[confirmed], axis=1))
            scores.append(confirmed_scores)
    return MotionCopies(
        pairs=np.concatenate(pairs),
        scores=np.concatenate(scores),
        comparable=comparable,
        searches=tuple(searches),
    )


class _Courses:
    """The courses of all episodes with one layout of signals, in a file: float32, row-major.

    Args:
        file: Where they wait.
        width: Features of a step.

    Attributes:
        positions: Of the episodes, in the list of all.
    """

    def __init__(self, file: Path, width: int) -> None:
        import numpy as np

        self.positions: list[int] = []
        self._file, self._width = file, width
        self._starts = [0]
        self._squares = np.zeros(width)

    def add(self, position: int, course: NDArray[np.float32]) -> None:
        """Write one course (T, W)."""
        with self._file.open("ab") as file:
            file.write(course.tobytes())
        self.positions.append(position)
        self._starts.append(self._starts[-1] + len(course))
        self._squares += ((course - course.mean(axis=0)).astype(float) ** 2).sum(axis=0)

    def __getitem__(self, number: int) -> NDArray[np.float32]:
        """One course (T, W) in spreads of its dataset; a feature that never changes is 0."""
        start, stop = self._starts[number : number + 2]
        scaled: NDArray[np.float32] = self._values[start:stop] * self._scale
        return scaled

    @cached_property
    def _values(self) -> NDArray[np.float32]:
        import numpy as np

        return np.memmap(self._file, np.float32, "r", shape=(self._starts[-1], self._width))

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        """(W,) one over the spread of each feature within episodes."""
        import numpy as np

        spread = np.sqrt(self._squares / self._starts[-1])
        return np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0.0).astype(np.float32)


def _read_courses(stores: Stores, ids: Sequence[str], folder: Path) -> list[_Courses]:
    """The courses of all episodes with a finite signal, by the layout of their signals."""
    by_layout: dict[str, _Courses] = {}
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    for episode_id, trajectory in stores.tables.trajectories.read(ids):
        layout, course = _make_course(trajectory)
        if course is not None:
            new = _Courses(folder / str(len(by_layout)), course.shape[1])
            by_layout.setdefault(layout, new).add(position_of[episode_id], course)
    return list(by_layout.values())


def _make_course(trajectory: Trajectory) -> tuple[str, NDArray[np.float32] | None]:
    """Name of the layout, and the features (T, W) ten times a second; None where they cannot be compared."""
    import numpy as np

    for kind in ("state", "action"):
        signal = getattr(trajectory, kind)
        layout = find_signal_layout(signal.names) if signal is not None else None
        if layout is None:
            continue
        features, seconds = compute_motion_features(signal, layout), trajectory.timestamps
        if len(features) < 2 or not np.isfinite(features).all():
            continue
        times = np.arange(seconds[0], seconds[-1] + 1e-9, 1 / _RATE_HZ)
        course = np.stack([np.interp(times, seconds, column) for column in features.T], axis=1)
        return f"{kind} {layout.name}", course.astype(np.float32)
    return "", None


class _Windows:
    """Windows of courses around their fastest and slowest moments.

    Attributes:
        vectors: (M, L) unit vectors, without signs and means.
        courses: (M,) number of the course of each.
        steps: (M,) the step of its middle.
    """

    def __init__(self, courses: _Courses) -> None:
        import numpy as np

        vectors, owners, steps = [], [], []
        for number in range(len(courses.positions)):
            course = courses[number]
            for step in _find_middle_steps(course):
                vector = _describe_window(course, step)
                if vector is not None:
                    vectors.append(vector)
                    owners.append(number)
                    steps.append(step)
        self.vectors = np.array(vectors, np.float16)
        self.courses = np.array(owners, np.int64)
        self.steps = np.array(steps, np.int64)


def _find_middle_steps(course: NDArray[np.float32]) -> list[int]:
    """Steps at which a course (T, W) is faster or slower than at any other within 0.4 s, a whole window from its ends.

    A part of the course has the same ones, wherever it begins.
    """
    import numpy as np

    if len(course) < 2 * _HALF + 1:
        return [len(course) // 2]
    speed = np.convolve(np.linalg.norm(np.diff(course, axis=0), axis=1), np.full(5, 0.2), "same")
    around = np.lib.stride_tricks.sliding_window_view(np.pad(speed, _APART, "edge"), 2 * _APART + 1)
    peaks = np.flatnonzero(((speed >= around.max(axis=1)) | (speed <= around.min(axis=1))) & (speed > 0))
    inside = peaks[(peaks >= _HALF) & (peaks < len(course) - _HALF)]
    if not len(inside):
        inside = np.array([_HALF + int(speed[_HALF : len(course) - _HALF].argmax())])
    return sorted(inside[np.argsort(-speed[inside], kind="stable")[:_MOST_WINDOWS]].tolist())


def _describe_window(course: NDArray[np.float32], step: int) -> NDArray[np.float32] | None:
    """A unit vector of the window around a step, the same for mirror images; None for a window without motion."""
    import numpy as np

    window = course[max(0, step - _HALF) : step + _HALF + 1]
    if len(window) < 2 * _HALF + 1:  # a course that is shorter than a window is stretched
        grid, steps = np.linspace(0, len(window) - 1, 2 * _HALF + 1), np.arange(len(window))
        window = np.stack([np.interp(grid, steps, column) for column in window.T], axis=1)
    flat = np.abs(window - window.mean(axis=0)).ravel()
    length = float(np.linalg.norm(flat))
    if length < _LEAST_SPREAD * np.sqrt(flat.size):
        return None
    unit: NDArray[np.float32] = (flat / length).astype(np.float32)
    return unit


def _confirm_candidates(
    courses: _Courses, windows: _Windows, near: NearPairs
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(P, 2) numbers of the courses that are one motion, and the score (P,) of each pair."""
    import numpy as np

    counts = np.bincount(windows.courses, minlength=len(courses.positions))
    pairs, scores = [], []
    for first, second, shifts in _group_votes(windows, near):
        values, votes = np.unique(shifts, return_counts=True)
        # A vote for the next step counts, too: steps of copies lie up to half a step apart.
        close = np.array([votes[np.abs(values - value) <= 1].sum() for value in values])
        needed = _WINDOW_SHARE * min(counts[first], counts[second])
        tried = values[np.argsort(-close, kind="stable")][:_SHIFTS_TRIED]
        if close.max() < needed:
            continue
        left, right = courses[first], courses[second]
        residual = min(_measure_residual(left, right, int(shift)) for shift in tried)
        if residual <= _MOST_RESIDUAL:
            pairs.append((first, second))
            scores.append(1.0 - residual)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(scores)


def _group_votes(windows: _Windows, near: NearPairs) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Two courses with near windows, and by how many steps each pair of windows lies later in the first."""
    import numpy as np

    first, second = windows.courses[near.first], windows.courses[near.second]
    shifts = windows.steps[near.first] - windows.steps[near.second]
    differ = first != second
    first, second, shifts = first[differ], second[differ], shifts[differ]
    order = np.lexsort((second, first))
    first, second, shifts = first[order], second[order], shifts[order]
    starts = np.flatnonzero((np.diff(first, prepend=-1) != 0) | (np.diff(second, prepend=-1) != 0))
    for start, stop in pairwise([*starts.tolist(), len(first)]):
        yield int(first[start]), int(second[start]), shifts[start:stop]


def _measure_residual(left: NDArray[np.float32], right: NDArray[np.float32], shift: int) -> float:
    """The share of the motion in which two courses differ at the best of three shifts, signs and means aside."""
    import numpy as np

    best, shorter = 1.0, min(len(left), len(right))
    for offset in (shift - 1, shift, shift + 1):
        start, stop = max(0, offset), min(len(left), len(right) + offset)
        if stop - start < max(2, _LEAST_OVERLAP * shorter):
            continue
        ours, theirs = left[start:stop], right[start - offset : stop - offset]
        ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
        motion = float((ours**2).sum() + (theirs**2).sum()) / 2
        if motion < _LEAST_SPREAD**2 * ours.size:
            continue
        shared = float(np.abs((ours * theirs).sum(axis=0)).sum())
        best = min(best, 2 * (motion - shared) / motion)
    return best
