"""A workspace with copied media does not need its sources, and shows the same frames."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.doctor import run_checks
from ares.episode import Camera, MediaRef
from ares.errors import DiskFull
from ares.jobs import ComputePlan
from ares.media import all_frames, browser_video, copies as media_copy, frames_at
from ares.media.video import encode
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths

STEPS = 23


def numbered_images(count: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Pictures of one colour each, none like another: red tells the tens, green the ones, blue is dark."""
    images = np.zeros((count, height, width, 3), np.uint8)
    for number in range(count):
        images[number, :, :, 0] = 40 + number // 10 * 60
        images[number, :, :, 1] = 20 + number % 10 * 22
    return images


def number_in(picture: NDArray[np.uint8]) -> int:
    red, green, blue = picture.reshape(-1, 3).mean(axis=0)
    assert blue < 30, "red and blue are swapped"
    return 10 * round(float(red - 40) / 60) + round(float(green - 20) / 22)


def open_at(path: Path) -> Workspace:
    return open_workspace(str(path), settings_from_environment({}))


@pytest.fixture
def images(make_rlds: Any) -> Path:
    """An RLDS dataset of two cameras, of an even and an odd size, whose frames carry their numbers."""
    leaves = {
        "steps/observation/front": "png 48 64 3",
        "steps/observation/odd": "png 37 51 3",
        "steps/action": "float32 7",
    }
    changed = {
        "steps/observation/front": numbered_images(STEPS),
        "steps/observation/odd": numbered_images(STEPS, 37, 51),
    }
    path: Path = make_rlds("numbers", leaves, STEPS, 3, changed).path
    return path


def test_frames_of_a_moved_workspace_without_its_source(images: Path, tmp_path: Path) -> None:
    by_reference = open_at(tmp_path / "reference")
    ingest_paths(by_reference.stores, [str(images)], SourceOptions(rate_hz=7.0), quiet=True)
    ws = open_at(tmp_path / "copy")
    report = ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=7.0), media="copy", quiet=True)
    ws.close()
    seconds = [*np.random.default_rng(0).uniform(-0.2, STEPS / 7 + 0.2, 60), *(k / 7 for k in range(STEPS))]
    expected = {
        (episode.episode_id, camera.name): [number_in(frame) for frame in frames_at(camera.media, seconds)]
        for episode in by_reference.stores.tables.episodes.read()
        for camera in episode.cameras
    }
    shutil.rmtree(images)
    (tmp_path / "copy").rename(tmp_path / "moved")
    moved = open_at(tmp_path / "moved")
    actual = {}
    for episode in moved.stores.tables.episodes.read():
        for camera in episode.cameras:
            pictures = frames_at(camera.media, seconds)
            assert pictures.shape[1:] == (camera.height, camera.width, 3)
            actual[(episode.episode_id, camera.name)] = [number_in(picture) for picture in pictures]
    assert actual == expected
    stored = sum(file.stat().st_size for file in (tmp_path / "moved" / "media").rglob("*.mp4"))
    assert report.copied_bytes == stored > 0
    assert run_checks(moved.stores) == []


@pytest.mark.slow
def test_play_and_export_without_the_source(images: Path, ws: Workspace, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=5.0), media="copy", quiet=True)
    shutil.rmtree(images)
    episode = next(iter(ws.stores.tables.episodes.read()))
    assert browser_video(episode.camera("front").media, "h264", ws.stores.media_cache) == Path(
        episode.camera("front").media.uri
    )
    all_episodes = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    exported = ws.export(all_episodes, tmp_path / "out", quiet=True)
    assert exported.episodes == 3


@pytest.mark.parametrize("changed", [{"turn": "180"}, {"channels": "bgr"}, {"fit": (32, 48)}])
@pytest.mark.parametrize("is_even", [True, False])
def test_part_of_a_video_shows_the_same_pictures_at_the_same_seconds(
    changed: dict[str, Any], is_even: bool, tmp_path: Path
) -> None:
    pictures, seconds = numbered_images(40), [0.0]
    pictures[:, 24:] //= 2
    for number in range(39):
        seconds.append(seconds[-1] + (1 if is_even or number % 3 else 2) / 30)
    encode.encode_mp4(iter(pictures), tmp_path / "v.mp4", 30.0, seconds=None if is_even else seconds)
    ref = MediaRef(
        kind="mp4",
        uri=str(tmp_path / "v.mp4"),
        start_seconds=0.2,
        stop_seconds=1.2,
        num_frames=30,
        rate_hz=30.0,
        **changed,
    )
    width, height = changed.get("fit", (64, 48))
    camera = Camera(name="c", role="other", width=width, height=height, codec="h264", media=ref)
    (copied,) = media_copy.copy_camera_media(tmp_path, "ab12", (camera,))
    media = replace(copied.media, uri=str(tmp_path / copied.media.uri))
    steps = [number / 30 for number in range(30)]
    expected, actual = (frames_at(own, steps).astype(int) for own in (ref, media))
    assert np.abs(expected - actual).mean(axis=(1, 2, 3)).max() <= (0 if is_even else 2)
    if is_even:
        assert (media.turn, media.channels, media.fit) == (ref.turn, ref.channels, ref.fit)


