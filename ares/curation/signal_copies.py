"""Finds episodes whose states or actions repeat each other, exactly or at some shift in time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ares.curation.trajectory_pairs import (
    COMPARED_RATE_HZ,
    LEAST_SPREAD,
    StoredTrajectories,
    WindowRule,
    count_moving_steps,
    find_shared_steps,
    propose_pairs,
)
from ares.search import compute_motion_features, find_signal_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory
    from ares.store import Stores

    Pair = tuple[int, int]


# Two trajectories are one motion where the squared difference over what they share is at most this share of the motion.
_MOST_DIFFERENT = 0.01
# No robot is recorded at fewer than one step in ten seconds: a clock that says so jumps.
_MOST_ROWS_PER_STEP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalMatch:
    """How two episodes agree.

    Attributes:
        score: 1 minus the share of the motion that differs.
        shift: Steps of a tenth of a second by which the first lies later.
        kind: "state" or "action".
    """

    score: float
    shift: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalCopies:
    """What the signals of some episodes tell.

    Attributes:
        matches: By positions in the list of episodes, the smaller first; the state tells before the action.
        layouts: By position the layouts that were compared, such as "state pose"; none for an episode without signals.
        digests: By position a hash of all signals; equal ones are the same to the last bit.
        moving: By position the tenths of a second from the first to the last motion.
        commanded_again: The matches within a dataset whose actions differ; another may say the same in another way.
    """

    matches: dict[Pair, SignalMatch] = field(default_factory=dict)
    layouts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    moving: dict[int, int] = field(default_factory=dict)
    commanded_again: set[Pair] = field(default_factory=set)

    def shared_layouts(self, pair: Pair) -> set[str]:
        """The layouts in which two episodes were compared with each other."""
        return {*self.layouts.get(pair[0], ())} & {*self.layouts.get(pair[1], ())}


def find_signal_copies(
    stores: Stores, ids: Sequence[str], datasets: Sequence[str], folder: Path
) -> SignalCopies:
    """Compare the states of episodes, and their actions, among signals of one layout.

    Windows propose pairs; then the whole trajectories, ten times a second, are laid over each other.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes.
        datasets: The dataset of each.
        folder: Where the trajectories wait.
    """
    copies = SignalCopies()
    by_layout: dict[str, StoredTrajectories] = {}
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    for episode_id, trajectory in stores.tables.trajectories.read(ids):
        position = position_of[episode_id]
        compared = _list_features(trajectory)
        for layout, features in compared.items():
            new = StoredTrajectories(folder / f"signals-{len(by_layout)}", features.shape[1])
            by_layout.setdefault(layout, new).add(position, features)
            copies.moving.setdefault(position, count_moving_steps(features))
        if compared:
            copies.layouts[position] = tuple(compared)
        if trajectory.state is not None or trajectory.action is not None:
            copies.digests[position] = _hash_signals(trajectory)
    for layout, trajectories in sorted(by_layout.items()):
        _add_matches(copies.matches, trajectories, layout.partition(" ")[0])
    for layout, trajectories in by_layout.items():
        if layout.startswith("action "):
            differing = _find_differing(copies.matches, trajectories)
            copies.commanded_again.update(
                pair for pair in differing if datasets[pair[0]] == datasets[pair[1]]
            )
    return copies


def _list_features(trajectory: Trajectory) -> Mapping[str, NDArray[np.float32]]:
    """Features (T, W) ten times a second by kind and layout, of the signals that can be compared."""
    import numpy as np

    seconds, features_by_layout = _find_step_seconds(trajectory.timestamps), {}
    for kind in ("state", "action"):
        signal: Signal | None = getattr(trajectory, kind)
        layout = find_signal_layout(signal.names) if signal is not None else None
        if signal is None or layout is None:
            continue
        features = compute_motion_features(signal, layout)
        if len(features) < 2 or not np.isfinite(features).all():
            continue
        times = np.arange(seconds[0], seconds[-1] + 1e-9, 1 / COMPARED_RATE_HZ)
        columns = [np.interp(times, seconds, column) for column in features.T]
        features_by_layout[f"{kind} {layout.name}"] = np.stack(columns, axis=1).astype(np.float32)
    return features_by_layout


def _find_step_seconds(timestamps: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,) seconds at which the steps are compared: their stamps, or equal periods where these are no clock.

    Args:
        timestamps: (T,) stamps; one may jump to another time, such as that since 1970.
    """
    import numpy as np

    most_seconds = _MOST_ROWS_PER_STEP / COMPARED_RATE_HZ
    periods = np.diff(timestamps)
    is_rising = bool(len(periods)) and bool((periods >= 0).all())
    if is_rising and 0 < timestamps[-1] - timestamps[0] <= most_seconds * len(timestamps):
        return timestamps
    usual_period = float(np.median(periods)) if len(periods) else 0.0
    period = usual_period if 0 < usual_period <= most_seconds else 1 / COMPARED_RATE_HZ
    return np.asarray(np.arange(len(timestamps)) * period, dtype=np.float64)


def _hash_signals(trajectory: Trajectory) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for signal in (trajectory.state, trajectory.action):
        if signal is not None:
            digest.update(repr((signal.names, signal.values.shape, signal.values.dtype.str)).encode())
            digest.update(signal.values.tobytes())
    return digest.digest()


def _add_matches(matches: dict[Pair, SignalMatch], trajectories: StoredTrajectories, kind: str) -> None:
    for first, second, shifts in propose_pairs(trajectories, WindowRule()):
        left, right = trajectories[first], trajectories[second]
        different, shift = min((_measure_difference(left, right, shift), shift) for shift in shifts)
        pair = trajectories.positions[first], trajectories.positions[second]
        is_better = pair not in matches or matches[pair].kind != "state" or kind == "state"
        if different <= _MOST_DIFFERENT and is_better:
            matches[pair] = SignalMatch(score=1.0 - different, shift=shift, kind=kind)


def _find_differing(matches: Mapping[Pair, SignalMatch], trajectories: StoredTrajectories) -> Iterator[Pair]:
    """The matches whose actions differ as those of two recordings do, such as by the tremor of a hand."""
    numbers = {position: number for number, position in enumerate(trajectories.positions)}
    for pair, match in matches.items():
        if numbers.keys() >= {*pair}:
            left, right = (trajectories[numbers[position]] for position in pair)
            is_still = not (count_moving_steps(left) or count_moving_steps(right))
            if not is_still and _measure_difference(left, right, match.shift) > _MOST_DIFFERENT:
                yield pair


def _measure_difference(left: NDArray[np.float32], right: NDArray[np.float32], shift: int) -> float:
    """The share of the motion in which two trajectories differ at the best of three shifts, signs and means aside."""
    best = 1.0
    for offset in (shift - 1, shift, shift + 1):
        start, stop = find_shared_steps(len(left), len(right), offset)
        if start == stop:
            continue
        ours, theirs = left[start:stop], right[start - offset : stop - offset]
        ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
        motion = float((ours**2).sum() + (theirs**2).sum()) / 2
        if motion < LEAST_SPREAD**2 * ours.size:
            continue
        shared = float(abs((ours * theirs).sum(axis=0)).sum())
        best = min(best, 2 * (motion - shared) / motion)
    return best
