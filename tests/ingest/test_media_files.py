"""Hashes and probes of media files are computed once per state of the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ares.episode import MediaRef
from ares.errors import AresError, SourceError
from ares.io import FileState, file_state
from ares.media import encode_mp4, probe_video
from ares.media.playback import _cache_key
from ares_ingest.files import hash_media_file, hash_media_files, probe_once
from ares_ingest.hdf5.facts import read_json_once
from ares_ingest.lerobot.rows import read_episode_file, read_from_shared_file


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


def test_large_files_are_told_apart_without_reading_them_whole(tmp_path: Path) -> None:
    size = 9 * 2**20
    contents = [bytes(size), bytes(size - 1) + b"\1", bytes(size + 1), bytes(size)]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    hashes = [hash_media_files([str(tmp_path / str(number))]) for number in range(4)]
    assert hashes[0] == hashes[3] and len(set(hashes)) == 3


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
    ("module", "read"),
    [
        ("ares_ingest.files", probe_once),
        ("ares.media.video.probe", probe_video),
        ("ares_ingest.hdf5.facts", read_json_once),
        ("ares_ingest.lerobot.rows", lambda path: read_episode_file(path, ())),
        ("ares_ingest.lerobot.rows", lambda path: read_from_shared_file(path, 0, ())),
        ("ares.media.playback", lambda path: _cache_key(whole_video(path))),
    ],
)
def test_a_file_that_cannot_be_looked_at_is_not_called_missing_or_damaged(
    module: str, read: Callable[[str], object], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_video(tmp_path / "a.mp4", 5))

    def refuse(path: str) -> FileState:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(f"{module}.file_state", refuse)
    with pytest.raises(AresError, match=f"file cannot be read: .*{os.strerror(number)}"):
        read(path)


def whole_video(path: str) -> MediaRef:
    return MediaRef(kind="mp4", uri=path, start_seconds=0.0, stop_seconds=0.5, num_frames=5, rate_hz=10.0)


def test_a_folder_named_like_a_video_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").mkdir()
    with pytest.raises(SourceError, match=r"video file cannot be read: .*directory"):
        probe_video(str(tmp_path / "a.mp4"))
