"""Depth that is stored as video is depth: never a colour camera, told, kept by reference, and named by an export."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from ares import open as open_workspace
from ares.errors import MediaError, SourceError
from ares.export.base import ExportRate
from ares.export.layout_groups import read_depth_videos
from ares.export.lerobot.writer import find_copyable_depth, prepare_depth
from ares.export.retime import retime_episode
from ares.media import probe_video
from tests.ingesting import ingest_paths, open_sources

LEFT_OUT = "camera top_depth left out: it holds depth, not colour"


@pytest.fixture
def depth_folder(shared_data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shared_data / "reported" / "lerobot3644_depth_video", tmp_path / "depth"))


def edit_feature(folder: Path, **info: Any) -> None:
    """Change the info of the depth camera; None takes a field away."""
    path = folder / "meta" / "info.json"
    document = json.loads(path.read_text())
    own = document["features"]["observation.images.top_depth"]["info"]
    own.update(info)
    for name in [name for name, value in own.items() if value is None]:
        del own[name]
    path.write_text(json.dumps(document))


def first_record(folder: Path) -> Any:
    (source,) = open_sources([str(folder)])
    return next(iter(source.items)).load()


def test_a_depth_map_is_told_and_kept_by_reference_with_its_range_and_unit(depth_folder: Path) -> None:
    record = first_record(depth_folder)
    assert [camera.name for camera in record.episode.cameras] == ["front"]
    assert LEFT_OUT in record.warnings
    (name, depth), *others = record.episode.metadata["depth_cameras"].items()
    assert (name, others) == ("top_depth", [])
    assert {key: depth[key] for key in ("depth_unit", "depth_min", "depth_max", "shift", "use_log")} == {
        "depth_unit": "mm",
        "depth_min": 0.01,
        "depth_max": 10.0,
        "shift": 3.5,
        "use_log": True,
    }
    assert Path(depth["path"]).is_file() and depth["start_seconds"] == 0.0
    assert "missing_cameras" not in record.episode.metadata


def test_the_pixel_format_alone_tells_depth(depth_folder: Path) -> None:
    edit_feature(depth_folder, is_depth_map=None, **{"video.pix_fmt": None})
    record = first_record(depth_folder)
    assert LEFT_OUT in record.warnings and "top_depth" in record.episode.metadata["depth_cameras"]


@pytest.mark.parametrize("name", ["is_depth_map", "video.is_depth_map"])
def test_the_metadata_alone_tells_depth(depth_folder: Path, name: str) -> None:
    """The same flag beside a video of eight bits."""
    edit_feature(depth_folder, is_depth_map=None)
    edit_feature(depth_folder, **{name: True})
    videos = depth_folder / "videos"
    shutil.rmtree(videos / "observation.images.top_depth")
    shutil.copytree(videos / "observation.images.front", videos / "observation.images.top_depth")
    assert LEFT_OUT in first_record(depth_folder).warnings


def test_a_depth_video_that_is_gone_is_lost(depth_folder: Path) -> None:
    shutil.rmtree(depth_folder / "videos" / "observation.images.top_depth")
    record = first_record(depth_folder)
    assert record.episode.metadata["missing_cameras"] == ["top_depth"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["lerobot", "lerobot-v2.1", "rlds"])
def test_an_export_names_the_depth_that_it_leaves_out(
    depth_folder: Path, tmp_path: Path, format: str
) -> None:
    """The second episode begins between two keyframes, so that no packets can be copied."""
    workspace = open_workspace(tmp_path / "ws", create=True)
    ingest_paths(workspace.stores, [str(depth_folder)], quiet=True)
    ids = sorted(workspace.stores.tables.episodes.ids())
    selection = workspace.sets.create("all", ids, {})
    report = workspace.export(selection, tmp_path / "out", format=format, quiet=True)
    assert any(line.startswith("depth of camera top_depth of ") for line in report.left_out)
    assert not [path for path in (tmp_path / "out").rglob("*") if "top_depth" in path.name]


def packets_of(folder: Path) -> list[bytes]:
    """The packets of all videos of the depth camera, in order."""
    packets: list[bytes] = []
    for path in sorted((folder / "videos" / "observation.images.top_depth").rglob("*.mp4")):
        with av.open(str(path)) as container:
            packets += [bytes(packet) for packet in container.demux(video=0) if packet.size]
    return packets


def encode_with_keyframes(folder: Path, seed: int) -> None:
    """Give the depth camera another video of random depth, each frame of which can be decoded alone."""
    rng = np.random.default_rng(seed)
    (path,) = (folder / "videos" / "observation.images.top_depth").rglob("*.mp4")
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx265", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "gray12le"
        stream.options = {"x265-params": "keyint=1:lossless=1:bframes=0:log-level=none"}
        for _ in range(60):
            pixels = (rng.integers(0, 4096, (48, 64)) << 4).astype(np.uint16)
            frame = av.VideoFrame.from_ndarray(pixels, "gray16le").reformat(format="gray12le")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def export_all(folder: Path, out: Path, workspace_folder: Path) -> Any:
    workspace = open_workspace(workspace_folder, create=True)
    ingest_paths(workspace.stores, [str(folder)], quiet=True)
    selection = workspace.sets.create("all", sorted(workspace.stores.tables.episodes.ids()), {})
    return workspace.export(selection, out, format="lerobot", quiet=True)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lerobot_export_has_the_depth_bit_by_bit_with_range_and_unit(
    depth_folder: Path, tmp_path: Path, seed: int
) -> None:
    encode_with_keyframes(depth_folder, seed)
    report = export_all(depth_folder, tmp_path / "out", tmp_path / "ws")
    assert not [line for line in report.left_out if line.startswith("depth")]
    assert packets_of(tmp_path / "out") == packets_of(depth_folder)
    features = [
        json.loads((folder / "meta" / "info.json").read_text())["features"]["observation.images.top_depth"]
        for folder in (depth_folder, tmp_path / "out")
    ]
    assert features[1] == features[0]
    again, before = (
        first_record(folder).episode.metadata["depth_cameras"]["top_depth"]
        for folder in (tmp_path / "out", depth_folder)
    )
    assert again["depth_max"] == before["depth_max"]


def test_depth_that_is_not_that_of_the_written_steps_is_refused(depth_folder: Path) -> None:
    encode_with_keyframes(depth_folder, 0)
    record = first_record(depth_folder)
    retimed = retime_episode(record.episode, record.trajectory, ExportRate())
    assert len(prepare_depth("top_depth", retimed).span.packets) == record.episode.num_steps
    shorter = replace(retimed.episode, num_steps=record.episode.num_steps - 1)
    others = [
        ("another", retimed),
        ("top_depth", retime_episode(record.episode, record.trajectory, ExportRate(fps=15))),
        ("top_depth", replace(retimed, episode=shorter)),
    ]
    for camera, other in others:
        with pytest.raises(MediaError, match="depth is not at the steps of the export"):
            prepare_depth(camera, other)


def test_depth_is_copied_where_every_episode_has_it_alike(depth_folder: Path) -> None:
    encode_with_keyframes(depth_folder, 0)
    video = read_depth_videos(first_record(depth_folder).episode)["top_depth"]
    others = [
        replace(video, facts={**video.facts, "depth_max": 3.0}),
        replace(video, rate_hz=video.rate_hz + 1),
        replace(video, path=f"{video.path}.gone"),
    ]
    alike = {1: [[video]], 2: [[video, video]]}
    unlike = {2: [[video], *([video, other] for other in others)]}
    cases = [
        (episodes, videos, copied)
        for groups, copied in ((alike, ("top_depth",)), (unlike, ()))
        for episodes, members in groups.items()
        for videos in members
    ]
    for episodes, videos, copied in cases:
        group: Any = SimpleNamespace(
            episodes=episodes, rate_hz=video.rate_hz, depth_videos={"top_depth": videos}
        )
        assert find_copyable_depth(group) == copied


@pytest.mark.parametrize("pixel_format", ["gray10le", "gray12le", "gray16le"])
def test_a_video_of_more_than_eight_bits_of_grey_is_no_colour_video(
    tmp_path: Path, pixel_format: str
) -> None:
    path = tmp_path / "depth.mkv"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 24, pixel_format
        for number in range(5):
            pixels = np.full((24, 32), 100 + 40 * number, np.uint16)
            frame = av.VideoFrame.from_ndarray(pixels, "gray16le").reformat(format=pixel_format)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(SourceError, match="it holds depth, not colour"):
        probe_video(path)
