"""Folders of videos as laboratories have them: cameras by name, folder or pattern; tables; unusual names; links."""

from __future__ import annotations

import csv
import errno
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.episode import Json, Record
from ares.errors import AresError, RequestError, SourceError
from ares.input import read_lines
from ares.media import VideoInfo, all_frames, cut_packets, encode_mp4, frames_at, probe_video
from ares_ingest.base import Source, SourceOptions
from ares_ingest.source_words import InvalidRowError, parse_video_row
from ares_ingest.video import video
from ares_ingest.video.camera_names import group_by_names, group_by_pattern
from tests.ingesting import ingest_paths


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("clip") / "a.mp4"
    encode_mp4((np.full((32, 48, 3), 5 * n, np.uint8) for n in range(20)), path, 10.0)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path: Path, clip: bytes) -> Any:
    """Make a folder with these videos in it, each with bytes of its own."""

    def make(*names: str) -> Path:
        root = tmp_path / "videos"
        for number, name in enumerate(names):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            # A box that players pass over sets each file apart from the others.
            (root / name).write_bytes(clip + (12).to_bytes(4, "big") + b"free" + number.to_bytes(4, "big"))
        return root

    return make


def write_table(path: Path, *rows: dict[str, Any]) -> None:
    names = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)


def open_source(path: Path, **options: Any) -> Source:
    (source,) = video.open(str(path), SourceOptions(**options))
    return source


def load(source: Source) -> tuple[dict[str, Record], Counter[str]]:
    """The records by key, and the reasons of those that fail."""
    records, failures = dict[str, Record](), Counter[str]()
    for item in source.items:
        try:
            record = item.load()
            records[record.episode.key] = record
        except AresError as error:
            failures[error.reason] += 1
    return records, failures


def load_by_key(source: Source) -> dict[str, Record]:
    records, failures = load(source)
    assert not failures
    return records


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["ep_1/front.mp4", "ep_1/left.mp4"], {"ep_1": ["front", "left"]}),
        (["ep_1/cam_high.mp4", "ep_1/cam_left_wrist.mp4"], {"ep_1": ["cam_high", "cam_left_wrist"]}),
        (["front/e_1.mp4", "wrist/e_1.mp4"], {"e_1": ["front", "wrist"]}),
        (["d/cam0/e_1.mp4", "d/cam1/e_1.mp4"], {"d/e_1": ["cam0", "cam1"]}),
        (["front/e.mp4", "side/e.mp4"], {"e": ["front", "side"]}),
        (["pour_left_wrist.mp4", "pour_front.mp4"], {"pour": ["left_wrist", "front"]}),
        (["pour_003_left.mp4", "pour_003_right.mp4"], {"pour_003": ["left", "right"]}),
        (["push_left.mp4", "push_right.mp4"], None),
        (["push/left.mp4", "push/right.mp4"], None),
        (["left/0001.mp4", "right/0001.mp4"], None),
        (["grasp_top.mp4", "grasp_side.mp4"], None),
        (["open_hand.mp4", "open_gripper.mp4"], None),
    ],
)
def test_files_are_joined_only_where_they_are_surely_cameras(
    files: list[str], expected: dict[str, list[str]] | None
) -> None:
    cameras = group_by_names(files)
    if expected is None:
        assert cameras.groups == {path: {"video": path} for path in files} and cameras.ambiguous == files
    else:
        assert {
            key: list(group) for key, group in cameras.groups.items()
        } == expected and not cameras.ambiguous


def test_tasks_that_end_like_cameras_stay_apart_and_the_user_is_told_how_to_join_them(folder: Any) -> None:
    root = folder("push_left.mp4", "push_right.mp4")
    source = open_source(root)
    assert sorted(load_by_key(source)) == ["push_left.mp4", "push_right.mp4"]
    assert "--cameras '{episode}_{camera}.mp4'" in source.warnings[0]
    (record,) = load_by_key(open_source(root, cameras="{episode}_{camera}.mp4")).values()
    assert [camera.name for camera in record.episode.cameras] == ["left", "right"]


