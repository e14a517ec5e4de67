"""Proposes trajectories, of signals or of pictures, that may repeat each other: their windows are near."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Trajectory = NDArray[np.float32]


# Trajectories are compared at this rate, so that copies at another rate are found.
COMPARED_RATE_HZ = 10.0
# Windows of a trajectory, and neighbours of a window that are looked at.
_MOST_WINDOWS, _NEIGHBOURS = 24, 16
# Numbers that remain of a window, and trajectories from which these are learned.
_WIDTH, _LEARNED_FROM = 16, 2_000
# Windows that are searched for at once, and the trajectories that one with too many near ones is proposed with.
_WINDOWS_AT_ONCE, _CROWDED_PARTNERS = 50_000, 6
# Search trees, and leaves of them that are read for a window.
_TREES, _LEAVES_READ = 4, 64
# Below this spread, in spreads of the dataset, a window is still and looks like every other.
LEAST_SPREAD = 0.05
# Trajectories share at least this part of the shorter one.
_LEAST_OVERLAP = 0.5
_SHIFTS_TRIED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRule:
    """Which windows of trajectories are compared, and when two trajectories are proposed.

    Attributes:
        half: Half the length of a window in steps.
        apart: Steps within which a trajectory is fastest or slowest at the middle of a window.
        cut: Least cosine similarity of two windows.
        share: Of the windows of the shorter trajectory, the share that must be near at one shift.
        stride: Steps between the windows of trajectories that are few; 0 for fast and slow moments alone.
    """

    half: int = 8
    apart: int = 4
    cut: float = 0.96
    share: float = 0.4
    stride: int = 0


# So many windows at every stride are few.
_FEW_WINDOWS = 20_000


class StoredTrajectories:
    """Trajectories of one layout in a file: float32, row-major.

    Args:
        file: Where they wait.
        width: Features of a step.

    Attributes:
        positions: Of the episodes, in the list of all; an episode may have several.
        first_equal: Of each the number of the first that equals it to the last bit, mostly itself.
    """

    def __init__(self, file: Path, width: int) -> None:
        import numpy as np

        self.positions: list[int] = []
        self.first_equal: list[int] = []
        self._numbers: dict[bytes, int] = {}
        self._file, self._width = file, width
        self._starts = [0]
        self._squares = np.zeros(width)

    def add(self, position: int, trajectory: Trajectory) -> None:
        """Write one trajectory (T, W)."""
        content = trajectory.tobytes()
        with self._file.open("ab") as file:
            file.write(content)
        digest = hashlib.blake2b(content, digest_size=16).digest()
        self.first_equal.append(self._numbers.setdefault(digest, len(self.positions)))
        self.positions.append(position)
        self._starts.append(self._starts[-1] + len(trajectory))
        self._squares += ((trajectory - trajectory.mean(axis=0)).astype(float) ** 2).sum(axis=0)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def num_steps(self) -> int:
        """Steps of all trajectories."""
        return self._starts[-1]

    def __getitem__(self, number: int) -> Trajectory:
        """One trajectory (T, W) in spreads of its dataset; a feature that never changes is 0."""
        start, stop = self._starts[number : number + 2]
        scaled: Trajectory = self._values[start:stop] * self._scale
        return scaled

    @cached_property
    def _values(self) -> Trajectory:
        import numpy as np

        return np.memmap(self._file, np.float32, "r", shape=(self._starts[-1], self._width))

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        """(W,) one over the spread of each feature within episodes."""
        import numpy as np

        spread = np.sqrt(self._squares / self._starts[-1])
        return np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0.0).astype(np.float32)


def propose_pairs(
    trajectories: StoredTrajectories, rule: WindowRule
) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Numbers of two trajectories of different episodes that may be copies, and the likeliest shifts between them.

    A window around each moment at which the motion is fastest or slowest, and where trajectories are few at every
    stride, is compared whatever its signs and where it starts, so that parts and mirror images are found. Above a few
    thousand windows the neighbours are approximate.

    Of equal trajectories each is proposed with the first, which alone is compared with others. Where windows have more
    neighbours than are looked at, a trajectory is proposed with the few that have most of them: not every two copies
    of many are proposed, but all of them hang together.

    In memory are 64 bytes a window, the trees over them, and 8 bytes for each near neighbour of a window.

    Yields:
        The smaller number, the larger one, and by how many steps the first may lie later, the likeliest shift first.
    """
    for number, first in enumerate(trajectories.first_equal):
        if first != number and trajectories.positions[first] != trajectories.positions[number]:
            yield first, number, [0]
    windows = _describe_windows(trajectories, rule)
    near, is_crowded = _find_near_windows(windows, 2 * (1 - rule.cut))
    bounds = windows.bounds(len(trajectories))
    for first in range(len(trajectories)):
        start, stop = bounds[first : first + 2]
        partners = _vote_for_partners(windows, near, start, stop)
        least = [
            rule.share * min(stop - start, bounds[other + 1] - bounds[other]) for other, _, _ in partners
        ]
        is_first_crowded = stop > start and is_crowded[start:stop].mean() >= rule.share
        for rank, ((other, votes, shifts), needed) in enumerate(zip(partners, least, strict=True)):
            if votes >= needed or (is_first_crowded and rank < _CROWDED_PARTNERS):
                yield first, other, shifts


