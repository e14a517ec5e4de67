"""Records of real and simulated samples are exactly those that tensorflow_datasets reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ares.media import frames_at
from tests.ingest.rlds.conftest import open_source, tfds_steps


def test_bridge_holds_what_is_known_of_it(shared_data: Path) -> None:
    """What is odd about it is told in test_sample_quirks.py."""
    episodes = [item.load().episode for item in open_source(shared_data / "bridge_rlds").items]
    assert len({episode.episode_id for episode in episodes}) == 50
    assert len({episode.content_hash for episode in episodes}) == 25
    assert Counter(episode.split for episode in episodes) == {"train": 25, "val": 25}
    for episode in episodes:
        cameras = {(camera.width, camera.height, camera.codec) for camera in episode.cameras}
        assert cameras == {(64, 64, "jpeg")}
        assert [camera.flags for camera in episode.cameras] == [(), (), (), ("black", "frozen")]
        assert (episode.num_steps, episode.rate_hz, episode.rate_source) == (10, 5.0, "spec")
        assert episode.instruction and episode.success is None


@pytest.mark.parametrize(
    "path", ["bridge_rlds/bridge_dataset/1.0.0", "metaworld_rlds/metaworld_sawyer/1.0.0"]
)
def test_values_and_pictures_are_those_of_tensorflow_datasets(shared_data: Path, path: str) -> None:
    compared = 0
    for item in open_source(shared_data / path).items:
        record = item.load()
        truth, trajectory = tfds_steps(shared_data / path, record), record.trajectory
        assert trajectory.state is not None and trajectory.action is not None
        assert np.array_equal(trajectory.state.values, [step["observation"]["state"] for step in truth])
        assert np.array_equal(trajectory.action.values, [step["action"] for step in truth])
        assert np.array_equal(trajectory.reward, [step["reward"] for step in truth])
        for name, signal in trajectory.extra.items():
            assert np.array_equal(
                signal.values[:, 0], np.array([step[name] for step in truth], np.float32)
            ), name
        texts = dict.fromkeys(step["language_instruction"].decode() for step in truth)
        assert record.episode.instructions == tuple(texts)
        for camera in record.episode.cameras if not compared else ():
            seconds = [number / record.episode.rate_hz for number in range(len(truth))]
            pictures = np.stack([step["observation"][camera.name] for step in truth])
            assert np.abs(frames_at(camera.media, seconds).astype(int) - pictures).max() <= 1
        compared += len(truth)
    assert compared > 400


def test_demo_sample(demo_samples: Path) -> None:
    source = open_source(demo_samples / "rlds", rate_hz=10.0)
    records = [item.load() for item in source.items]
    assert source.total == len(records) == 12 and source.warnings == ()
    assert Counter(record.episode.success for record in records) == {True: 6, False: 6}
    first = records[0].episode
    assert (first.rate_source, first.success_source) == ("user", "episode_metadata/success")
    assert [(camera.name, camera.role) for camera in first.cameras] == [
        ("image", "front"),
        ("wrist_image", "wrist"),
    ]
