"""RLDS datasets are read with the right roles, and no record of a damaged one disappears silently."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.errors import SourceError
from ares.formats import RecordLocation, scan_record_file
from ares_ingest.base import Item, SourceOptions
from ares_ingest.rlds import rlds
from tests.ingest.conftest import MakeRlds
from tests.ingest.rlds.conftest import load_first_record, open_source

OBS = "steps/observation/"
FEATURES = {
    OBS + "image": "png 8 12 3",
    OBS + "state": "float32 2",
    "steps/action": "float32 3",
    "steps/reward": "float32",
    "steps/is_last": "bool",
    "steps/language_instruction": "text",
}


def load_outcome(item: Item) -> str:
    try:
        item.load()
    except SourceError as error:
        return error.reason
    return "good"


def test_missing_and_uneven_values_are_told_not_fatal(make_rlds: MakeRlds) -> None:
    changed: dict[str, Any] = {"steps/reward": [1.0], "steps/action": [], "steps/is_last": None}
    changed |= {OBS + "state": None, "steps/language_instruction": []}
    record = load_first_record(make_rlds("toy", FEATURES, changed=changed).path)
    trajectory, episode = record.trajectory, record.episode
    assert trajectory.action is None and trajectory.reward is None and trajectory.state is None
    assert (episode.num_steps, episode.action_names, episode.instruction) == (4, (), "")
    assert set(record.warnings) == {
        "steps/action is missing",
        f"{OBS}state is missing",
        "steps/reward is not as long as the other steps",
        "steps/is_last is missing",
    }


def test_language_wherever_it_lives(make_rlds: MakeRlds) -> None:
    leaves = FEATURES | {
        "steps/language_instruction_2": "text",
        OBS + "natural_language_instruction": "text",
        OBS + "instruction": "int32 6",
        "steps/language_embedding": "float32 512",
    }
    changed = {
        "steps/language_instruction": [" ", "null"],
        "steps/language_instruction_2": ["<b>open</b> it", "<b>open</b> it"],
        OBS + "natural_language_instruction": ["open it", "shut it"],
        OBS + "instruction": [*b"push\0\0"] * 2,
    }
    folder = make_rlds("toy", leaves, steps=2, changed=changed).path
    record = load_first_record(folder)
    assert set(record.episode.instructions) == {"<b>open</b> it", "open it", "shut it", "push"}
    assert record.episode.instruction == record.episode.instructions[0]
    assert "language_embedding" not in record.trajectory.extra
    assert "steps/language_embedding is not stored (an embedding)" in open_source(folder).warnings


def test_action_and_state_in_parts_keep_their_names(make_rlds: MakeRlds) -> None:
    leaves = {
        OBS + "image": "png 8 12 3",
        "steps/action/world_vector": "float32 3",
        "steps/action/open_gripper": "bool",
        OBS + "gripper_closed": "float32 1",
        OBS + "base_pose": "float32 2",
    }
    changed = {
        "steps/action/world_vector": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
        "steps/action/open_gripper": [True, False],
        OBS + "gripper_closed": [0.0, 1.0],
        OBS + "base_pose": [0.25, 0.5, 0.75, 1.0],
    }
    record = load_first_record(make_rlds("toy", leaves, steps=2, changed=changed).path)
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
    make_rlds: MakeRlds, extra: dict[str, list[int]], success: bool | None, source: str
) -> None:
    leaves = FEATURES | dict.fromkeys(extra, "bool") | {"steps/is_terminal": "bool"}
    dataset = make_rlds("toy", leaves, changed=extra | {"steps/is_terminal": [0, 0, 0, 1]})
    episode = load_first_record(dataset.path).episode
    assert (episode.success, episode.success_source) == (success, source)


CUT = ["good", "good", "record is cut off", "record is cut off"]


def flip_checksums(raw: bytearray, spans: list[RecordLocation]) -> None:
    raw[spans[1].offset + 50] ^= 1
    raw[spans[2].offset - 3] ^= 1


@pytest.mark.parametrize(
    ("change", "outcomes"),
    [
        (
            flip_checksums,
            ["good", "record has a wrong checksum", "record length has a wrong checksum", "good"],
        ),
        (lambda raw, spans: raw.__delitem__(slice(spans[2].offset - 5, None)), CUT),
        (lambda raw, spans: raw.__delitem__(slice(spans[2].offset + 40, None)), CUT),
        (lambda raw, spans: raw.__delitem__(slice(spans[2].offset - 12, None)), CUT),
    ],
    ids=["checksums", "cut in a length", "cut in a record", "cut between records"],
)
def test_damage_of_a_shard_costs_the_records_where_it_lies(
    make_rlds: MakeRlds, change: Callable[[bytearray, list[RecordLocation]], object], outcomes: list[str]
) -> None:
    folder = make_rlds("toy", FEATURES, records=4).path
    (shard,) = folder.glob("*.tfrecord*")
    raw = bytearray(shard.read_bytes())
    change(raw, [span for span in scan_record_file(str(shard)) if isinstance(span, RecordLocation)])
    shard.write_bytes(raw)
    source = open_source(folder)
    items = list(source.items)
    assert [load_outcome(item) for item in items] == outcomes
    assert source.total == 4 and len({item.episode_id for item in items}) == 4


def test_a_missing_shard_fails_each_of_its_records(make_rlds: MakeRlds) -> None:
    folder = make_rlds("toy", FEATURES, records=2).path
    next(folder.glob("*.tfrecord*")).unlink()
    source = open_source(folder)
    assert [load_outcome(item) for item in source.items] == ["file is missing"] * 2 and source.total == 2


FAR_MORE = "dataset_info.json counts far more records than the shard holds"


@pytest.mark.parametrize(
    ("splits", "outcomes"),
    [
        ([{"name": "train", "shardLengths": [str(10**12)]}], ["good", "good", FAR_MORE]),
        ([{"name": "train", "shardLengths": ["1"]}], ["good", "good"]),
        ([], ["good", "good"]),
    ],
)
def test_records_are_those_of_the_shard_whatever_dataset_info_counts(
    make_rlds: MakeRlds, splits: list[Any], outcomes: list[str]
) -> None:
    folder = make_rlds("toy", FEATURES, records=2).path
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps(info | {"splits": splits}))
    items = list(itertools.islice(open_source(folder).items, 4))
    assert [load_outcome(item) for item in items] == outcomes
    first, second = (item.load() for item in items[:2])
    assert first.episode.split == second.episode.split == "train" and first.warnings == ()
    is_beyond = bool(splits) and splits[0]["shardLengths"] == ["1"]
    assert second.warnings == ("record beyond those that dataset_info.json counts",) * is_beyond


def test_what_is_no_dataset_is_refused_in_words(make_rlds: MakeRlds, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder holds no RLDS dataset"):
        open_source(tmp_path)
    folder = make_rlds("toy", {"label": "int64"}).path
    with pytest.raises(SourceError, match="dataset has no steps"):
        open_source(folder)
    (folder / "features.json").write_text("{not json")
    with pytest.raises(SourceError, match=r"features.json is not JSON"):
        open_source(folder)
    (folder / "dataset_info.json").write_text(json.dumps({"name": "toy", "fileFormat": "riegeli"}))
    with pytest.raises(SourceError, match=r"neither as tfrecord nor as array_record: .*riegeli"):
        open_source(folder)


def test_every_dataset_under_a_folder_is_opened(make_rlds: MakeRlds, tmp_path: Path) -> None:
    folder = make_rlds("toy", FEATURES).path
    shutil.copytree(folder, folder.with_name("2.0.0"))
    make_rlds("other", FEATURES)
    assert len(rlds.open(str(tmp_path), SourceOptions())) == 3
    with pytest.raises(SourceError, match="one name for several datasets"):
        rlds.open(str(tmp_path), SourceOptions(dataset="renamed"))
    assert open_source(folder, dataset="renamed").dataset == "renamed"
