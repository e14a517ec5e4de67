"""Samples, class labels, boxes, translations and ArrayRecord files are read as tensorflow_datasets reads them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import SourceError
from ares.formats import RecordLocation, read_record, scan_record_file
from ares.formats.tf_example import make_tf_example_class
from ares.media import frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.rlds import rlds
from tests.generators.tfrecords import write_tfrecords
from tests.ingest.conftest import MakeRlds
from tests.ingest.rlds.conftest import import_tfds, open_source, tfds_steps

PLAIN = {
    "steps/action": "float32 7",
    "steps/observation/state": "float32 5",
    "steps/observation/image": "png 8 12 3",
}


def _write_as_array_record(folder: Path) -> list[Path]:
    """Turn the TFRecord files of a dataset into ArrayRecord files."""
    from array_record.python.array_record_module import ArrayRecordWriter

    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps({**info, "fileFormat": "array_record"}))
    written = []
    for path in sorted(folder.glob("*.tfrecord-*")):
        target = path.with_name(path.name.replace(".tfrecord-", ".array_record-"))
        writer = ArrayRecordWriter(str(target), "group_size:1")
        for span in scan_record_file(str(path)):
            assert isinstance(span, RecordLocation)
            writer.write(read_record(str(path), span)[0])
        writer.close()
        path.unlink()
        written.append(target)
    return written


def _items(folder: Path) -> list[Any]:
    (source,) = rlds.open(str(folder), SourceOptions(dataset="same"))
    return list(source.items)


def test_array_records_hold_the_same_episodes_as_tfrecords(make_rlds: MakeRlds) -> None:
    folder = make_rlds("a", PLAIN, records=5).path
    expected = [item.load() for item in _items(folder)]
    before = [frames_at(record.episode.cameras[0].media, [0.0, 0.2]) for record in expected]
    _write_as_array_record(folder)
    records = [item.load() for item in _items(folder)]
    assert [record.episode.episode_id for record in records] == [
        record.episode.episode_id for record in expected
    ]
    for record, other, frames in zip(records, expected, before, strict=True):
        assert record.trajectory.state is not None and other.trajectory.state is not None
        np.testing.assert_array_equal(record.trajectory.state.values, other.trajectory.state.values)
        np.testing.assert_array_equal(frames_at(record.episode.cameras[0].media, [0.0, 0.2]), frames)


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_cut_array_record_is_an_error_that_names_the_file(make_rlds: MakeRlds, kept: int) -> None:
    folder = make_rlds("a", PLAIN, records=3).path
    (path,) = _write_as_array_record(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * kept // 4])
    for item in _items(folder):
        with pytest.raises(SourceError, match=str(path)) as caught:
            item.load()
        assert "\n" not in str(caught.value) and (kept or caught.value.reason == "file is empty")


def _labelled_example() -> bytes:
    """Two steps with a box each, a label and a text in two languages."""
    boxes = np.arange(8, dtype=np.float32).reshape(2, 4) / 10
    example = make_tf_example_class()()
    values = example.features.feature
    values["steps/action"].float_list.value.extend(range(14))
    values["steps/observation/box"].float_list.value.extend(boxes.ravel().tolist())
    values["episode_metadata/skill"].int64_list.value.append(1)
    values["episode_metadata/text/de"].bytes_list.value.append(b"leg ab")
    values["episode_metadata/text/en"].bytes_list.value.append(b"put down")
    payload: bytes = example.SerializeToString()
    return payload


def test_labels_boxes_and_translations_are_those_of_tensorflow_datasets(make_rlds: MakeRlds) -> None:
    features = import_tfds().features
    folder = make_rlds("a", PLAIN).path
    tree = features.FeaturesDict(
        {
            "steps": features.Dataset(
                {
                    "action": features.Tensor(shape=(7,), dtype=np.float32),
                    "observation": {"box": features.BBoxFeature()},
                }
            ),
            "episode_metadata": {
                "skill": features.ClassLabel(names=["pick", "place"]),
                "text": features.Translation(languages=["de", "en"]),
            },
        }
    )
    tree.save_config(str(folder))
    tree.save_metadata(str(folder))
    payload = _labelled_example()
    (path,) = folder.glob("*.tfrecord-*")
    write_tfrecords(path, [payload])
    (item,) = _items(folder)
    record = item.load()
    theirs = tree.deserialize_example_np(payload)
    steps = list(theirs["steps"])
    np.testing.assert_array_equal(
        record.trajectory.extra["box"].values
        if "box" in record.trajectory.extra
        else record.trajectory.state.values,
        np.stack([step["observation"]["box"] for step in steps]),
    )
    metadata = record.episode.metadata
    assert metadata["skill"] == tree["episode_metadata"]["skill"].int2str(
        int(theirs["episode_metadata"]["skill"])
    )
    assert metadata["text/de"] == theirs["episode_metadata"]["text"]["de"].decode()
    assert "put down" in (*record.episode.instructions, metadata.get("text/en"))


def test_bridge_has_its_splits_and_the_rate_of_its_spec(shared_data: Path) -> None:
    episodes = [item.load().episode for item in open_source(shared_data / "bridge_rlds").items]
    known = Counter((episode.split, episode.rate_hz, episode.rate_source) for episode in episodes)
    assert known == {("train", 5.0, "spec"): 25, ("val", 5.0, "spec"): 25}


@pytest.mark.parametrize(
    "path", ["bridge_rlds/bridge_dataset/1.0.0", "metaworld_rlds/metaworld_sawyer/1.0.0"]
)
def test_values_and_pictures_are_those_of_tensorflow_datasets(shared_data: Path, path: str) -> None:
    compared = 0
    for item in open_source(shared_data / path).items:
        record = item.load()
        truth, trajectory = tfds_steps(shared_data / path, record), record.trajectory
        assert trajectory.state is not None and trajectory.action is not None
        assert trajectory.reward is not None
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
