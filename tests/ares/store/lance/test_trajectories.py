"""Signals are read by id as they were written, also by the index that many reads of one version build."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ares.episode import Record, Trajectory
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