@pytest.mark.parametrize(
    ("pattern", "path", "key", "camera"),
    [
        ("{episode}_{camera}.mp4", "a/b/pour_1_zed.mp4", "a/b/pour_1", "zed"),
        ("{camera}/{episode}.mp4", "day1/zed/7.mp4", "day1/7", "zed"),
        ("{camera}-{episode}", "zed-7.webm", "7", "zed"),
        ("{episode}_{camera:zed|left_zed}.mp4", "pour_left_zed.mp4", "pour", "left_zed"),
        ("*/{episode}/rgb_{camera}.mp4", "day1/7/rgb_zed.mp4", "day1/7", "zed"),
        ("{episode}.{camera}.mp4", "a+b(1).zed.mp4", "a+b(1)", "zed"),
    ],
)
def test_a_pattern_of_the_user_names_episode_and_camera(
    pattern: str, path: str, key: str, camera: str
) -> None:
    cameras = group_by_pattern([path], pattern)
    assert cameras.groups == {key: {camera: path}}


def test_files_that_the_pattern_does_not_match_are_counted(folder: Any) -> None:
    root = folder("a_zed.mp4", "a_top.mp4", "notes.mp4")
    source = open_source(root, cameras="{episode}_{camera}.mp4")
    assert source.total == 2 and load(source)[1] == {"file name does not match --cameras": 1}
    with pytest.raises(SourceError, match=r"no file matches --cameras.*'a_top.mp4' does not"):
        open_source(root, cameras="{camera}/{episode}.mp4")
    for wrong in ("{episode}.mp4", "{episode}_{camera}_{camera}", "{episode}_{cam}", "{camera}_{episode"):
        with pytest.raises(RequestError, match=r"needs \{episode\} and \{camera\}"):
            open_source(root, cameras=wrong)


@pytest.mark.parametrize("name", ["labels.csv", "metadata.tsv"])
def test_a_table_tells_of_its_videos_whatever_its_columns_are_called(folder: Any, name: str) -> None:
    root = folder("a.mp4", "b/c.mp4", "d.mp4")
    write_table(
        root / name,
        {"Path": "a.mp4", "Task": "pour, then wait", "outcome": "Success", "robot_type": "human"}
        | {"who": "Åsa"},
        {"Path": "b/c.mp4", "Task": "stir", "outcome": "partial"},
        {"Path": "gone.mp4", "Task": "stir", "outcome": "0"},
        {"Path": "a.mp4", "Task": "again"},
    )
    source = open_source(root)
    good, failed = load(source)
    assert source.total == 5
    assert failed == {"video file is missing": 1, "episode is listed twice": 1}
    first, second, third = (good[key].episode for key in ("a.mp4", "b/c.mp4", "d.mp4"))
    assert (first.instruction, first.success, first.success_source) == ("pour, then wait", True, "outcome")
    assert (first.robot, dict(first.metadata)) == ("human", {"who": "Åsa"})
    assert (second.success, second.metadata["outcome"]) == (None, "partial")
    assert good["b/c.mp4"].warnings == ()
    assert third.instruction == "" and good["d.mp4"].warnings == (f"video has no row in {name}",)


def test_videos_wait_for_a_row_that_cannot_be_read(folder: Any) -> None:
    root = folder("a.mp4", "b.mp4")
    (root / "metadata.jsonl").write_text('{"video": "a.mp4"}\n{"video": "b.mp4", "success"\n')
    source = open_source(root)
    assert source.total == 2 and load(source)[1] == {"metadata line is not JSON": 1}
    assert source.warnings == (
        "videos without a row are left out: metadata.jsonl has rows that cannot be read",
    )


def test_a_table_that_names_no_video_or_is_not_needed_is_told(folder: Any) -> None:
    root = folder("a.mp4")
    write_table(root / "prices.csv", {"thing": "cup", "price": 3})
    write_table(root / "labels.csv", {"file": "a.mp4", "task": "pour"})
    (root / "metadata.jsonl").write_text(json.dumps({"video": "a.mp4", "instruction": "stir"}))
    source = open_source(root)
    assert [record.episode.instruction for record in load_by_key(source).values()] == ["stir"]
    assert source.warnings == ("labels.csv is not read: its folder has a JSON lines table",)
    unread = [file for file in source.files() if file.use == "unused"]
    assert not unread  # discovery lists prices.csv as a table that nothing reads


