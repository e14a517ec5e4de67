"""Hashes and probes of media files are computed once per state of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ares.episode import MediaRef
from ares.errors import SourceError
from ares.io import file_state
from ares.media import encode_mp4
from ingest.files import describe_camera, hash_media_file, hash_media_files, probe_once


def write_video(path: Path, num_frames: int) -> Path:
    frames = np.random.default_rng(num_frames).integers(0, 255, (num_frames, 32, 48, 3), np.uint8)
    encode_mp4(frames, path, 10.0)
    return path


def test_a_file_is_hashed_again_when_it_changes(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 5)
    first = hash_media_file(str(path), file_state(str(path)))
    assert first == hash_media_files([str(path)]) and len(first) == 32
    write_video(path, 6)
    assert hash_media_file(str(path), file_state(str(path))) not in ("", first)


def test_a_video_is_probed_again_when_it_changes(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 5)
    assert probe_once(str(path)) is probe_once(str(path))
    write_video(path, 6)
    assert probe_once(str(path)).num_frames == 6
    with pytest.raises(SourceError, match="video file is missing"):
        probe_once(str(tmp_path / "b.mp4"))


def test_the_role_comes_from_the_name_unless_it_is_known(tmp_path: Path) -> None:
    info = probe_once(str(write_video(tmp_path / "a.mp4", 5)))
    media = MediaRef(kind="mp4", uri="a.mp4", start_seconds=0.0, stop_seconds=0.5, num_frames=5, rate_hz=10.0)
    camera = describe_camera("wrist_left", info, media)
    assert (camera.role, camera.width, camera.height, camera.codec) == ("wrist", 48, 32, "h264")
    assert describe_camera("wrist_left", info, media, role="top", flags=("black",)).role == "top"
