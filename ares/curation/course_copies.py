"""Finds courses over time, of signals or of pictures, that repeat each other: windows propose, whole courses decide."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ares.curation.near_pairs import NearPairs, find_near_pairs
from ares.search import compute_motion_features, find_signal_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Trajectory
    from ares.store import Stores

    # Numbers of two courses and how much of them differs at a shift: 0 is nothing, 1 all.
    Comparison = Callable[[int, int, Sequence[int]], float]


# Courses are compared at this rate, so that copies at another rate are found.
COURSE_RATE_HZ = 10.0
_MOST_WINDOWS = 24
# Below this spread, in spreads of the dataset, a window is still and looks like every other.
_LEAST_SPREAD = 0.05
# Two courses are one motion where the squared difference over what they share is at most this share of the motion,
# and they share at least half of the shorter one.
_MOST_RESIDUAL, _LEAST_OVERLAP = 0.01, 0.5
_SHIFTS_TRIED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRule:
    """Which windows of courses are compared, and when two courses may be copies.

    Attributes:
        half: Half the length of a window in steps.
        apart: Steps within which a course is fastest or slowest at the middle of a window.
        cut: Least cosine similarity of two windows.
        share: Of the windows of the shorter course, the share that must be similar at one shift.
        stride: Steps between the windows of courses that are few; 0 for fast and slow moments whatever their number.
    """

    half: int = 8
    apart: int = 4
    cut: float = 0.96
    share: float = 0.4
    stride: int = 0


# So many windows at every stride are few.
_FEW_WINDOWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseCopies:
    """Pairs of episodes with one course.

    Attributes:
        pairs: (P, 2) positions in the list of episodes, the smaller first.
        scores: (P,) 1 minus the share of the course that differs.
        comparable: (N,) whether an episode has a course that can be compared.
        searches: The searches for pairs of windows, with their measured recall.
    """

    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]
    comparable: NDArray[np.bool_]
    searches: Sequence[NearPairs] = ()


def find_motion_copies(stores: Stores, ids: Sequence[str], seed: int = 0) -> CourseCopies:
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
            compare = _make_motion_comparison(courses)
            own, own_scores, near = pair_courses(courses, WindowRule(), compare, 1 - _MOST_RESIDUAL, seed)
            pairs.append(np.sort(np.array(courses.positions)[own], axis=1))
            scores.append(own_scores)
            searches.append(near)
    return CourseCopies(
        pairs=np.concatenate(pairs),
        scores=np.concatenate(scores),
        comparable=comparable,
        searches=tuple(searches),
    )


class Courses:
    """The courses of all episodes with one layout of signals, in a file: float32, row-major.

    Args:
        file: Where they wait.
        width: Features of a step.

    Attributes:
        positions: Of the episodes, in the list of all; an episode may have several.
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

    @property
    def num_steps(self) -> int:
        """Steps of all courses."""
        return self._starts[-1]

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


def _read_courses(stores: Stores, ids: Sequence[str], folder: Path) -> list[Courses]:
    """The courses of all episodes with a finite signal, by the layout of their signals."""
    by_layout: dict[str, Courses] = {}
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    for episode_id, trajectory in stores.tables.trajectories.read(ids):
        layout, course = _make_course(trajectory)
        if course is not None:
            new = Courses(folder / str(len(by_layout)), course.shape[1])
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
        times = np.arange(seconds[0], seconds[-1] + 1e-9, 1 / COURSE_RATE_HZ)
        course = np.stack([np.interp(times, seconds, column) for column in features.T], axis=1)
        return f"{kind} {layout.name}", course.astype(np.float32)
    return "", None


class CourseWindows:
    """Windows of courses around their fastest and slowest moments, or at every stride.

    Attributes:
        vectors: (M, L) unit vectors, without signs and means.
        courses: (M,) number of the course of each.
        steps: (M,) the step of its middle.
        counts: (C,) windows of each course.
    """

    def __init__(self, courses: Courses, rule: WindowRule) -> None:
        import numpy as np

        is_few = rule.stride and courses.num_steps <= rule.stride * _FEW_WINDOWS
        vectors, owners, steps = [], [], []
        for number in range(len(courses.positions)):
            course = courses[number]
            middles = _list_middle_steps(course, rule) if is_few else _find_middle_steps(course, rule)
            for step in middles:
                vector = _describe_window(course, step, rule.half)
                if vector is not None:
                    vectors.append(vector)
                    owners.append(number)
                    steps.append(step)
        self.vectors = np.array(vectors, np.float16) if vectors else np.empty((0, 1), np.float16)
        self.courses = np.array(owners, np.int64)
        self.steps = np.array(steps, np.int64)
        self.counts = np.bincount(self.courses, minlength=len(courses.positions))


