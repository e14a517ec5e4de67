"""Videos and shared files of LeRobot datasets that disagree with their metadata."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.media import frames_at
from tests.ingest.lerobot.conftest import CAMERA, DATA, STEPS, VIDEO, LeRobotFolders
from tests.ingest.lerobot.good_folders import write_good_folder

START, STOP = (f"videos/{CAMERA}/{end}_timestamp" for end in ("from", "to"))


@pytest.mark.parametrize(
    ("encoder", "codec"), [("libx264", "h264"), ("libx265", "hevc"), ("libsvtav1", "av1"), ("mpeg4", "mpeg4")]
)
def test_every_codec_is_told_by_the_video(tmp_path: Path, encoder: str, codec: str, folders: Any) -> None:
    features = {CAMERA: folders.camera_feature("vp9")}
    folder = folders.make(tmp_path / "made", features=features)
    folders.write_video(folder / VIDEO.format(CAMERA, 0), codec=encoder)
    record = folders.first(folder)
    (camera,) = record.episode.cameras
    assert camera.codec == codec
    assert record.warnings == ()
    assert frames_at(camera.media, [0.0, 0.5]).shape == (2, 48, 64, 3)


def test_other_size_rate_and_length_of_a_video(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(
        tmp_path / "made", episodes=3, features={CAMERA: folders.camera_feature(size=(3, 480, 640))}
    )
    folders.write_video(folder / VIDEO.format(CAMERA, 0), rate=30)
    folders.write_video(folder / VIDEO.format(CAMERA, 1), frames=4)
    size = "camera front is not of the size that info.json says"
    assert folders.outcomes(folder) == [
        f"{size}; camera front has not the fps of info.json",
        size,
        size,
    ]


def test_a_video_that_is_missing_empty_or_cut_costs_its_camera_only(tmp_path: Path, folders: Any) -> None:
    wrist = "observation.images.wrist"
    features = {CAMERA: folders.camera_feature(), wrist: folders.camera_feature()}
    folder = folders.make(tmp_path / "made", episodes=3, features=features)
    shutil.copytree(folder / "videos/chunk-000" / CAMERA, folder / "videos/chunk-000" / wrist)
    (folder / VIDEO.format(wrist, 0)).unlink()
    (folder / VIDEO.format(CAMERA, 1)).write_bytes(b"")
    cut = folder / VIDEO.format(CAMERA, 2)
    cut.write_bytes(cut.read_bytes()[:200])
    assert folders.outcomes(folder) == [
        "camera wrist left out: video file is missing",
        "camera front left out: video file is empty",
        "camera front left out: video file is cut or no video",
    ]
    assert [camera.name for camera in folders.first(folder).episode.cameras] == ["front"]


def names_of_videos(folders: Any, folder: Path) -> list[str]:
    """The name of the video of each episode; "" without one."""
    records = [item.load() for item in folders.opened(folder).items]
    return ["".join(Path(camera.media.uri).stem for camera in record.episode.cameras) for record in records]


@pytest.mark.parametrize("stray", ["episode_000009", "episode_000000_old", "episode_000004"])
def test_a_stray_video_gives_no_episode_the_video_of_another(
    tmp_path: Path, folders: Any, stray: str
) -> None:
    folder = folders.make(tmp_path / "made", episodes=4)
    first = folder / VIDEO.format(CAMERA, 0)
    shutil.copy(first, first.with_name(f"{stray}.mp4"))
    (folder / VIDEO.format(CAMERA, 1)).unlink()
    assert names_of_videos(folders, folder) == ["episode_000000", "", "episode_000002", "episode_000003"]
    assert folders.outcomes(folder)[1] == "camera front left out: video file is missing"


def test_videos_with_other_numbers_than_the_episodes_are_told_and_not_guessed(
    tmp_path: Path, folders: Any
) -> None:
    folder = folders.make(tmp_path / "made", episodes=4)
    for number in range(3, -1, -1):
        (folder / VIDEO.format(CAMERA, number)).rename(folder / VIDEO.format(CAMERA, number + 1))
    left_out = "camera front left out: its videos have not the numbers of the episodes: rename them"
    assert folders.outcomes(folder) == [left_out] * 4
    (folder / VIDEO.format(CAMERA, 1)).unlink()
    assert folders.outcomes(folder) == [left_out] * 4


def test_totals_that_disagree(tmp_path: Path, folders: Any) -> None:
    totals: dict[str, Any] = {"total_episodes": 7, "total_frames": 99, "total_tasks": 3, "total_videos": 1}
    folder = folders.make(tmp_path / "made", splits={"train": "0:9", "odd": [1]}, **totals)
    (folder / DATA.format(1)).unlink()
    assert folders.opened(folder).warnings == (
        "total_episodes of info.json is not the number of episodes",
        "total_frames of info.json is not the number of frames that the episodes have",
    )


def test_camera_that_leads_out_of_the_dataset(tmp_path: Path, folders: Any) -> None:
    key = "../../../outside"
    folder = folders.make(tmp_path / "made", features={key: folders.camera_feature()})
    assert f"camera {key!r} points outside the dataset, left out" in folders.opened(folder).warnings
    assert folders.first(folder).episode.cameras == ()


def shared(folder: Path, *rows: dict[str, Any], frames: int = 12) -> Path:
    """A v3.0 dataset of two episodes with a data file each and one video, whose entries in the list are changed."""
    write_good_folder(folder, version="v3.0", lengths=[STEPS, STEPS], cameras=[CAMERA])
    data = folder / "data" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(data)
    pq.write_table(table.slice(STEPS), data.with_name("file-001.parquet"))
    pq.write_table(table.slice(0, STEPS), data)
    LeRobotFolders().write_video(folder / "videos" / CAMERA / "chunk-000" / "file-000.mp4", frames=frames)
    path = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    listed = [
        {**own, "data/file_index": own["episode_index"], **row}
        for own, row in zip(pq.read_table(path).to_pylist(), rows or ({}, {}), strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(listed), path)
    return folder


LATE: tuple[dict[str, Any], ...] = ({START: 0.9, STOP: 1.5}, {START: 5.0, STOP: 5.6})
LEFT_OUT = "camera front left out: its span {}: correct from_timestamp"


def test_spans_that_do_not_fit_their_video_are_told_and_not_guessed(tmp_path: Path, folders: Any) -> None:
    folder = shared(tmp_path / "late", *LATE)
    assert folders.outcomes(folder) == [LEFT_OUT.format("ends behind its video")] * 2
    folder = shared(tmp_path / "over", {}, {START: 0.3, STOP: 0.9})
    assert "spans of camera front overlap in the metadata" in folders.opened(folder).warnings
    assert folders.outcomes(folder) == [LEFT_OUT.format("overlaps another episode")] * 2


def test_the_frames_count_and_not_to_timestamp(tmp_path: Path, folders: Any) -> None:
    folder = shared(tmp_path / "none", {STOP: 0.3}, {f"videos/{CAMERA}/file_index": None})
    stop = "to_timestamp of camera front is not where its steps end: the steps are used"
    assert folders.outcomes(folder) == [stop, "camera front left out: the metadata names no video"]
    (camera,) = folders.first(folder).episode.cameras
    assert camera.media.num_frames == 6


def test_rows_that_do_not_stand_together(tmp_path: Path, folders: Any) -> None:
    folder = shared(tmp_path / "made")
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    parts = [pa.table(folders.columns(number)) for number in (0, 5, 0)]
    pq.write_table(pa.concat_tables(parts), path)
    unlisted = "the metadata does not list the episode: read from its files"
    assert folders.outcomes(folder) == [
        "rows of the episode are not contiguous",
        "good",
        f"camera front left out: the metadata names no video; {unlisted}",
    ]


@pytest.mark.parametrize("fps", [1e5, 1e9, 1e300])
def test_an_fps_that_no_camera_has_costs_no_camera(tmp_path: Path, folders: Any, fps: float) -> None:
    folder = write_good_folder(tmp_path / "made", version="v3.0", lengths=[12, 9])
    info = json.loads((folder / "meta/info.json").read_text())
    (folder / "meta/info.json").write_text(json.dumps({**info, "fps": fps}))
    source = folders.opened(folder)
    episodes = [item.load().episode for item in source.items]
    assert {(own.rate_hz, own.rate_source, len(own.cameras)) for own in episodes} == {
        (float(info["fps"]), "measured", len([key for key in info["features"] if "images" in key]))
    }
    assert f"fps in info.json is {fps:g}: {info['fps']} Hz by the timestamps" in source.warnings
