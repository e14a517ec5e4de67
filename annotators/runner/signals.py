"""Reads the signals of episodes for annotators, on this machine or on a worker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ares.clock import needs_stamps
from ares.episode import Episode, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


def read_signals(stores: Stores, episode_ids: Collection[str]) -> dict[str, Trajectory]:
    """The signals of episodes that have any, by episode id; they cannot be changed. Raises StoreError."""
    trajectories = dict(stores.tables.trajectories.read(episode_ids))
    for trajectory in trajectories.values():
        _make_read_only(trajectory)
    return trajectories


def read_stamps(stores: Stores, episodes: Sequence[Episode]) -> dict[str, NDArray[np.float64]]:
    """The stamps of the episodes whose frames can only be selected by them."""
    ids = [episode.episode_id for episode in episodes if needs_stamps(episode)]
    read = stores.tables.trajectories.read(ids) if ids else ()
    return {id: trajectory.timestamps for id, trajectory in read}


def _make_read_only(trajectory: Trajectory) -> None:
    """The annotators of a run share the signals: one that writes into them fails, and the others are right."""
    signals = (trajectory.state, trajectory.action, *trajectory.extra.values())
    arrays = (trajectory.timestamps, trajectory.reward, *(signal.values for signal in signals if signal))
    for array in arrays:
        if array is not None:
            array.setflags(write=False)
