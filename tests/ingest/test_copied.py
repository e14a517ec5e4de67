"""A workspace made with --media copy needs its sources no more, and shows what they showed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.doctor import examine
from ares.errors import DiskFull
from ares.export.lerobot import export_lerobot
from ares.media import copy as media_copy
from ares.media import encode
from ares.media.frames import all_frames, frames_at
from ares.media.playable import playable
from ares.settings import from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Options
from ingest.load import load

STEPS = 23


def numbered(count: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Pictures of one colour each, none like another: red tells the tens, green the ones, blue is dark."""
    made = np.zeros((count, height, width, 3), np.uint8)
    for number in range(count):
        made[number, :, :, 0] = 40 + number // 10 * 60
        made[number, :, :, 1] = 20 + number % 10 * 22
    return made


def number_of(picture: NDArray[np.uint8]) -> int:
    red, green, blue = picture.reshape(-1, 3).mean(axis=0)
    assert blue < 30, "red and blue are swapped"
    return 10 * round(float(red - 40) / 60) + round(float(green - 20) / 22)


def opened(path: Path) -> Workspace:
    return open_workspace(str(path), from_environment({}))


@pytest.fixture
def images(make_rlds: Any) -> Path:
    """An RLDS dataset of two cameras, of an even and an odd size, whose frames carry their numbers."""
    leaves = {
        "steps/observation/front": "png 48 64 3",
        "steps/observation/odd": "png 37 51 3",
        "steps/action": "float32 7",
    }
    changed = {
        "steps/observation/front": numbered(STEPS),
        "steps/observation/odd": numbered(STEPS, 37, 51),
    }
    made: Path = make_rlds("numbers", leaves, STEPS, 3, changed).path
    return made


def test_frames_of_a_moved_workspace_without_its_source(images: Path, tmp_path: Path) -> None:
    by_reference = opened(tmp_path / "reference")
    load(by_reference, [str(images)], Options(rate_hz=7.0), quiet=True)
    ws = opened(tmp_path / "copy")
    loaded = load(ws, [str(images)], Options(rate_hz=7.0), media="copy", quiet=True)
    ws.close()
    seconds = [*np.random.default_rng(0).uniform(-0.2, STEPS / 7 + 0.2, 60), *(k / 7 for k in range(STEPS))]
    expected = {
        (episode.episode_id, camera.name): [number_of(one) for one in frames_at(camera.media, seconds)]
        for episode in by_reference.episodes()
        for camera in episode.cameras
    }
    shutil.rmtree(images)
    (tmp_path / "copy").rename(tmp_path / "moved")
    moved = opened(tmp_path / "moved")
    seen = {}
    for episode in moved.episodes():
        for camera in episode.cameras:
            pictures = frames_at(camera.media, seconds)
            assert pictures.shape[1:] == (camera.height, camera.width, 3)
            seen[(episode.episode_id, camera.name)] = [number_of(one) for one in pictures]
    assert seen == expected
    stored = sum(file.stat().st_size for file in (tmp_path / "moved" / "media").rglob("*.mp4"))
    assert loaded.copied_bytes == stored > 0
    assert examine(moved) == []


def test_play_and_export_without_the_source(images: Path, tmp_path: Path) -> None:
    ws = opened(tmp_path / "ws")
    load(ws, [str(images)], Options(rate_hz=5.0), media="copy", quiet=True)
    shutil.rmtree(images)
    episode = next(iter(ws.episodes()))
    assert playable(episode.camera("front").media, "h264", ws.cache) == Path(
        episode.camera("front").media.uri
    )
    chosen = ws.sets.create("all", ws.tables.episodes.ids(), {})
    made = export_lerobot(ws, chosen, tmp_path / "out", lambda count: None)
    assert made.episodes == 3


