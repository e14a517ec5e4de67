"""Signals are read by id as they were written, also by the index that many reads of one version build."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from ares.episode import Record, Signal, Trajectory
from ares.store import measure_spread
from ares.store.lance import trajectories
from ares.store.lance_tables import Tables
from benchmarks.synthetic_episodes import synthetic_episode


def record(number: int, steps: int) -> Record:
    episode = replace(synthetic_episode(number, random.Random(number)), num_steps=steps)
    return Record(
        episode=episode,
        trajectory=Trajectory(timestamps=np.arange(steps, dtype=np.float64) * np.float64(0.1)),
    )


@pytest.mark.parametrize("reads_before", [0, 100])
def test_reads_follow_the_table(tables: Tables, reads_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "_READS_WITHOUT_INDEX", 3)
    records = [record(number, 2 + number) for number in range(40)]
    ids = [item.episode.episode_id for item in records]
    tables.episodes.add(records[:30])
    for _ in range(reads_before):
        assert tables.trajectories.get(ids[0]).timestamps.shape == (2,)
    requested = [ids[7], "unknown", ids[3], ids[35], ids[29]]
    read = dict(tables.trajectories.read(requested))
    assert list(read) == [ids[7], ids[3], ids[29]]
    assert [len(read[id].timestamps) for id in read] == [9, 5, 31]

    tables.trajectories.delete([ids[3], ids[5]])
    tables.episodes.add(records[30:])
    read = dict(tables.trajectories.read(requested))
    assert [(id, len(read[id].timestamps)) for id in read] == [(ids[7], 9), (ids[35], 37), (ids[29], 31)]
    assert dict(tables.trajectories.read([])) == dict(tables.trajectories.read(["unknown"])) == {}


def test_ids_of_one_hash_are_told_apart(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "_READS_WITHOUT_INDEX", 0)
    monkeypatch.setattr(trajectories, "_id_hashes", lambda ids: np.zeros(len(ids), np.int64))
    records = [record(number, 2 + number) for number in range(5)]
    tables.episodes.add(records)
    ((episode_id, trajectory),) = tables.trajectories.read([records[3].episode.episode_id])
    assert (episode_id, len(trajectory.timestamps)) == (records[3].episode.episode_id, 5)


def test_a_spread_is_exact_over_all_episodes_of_the_same_dimensions(tables: Tables) -> None:
    """Far more than are read at once, with values that are not finite, and with others of other names."""
    noise, names = np.random.default_rng(0), ("x", "y", "z")
    signals, records = {}, []
    for number in range(150):
        item = record(number, 2 + number % 7)
        values = noise.normal(0, 1, (2 + number % 7, 3)).astype(np.float32)
        values[0, number % 3] = (np.nan, np.inf, 0.0)[number % 3]
        own_names = names if number % 10 else ("a", "b", "c")
        state = Signal(values=values if number % 10 else values * 100, names=own_names)
        records.append(replace(item, trajectory=replace(item.trajectory, state=state)))
        if number % 10:
            signals[item.episode.episode_id] = values
    tables.episodes.add(records)
    left_out = next(iter(signals))
    signals.pop(left_out)
    ids = pa.array(sorted(tables.episodes.ids() - {left_out}))
    spread = measure_spread(lambda: tables.trajectories.scan_signal("state", names, ids), 3, 8)
    for dimension in range(3):
        real = {id: own[np.isfinite(own[:, dimension]), dimension] for id, own in signals.items()}
        lowest, highest = min(map(np.min, real.values())), max(map(np.max, real.values()))
        assert spread.ends[:, dimension].tolist() == [lowest, highest]
        assert lowest in real[spread.end_ids[0][dimension]]
        assert highest in real[spread.end_ids[1][dimension]]
        shares = [np.histogram(own, 8, (lowest, highest))[0] / len(own) for own in real.values()]
        assert np.allclose(spread.shares[dimension], np.mean(shares, axis=0))
