"""RLDS folders: copied records keep their bytes, new ones the values and images; splits, shards and failures."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ares.annotation import Column, Producer
from ares.episode import Json, Signal
from ares.errors import MediaError
from ares.export.rlds import exporter as writer
from ares.formats import RecordLocation, parse_tf_example, read_record, scan_record_file
from ares.input import decode_image, parse_image_header
from ares.media import encoded_frames, frames_at
from ares.workspace import Workspace
from tests.ares.export.made_episodes import ingest_again, make_record, make_set, read_json, read_manifest
from tests.ares.export.segments import append, segment
from tests.ingest.image_folders.conftest import write_images
from tests.ingesting import ingest_paths

_SPEED = Producer(
    annotator="speed",
    version="1",
    columns=(
        Column(name="speed", type="float64", meaning="Mean speed."),
        Column(name="turns", type="int64", meaning="Turns."),
        Column(name="is_odd", type="bool", meaning="Whether it is odd."),
        Column(name="places", type="list<string>", meaning="Where it was."),
    ),
)
_SPEED_VALUES: dict[str, Json] = {"speed": 1.5, "turns": 3, "is_odd": True, "places": ["a", "b"]}


def records(folder: Path) -> list[bytes]:
    """The payloads of all records of a dataset, by shard and place."""
    shards = sorted(folder.glob("*.tfrecord-*"))
    return [read_record(str(shard), span)[0] for shard in shards for span in spans_of(shard)]


def spans_of(shard: Path) -> list[RecordLocation]:
    return [span for span in scan_record_file(str(shard)) if isinstance(span, RecordLocation)]


def values(payload: bytes, key: str) -> list[Any]:
    feature = parse_tf_example(payload, "test")[key]
    return list(getattr(feature, feature.WhichOneof("kind")).value)


def test_copied_records_begin_with_the_bytes_of_the_source(
    sample_workspace: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    report = sample_workspace.export("rlds", tmp_path / "out", format="rlds", quiet=True)
    assert (report.copied_records, report.encoded_frames, report.left_out) == (12, 0, ())
    folder = demo_samples / "rlds" / "metaworld_sawyer" / "1.0.0"
    source = set(records(folder))
    sizes = {len(payload) for payload in source}
    payloads = records(tmp_path / "out" / "metaworld_sawyer" / "1.0.0")
    for payload, row in zip(payloads, read_manifest(tmp_path / "out"), strict=True):
        assert any(payload[:size] in source and len(payload) > size for size in sizes)
        assert values(payload, "episode_metadata/ares_episode_id") == [row["episode_id"].encode()]


def test_a_copied_record_that_marks_no_end_gets_one(ws: Workspace, shared_data: Path, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(shared_data / "reported" / "oxe11_is_last")], quiet=True)
    ws.sets.create("made", sorted(ws.stores.tables.episodes.ids()), {})
    assert ws.export("made", tmp_path / "out", format="rlds", quiet=True).copied_records == 3
    (folder,) = (tmp_path / "out" / "turk_like").iterdir()
    ends = [values(payload, "steps/is_last") for payload in records(folder)]
    assert sorted(map(len, ends)) == [2, 30, 30] and all(flags[-1] == sum(flags) == 1 for flags in ends)


def test_records_written_anew_keep_the_images_of_the_source(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    report = sample_workspace.export("rlds", tmp_path / "out", format="rlds", task="caption", quiet=True)
    assert (report.copied_records, report.encoded_frames) == (0, 0)
    payloads = records(tmp_path / "out" / "metaworld_sawyer" / "1.0.0")
    for payload, row in zip(payloads, read_manifest(tmp_path / "out"), strict=True):
        episode = sample_workspace.stores.tables.episodes.get_episode(row["episode_id"])
        for camera in episode.cameras:
            assert values(payload, f"steps/observation/{camera.name}") == encoded_frames(camera.media)
        assert set(values(payload, "steps/language_instruction")) == {episode.instruction.encode()}
        last = [False] * (episode.num_steps - 1) + [True]
        assert values(payload, "steps/is_last") == last and values(payload, "steps/is_first") == last[::-1]


@pytest.mark.slow
def test_videos_become_jpegs_near_their_frames(sample_workspace: Workspace, tmp_path: Path) -> None:
    report = sample_workspace.export("video", tmp_path / "out", format="rlds", quiet=True)
    assert report.encoded_frames == 2 * report.frames and sum(report.reencoded.values()) == 24
    payload = records(tmp_path / "out" / "video" / "1.0.0")[0]
    row = read_manifest(tmp_path / "out")[0]
    episode = sample_workspace.stores.tables.episodes.get_episode(row["episode_id"])
    for camera in episode.cameras:
        images = values(payload, f"steps/observation/{camera.name}")
        assert len(images) == episode.num_steps
        frame = frames_at(camera.media, [(episode.num_steps - 1) / episode.rate_hz])[0].astype(float)
        error = np.mean((decode_image(images[-1], "test") - frame) ** 2)
        assert 10 * np.log10(255**2 / error) > 35


@pytest.mark.parametrize("suffix", [".bmp", ".png"])
def test_images_of_another_kind_are_encoded_and_those_of_another_size_refused(
    ws: Workspace, tmp_path: Path, suffix: str
) -> None:
    """The features give one size for all images of a camera."""
    size = (24, 32) if suffix == ".bmp" else (48, 64)
    front = write_images(tmp_path / "lab" / "episode" / "front", [f"{number}.png" for number in range(8)])
    (front / "5.png").write_bytes(cv2.imencode(suffix, np.zeros((*size, 3), np.uint8))[1].tobytes())
    (front.parent / "lang.txt").write_text("open the drawer\n")
    ingest_paths(ws.stores, [str(tmp_path / "lab")], quiet=True)
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    if suffix == ".png":
        with pytest.raises(MediaError, match="frames of several sizes"):
            ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
        return
    report = ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
    (shard,) = (tmp_path / "out").rglob("*.tfrecord-*")
    (payload,) = records(shard.parent)
    headers = [parse_image_header(image) for image in values(payload, "steps/observation/front")]
    assert report.encoded_frames == len(headers) == 8
    assert {(info.width, info.height, info.codec) for info in headers if info} == {(32, 24, "jpeg")}


def test_signals_and_columns_are_written_and_names_that_clash_get_numbers(
    ws: Workspace, tmp_path: Path
) -> None:
    force, made = np.arange(107 * 2, dtype=np.float32).reshape(107, 2), []
    for number, dataset in enumerate(("b a", "b-a", "b.a")):
        record = make_record(number, names=tuple("xyz"[: number + 1]), cameras=(), dataset=dataset)
        extra = {"force": Signal(force + number, ("x", "y"))}
        made.append(replace(record, trajectory=replace(record.trajectory, extra=extra)))
    frozen = make_set(ws, made)
    append(
        ws,
        [_SPEED],
        [segment(_SPEED, record.episode.episode_id, (0, 5.35), _SPEED_VALUES) for record in made],
    )
    ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
    folders = sorted(path.parent for path in (tmp_path / "out").rglob("dataset_info.json"))
    assert [folder.parent.name for folder in folders] == ["b_a", "b_a_2", "b_a_3"]
    for number, folder in enumerate(folders):
        (payload,) = records(folder)
        assert values(payload, "steps/force") == (force + number).ravel().tolist()
        (document,) = values(payload, "episode_metadata/ares_export")
        written = json.loads(document)["annotations"]
        assert {name: written.get(name) for name in _SPEED_VALUES} == _SPEED_VALUES


def test_splits_are_kept_and_shards_have_their_size(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SHARD_BYTES", 3000)
    splits = ["train"] * 5 + ["val", "all", ""]
    made = [make_record(number, cameras=(), split=split) for number, split in enumerate(splits)]
    report = ws.export(make_set(ws, made), tmp_path / "out", format="rlds", quiet=True)
    folder = tmp_path / "out" / "made" / "1.0.0"
    info = read_json(folder / "dataset_info.json")
    counts = {split["name"]: [int(n) for n in split["shardLengths"]] for split in info["splits"]}
    assert {name: sum(lengths) for name, lengths in counts.items()} == {"train": 6, "val": 1, "all_": 1}
    assert len(counts["train"]) > 1 and report.episodes == 8
    assert not list(folder.glob("*.tmp"))
    shards = sorted(folder.glob("made-train.tfrecord-*"))
    assert [len(spans_of(shard)) for shard in shards] == counts["train"]


def test_outcome_and_rate_come_back(ws: Workspace, tmp_path: Path) -> None:
    outcomes = [True, False, None]
    made = [
        make_record(
            number, success=success, rate_hz=29.97, rate_source="source", cameras=(), robot=f"arm {number}"
        )
        for number, success in enumerate(outcomes)
    ]
    frozen = make_set(ws, made)
    report = ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
    assert not [line for line in report.left_out if line.startswith("robot")]
    episodes = sorted(ingest_again(tmp_path / "out").episodes, key=lambda episode: episode.key)
    assert [episode.success for episode in episodes] == outcomes
    assert [episode.robot for episode in episodes] == ["arm 0", "arm 1", "arm 2"]
    assert {(episode.rate_hz, episode.state_names) for episode in episodes} == {(30000 / 1001, ("x", "y"))}


def test_a_record_that_has_changed_is_left_out(ws: Workspace, demo_samples: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_samples / "rlds", tmp_path / "rlds")
    ingest_paths(ws.stores, [str(tmp_path / "rlds")], quiet=True)
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    shard = next((tmp_path / "rlds").rglob("*.tfrecord-*"))
    data = bytearray(shard.read_bytes())
    data[spans_of(shard)[3].offset + 1000] ^= 1
    times = shard.stat()
    shard.write_bytes(data)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    report = ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
    assert (report.episodes, report.failed) == (11, 1)