def test_swapped_colours_come_out_right(images: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("cameras: {front: front}\nbgr: {front: [48, 64]}\nreference: ours\n")
    by_reference, ws = opened(tmp_path / "reference"), opened(tmp_path / "copy")
    options = Options(rate_hz=5.0, spec=str(spec))
    load(by_reference, [str(images)], options, quiet=True)
    load(ws, [str(images)], options, media="copy", quiet=True)
    told, copied = (next(iter(one.episodes())).camera("front").media for one in (by_reference, ws))
    assert (told.channels, copied.channels) == ("bgr", "rgb")
    first, second = (frames_at(one, [1.0])[0].mean(axis=(0, 1)) for one in (told, copied))
    assert np.abs(first - second).max() < 4


def test_whole_videos_are_copied_byte_by_byte(demo_samples: Path, tmp_path: Path) -> None:
    ws = opened(tmp_path / "ws")
    load(ws, [str(demo_samples / "video")], limit=2, media="copy", quiet=True)
    sources = {file.read_bytes() for file in (demo_samples / "video" / "videos").glob("*.mp4")}
    copies = [file.read_bytes() for file in (tmp_path / "ws" / "media").rglob("*.mp4")]
    assert len(copies) == 4 and set(copies) <= sources


def test_a_camera_that_fails_costs_its_own_record(images: Path, make_rlds: Any, tmp_path: Path) -> None:
    pictures = numbered(4)
    broken = make_rlds(
        "broken", {"steps/observation/front": "png 48 64 3", "steps/action": "float32 7"}, 4, 1
    ).path
    (shard,) = broken.glob("*.tfrecord*")
    damage(shard, cv2.imencode(".png", pictures[0])[1].tobytes()[:8])
    ws = opened(tmp_path / "ws")
    report = load(ws, [str(broken), str(images)], Options(rate_hz=5.0), media="copy", quiet=True).report
    assert (report.planned, report.kept, report.failed) == (4, 3, 1)
    assert list(report.failures) == ["image cannot be decoded"]
    assert examine(ws) == []


def damage(shard: Path, magic: bytes) -> None:
    """Spoil the last picture of a record, whose checksums stay right."""
    from ares.media.tfrecord import Place, example_class, places, read_record, write_records

    (place,) = places(str(shard))
    assert isinstance(place, Place)
    example = example_class().FromString(read_record(str(shard), place)[0])
    stored = example.features.feature["steps/observation/front"].bytes_list.value
    stored[-1] = magic + b"\0" * 40
    write_records(shard, [example.SerializeToString()])


def test_what_is_there_by_reference_stays_so(images: Path, tmp_path: Path) -> None:
    ws = opened(tmp_path / "ws")
    load(ws, [str(images)], Options(rate_hz=5.0), limit=1, quiet=True)
    loaded = load(ws, [str(images)], Options(rate_hz=5.0), media="copy", quiet=True)
    assert (loaded.report.kept, loaded.report.already) == (2, 1)
    kinds = sorted(camera.media.kind for episode in ws.episodes() for camera in episode.cameras)
    assert kinds == ["mp4"] * 4 + ["tfrecord"] * 2
    again = load(ws, [str(images)], Options(rate_hz=5.0), media="copy", quiet=True)
    assert (again.report.already, again.copied_bytes) == (3, 0)


KILLED = """
import os, signal, sys
import ares.store.episodes as episodes
episodes.EpisodeTable.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from app.cli.main import main
main(sys.argv[1:])
"""


def test_a_killed_run_leaves_unnamed_files_only(images: Path, tmp_path: Path) -> None:
    words = ["ingest", str(images), "--rate", "5", "--media", "copy", "-w", str(tmp_path / "ws"), "--json"]
    ended = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    ws = opened(tmp_path / "ws")
    assert ws.tables.episodes.count() == 0
    (found,) = examine(ws)
    assert found.check.startswith("each folder of copied videos") and found.count == 3
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *words], capture_output=True, text=True, check=True
    )
    document = json.loads(ended.stdout)
    assert document["kept"] == 3 and document["copied_bytes"] > 0
    assert examine(ws) == []


def test_a_moved_source_of_copies_has_nothing_to_follow(images: Path, tmp_path: Path) -> None:
    load(opened(tmp_path / "ws"), [str(images)], Options(rate_hz=5.0), media="copy", quiet=True)
    old = images.rename(images.with_name("elsewhere"))
    words = ["doctor", "-w", str(tmp_path / "ws"), "--relocate", f"{images}={old}"]
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *words], capture_output=True, text=True, check=True
    )
    assert ended.stdout == (
        "nothing to follow: the workspace holds copies of the videos of the 1 files there, "
        "and needs them no more\n"
    )


def test_doctor_removes_what_nobody_names_and_tells_what_is_gone(images: Path, tmp_path: Path) -> None:
    ws = opened(tmp_path / "ws")
    load(ws, [str(images)], Options(rate_hz=5.0), media="copy", quiet=True)
    left = tmp_path / "ws" / "media" / "ab" / "ab00000000000000.tmp"
    left.mkdir(parents=True)
    (left / "front.mp4").write_bytes(b"half")
    (found,) = examine(ws, repair=True)
    assert found.repaired and not left.exists()
    front = next(iter(ws.episodes())).camera("front").media
    assert len(list(all_frames(front))) == STEPS
    Path(front.uri).write_bytes(b"cut")
    (found,) = examine(ws, repair=True)
    assert (found.count, found.repaired) == (1, False) and found.example in front.uri


def test_a_full_disk_ends_the_run_in_one_line(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = opened(tmp_path / "ws")
    real, calls = encode.encode_mp4, []

    def full(frames: Any, path: Path, *rest: Any) -> int:
        """The third file meets a device on which every write fails for want of room."""
        calls.append(path)
        return (
            encode._write(frames, Path("/dev/full"), *rest) if len(calls) == 3 else real(frames, path, *rest)
        )

    monkeypatch.setattr(media_copy, "encode_mp4", full)
    with pytest.raises(DiskFull, match="the disk is full"):
        load(ws, [str(images)], Options(rate_hz=5.0), media="copy", workers=1, quiet=True)
    monkeypatch.undo()
    report = load(ws, [str(images)], Options(rate_hz=5.0), media="copy", quiet=True).report
    assert report.kept + report.already == 3
    assert examine(ws) == []