def _list_middle_steps(course: NDArray[np.float32], rule: WindowRule) -> list[int]:
    """Every so many steps, a whole window from the ends; of a course (T, W) that is shorter, its middle."""
    inside = range(rule.half, len(course) - rule.half, rule.stride)
    return list(inside) or [len(course) // 2]


def _find_middle_steps(course: NDArray[np.float32], rule: WindowRule) -> list[int]:
    """Steps at which a course (T, W) is faster or slower than at any other nearby, a whole window from its ends.

    A part of the course has the same ones, wherever it begins.
    """
    import numpy as np

    half, apart = rule.half, rule.apart
    if len(course) < 2 * half + 1:
        return [len(course) // 2]
    speed = np.convolve(np.linalg.norm(np.diff(course, axis=0), axis=1), np.full(5, 0.2), "same")
    around = np.lib.stride_tricks.sliding_window_view(np.pad(speed, apart, "edge"), 2 * apart + 1)
    peaks = np.flatnonzero(((speed >= around.max(axis=1)) | (speed <= around.min(axis=1))) & (speed > 0))
    inside = peaks[(peaks >= half) & (peaks < len(course) - half)]
    if not len(inside):
        inside = np.array([half + int(speed[half : len(course) - half].argmax())])
    return sorted(inside[np.argsort(-speed[inside], kind="stable")[:_MOST_WINDOWS]].tolist())


def _describe_window(course: NDArray[np.float32], step: int, half: int) -> NDArray[np.float32] | None:
    """A unit vector of the window around a step, the same for mirror images; None for a window without motion."""
    import numpy as np

    window = course[max(0, step - half) : step + half + 1]
    if len(window) < 2 * half + 1:  # a course that is shorter than a window is stretched
        grid, steps = np.linspace(0, len(window) - 1, 2 * half + 1), np.arange(len(window))
        window = np.stack([np.interp(grid, steps, column) for column in window.T], axis=1)
    flat = np.abs(window - window.mean(axis=0)).ravel()
    length = float(np.linalg.norm(flat))
    if length < _LEAST_SPREAD * np.sqrt(flat.size):
        return None
    unit: NDArray[np.float32] = (flat / length).astype(np.float32)
    return unit


def pair_courses(
    courses: Courses, rule: WindowRule, compare: Comparison, cut: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NearPairs]:
    """(P, 2) numbers of the courses that repeat each other, the score (P,) of each pair, and the search for windows.

    Args:
        courses: All of one layout.
        rule: Which windows propose pairs.
        compare: Says how much of two courses differs.
        cut: Least score of a pair, 1 minus what differs.
        seed: Of the search.
    """
    import numpy as np

    windows = CourseWindows(courses, rule)
    near = find_near_pairs(windows.vectors, rule.cut, seed=seed)
    pairs, scores = [], []
    for first, second, shifts in _group_votes(windows, near):
        values, votes = np.unique(shifts, return_counts=True)
        # A vote for the next step counts, too: steps of copies lie up to half a step apart.
        close = np.array([votes[np.abs(values - value) <= 1].sum() for value in values])
        if courses.positions[first] == courses.positions[second] or close.max() < rule.share * min(
            windows.counts[first], windows.counts[second]
        ):
            continue
        tried = values[np.argsort(-close, kind="stable")][:_SHIFTS_TRIED]
        score = 1.0 - compare(first, second, tried.tolist())
        if score >= cut:
            pairs.append((first, second))
            scores.append(score)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(scores), near


def _group_votes(windows: CourseWindows, near: NearPairs) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
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


def _make_motion_comparison(courses: Courses) -> Comparison:
    """Compares courses of signals, whatever the signs and the origins of their features."""

    def compare(first: int, second: int, shifts: Sequence[int]) -> float:
        left, right = courses[first], courses[second]
        return min(_measure_residual(left, right, shift) for shift in shifts)

    return compare


def _measure_residual(left: NDArray[np.float32], right: NDArray[np.float32], shift: int) -> float:
    """The share of the motion in which two courses differ at the best of three shifts, signs and means aside."""
    best = 1.0
    for offset in (shift - 1, shift, shift + 1):
        start, stop = find_shared_steps(len(left), len(right), offset)
        if start == stop:
            continue
        ours, theirs = left[start:stop], right[start - offset : stop - offset]
        ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
        motion = float((ours**2).sum() + (theirs**2).sum()) / 2
        if motion < _LEAST_SPREAD**2 * ours.size:
            continue
        shared = float(abs((ours * theirs).sum(axis=0)).sum())
        best = min(best, 2 * (motion - shared) / motion)
    return best


def find_shared_steps(left: int, right: int, shift: int) -> tuple[int, int]:
    """First step of `left`, and one past the last, that a course of `right` steps shares; equal for less than half."""
    start, stop = max(0, shift), min(left, right + shift)
    return (start, stop) if stop - start >= max(2, _LEAST_OVERLAP * min(left, right)) else (0, 0)
