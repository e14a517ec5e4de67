"""LeRobot v3.0 folders, read back with pyarrow and PyAV and compared with the sources."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ares.episode import Record
from ares.errors import MediaError, RequestError
from ares.export.base import ExportRate, ExportReport
from ares.export.lerobot import tables as lerobot_meta, writer as lerobot_video
from ares.export.lerobot.writer import prepare_video
from ares.export.retime import retime_episode
from ares.media import all_frames
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from ares_ingest.video import video
from tests.ares.export.made_episodes import (
    make_record,
    make_set,
    read_info,
    read_json,
    read_manifest,
    read_rows,
)
from tests.ares.media.written_videos import A_QUARTER_TO_THE_RIGHT, write_video
from tests.thinning import some_by_day


def export(ws: Workspace, name: str, dest: Path) -> ExportReport:
    return ws.export(ws.sets[name], dest, quiet=True)


def decode_frames(path: Path) -> list[tuple[float, NDArray[np.uint8]]]:
    with av.open(str(path)) as container:
        return [
            (float(frame.time or 0.0), np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
            for frame in container.decode(video=0)
        ]


def stored_frames(folder: Path, row: dict[str, Any], key: str) -> list[NDArray[np.uint8]]:
    """Frames that lerobot would show for an episode: those at from_timestamp + k / fps."""
    info = read_info(folder)
    number = {name: row[f"videos/{key}/{name}"] for name in ("chunk_index", "file_index")}
    frames = decode_frames(folder / info["video_path"].format(video_key=key, **number))
    first = round(row[f"videos/{key}/from_timestamp"] * info["fps"])
    times = [time for time, _ in frames[first : first + row["length"]]]
    expected_times = [row[f"videos/{key}/from_timestamp"] + k / info["fps"] for k in range(row["length"])]
    assert times == pytest.approx(expected_times, abs=1e-4)
    assert row[f"videos/{key}/to_timestamp"] == pytest.approx(expected_times[-1] + 1 / info["fps"])
    return [image for _, image in frames[first : first + row["length"]]]


def psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(np.float64) - b) ** 2)))


@pytest.fixture(scope="module")
def full_export(
    sample_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ExportReport, Path]:
    """The export of a set of two kinds of episodes."""
    dest = tmp_path_factory.mktemp("export") / "all"
    return export(sample_workspace, "all", dest), dest


def test_a_set_of_two_kinds_becomes_two_datasets(full_export: tuple[ExportReport, Path]) -> None:
    report, dest = full_export
    document = report.to_json()
    assert (document["set"], document["episodes"], document["frames"], document["tasks"]) == (
        "all@1",
        24,
        1819,
        12,
    )
    assert (document["copied_packets"], document["encoded_frames"]) == (2 * 1234, 2 * 585)
    assert {entry["path"]: entry["episodes"] for entry in report.datasets} == {
        "video": 12,
        "metaworld_sawyer": 12,
    }
    assert read_info(dest / "video")["fps"] == 20
    assert read_info(dest / "metaworld_sawyer")["fps"] == 10
    assert not list(dest.rglob("*.tmp")) and not list(dest.glob(".*"))


def test_rows_are_numbered_as_lerobot_numbers_them(full_export: tuple[ExportReport, Path]) -> None:
    folder = full_export[1] / "metaworld_sawyer"
    data, episode_rows = read_rows(folder), read_rows(folder, "meta/episodes")
    assert [row["index"] for row in data] == list(range(585))
    tasks = pq.read_table(folder / "meta" / "tasks.parquet").to_pydict()
    assert tasks["task_index"] == list(range(6))
    for number, row in enumerate(episode_rows):
        steps = data[row["dataset_from_index"] : row["dataset_to_index"]]
        assert len(steps) == row["length"] and row["episode_index"] == number
        assert {step["episode_index"] for step in steps} == {number}
        assert [step["frame_index"] for step in steps] == list(range(row["length"]))
        assert [step["timestamp"] for step in steps] == pytest.approx([k / 10 for k in range(len(steps))])
        assert (
            [tasks["__index_level_0__"][steps[0]["task_index"]]] == row["tasks"] == [row["ares/instruction"]]
        )


def test_data_files_are_laid_out_as_lerobot_writes_them(full_export: tuple[ExportReport, Path]) -> None:
    file = pq.ParquetFile(full_export[1] / "metaworld_sawyer" / "data" / "chunk-000" / "file-000.parquet")
    info = read_info(full_export[1] / "metaworld_sawyer")
    size = info["features"]["observation.state"]["shape"][0]
    assert file.num_row_groups == 12
    assert (
        str(file.schema_arrow.field("observation.state").type) == f"fixed_size_list<element: float>[{size}]"
    )
    descriptions = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
    assert list(descriptions) == [
        name for name, entry in info["features"].items() if entry["dtype"] != "video"
    ]
    assert descriptions["observation.state"]["length"] == size


@pytest.mark.parametrize("dataset", ["metaworld_sawyer", "video"])
def test_pictures_are_those_of_the_source(
    full_export: tuple[ExportReport, Path], sample_workspace: Workspace, dataset: str
) -> None:
    folder = full_export[1] / dataset
    row = read_rows(folder, "meta/episodes")[7]
    episode = sample_workspace.stores.tables.episodes.get_episode(row["ares/episode_id"])
    frames = stored_frames(folder, row, f"observation.images.{episode.cameras[0].name}")
    source = list(all_frames(episode.cameras[0].media))
    assert len(frames) == len(source) == episode.num_steps
    if dataset == "video":
        assert all(np.array_equal(a, b) for a, b in zip(frames, source, strict=True))
    else:
        assert min(psnr(a, b) for a, b in zip(frames, source, strict=True)) > 30


def test_every_encoded_episode_can_be_copied_on(full_export: tuple[ExportReport, Path]) -> None:
    folder = full_export[1] / "metaworld_sawyer"
    starts = {
        round(row["videos/observation.images.image/from_timestamp"] * 10)
        for row in read_rows(folder, "meta/episodes")
    }
    with av.open(str(folder / "videos/observation.images.image/chunk-000/file-000.mp4")) as container:
        keys = {
            round(float(frame.time or 0.0) * 10) for frame in container.decode(video=0) if frame.key_frame
        }
    assert starts <= keys


def test_statistics_of_pictures_are_per_channel_and_those_of_numbers_of_all_steps(
    full_export: tuple[ExportReport, Path],
) -> None:
    stats = read_json(full_export[1] / "metaworld_sawyer" / "meta" / "stats.json")
    assert stats["index"]["max"] == [584] and stats["action"]["count"] == [585]
    image = stats["observation.images.image"]
    assert np.shape(image["mean"]) == (3, 1, 1) and 0 < np.min(image["mean"]) < np.max(image["mean"]) < 1


def test_the_manifest_says_what_is_inside(
    full_export: tuple[ExportReport, Path], sample_workspace: Workspace
) -> None:
    report, dest = full_export
    manifest = read_json(dest / "manifest.json")
    selection = sample_workspace.sets["all"]
    times = read_json(dest / "manifest.times.json")
    # An export is for others, and does not name who has frozen its set.
    expected = replace(selection, person="").to_json()
    assert {**manifest["set"], "created": times["set_created"]} == expected
    assert manifest["counts"]["frames"] == report.frames
    lines = read_manifest(dest)
    assert sorted(line["episode_id"] for line in lines) == list(sample_workspace.sets.ids(selection))
    for line in lines:
        row = read_rows(dest / line["path"], "meta/episodes")[line["index"]]
        assert (row["ares/episode_id"], row["ares/content_hash"]) == (
            line["episode_id"],
            line["content_hash"],
        )


def test_a_set_of_one_kind_is_written_into_an_empty_folder_over_what_a_killed_export_left(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out.tmp" / "data").mkdir(parents=True)
    (tmp_path / "out.tmp" / ".ares-export").touch()
    report = export(sample_workspace, "video", tmp_path / "out")
    assert [entry["path"] for entry in report.datasets] == ["."]
    assert read_info(tmp_path / "out")["total_episodes"] == report.episodes == 12
    assert not (tmp_path / "out.tmp").exists()


def test_a_folder_of_the_name_with_tmp_is_not_written_over(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "out.tmp").mkdir()
    (tmp_path / "out.tmp" / "mine").write_text("precious")
    with pytest.raises(RequestError, match="move it away"):
        export(sample_workspace, "video", tmp_path / "out")
    assert (tmp_path / "out.tmp" / "mine").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_refused(sample_workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be created"):
        export(sample_workspace, "video", tmp_path / "file" / "out")


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", some_by_day([30000 / 1001, 12.5, 29.97]))
def test_a_rate_that_is_no_whole_number_is_written_exactly(
    ws: Workspace, tmp_path: Path, rate_hz: float
) -> None:
    make_set(ws, [make_record(number, rate_hz=rate_hz) for number in (0, 1)])
    report = export(ws, "made", tmp_path / "out")
    exact = 12.5 if rate_hz == 12.5 else 30000 / 1001
    assert read_info(tmp_path / "out")["fps"] == pytest.approx(exact, abs=1e-12)
    assert report.encoded_frames + report.copied_packets == 2 * 107
    with av.open(str(next((tmp_path / "out").rglob("*.mp4")))) as container:
        seconds = [float(frame.time or 0) for frame in container.decode(video=0)]
    assert np.abs(np.array(seconds) - np.arange(214) / exact).max() < 1e-4


def test_values_that_are_not_finite_are_refused(ws: Workspace, tmp_path: Path) -> None:
    record = make_record(0)
    assert record.trajectory.action
    record.trajectory.action.values[3, 0] = np.nan
    make_set(ws, [record])
    with pytest.raises(MediaError, match="action holds values that are not finite"):
        export(ws, "made", tmp_path / "out")


def test_groups_of_one_dataset_get_numbers(ws: Workspace, tmp_path: Path) -> None:
    records = [
        make_record(0),
        make_record(1, names=("x", "y", "z")),
        make_record(2, dataset="other/one", names=("x",)),
    ]
    make_set(ws, records)
    report = export(ws, "made", tmp_path / "out")
    assert [entry["path"] for entry in report.datasets] == ["made", "made-2", "other_one"]
    signal = records[2].trajectory.state
    assert signal and read_rows(tmp_path / "out" / "other_one")[0]["action"] == pytest.approx(
        -signal.values[0, 0]
    )


@pytest.mark.slow
def test_a_camera_that_is_always_black_and_a_reward_that_some_lack_are_left_out(
    ws: Workspace, tmp_path: Path
) -> None:
    def darkened(record: Record) -> Record:
        front = record.episode.cameras[0]
        cameras = (front, replace(front, name="dark", flags=("black", "frozen")))
        return replace(record, episode=replace(record.episode, cameras=cameras))

    made = [make_record(0), make_record(1, reward=False, robot="")]
    make_set(ws, [darkened(record) for record in made])
    report = export(ws, "made", tmp_path / "out")
    assert report.left_out == (
        "camera dark of made: black in every episode",
        "reward of made: only 1 of 2 episodes have one",
        "robot of made: the episodes have several, or none (arm)",
    )
    features = read_info(tmp_path / "out")["features"]
    assert "observation.images.front" in features and "observation.images.dark" not in features
    assert "next.reward" not in features


@pytest.mark.slow
def test_files_roll_over_by_size_and_by_time(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lerobot_video, "MAX_FILE_SECONDS", 12.0)
    monkeypatch.setattr(lerobot_meta, "DATA_FILE_MB", 0.012)
    monkeypatch.setattr(lerobot_meta, "CHUNK_FILES", 2)
    make_set(ws, [make_record(number) for number in range(6)])
    export(ws, "made", tmp_path / "out")
    episode_rows = read_rows(tmp_path / "out", "meta/episodes")
    key = "videos/observation.images.front"
    files = [(row[f"{key}/chunk_index"], row[f"{key}/file_index"]) for row in episode_rows]
    assert files == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0)]
    assert len({(row["data/chunk_index"], row["data/file_index"]) for row in episode_rows}) > 1
    assert [row["index"] for row in read_rows(tmp_path / "out")] == list(range(6 * 107))
    source = list(all_frames(make_record(0).episode.cameras[0].media))
    for row in episode_rows:
        frames = stored_frames(tmp_path / "out", row, "observation.images.front")
        assert all(np.array_equal(a, b) for a, b in zip(frames, source, strict=True))


@pytest.mark.slow
def test_a_camera_at_another_rate_is_encoded_and_said_so(ws: Workspace, tmp_path: Path) -> None:
    selection = make_set(ws, [make_record(0, steps=53, rate_hz=10.0)])
    report = export(ws, selection.name, tmp_path / "out")
    assert (report.copied_packets, report.encoded_frames) == (0, 53)
    assert report.reencoded == {"frames are not at a constant rate": 1}
    frames = stored_frames(
        tmp_path / "out", read_rows(tmp_path / "out", "meta/episodes")[0], "observation.images.front"
    )
    source = list(all_frames(make_record(0).episode.cameras[0].media))
    assert min(psnr(image, source[2 * k]) for k, image in enumerate(frames)) > 30


def test_the_first_steps_of_a_longer_video_are_exported(ws: Workspace, tmp_path: Path) -> None:
    make_set(ws, [make_record(0, steps=1), make_record(1, steps=50)])
    export(ws, "made", tmp_path / "out")
    episode_rows = read_rows(tmp_path / "out", "meta/episodes")
    assert [
        len(stored_frames(tmp_path / "out", row, "observation.images.front")) for row in episode_rows
    ] == [1, 50]


def test_a_phone_video_is_encoded_upright_and_not_copied(tmp_path: Path) -> None:
    picture = np.full((48, 64, 3), 20, np.uint8)
    picture[:, :16] = 230  # the left edge, which is the upper one to a person
    write_video(tmp_path / "phone.mp4", [picture] * 10, matrix=A_QUARTER_TO_THE_RIGHT)
    (source,) = video.open(str(tmp_path), SourceOptions())
    (item,) = source.items
    record = item.load()
    camera = record.episode.cameras[0]
    retimed = retime_episode(record.episode, record.trajectory, ExportRate())
    prepared = prepare_video(camera, retimed, 20, tmp_path / "scratch.mp4")
    assert prepared.is_encoded and prepared.encoding_reason == "frames are stored rotated"
    assert (
        (prepared.span.format.width, prepared.span.format.height) == (48, 64) == (camera.width, camera.height)
    )
    with av.open(str(tmp_path / "scratch.mp4")) as container:
        frames: Any = list(container.decode(video=0))
    assert len(frames) == 10 and frames[0].rotation == 0
    pixels = frames[0].to_ndarray(format="rgb24")
    assert pixels[:12].mean() > 200 and pixels[24:].mean() < 60
    prepared.close()
