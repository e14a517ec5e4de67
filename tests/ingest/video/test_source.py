"""Folders of videos: episodes, metadata lines, and every way in which they can be wrong."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import encode_mp4, frames_at
from ares_app.cli.main import main
from ares_ingest.base import Item, Source, SourceOptions
from ares_ingest.video import video


def write_video(path: Path, frames: int = 12, rate: float = 10.0, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    encode_mp4((np.full((32, 48, 3), shade + 5 * n, np.uint8) for n in range(frames)), path, rate)
    return path


def write_metadata(folder: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "metadata.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def open_source(path: Path, **options: Any) -> Source:
    (source,) = video.open(str(path), SourceOptions(**options))
    return source


def load_outcome(item: Item) -> str:
    try:
        item.load()
    except SourceError as error:
        return str(error)
    return "good"


def test_demo_sample(demo_samples: Path) -> None:
    source = open_source(demo_samples / "video")
    records = [item.load() for item in source.items]
    assert source.total == len(records) == 12 and video.recognises(str(demo_samples / "video"))
    assert Counter(record.episode.success for record in records) == {True: 6, False: 6}
    episode = records[0].episode
    assert (episode.instruction, episode.robot) == ("push the green drawer closed", "sawyer")
    assert (episode.num_steps, episode.duration_seconds) == (88, 4.4)
    assert (episode.rate_hz, episode.rate_source) == (20.0, "source")
    assert [(camera.name, camera.role, camera.codec) for camera in episode.cameras] == [
        ("front", "front", "h264"),
        ("wrist", "wrist", "h264"),
    ]
    assert np.allclose(records[0].trajectory.timestamps, np.arange(88) / 20)
    assert all(record.warnings == () for record in records)


def test_labels_of_real_videos_are_read_and_partial_is_neither(shared_data: Path) -> None:
    source = open_source(shared_data / "openvla_rollout_videos")
    records = [item.load() for item in source.items]
    assert source.total == len(records) == 39 and source.warnings == ()
    assert len({record.episode.episode_id for record in records}) == 39
    episodes = [record.episode for record in records]
    assert all(
        len(episode.cameras) == 1 and episode.instruction and episode.metadata["policy"]
        for episode in episodes
    )
    assert Counter(episode.success for episode in episodes) == {None: 16, True: 14, False: 9}
    assert Counter(episode.metadata.get("outcome") for episode in episodes)["partial"] == 4
    partial = [record for record in records if record.episode.metadata.get("outcome") == "partial"]
    assert not [record.warnings for record in partial if record.warnings]


def test_one_file_is_the_same_episode_as_in_its_folder(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4")
    path = write_video(tmp_path / "b.mp4")
    ids = [item.episode_id for item in open_source(tmp_path).items]
    (item,) = open_source(path).items
    assert item.episode_id == ids[1] and video.recognises(str(path))


def test_each_bad_line_fails_alone_and_says_where(tmp_path: Path) -> None:
    write_video(tmp_path / "v/a.mp4")
    (tmp_path / "v/empty.mp4").touch()
    write_metadata(
        tmp_path,
        {"episode_id": "one", "videos": {"front": "v/a.mp4"}},
        "{not json",
        {"episode_id": "two"},
        "",
        {"episode_id": "three", "video": "../secret.mp4"},
        {"episode_id": "four", "video": "/etc/passwd"},
        {"episode_id": "five", "video": "v/gone.mp4"},
        {"episode_id": "six", "video": "v/empty.mp4"},
        {"episode_id": "one", "video": "v/a.mp4"},
        {"episode_id": "seven", "video": "v/a.mp4", "success": "maybe"},  # kept as metadata
        '{"episode_id": "eight", "video": "v/a.mp4", "fps": NaN}',
        [1, 2],
        {"episode_id": "nine", "file_name": "v/a.mp4"},
    )
    source = open_source(tmp_path)
    texts = [load_outcome(item) for item in source.items]
    expected = [
        "good", "metadata line is not JSON", "metadata line has a wrong form", "video is outside the folder",
        "video is outside the folder", "video file is missing", "video file is empty", "episode is listed twice",
        "good", "metadata line is not JSON", "metadata line is not a JSON object", "good",
    ]  # fmt: skip
    assert [text.split(":")[0] for text in texts] == expected and source.total == len(expected)
    assert "metadata.jsonl, line 2" in texts[1] and "empty.mp4" in texts[6]


def test_what_the_metadata_says_is_kept_as_it_is(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4")
    html = "<script>alert('x')</script> pick & place"
    row = {"video": "a.mp4", "instruction": html, "fps": 25, "split": "val", "success": False}
    row |= {"operator": {"name": "Kim"}}
    write_metadata(tmp_path, row, {"episode_id": 7, "video": "a.mp4", "instruction": " null "})
    first, second = (item.load() for item in open_source(tmp_path).items)
    assert first.episode.instruction == html and first.episode.instructions == (html,)
    assert (first.episode.split, first.episode.success, first.episode.key) == ("val", False, "a.mp4")
    assert first.episode.metadata == {"operator": {"name": "Kim"}}
    assert first.warnings == ("stated fps differs from that of the video",)
    assert second.episode.instructions == () and second.episode.success is None and second.episode.key == "7"
    assert first.episode.content_hash == second.episode.content_hash


def test_cameras_of_different_length_are_told(tmp_path: Path) -> None:
    write_video(tmp_path / "x_front.mp4", 20)
    write_video(tmp_path / "x_wrist.mp4", 19)
    write_video(tmp_path / "y_front.mp4", 20)
    write_video(tmp_path / "y_wrist.mp4", 15)
    x, y = (item.load() for item in open_source(tmp_path).items)
    assert x.warnings == () and y.warnings == ("cameras differ in length",)
    assert y.episode.num_steps == 20 and y.episode.cameras[1].media.num_frames == 15


def test_rate_given_by_the_user_goes_for_all_cameras(tmp_path: Path) -> None:
    write_video(tmp_path / "x_front.mp4", 20, 10.0)
    write_video(tmp_path / "x_wrist.mp4", 40, 20.0)
    (item,) = open_source(tmp_path, rate_hz=5.0).items
    episode = item.load().episode
    assert (episode.rate_hz, episode.rate_source, episode.duration_seconds) == (5.0, "user", 4.0)
    assert [camera.media.rate_hz for camera in episode.cameras] == [5.0, 10.0]
    front, wrist = (frames_at(camera.media, [3.0])[0].mean() for camera in episode.cameras)
    assert abs(front - 5 * 15) < 3 and abs(wrist - 5 * 30) < 3


def test_folder_without_videos_is_refused(tmp_path: Path) -> None:
    assert not video.recognises(str(tmp_path))
    with pytest.raises(SourceError, match="folder holds no video"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="folder holds no video"):
        open_source(tmp_path / "none")


def test_a_lerobot_dataset_is_not_taken_for_loose_videos(shared_data: Path) -> None:
    assert not video.recognises(str(shared_data / "g1_bottle_lerobot_v30"))
    assert video.recognises(str(shared_data / "metaworld_video"))


def test_a_phone_video_has_its_true_seconds_and_stands_upright(tmp_path: Path) -> None:
    times = [0, 33, 66, 133, 166, 200, 400, 433]
    with av.open(str(tmp_path / "phone.mp4"), "w") as out:
        stream: Any = out.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        stream.set_display_rotation(-90)
        for time in times:
            frame = av.VideoFrame.from_ndarray(np.full((32, 48, 3), time // 2, np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    (item,) = open_source(tmp_path).items
    record = item.load()
    camera = record.episode.cameras[0]
    assert (camera.width, camera.height) == (32, 48)
    assert record.episode.rate_hz == pytest.approx(7 / 0.433) and record.episode.num_steps == 8
    assert np.allclose(record.trajectory.timestamps, np.array(times) / 1e3, atol=1e-3)
    pictures = frames_at(camera.media, list(record.trajectory.timestamps))
    assert pictures.shape[1:3] == (48, 32)
    assert np.allclose(pictures.mean((1, 2, 3)), np.array(times) / 2, atol=3)
    (slow,) = open_source(tmp_path, rate_hz=record.episode.rate_hz / 2).items
    assert np.allclose(slow.load().trajectory.timestamps, np.array(times) / 500, atol=2e-3)


def test_a_dry_run_says_all_rates_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of files far behind the first ones, which alone were read once."""
    clips = tmp_path / "clips"
    clips.mkdir()
    for number in range(20):
        write_video(clips / f"{number:02}.mp4", rate=10.0 if number < 18 else 25.0)
    command = ["ingest", str(clips), "--dry-run", "-w", str(tmp_path / "w")]
    assert main(command) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert "20 episodes, 10 Hz (13 episodes), 25 Hz (1), of 14 that were tried, " in line
    assert main([*command, "--json"]) == 0
    (planned,) = json.loads(capsys.readouterr().out)["datasets"]
    assert (planned["rate_hz"], planned["rates"]) == (None, {"10": 13, "25": 1})