def _vote_for_partners(
    windows: _Windows, near: NDArray[np.int64], start: int, stop: int
) -> list[tuple[int, int, list[int]]]:
    """Later trajectories with windows near those from `start` to `stop`, their votes and shifts, most votes first."""
    import numpy as np

    count = len(windows.owners)
    keys = near[np.searchsorted(near, start * count) : np.searchsorted(near, stop * count)]
    rows, others = np.divmod(keys, count)
    owners, shifts = windows.owners[others], windows.steps[rows] - windows.steps[others]
    order = np.argsort(owners, kind="stable")
    distinct, starts = np.unique(owners[order], return_index=True)
    partners = []
    for owner, their_shifts in zip(distinct.tolist(), np.split(shifts[order], starts[1:]), strict=False):
        values, votes = np.unique(their_shifts, return_counts=True)
        # A vote for the next step counts, too: steps of copies lie up to half a step apart.
        close = np.array([votes[np.abs(values - value) <= 1].sum() for value in values])
        likeliest = values[np.argsort(-close, kind="stable")][:_SHIFTS_TRIED].tolist()
        partners.append((owner, int(close.max()), likeliest))
    return sorted(partners, key=lambda partner: -partner[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """Points (M, 16) of windows, the number (M,) of the trajectory of each, and the step (M,) of its middle.

    Those of a trajectory stand together; `episodes` (M,) are the positions of their episodes.
    """

    points: NDArray[np.float32]
    owners: NDArray[np.int64]
    steps: NDArray[np.int64]
    episodes: NDArray[np.int64]

    def bounds(self, trajectories: int) -> list[int]:
        """Where the windows of each trajectory begin, and where the last ones end."""
        import numpy as np

        bounds: list[int] = np.searchsorted(self.owners, np.arange(trajectories + 1)).tolist()
        return bounds


def _describe_windows(trajectories: StoredTrajectories, rule: WindowRule) -> _Windows:
    import numpy as np

    if trajectories.num_steps > rule.stride * _FEW_WINDOWS:
        rule = replace(rule, stride=0)
    compared = sorted(set(trajectories.first_equal))
    sample = [
        vectors
        for number in compared[:: max(1, len(compared) // _LEARNED_FROM)]
        if len(vectors := _list_windows(trajectories[number], rule)[0])
    ]
    if not sample:
        none = np.empty(0, np.int64)
        return _Windows(points=np.empty((0, _WIDTH), np.float32), owners=none, steps=none, episodes=none)
    centre = np.concatenate(sample).mean(axis=0)
    spreads = sum((vectors - centre).T @ (vectors - centre) for vectors in sample)
    basis = np.linalg.eigh(spreads)[1][:, -_WIDTH:]
    points, owners, steps = [], [], []
    for number in compared:
        vectors, middles = _list_windows(trajectories[number], rule)
        if len(vectors):
            points.append(((vectors - centre) @ basis).astype(np.float32))
            owners += [number] * len(middles)
            steps += middles
    return _Windows(
        points=np.concatenate(points),
        owners=np.array(owners, np.int64),
        steps=np.array(steps, np.int64),
        episodes=np.array(trajectories.positions, np.int64)[owners],
    )


def _list_windows(trajectory: Trajectory, rule: WindowRule) -> tuple[Trajectory, list[int]]:
    """Unit vectors (M, L) of the windows that move, the same for mirror images, and their middle steps."""
    import numpy as np

    half, vectors, middles = rule.half, [], []
    if len(trajectory) < 2 * half + 1:  # one that is shorter than a window is stretched
        grid, known = np.linspace(0, len(trajectory) - 1, 2 * half + 1), np.arange(len(trajectory))
        trajectory = np.stack([np.interp(grid, known, column) for column in trajectory.T], axis=1)
    for step in _find_middle_steps(trajectory, rule):
        window = trajectory[step - half : step + half + 1]
        flat = np.abs(window - window.mean(axis=0)).ravel()
        length = float(np.linalg.norm(flat))
        if length >= LEAST_SPREAD * np.sqrt(flat.size):
            vectors.append(flat / length)
            middles.append(step)
    width = (2 * half + 1) * trajectory.shape[1]
    return np.array(vectors, np.float32).reshape(len(middles), width), middles


def _find_middle_steps(trajectory: Trajectory, rule: WindowRule) -> list[int]:
    """Steps at which a trajectory (T, W) is faster or slower than at any other nearby, a whole window from its ends.

    A part of the trajectory has the same ones, wherever it begins. With a stride, a step at each.
    """
    import numpy as np

    half, apart = rule.half, rule.apart
    if rule.stride:
        return list(range(half, len(trajectory) - half, rule.stride))
    speed = np.convolve(np.linalg.norm(np.diff(trajectory, axis=0), axis=1), np.full(5, 0.2), "same")
    around = np.lib.stride_tricks.sliding_window_view(np.pad(speed, apart, "edge"), 2 * apart + 1)
    peaks = np.flatnonzero(((speed >= around.max(axis=1)) | (speed <= around.min(axis=1))) & (speed > 0))
    inside = peaks[(peaks >= half) & (peaks < len(trajectory) - half)]
    if not len(inside):
        return [half + int(speed[half : len(trajectory) - half].argmax())]
    return sorted(inside[np.argsort(-speed[inside], kind="stable")[:_MOST_WINDOWS]].tolist())


def _find_near_windows(windows: _Windows, reach: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of windows whose squared distance is at most `reach`, and which windows (M,) may have more of them.

    A pair of windows of two episodes is one number, the earlier times M plus the later; they are sorted and distinct.
    """
    import cv2
    import numpy as np

    points, num_windows = windows.points, len(windows.points)
    is_crowded = np.zeros(num_windows, bool)
    if not num_windows:
        return np.empty(0, np.int64), is_crowded
    count = min(_NEIGHBOURS, num_windows)
    cv2.setRNGSeed(0)  # the same trees each time
    index = cv2.flann.Index(points, {"algorithm": 1, "trees": _TREES})
    pairs = []
    for start in range(0, num_windows, _WINDOWS_AT_ONCE):
        block = points[start : start + _WINDOWS_AT_ONCE]
        near, squares = index.knnSearch(block, count, params={"checks": _LEAVES_READ})
        is_near = (near >= 0) & (squares <= reach)
        is_crowded[start : start + len(block)] = is_near.all(axis=1) & (count == _NEIGHBOURS)
        rows, columns = np.nonzero(is_near)
        others, rows = near[rows, columns].astype(np.int64), rows + start
        apart = windows.episodes[rows] != windows.episodes[others]
        rows, others = rows[apart], others[apart]
        pairs.append(np.unique(np.minimum(rows, others) * num_windows + np.maximum(rows, others)))
    return np.unique(np.concatenate(pairs)), is_crowded


def find_shared_steps(left: int, right: int, shift: int) -> tuple[int, int]:
    """First step of `left`, and one past the last, that one of `right` steps shares; equal for less than half."""
    start, stop = max(0, shift), min(left, right + shift)
    return (start, stop) if stop - start >= max(2, _LEAST_OVERLAP * min(left, right)) else (0, 0)


def count_moving_steps(trajectory: Trajectory) -> int:
    """Steps of a trajectory (T, W) from its first to its last motion of a tenth of its range."""
    import numpy as np

    from_start, from_end = (np.abs(trajectory - trajectory[end]).max(axis=1) for end in (0, -1))
    before = np.flatnonzero(from_start > 0.1 * from_start.max())
    behind = np.flatnonzero(from_end > 0.1 * from_end.max())
    return int(behind[-1] - before[0]) if len(before) and len(behind) else 0