@pytest.mark.parametrize("name", ["metadata.jsonl", "labels.csv"])
def test_a_table_that_cannot_be_opened_costs_its_own_videos_alone(
    folder: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = folder("good/clip.mp4", "bad/clip.mp4")
    for part in ("good", "bad"):
        text = '{"video": "clip.mp4"}' if name.endswith(".jsonl") else "video\nclip.mp4\n"
        (root / part / name).write_text(text)

    def fail(path: str) -> Iterator[bytes]:
        if "/bad/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return read_lines(path)

    monkeypatch.setattr("ares.input.tables.read_lines", fail)
    records, failures = load(open_source(root))
    assert len(records) == 1 and failures == {f"{name} cannot be read": 1}


def test_tables_in_folders_below_and_rows_of_single_cameras(folder: Any) -> None:
    root = folder("day1/a.mp4", "day1/b.mp4", "day2/a.mp4")
    write_table(
        root / "day1" / "labels.csv",
        {"episode_id": "one", "file_name": "a.mp4", "camera": "front", "prompt": "pour"},
        {"episode_id": "one", "file_name": "b.mp4", "camera": "wrist", "prompt": "pour"},
    )
    records = load_by_key(open_source(root))
    assert {key: [camera.name for camera in record.episode.cameras] for key, record in records.items()} == {
        "one": ["front", "wrist"],
        "day2/a.mp4": ["video"],
    }
    assert records["one"].episode.instruction == "pour" and records["day2/a.mp4"].warnings == ()


def test_a_row_about_one_camera_of_an_episode_is_about_all_of_it(folder: Any) -> None:
    root = folder("pour_1_front.mp4", "pour_1_wrist.mp4", "x.mp4")
    write_table(root / "labels.csv", {"file": "pour_1_front.mp4", "task": "pour"})
    records = load_by_key(open_source(root))
    assert [camera.name for camera in records["pour_1"].episode.cameras] == ["front", "wrist"]
    write_table(
        root / "labels.csv",
        {"file": "pour_1_front.mp4", "task": "pour"},
        {"file": "pour_1_wrist.mp4", "task": "pour"},
    )
    source = open_source(root)
    assert source.total == 2 and set(load_by_key(source)) == {"pour_1", "x.mp4"}


def test_one_json_per_video(folder: Any) -> None:
    root = folder("a.mp4", "b.mp4", "ep_1/front.mp4", "ep_1/wrist.mp4")
    (root / "a.json").write_text(json.dumps({"task": "pour", "success": False, "weather": "dry"}))
    (root / "b.json").write_text("{")
    (root / "ep_1/metadata.json").write_text(json.dumps({"instruction": "stir", "file_name": "whatever"}))
    good, failed = load(open_source(root))
    assert failed == {"JSON file of a video is not valid JSON": 1}
    first, joined = good["a.mp4"].episode, good["ep_1"].episode
    assert (first.instruction, first.success, first.metadata) == ("pour", False, {"weather": "dry"})
    assert joined.instruction == "stir"


def test_spans_of_a_long_video_of_a_person(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder("P01/videos/P01_01.MP4")
    write_table(
        root / "train.csv",
        {"narration_id": "P01_01_0", "video_id": "P01_01", "narration": "open door"}
        | {"start_timestamp": "00:00:00.00", "stop_timestamp": "00:00:00.50", "verb": "open"},
        {"narration_id": "P01_01_1", "video_id": "P01_01", "narration": "turn on light"}
        | {"start_timestamp": "00:00:00.52", "stop_timestamp": "00:00:01.20"},
        {"narration_id": "P01_01_2", "video_id": "P01_01", "narration": "late"}
        | {"start_timestamp": "00:01:00", "stop_timestamp": "00:01:09"},
    )
    probed_paths: list[str] = []

    def count_probes(path: str) -> VideoInfo:
        probed_paths.append(path)
        return probe_video(path)

    monkeypatch.setattr("ares_ingest.files.probe_video", count_probes)
    items = list(open_source(root).items)
    first, second = (item.load() for item in items[:2])
    with pytest.raises(SourceError, match="span is not in the video"):
        items[2].load()
    assert len(items) == 3 and len(probed_paths) == 1
    assert (first.episode.key, first.episode.instruction) == ("P01_01_0", "open door")
    assert first.episode.metadata == {"verb": "open"} and first.trajectory.state is None
    assert (first.episode.num_steps, second.episode.num_steps) == (5, 7)
    assert first.episode.content_hash != second.episode.content_hash
    media = second.episode.cameras[0].media
    assert (media.start_seconds, media.stop_seconds) == (0.5, 1.2)
    shades = [
        round(float(frame.mean()) / 5) for frame in frames_at(media, list(second.trajectory.timestamps))
    ]
    assert shades == list(range(5, 12)) == [round(float(frame.mean()) / 5) for frame in all_frames(media)]
    start = first.episode.cameras[0].media
    span = cut_packets(start, start.num_frames, start.rate_hz)
    assert len(span.packets) == 5
    span.close()


def test_odd_names_hidden_files_and_links_in_a_circle(folder: Any, ws: Any, tmp_path: Path) -> None:
    long = "x" * 240 + ".mp4"
    names = ["ärm 画像/#1 100% a&b?.mp4", "UPPER.MP4", long, "%03d.mov", "-o.mp4", "a'b\".mp4"]
    root = folder(*names, "._UPPER.MP4", ".hidden/a.mp4", "__MACOSX/a.mp4")
    (root / ".DS_Store").touch()
    (root / "loop").symlink_to(root)
    (root / "gone.mp4").symlink_to(tmp_path / "nowhere.mp4")
    elsewhere = tmp_path / "disk2"
    elsewhere.mkdir()
    (root / "UPPER.MP4").rename(elsewhere / "far.mp4")
    (root / "linked").symlink_to(elsewhere)
    (root / "cut.mp4").write_bytes((root / long).read_bytes()[:-300])
    (root / "zero.mp4").touch()
    report = ingest_paths(ws.stores, [str(root)], quiet=True).counts
    episodes = list(ws.stores.tables.episodes.read())
    assert {episode.key for episode in episodes} == {*names} - {"UPPER.MP4"}
    reasons = {reason: tally.count for reason, tally in report.failures.items()}
    assert reasons == {"video file is missing": 1, "video file is cut": 1, "video file is empty": 1}
    for episode in episodes:
        assert frames_at(episode.cameras[0].media, [0.5]).shape == (1, 32, 48, 3)


COLUMNS = ["video", "task", "success", "label", "fps", "start", "stop", "camera", "id", "who"]
VALUES: list[Json] = [
    None, True, False, 0, 1, -3, 2.5, 1e30, "", "a.mp4", "1", "0:01", "1:02:03.5", "success", "nan", [1],
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(VALUES)))
def test_any_row_is_understood_or_refused_and_nothing_of_it_is_lost(row: dict[str, Json]) -> None:
    try:
        parsed = parse_video_row(row)
    except InvalidRowError:
        return
    filled_columns = {name for name, value in row.items() if value not in (None, "")}
    used_columns = {
        "video": bool(parsed.videos),
        "task": bool(parsed.instruction),
        "success": parsed.success is not None,
        "label": parsed.success is not None,
        "fps": parsed.fps is not None,
        "start": parsed.start is not None,
        "stop": parsed.stop is not None,
        "camera": True,
        "id": bool(parsed.episode),
    }
    assert all(name in parsed.metadata or used_columns.get(name) for name in filled_columns)
    assert parsed.start is None or (parsed.stop is not None and 0 <= parsed.start < parsed.stop)


@pytest.mark.parametrize(
    ("row", "success"),
    [
        ({"success": True}, True),
        ({"success": "1"}, True),
        ({"success": 0}, False),
        ({"outcome": "FAILED"}, False),
        ({"outcome": "partial"}, None),
        ({"success": 0.5}, None),
        ({"label": "1"}, None),
        ({"label": "failure"}, False),
    ],
)
def test_only_what_is_clearly_an_outcome_is_one(row: dict[str, Json], success: bool | None) -> None:
    parsed = parse_video_row({"video": "a.mp4", **row})
    assert parsed.success is success and (success is not None or parsed.metadata == row)
