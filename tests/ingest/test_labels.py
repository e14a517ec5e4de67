"""Outcomes, texts and splits in files beside the episodes reach them, and what is wrong in such a file is counted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from ares.episode import Record, SourceSegment
from ares.input import EpisodeNames
from ares.media import frames_at
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_ingest.base import Source, SourceOptions
from ares_ingest.label_files import LabelFile, read_label_file
from ares_ingest.labels import EpisodeLabels, FileTally, _merge_labels
from tests.ingesting import ingest_paths, open_sources


def load_by_key(path: Path, spec: str = "") -> tuple[Source, dict[str, Record]]:
    (source,) = open_sources([str(path)], SourceOptions(spec=spec))
    records = [item.load() for item in source.items]
    return source, {record.episode.key: record for record in records}


def write_episodes(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        np.savez(folder / f"ep_{number:03d}.npz", state=np.ones((6, 2)) * number, action=np.zeros((6, 2)))


def write_demos(folder: Path, count: int) -> None:
    (folder / "raw").mkdir(parents=True)
    with h5py.File(folder / "raw" / "take.hdf5", "w") as file:
        for number in range(count):
            file[f"data/demo_{number}/actions"] = np.ones((6, 2)) * number
            file[f"data/demo_{number}/obs/joint_pos"] = np.zeros((6, 2))


def write_labels(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    elif path.suffix == ".csv":
        csv.write_csv(pa.Table.from_pylist(rows), path)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("write", "name", "suffix", "good", "bad"),
    [
        (write_episodes, "ep_00{}.npz", ".csv", "yes", "no"),
        (write_episodes, "ep_00{}", ".jsonl", True, False),
        (write_episodes, "{}", ".parquet", "passed", "failed"),
        (write_demos, "raw/take.hdf5/demo_{}", ".jsonl", "success", "failure"),
        (write_demos, "demo_{}", ".parquet", 1, 0),
        (write_demos, "{}", ".csv", True, False),
    ],
)
def test_labels_beside_episodes_are_read(
    write: Callable[[Path, int], None], name: str, suffix: str, good: Any, bad: Any, tmp_path: Path
) -> None:
    write(tmp_path / "d", 4)
    names: list[Any] = [int(name.format(n)) if name == "{}" else name.format(n) for n in range(4)]
    rows = [
        {"episode": names[n], "success": good if n % 2 else bad, "instruction": f"lift {n}"} for n in range(4)
    ]
    write_labels(tmp_path / "d" / f"labels{suffix}", rows)
    write_labels(tmp_path / "d" / "splits.csv", [{"episode": names[3], "split": "val"}])
    _, records = load_by_key(tmp_path / "d")
    labels = [
        (own.success, own.instruction, own.split) for own in (records[key].episode for key in sorted(records))
    ]
    assert labels == [
        (bool(number % 2), f"lift {number}", "val" if number == 3 else "") for number in range(4)
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_faults_of_a_file_of_labels_are_one_line_each(suffix: str, tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 4)
    said = [("ep_000", "yes"), ("ep_001", "perhaps"), ("ep_002", "yes"), ("ep_002", "no"), ("ep_003", "no")]
    said += [("gone_0", "yes"), ("gone_1", "no")]
    rows = [{"episode": name, "success": word, "instruction": "do it"} for name, word in said]
    write_labels(tmp_path / "d" / f"labels{suffix}", rows)
    source, records = load_by_key(tmp_path / "d")
    assert [records[key].episode.success for key in sorted(records)] == [True, None, None, False]
    assert {record.episode.instruction for record in records.values()} == {"do it"}
    for fault in (
        r"names 2 episodes that are not here", r"names 1 episode twice", r"1 value of \w+ in \S+ is no outcome"
    ):  # fmt: skip
        assert sum(bool(re.search(fault, text)) for text in source.warnings) == 1, (fault, source.warnings)


def test_numbers_that_are_shifted_by_one_are_not_read(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 5)
    rows = "".join(f"{number},{number % 2}\n" for number in range(1, 6))
    (tmp_path / "d" / "labels.csv").write_text(f"episode,success\n{rows}")
    source, records = load_by_key(tmp_path / "d")
    assert {record.episode.success for record in records.values()} == {None}
    assert any("counts episodes from 1 to 5, their names from 0 to 4" in text for text in source.warnings)


def test_fields_without_a_known_meaning_can_be_named_by_a_spec(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 3)
    rows = [
        {"episode": f"ep_{number:03d}", "quality": quality, "fold": f"f{number}", "what": "stack"}
        for number, quality in enumerate(("fail", "pass", "pass"))
    ]
    (tmp_path / "d" / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    spec = tmp_path / "spec.yaml"
    spec.write_text("reference: us\nsuccess: labels.quality\nsplit: labels.fold\nlanguage: [labels.what]\n")
    _, records = load_by_key(tmp_path / "d", str(spec))
    labels = [
        (own.success, own.instruction, own.split) for own in (records[key].episode for key in sorted(records))
    ]
    assert labels == [(number > 0, "stack", f"f{number}") for number in range(3)]


def test_rows_with_spans_are_segments(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    table = "episode,start_frame,stop_frame,text\nep_000,0,3,reach\nep_000,3,6,lift\nep_001,0,2,push\nep_001,2,6,pull\n"
    (tmp_path / "d" / "subtasks.csv").write_text(table)
    source, records = load_by_key(tmp_path / "d")
    assert not source.warnings and not records["ep_001.npz"].episode.metadata
    assert records["ep_001.npz"].segments == (
        SourceSegment(style="subtask", text="push", start_seconds=0.0, stop_seconds=0.2),
        SourceSegment(style="subtask", text="pull", start_seconds=0.2, stop_seconds=0.6),
    )


def test_a_file_about_something_else_changes_nothing(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 3)
    (tmp_path / "d" / "config.json").write_text(json.dumps({"rate": 10, "joints": {"0": "a", "1": "b"}}))
    (tmp_path / "d" / "robot.yaml").write_text("name: arm\nlimits: [1, 2, 3]\n")
    joints = ({"id": 0, "label": "base", "episode": 0}, {"id": 1, "label": "wrist", "episode": 1})
    (tmp_path / "d" / "joints.jsonl").write_text("\n".join(map(json.dumps, joints)))
    (tmp_path / "d" / "empty.jsonl").write_text("")
    (tmp_path / "d" / "order.json").write_text(json.dumps({"0": 0, "1": 1, "2": 2}))
    (tmp_path / "d" / "sizes.csv").write_text("part,width\nbase,1\nwrist,0\n")
    pq.write_table(
        pa.table({"episode_index": [0, 0, 1], "speed": [0.1, 0.2, 0.3]}), tmp_path / "d" / "a.parquet"
    )
    source, records = load_by_key(tmp_path / "d")
    assert not source.warnings
    assert all(not record.episode.metadata for record in records.values())


def test_a_column_of_digits_is_none_of_episodes_that_are_called_by_digits(tmp_path: Path) -> None:
    (tmp_path / "joints.csv").write_text("joint,index\nbase,0\nelbow,1\nwrist,2\n")
    assert read_label_file(tmp_path / "joints.csv", EpisodeNames(["0", "1", "2"])) == LabelFile()


OTHER_FORMS = [
    ("a.json", '{"ep_000": {"success": true}, "ep_001": {"success": false}}', "a.json names episodes and"),
    ("a.json", '{"by": "us", "episodes": [{"name": "ep_000.npz", "ok": 1}]}', "a.json names episodes and"),
    ("a.json", '{"success": [0, 1], "failure": [2, 3]}', "a.json names episodes and"),
    ("a.json", '{"0": true, "1": true}', "a.json names episodes and"),
    ("a.yaml", "train: [ep_000]\ntest: [ep_001]\n", "a.yaml names episodes and is not read: write a CSV, "),
    ("a.yaml", "labels:\n  0: {is_success: yes}\n  1: {is_success: no}\n", "a.yaml names episodes and"),
    ("a.csv", "run,success\nep_000,1\n", "needed are episode, and success or instruction or split; found are run"),
    ("a.csv", "episode,start,end,text\nep_000,0,1,x\n", "rename start to start_seconds"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "says"), OTHER_FORMS)
def test_labels_in_another_form_are_refused_in_one_line_that_says_what_to_write(
    name: str, text: str, says: str, tmp_path: Path
) -> None:
    write_episodes(tmp_path / "d", 2)
    (tmp_path / "d" / name).write_text(text)
    source, records = load_by_key(tmp_path / "d")
    (warning,) = source.warnings
    assert says in warning and "episode" in warning
    assert all(record.episode.success is None and not record.segments for record in records.values())


USUAL_HEADERS = [
    "Episode;Success",
    "episodeId,isSuccess",
    "path,outcome",
    "trial\tok\tmood",
    "episode_index,label",
]


@pytest.mark.parametrize("header", USUAL_HEADERS)
def test_columns_under_other_usual_names_are_read(header: str, tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    separator = next(mark for mark in ";\t," if mark in header)
    names = ["d/ep_000.npz", "d/ep_001.npz"] if "path" in header else ["0", "1"]
    rows = [separator.join([name, value]) for name, value in zip(names, ("true", "false"), strict=True)]
    (tmp_path / "d" / "a.csv").write_text("\ufeff" + "\n".join([header, *rows]) + "\n")
    source, records = load_by_key(tmp_path / "d")
    outcomes = [records[key].episode.success for key in sorted(records)]
    assert outcomes == [True, False] and source.warnings == ()


def test_a_column_that_may_be_an_outcome_is_none_by_other_values(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    (tmp_path / "d" / "a.csv").write_text("episode,is_success,label,mood\nep_000,1,kitchen,good\n")
    source, records = load_by_key(tmp_path / "d")
    episode = records["ep_000.npz"].episode
    assert episode.success is True and source.warnings == ()
    assert episode.metadata == {"labels": {"label": "kitchen", "mood": "good"}}


@pytest.mark.parametrize(
    ("columns", "values", "is_read"),
    [
        ("start_pose,end_pose", "left,right", True),
        ("moved_from,moved_to", "table,bin", True),
        ("first_attempt,last_attempt", "1,2", True),
        ("offset,first_try", "3,1", True),
        ("clip_start,clip_end", "0,0.2", False),
        ("first,last", "0,0.2", False),
        ("start_time,end_time", "0,0.2", False),
        ("start,end_s", "0,0.2", False),
    ],
)
def test_labels_beside_words_of_ends_are_read_unless_they_are_of_spans(
    columns: str, values: str, is_read: bool, tmp_path: Path
) -> None:
    write_episodes(tmp_path / "d", 2)
    rows = f"0,pick a,{values}\n{1 if is_read else 0},pick b,{values}\n"
    (tmp_path / "d" / "a.csv").write_text(f"episode,instruction,{columns}\n{rows}")
    source, records = load_by_key(tmp_path / "d")
    told = [text for text in source.warnings if "a.csv is not read: needed are episode, text" in text]
    assert len(source.warnings) == len(told) == (0 if is_read else 1)
    instructions = [record.episode.instruction for record in records.values()]
    assert instructions == (["pick a", "pick b"] if is_read else ["", ""])


def test_outcomes_beside_times_of_a_recording_are_labels(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    rows = "0,1,9:00,9:01\n1,0,9:02,9:03\n"
    (tmp_path / "d" / "a.csv").write_text(f"episode,success,start_time,end_time\n{rows}")
    source, records = load_by_key(tmp_path / "d")
    assert not source.warnings
    assert [record.episode.success for record in records.values()] == [True, False]


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
@pytest.mark.parametrize("ending", ["parquet", "json"])
def test_a_table_of_labels_is_found_beside_many_files_of_another_kind(
    name: str, ending: str, tmp_path: Path
) -> None:
    write_episodes(tmp_path / "d", 2)
    for number in range(20 if not name.endswith(ending) else 10):
        path = tmp_path / "d" / f"part_{number}.{ending}"
        pq.write_table(pa.table({"step": [number]}), path) if ending == "parquet" else path.write_text("[1]")
    if name.endswith("csv"):
        (tmp_path / "d" / name).write_text("episode,success\nep_000,1\nep_001,0\n")
    else:
        pq.write_table(
            pa.table({"episode": ["ep_000", "ep_001"], "success": [1.0, math.nan]}), tmp_path / "d" / name
        )
    source, records = load_by_key(tmp_path / "d")
    left = "files are not searched for labels: more than 12 of the kind in a folder"
    assert source.warnings == (() if name.endswith(ending) else (f"20 .{ending} {left}",))
    assert records["ep_000.npz"].episode.success is True


def test_an_export_of_a_tool_is_found_beside_many_files_of_the_dataset(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 13)
    for number in range(13):
        (tmp_path / "d" / f"ep_{number:03d}.json").write_text('{"mood": "good"}')
    value = {"ranges": [{"start": 1, "end": 3}], "timelinelabels": ["lift"]}
    said = [{"completed_by": 4, "result": [{"type": "timelinelabels", "value": value}]}]
    tasks = [{"data": {"video": "/data/upload/1/0a1b2c3d-ep_004.mp4"}, "annotations": said}]
    (tmp_path / "d" / "labels.json").write_text(json.dumps(tasks))
    _, records = load_by_key(tmp_path / "d")
    assert records["ep_004.npz"].episode.metadata["mood"] == "good"
    assert [part.text for part in records["ep_004.npz"].segments] == ["lift"]


@pytest.mark.slow
def test_gaps_of_a_parquet_table_are_no_outcomes_and_cost_no_span(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    labels = {"episode": ["ep_000", "ep_001"], "success": [1.0, math.nan], "score": [math.nan, math.inf]}
    pq.write_table(pa.table(labels), tmp_path / "d" / "labels.parquet")
    spans = {"episode": ["ep_000"], "start_frame": [0], "stop_frame": [3], "text": ["a"], "score": [math.nan]}
    pq.write_table(pa.table(spans), tmp_path / "d" / "spans.parquet")
    ws = open_workspace(str(tmp_path / "ws"), settings_from_environment({}))
    report = ingest_paths(ws.stores, [str(tmp_path / "d")], quiet=True)
    assert not report.counts.failures
    assert not [text for text in report.counts.warnings if "outcome" in text or "segment" in text]
    assert [episode.success for episode in ws.episodes] == [True, None]
    assert ws.stores.tables.segments.read().column("text").to_pylist() == ["a"]


def test_episodes_that_are_numbers_with_a_fraction_are_counted(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    pq.write_table(
        pa.table({"episode": [0.0, math.nan], "success": [1, 0]}), tmp_path / "d" / "labels.parquet"
    )
    source, _ = load_by_key(tmp_path / "d")
    assert source.warnings == ("labels.parquet: 2 rows that name no episode",)


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 2)
    rows = '{"episode": "ep_000", "success": true}\n7\n{"success": true}\n{"episode": null}\n'
    (tmp_path / "d" / "labels.jsonl").write_text(rows)
    source, records = load_by_key(tmp_path / "d")
    assert records["ep_000.npz"].episode.success is True
    assert sorted(source.warnings) == [
        "labels.jsonl: 1 row that are of a wrong form",
        "labels.jsonl: 2 rows that name no episode",
    ]


def test_zero_bytes_cost_their_row_and_not_those_after_it(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 3)
    (tmp_path / "d" / "labels.csv").write_bytes(b"episode,task\nep_000,a\nep_001,b\0\0\0\nep_002,c\n")
    source, records = load_by_key(tmp_path / "d")
    assert [records[key].episode.instruction for key in sorted(records)] == ["a", "", "c"]
    assert source.warnings == ("labels.csv: 1 row that are of a wrong form",)


TURNS = ("90", "180", "270", "vertical flip", "horizontal flip")


def stored_picture(upright: np.ndarray, turn: str) -> np.ndarray:
    """(H, W, 3): the picture as a recorder stores it that does not stand upright."""
    if turn.isdigit():
        return np.rot90(upright, int(turn) // 90)
    return upright[::-1] if turn == "vertical flip" else upright[:, ::-1]


@pytest.mark.parametrize("turn", TURNS)
def test_a_spec_turns_pictures_upright(turn: str, tmp_path: Path) -> None:
    upright = np.random.default_rng(3).integers(0, 255, (5, 24, 40, 3), np.uint8)
    (tmp_path / "d").mkdir()
    stored = np.stack([stored_picture(picture, turn) for picture in upright])
    np.savez(tmp_path / "d" / "ep_0.npz", state=np.zeros((5, 2)), action=np.ones((5, 2)), eye=stored)
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"reference: us\ncameras:\n  eye: {{role: front, turn: {turn}}}\n")
    _, records = load_by_key(tmp_path / "d", str(spec))
    (camera,) = records["ep_0.npz"].episode.cameras
    assert (camera.height, camera.width) == (24, 40)
    np.testing.assert_array_equal(frames_at(camera.media, [0.0, 0.2]), upright[[0, 2]])


def test_a_third_file_does_not_settle_what_two_files_dispute() -> None:
    tally, merged = FileTally(name="c.csv"), dict[str, EpisodeLabels]()
    for success, split in ((True, "train"), (False, "train"), (True, "val")):
        merged = _merge_labels(merged, {"0": EpisodeLabels(success=success, split=split)}, tally)
    assert (merged["0"].success, merged["0"].split) == (None, "")
    again = _merge_labels(merged, {"0": EpisodeLabels(success=True, split="val")}, tally)
    assert (again["0"].success, again["0"].split) == (None, "")


def test_a_dry_run_says_what_a_table_holds_and_one_above_the_folder_is_told(tmp_path: Path) -> None:
    write_episodes(tmp_path / "d", 4)
    ends = ("Y", "n", "partial", "")
    rows = [{"episode": f"ep_{n:03d}", "task": "lift", "succeeded": end} for n, end in enumerate(ends)]
    write_labels(tmp_path / "labels.csv", rows)
    (tmp_path / "prices.csv").write_text("part,cost\nep_000,3\n")
    write_demos(tmp_path / "e", 2)
    source, other = sorted(open_sources([str(tmp_path)]), key=lambda source: source.dataset)
    (line,) = source.warnings
    assert line == f"labels.csv above its folder names its episodes and is not read: move it to {tmp_path}/d"
    assert not any("labels" in line for line in other.warnings) and len(list(source.items)) == 4
    source, _ = load_by_key(tmp_path / "d")
    assert not source.warnings, "it is outside of what is ingested"
    (tmp_path / "labels.csv").rename(tmp_path / "d" / "labels.csv")
    source, records = load_by_key(tmp_path / "d")
    assert not source.warnings
    assert list(source.describe_tables()) == [
        "labels.csv: 4 episodes; instruction 4; outcome: success 1, failure 1, partial 1, 1 empty"
    ]
    assert [records[key].episode.success for key in sorted(records)] == [True, False, None, None]
