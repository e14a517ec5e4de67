"""Records of real and simulated samples are exactly those that tensorflow_datasets reads."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.formats import RecordLocation, read_record
from ares.media import frames_at
from ingest.base import Source, SourceOptions
from ingest.rlds import rlds


def open_source(path: Path, **options: Any) -> Source:
    (source,) = rlds.open(str(path), SourceOptions(**options))
    return source


def test_bridge_holds_what_is_known_of_it(shared_data: Path) -> None:
    source = open_source(shared_data / "bridge_rlds")
    records = [item.load() for item in source.items]
    assert source.total == len(records) == 50
    assert len({record.episode.episode_id for record in records}) == 50
    assert len({record.episode.content_hash for record in records}) == 25
    assert Counter(record.episode.split for record in records) == {"train": 25, "val": 25}
    for record in records:
        episode = record.episode
        flags = {camera.name: camera.flags for camera in episode.cameras}
        assert flags == {"image_0": (), "image_1": (), "image_2": (), "image_3": ("black", "frozen")}
        assert {(camera.width, camera.height, camera.codec) for camera in episode.cameras} == {
            (64, 64, "jpeg")
        }
        assert (episode.num_steps, episode.rate_hz, episode.rate_source) == (10, 5.0, "spec")
        assert episode.instruction and episode.success is None
        assert record.episode.cameras[3].flags == ("black", "frozen")
        assert "metadata says that camera image_0 is absent, but it has pictures" in record.warnings


@pytest.mark.parametrize(
    "path", ["bridge_rlds/bridge_dataset/1.0.0", "metaworld_rlds/metaworld_sawyer/1.0.0"]
)
def test_values_are_exactly_those_of_tensorflow_datasets(shared_data: Path, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_datasets as tfds

    features = tfds.features.FeaturesDict.from_config(str(shared_data / path))
    compared = 0
    for item in open_source(shared_data / path).items:
        record = item.load()
        media = record.episode.cameras[0].media
        raw, _ = read_record(media.uri, RecordLocation(media.byte_offset, media.byte_size))
        truth = list(features.deserialize_example_np(raw)["steps"])
        trajectory = record.trajectory
        assert (
            trajectory.state is not None and trajectory.action is not None and trajectory.reward is not None
        )
        assert np.array_equal(
            trajectory.state.values, np.stack([step["observation"]["state"] for step in truth])
        )
        assert np.array_equal(trajectory.action.values, np.stack([step["action"] for step in truth]))
        assert np.array_equal(trajectory.reward, np.array([step["reward"] for step in truth]))
        for name, signal in trajectory.extra.items():
            assert np.array_equal(
                signal.values[:, 0], np.array([step[name] for step in truth], np.float32)
            ), name
        assert record.episode.instructions == tuple(
            dict.fromkeys(step["language_instruction"].decode() for step in truth)
        )
        compared += len(truth)
    assert compared > 400


def test_pictures_are_those_of_tensorflow_datasets(shared_data: Path) -> None:
    path = shared_data / "bridge_rlds/bridge_dataset/1.0.0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_datasets as tfds

    features = tfds.features.FeaturesDict.from_config(str(path))
    record = next(open_source(path).items).load()
    for camera in record.episode.cameras:
        raw, _ = read_record(
            camera.media.uri, RecordLocation(camera.media.byte_offset, camera.media.byte_size)
        )
        truth = [step["observation"][camera.name] for step in features.deserialize_example_np(raw)["steps"]]
        frames = frames_at(camera.media, [n / 5.0 for n in range(10)])
        assert np.abs(frames.astype(int) - np.stack(truth)).max() <= 1


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
