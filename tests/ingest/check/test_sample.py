"""The sample that a dataset is learnt from: spread, the same at every run, and read once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np

from ares.episode import Record, Signal, Trajectory, make_episode_id
from ares_ingest.base import Item, Source
from ares_ingest.check.run import _check_items, sample_numbers
from ares_ingest.check.tasks import CheckProgress, SignalTask, run_signal_tasks
from tests.generators.robots import random_dataset, random_robot
from tests.ingest.conftest import make_episode


def _tasks(count: int) -> list[SignalTask]:
    ids = [make_episode_id(format="x", dataset="d", version="", split="", key=str(n)) for n in range(count)]
    return [SignalTask(load=_never, location=f"/data/{id}", episode_id=id) for id in ids]


def _never() -> Record:
    raise AssertionError("read")


def test_the_sample_is_spread_over_the_dataset() -> None:
    numbers = sample_numbers(_tasks(5_000))
    assert (len(numbers), numbers) == (256, sorted(numbers))
    quarters = Counter(number // 1_250 for number in numbers)
    assert min(quarters.values()) > 40
    assert sample_numbers(_tasks(200)) == list(range(200))


def test_episodes_that_are_added_change_the_sample_little() -> None:
    before, after = set(sample_numbers(_tasks(5_000))), set(sample_numbers(_tasks(5_100)))
    assert len(before & after) > 240


def test_every_record_is_read_once() -> None:
    reads: Counter[str] = Counter()
    rng = np.random.default_rng(4)
    drawn = random_dataset(random_robot(rng), rng, episodes=3)
    signals = [replace(episode, episode_id=f"{number:016x}") for number, episode in enumerate(drawn)]

    def load(number: int) -> Record:
        episode = signals[number]
        reads[episode.episode_id] += 1
        state = Signal(episode.state.astype(np.float32), episode.state_names)
        action = Signal(episode.action.astype(np.float32), episode.action_names)
        return Record(
            episode=make_episode(
                "made",
                episode.episode_id,
                episode_id=episode.episode_id,
                num_steps=len(episode.state),
                rate_hz=episode.rate_hz,
            ),
            trajectory=Trajectory(timestamps=episode.seconds, state=state, action=action),
        )

    items = [
        Item(episode_id=s.episode_id, location=f"record {n}", load=partial(load, n))
        for n, s in enumerate(signals)
    ]
    source = Source(format="made", dataset="made", version="", total=3, items=iter(items))
    checked = _check_items(source, None, CheckProgress(), lambda tasks: iter(run_signal_tasks(list(tasks))))
    assert (checked.num_episodes, checked.num_failed) == (3, 0)
    assert checked.num_lags == 3
    assert set(reads.values()) == {1}