def test_whole_videos_are_copied_byte_by_byte(demo_samples: Path, ws: Workspace, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(demo_samples / "video")], limit=2, media="copy", quiet=True)
    sources = {file.read_bytes() for file in (demo_samples / "video" / "videos").glob("*.mp4")}
    copies = [file.read_bytes() for file in (tmp_path / "ws" / "media").rglob("*.mp4")]
    assert len(copies) == 4 and set(copies) <= sources


def test_a_camera_that_fails_costs_its_own_record(images: Path, make_rlds: Any, tmp_path: Path) -> None:
    pictures = numbered_images(4)
    broken = make_rlds(
        "broken", {"steps/observation/front": "png 48 64 3", "steps/action": "float32 7"}, 4, 1
    ).path
    (shard,) = broken.glob("*.tfrecord*")
    damage(shard, cv2.imencode(".png", pictures[0])[1].tobytes()[:8])
    ws = open_at(tmp_path / "ws")
    report = ingest_paths(ws.stores, [str(broken), str(images)], media="copy", quiet=True).counts
    assert (report.planned, report.kept, report.failed) == (4, 3, 1)
    assert list(report.failures) == ["image is cut"]
    assert run_checks(ws.stores) == []


def damage(shard: Path, magic: bytes) -> None:
    """Spoil the last picture of a record, whose checksums stay right."""
    from ares.formats import RecordLocation, read_record, scan_record_file
    from ares.formats.tf_example import make_tf_example_class
    from tests.generators.tfrecords import write_tfrecords

    (span,) = scan_record_file(str(shard))
    assert isinstance(span, RecordLocation)
    example = make_tf_example_class().FromString(read_record(str(shard), span)[0])
    stored = example.features.feature["steps/observation/front"].bytes_list.value
    stored[-1] = magic + b"\0" * 40
    write_tfrecords(shard, [example.SerializeToString()])


@pytest.mark.slow
def test_what_is_there_by_reference_stays_so(images: Path, ws: Workspace, tmp_path: Path) -> None:
    ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=5.0), limit=1, quiet=True)
    report = ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=5.0), media="copy", quiet=True)
    assert (report.counts.kept, report.counts.already) == (2, 1)
    kinds = sorted(
        camera.media.kind for episode in ws.stores.tables.episodes.read() for camera in episode.cameras
    )
    assert kinds == ["mp4"] * 4 + ["tfrecord"] * 2
    again = ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=5.0), media="copy", quiet=True)
    assert (again.counts.already, again.copied_bytes) == (3, 0)


@pytest.mark.slow
def test_doctor_removes_what_nobody_names_and_tells_what_is_gone(
    images: Path, ws: Workspace, tmp_path: Path
) -> None:
    ingest_paths(ws.stores, [str(images)], SourceOptions(rate_hz=5.0), media="copy", quiet=True)
    unfinished = tmp_path / "ws" / "media" / "ab" / "ab00000000000000.tmp"
    unfinished.mkdir(parents=True)
    (unfinished / "front.mp4").write_bytes(b"half")
    (finding,) = run_checks(ws.stores, repair=True)
    assert finding.repaired and not unfinished.exists()
    front = next(iter(ws.stores.tables.episodes.read())).camera("front").media
    assert len(list(all_frames(front))) == STEPS
    Path(front.uri).write_bytes(b"cut")
    (finding,) = run_checks(ws.stores, repair=True)
    assert (finding.count, finding.repaired) == (1, False) and finding.example in front.uri


@pytest.mark.slow
def test_a_full_disk_ends_the_run_in_one_line(
    images: Path, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = encode.encode_mp4, []

    def full(frames: Any, path: Path, *rest: Any) -> int:
        """The third file meets a device on which every write fails for want of room."""
        calls.append(path)
        return (
            encode._write_video_frames(frames, Path("/dev/full"), *rest)
            if len(calls) == 3
            else real(frames, path, *rest)
        )

    monkeypatch.setattr(media_copy, "encode_mp4", full)
    with pytest.raises(DiskFull, match="the disk is full"):
        ingest_paths(ws.stores, [str(images)], media="copy", compute=ComputePlan(workers=1), quiet=True)
    monkeypatch.undo()
    report = ingest_paths(ws.stores, [str(images)], media="copy", quiet=True).counts
    assert report.kept + report.already == 3
    assert run_checks(ws.stores) == []
