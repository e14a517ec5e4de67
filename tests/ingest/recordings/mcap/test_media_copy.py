"""Copied cameras of an MCAP recording show the same images at the same seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ares.episode import Camera
from ares.media import all_frames, frames_at
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from tests.ingesting import ingest_paths

START = 1_760_000_000 * 10**9
TOPIC = "/camera/{}/image_raw/compressed"


def both(source: Path, folder: Path) -> list[tuple[float, Camera, Camera]]:
    """Length of each episode, and its cameras by reference and copied."""
    episodes = []
    for media in ("reference", "copy"):
        ws = open_workspace(str(folder / media), settings_from_environment({}))
        ingest_paths(ws.stores, [str(source)], media=media, quiet=True)
        episodes.append(sorted(ws.stores.tables.episodes.read(), key=lambda episode: episode.episode_id))
    pairs = zip(*episodes, strict=True)
    return [
        (original.duration_seconds, *cameras)
        for original, copy in pairs
        for cameras in zip(original.cameras, copy.cameras, strict=True)
    ]


def pictures(kit: Any, name: str, stamps: list[int]) -> list[Any]:
    entries = []
    for number, at in enumerate(stamps):
        data = cv2.imencode(".png", np.full((32, 48, 3), 8 * number + 4, np.uint8))[1].tobytes()
        message = kit.header(at)
        image = type(kit)(header=message, format="rgb8; png compressed bgr8", data=data)
        entries.append((TOPIC.format(name), "sensor_msgs/msg/CompressedImage", at, image))
    return entries


def test_images_at_uneven_stamps_and_a_camera_that_starts_late(kit: Any, tmp_path: Path) -> None:
    jitter = np.random.default_rng(1).integers(-30, 30, 30) * 1_000_000
    front = [START + 100_000_000 * k + int(jitter[k]) * (k > 0) for k in range(30)]
    late = [START + 900_000_000 + 150_000_000 * k for k in range(12)]
    entries = sorted(pictures(kit, "front", front) + pictures(kit, "late", late), key=lambda entry: entry[2])
    path = kit.write(tmp_path / "made" / "a.mcap", entries)
    cameras = both(path.parent, tmp_path)
    assert len(cameras) == 2
    for length, original, copied in cameras:
        seconds = np.random.default_rng(2).uniform(-0.2, length + 0.2, 80).tolist()
        assert (
            np.abs(frames_at(copied.media, seconds).astype(int) - frames_at(original.media, seconds)).max()
            <= 3
        )
        assert len(list(all_frames(copied.media))) == original.media.num_frames == copied.media.num_frames


def test_packets_of_a_video_topic_are_copied(shared_data: Path, tmp_path: Path) -> None:
    source = tmp_path / "made"
    source.mkdir()
    (source / "a.mcap").symlink_to(shared_data / "mcap" / "g1_ep010_foxglove_video.mcap")
    for length, original, copied in both(source, tmp_path):
        assert (original.codec, copied.codec) == ("h264", "h264")
        seconds = np.random.default_rng(2).uniform(-0.2, length + 0.2, 12).tolist()
        assert np.array_equal(frames_at(copied.media, seconds), frames_at(original.media, seconds))
