"""RLDS datasets are read with the right roles, and no record of a damaged one disappears silently."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ares.episode import Record
from ares.errors import SourceError
from ares.formats import RecordLocation, scan_record_file
from ares.formats.tf_example import make_tf_example_class
from ares.formats.tfrecord import write_tfrecords
from ingest.base import Item, Source, SourceOptions
from ingest.rlds import rlds

Values = Sequence[Any]


def scalar(dtype: str, *shape: int) -> dict[str, Any]:
    sizes = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {"pythonClassName": "x.Tensor", "tensor": {"dtype": dtype, "shape": sizes, "encoding": "none"}}


TEXT = {"pythonClassName": "x.Text", "text": {}}
IMAGE = {
    "pythonClassName": "x.Image",
    "image": {"shape": {"dimensions": ["8", "12", "3"]}, "dtype": "uint8", "encodingFormat": "png"},
}


def tree(leaves: dict[str, Any]) -> dict[str, Any]:
    """A features.json from leaves by key."""
    root: dict[str, Any] = {}
    for key, leaf in leaves.items():
        *folders, name = key.split("/")
        node = root
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = leaf

    def wrap(node: dict[str, Any], key: str = "") -> dict[str, Any]:
        if "pythonClassName" in node:
            return node
        wrapped = {
            "pythonClassName": "x.FeaturesDict",
            "featuresDict": {"features": {k: wrap(v, k) for k, v in node.items()}},
        }
        if key == "steps":
            return {"pythonClassName": "x.Dataset", "sequence": {"feature": wrapped, "length": "-1"}}
        return wrapped

    return wrap(root)


def payload(values: dict[str, Values]) -> bytes:
    example = make_tf_example_class()()
    for key, stored in values.items():
        feature = example.features.feature[key]
        if stored and isinstance(stored[0], bytes):
            feature.bytes_list.value.extend(stored)
        elif stored and isinstance(stored[0], float):
            feature.float_list.value.extend(stored)
        else:
            feature.int64_list.value.extend(int(value) for value in stored)
    data: bytes = example.SerializeToString()
    return data


def png(shade: int) -> bytes:
    return bytes(cv2.imencode(".png", np.full((8, 12, 3), shade, np.uint8))[1].tobytes())


FEATURES = {
    "steps/observation/image": IMAGE,
    "steps/observation/state": scalar("float32", 2),
    "steps/action": scalar("float32", 3),
    "steps/reward": scalar("float32"),
    "steps/is_last": scalar("bool"),
    "steps/language_instruction": TEXT,
}


def steps(count: int = 4, **changed: Values) -> dict[str, Values]:
    values: dict[str, Values] = {
        "steps/observation/image": [png(10 * n + 40) for n in range(count)],
        "steps/observation/state": [float(n) for n in range(2 * count)],
        "steps/action": [n / 8 for n in range(3 * count)],
        "steps/reward": [0.0] * (count - 1) + [1.0],
        "steps/is_last": [False] * (count - 1) + [True],
        "steps/language_instruction": [b"open the drawer"] * count,
    }
    return values | changed


def write_dataset(
    folder: Path,
    records: Sequence[dict[str, Values]],
    leaves: dict[str, Any] | None = None,
    name: str = "toy",
) -> Path:
    """A TFDS folder of one split and one shard."""
    path = folder / name / "1.0.0"
    path.mkdir(parents=True)
    (path / "features.json").write_text(json.dumps(tree(leaves or FEATURES)))
    info = {"name": name, "version": "1.0.0", "fileFormat": "tfrecord"}
    splits = [{"name": "train", "shardLengths": [str(len(records))]}]
    (path / "dataset_info.json").write_text(json.dumps(info | {"splits": splits}))
    write_tfrecords(path / f"{name}-train.tfrecord-00000-of-00001", [payload(values) for values in records])
    return path


def open_source(path: Path, **options: Any) -> Source:
    (source,) = rlds.open(str(path), SourceOptions(**options))
    return source


def load_only_record(path: Path, **options: Any) -> Record:
    (item,) = open_source(path, **options).items
    return item.load()


def load_outcome(item: Item) -> str:
    try:
        item.load()
    except SourceError as error:
        return error.reason
    return "good"


def test_a_rate_that_nobody_knows_is_assumed_and_said(tmp_path: Path) -> None:
    source = open_source(write_dataset(tmp_path, [steps()]))
    assert "rate is not known, 10 Hz assumed (give --rate)" in source.warnings
    assert next(source.items).load().episode.rate_source == "assumed"


def test_missing_and_uneven_values_are_told_not_fatal(tmp_path: Path) -> None:
    broken = steps() | {"steps/reward": [1.0], "steps/action": []}
    del broken["steps/is_last"]
    record = load_only_record(write_dataset(tmp_path, [broken]))
    assert record.trajectory.action is None and record.trajectory.reward is None
    assert record.episode.num_steps == 4 and record.episode.action_names == ()
    assert set(record.warnings) == {
        "steps/action is missing",
        "steps/reward is not as long as the other steps",
        "steps/is_last is missing",
    }


def test_a_record_without_steps_is_an_error(tmp_path: Path) -> None:
    (item,) = open_source(write_dataset(tmp_path, [{"steps/action": []}])).items
    assert load_outcome(item) == "record has no steps"


def test_language_wherever_it_lives(tmp_path: Path) -> None:
    leaves = FEATURES | {
        "steps/language_instruction_2": TEXT,
        "steps/observation/natural_language_instruction": TEXT,
        "steps/observation/instruction": scalar("int32", 6),
        "steps/language_embedding": scalar("float32", 512),
    }
    values = steps(
        2,
        **{
            "steps/language_instruction": [b" ", b"null"],
            "steps/language_instruction_2": [b"<b>open</b> it", b"<b>open</b> it"],
            "steps/observation/natural_language_instruction": [b"open it", b"shut it"],
            "steps/observation/instruction": [*b"push\0\0"] * 2,
            "steps/language_embedding": [0.5] * 1024,
        },
    )
    folder = write_dataset(tmp_path, [values], leaves)
    record = load_only_record(folder)
    assert set(record.episode.instructions) == {"<b>open</b> it", "open it", "shut it", "push"}
    assert record.episode.instruction == record.episode.instructions[0]
    assert "language_embedding" not in record.trajectory.extra
    assert "steps/language_embedding is not stored (an embedding)" in open_source(folder).warnings


def test_action_and_state_in_parts_keep_their_names(tmp_path: Path) -> None:
    leaves = {
        key: leaf for key, leaf in FEATURES.items() if key not in ("steps/action", "steps/observation/state")
    }
    leaves |= {
        "steps/action/world_vector": scalar("float32", 3),
        "steps/action/open_gripper": scalar("bool"),
        "steps/observation/gripper_closed": scalar("float32", 1),
        "steps/observation/base_pose": scalar("float32", 2),
    }
    values = steps(2) | {
        "steps/action/world_vector": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
        "steps/action/open_gripper": [True, False],
        "steps/observation/gripper_closed": [0.0, 1.0],
        "steps/observation/base_pose": [0.25, 0.5, 0.75, 1.0],
    }
    record = load_only_record(write_dataset(tmp_path, [values], leaves))
    action, state = record.trajectory.action, record.trajectory.state
    assert action is not None and state is not None
    assert action.names == ("open_gripper", "world_vector_0", "world_vector_1", "world_vector_2")
    assert action.values.tolist() == [[1.0, 0.5, 1.0, 1.5], [0.0, 2.0, 2.5, 3.0]]
    assert state.names == ("base_pose_0", "base_pose_1", "gripper_closed") == record.episode.state_names
    assert state.values.tolist() == [[0.25, 0.5, 0.0], [0.75, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("extra", "success", "source"),
    [
        ({"success": [1]}, True, "success"),
        ({"episode_metadata/success": [0]}, False, "episode_metadata/success"),
        ({"aspects/has_aspects": [1], "aspects/success": [1]}, True, "aspects/success"),
        ({"aspects/has_aspects": [0], "aspects/success": [1]}, None, ""),
        ({}, None, ""),
    ],
)
def test_outcome_comes_from_honest_fields_only(
    tmp_path: Path, extra: dict[str, Values], success: bool | None, source: str
) -> None:
    leaves = FEATURES | {key: scalar("bool") for key in extra} | {"steps/is_terminal": scalar("bool")}
    record = load_only_record(
        write_dataset(tmp_path, [steps() | extra | {"steps/is_terminal": [0, 0, 0, 1]}], leaves)
    )
    assert (record.episode.success, record.episode.success_source) == (success, source)


def test_frozen_and_black_cameras(tmp_path: Path) -> None:
    leaves = FEATURES | {"steps/observation/wrist_image": IMAGE, "steps/observation/depth": IMAGE}
    unchanged, dark = [png(90)] * 4, [png(3)] * 4
    values = steps() | {"steps/observation/image": unchanged, "steps/observation/wrist_image": dark}
    folder = write_dataset(tmp_path, [values], leaves)
    cameras = {camera.name: camera for camera in load_only_record(folder).episode.cameras}
    assert {name: camera.flags for name, camera in cameras.items()} == {
        "image": ("frozen",),
        "wrist_image": ("black", "frozen"),
    }
    assert (
        "steps/observation/depth is not stored (depth or another image that is not in colour)"
        in open_source(folder).warnings
    )


def damaged_source(tmp_path: Path, change: Callable[[bytearray, list[RecordLocation]], None]) -> Source:
    folder = write_dataset(tmp_path, [steps(n + 1) for n in range(4)])
    shard = folder / "toy-train.tfrecord-00000-of-00001"
    spans = [span for span in scan_record_file(str(shard)) if isinstance(span, RecordLocation)]
    raw = bytearray(shard.read_bytes())
    change(raw, spans)
    shard.write_bytes(raw)
    return open_source(folder)


def test_a_wrong_checksum_costs_that_record_only(tmp_path: Path) -> None:
    def change(raw: bytearray, spans: list[RecordLocation]) -> None:
        raw[spans[1].offset + 50] ^= 1
        raw[spans[2].offset - 3] ^= 1

    source = damaged_source(tmp_path, change)
    items = list(source.items)
    assert [load_outcome(item) for item in items] == [
        "good",
        "record has a wrong checksum",
        "record length has a wrong checksum",
        "good",
    ]
    assert source.total == 4 and len({item.episode_id for item in items}) == 4


@pytest.mark.parametrize("beyond", [-5, 5, 40])
def test_a_shard_that_is_cut_keeps_what_stands_before(tmp_path: Path, beyond: int) -> None:
    source = damaged_source(
        tmp_path, lambda raw, spans: raw.__delitem__(slice(spans[2].offset + beyond, None))
    )
    assert [load_outcome(item) for item in source.items] == [
        "good",
        "good",
        "record is cut off",
        "record is cut off",
    ]


def test_a_shard_cut_between_records_misses_the_rest(tmp_path: Path) -> None:
    source = damaged_source(tmp_path, lambda raw, spans: raw.__delitem__(slice(spans[2].offset - 12, None)))
    assert [load_outcome(item) for item in source.items] == [
        "good",
        "good",
        "record is cut off",
        "record is cut off",
    ]


def test_a_missing_shard_fails_each_of_its_records(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [steps(), steps()])
    (folder / "toy-train.tfrecord-00000-of-00001").unlink()
    source = open_source(folder)
    assert [load_outcome(item) for item in source.items] == ["file is missing"] * 2 and source.total == 2


def test_a_count_that_no_shard_can_hold_is_told_once(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [steps(2), steps(3)])
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(10**12)]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    items = list(itertools.islice(open_source(folder).items, 4))
    assert [load_outcome(item) for item in items] == [
        "good",
        "good",
        "dataset_info.json counts far more records than the shard holds",
    ]


def test_records_that_nobody_counted_are_read_and_told(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [steps(2), steps(3)])
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = ["1"]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    first, second = [item.load() for item in open_source(folder).items]
    assert first.warnings == () and second.warnings == ("record beyond those that dataset_info.json counts",)


def test_lengths_are_counted_where_dataset_info_has_none(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [steps(2), steps(3)])
    (folder / "dataset_info.json").write_text(json.dumps({"name": "toy", "version": "1.0.0"}))
    source = open_source(folder)
    assert source.total == 2 and [item.load().episode.split for item in source.items] == ["train", "train"]


def test_what_is_no_dataset_is_refused_in_words(tmp_path: Path) -> None:
    assert not rlds.recognises(str(tmp_path))
    with pytest.raises(SourceError, match="folder holds no RLDS dataset"):
        open_source(tmp_path)
    folder = write_dataset(tmp_path, [steps()])
    assert rlds.recognises(str(tmp_path)) and rlds.recognises(str(folder))
    (folder / "features.json").write_text("{not json")
    with pytest.raises(SourceError, match=r"features.json is not JSON"):
        open_source(folder)
    (folder / "features.json").write_text("[1, 2]")
    with pytest.raises(SourceError, match=r"features.json is not a JSON object"):
        open_source(folder)
    (folder / "features.json").write_text(json.dumps(tree({"label": scalar("int64")})))
    with pytest.raises(SourceError, match="dataset has no steps"):
        open_source(folder)
    (folder / "dataset_info.json").write_text(json.dumps({"name": "toy", "fileFormat": "riegeli"}))
    with pytest.raises(SourceError, match=r"neither as tfrecord nor as array_record: .*riegeli"):
        open_source(folder)


def test_every_dataset_under_a_folder_is_opened(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [steps()])
    shutil.copytree(folder, folder.with_name("2.0.0"))
    write_dataset(tmp_path, [steps()], name="other")
    sources = rlds.open(str(tmp_path), SourceOptions())
    assert len(sources) == 3
    with pytest.raises(SourceError, match="one name for several datasets"):
        rlds.open(str(tmp_path), SourceOptions(dataset="renamed"))
    assert open_source(folder, dataset="renamed").dataset == "renamed"
