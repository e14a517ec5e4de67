"""encode_mp4 keeps every frame, writes the same bytes again, and leaves no file behind when it fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.errors import MediaError
from ares.media import all_frames, encode_mp4, probe_video
from ares.media.video.encode import VideoCodec
from tests.ares.media.written_videos import decode, video_ref


def pictures(count: int, height: int = 48, width: int = 64) -> list[NDArray[np.uint8]]:
    shades = np.linspace(20, 220, count)
    ramp = np.linspace(0, 30, width)[None, :, None]
    return [np.broadcast_to(ramp + shade, (height, width, 3)).astype(np.uint8) for shade in shades]


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_frames_come_back(tmp_path: Path, codec: VideoCodec) -> None:
    frames = pictures(25)
    path = tmp_path / "a.mp4"
    assert encode_mp4(iter(frames), path, 12.5, codec) == 25
    info = probe_video(path)
    assert (info.codec, info.pixel_format, info.num_frames, info.rate_hz) == (codec, "yuv420p", 25, 12.5)
    seconds, decoded = decode(path)
    assert np.allclose(seconds, np.arange(25) / 12.5, atol=1e-4)
    assert np.abs(np.stack(decoded).astype(int) - np.stack(frames)).mean() < 4
    assert len(list(all_frames(video_ref(path)))) == 25


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_same_frames_same_bytes(tmp_path: Path, codec: VideoCodec) -> None:
    contents = set()
    for _ in range(10):
        encode_mp4(pictures(30), tmp_path / "a", 10.0, codec)
        contents.add((tmp_path / "a").read_bytes())
    assert len(contents) == 1


def test_every_tenth_frame_is_a_keyframe_and_the_index_comes_first(tmp_path: Path) -> None:
    import av

    path = tmp_path / "a.mp4"
    encode_mp4(pictures(35), path, 10.0)
    with av.open(str(path)) as container:
        keys = [k for k, packet in enumerate(container.demux(video=0)) if packet.is_keyframe and packet.size]
    assert keys == [0, 10, 20, 30]
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


@pytest.mark.parametrize("size", [(33, 17), (7, 9), (1, 1)])
@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_odd_and_tiny_sizes_are_padded(tmp_path: Path, size: tuple[int, int], codec: VideoCodec) -> None:
    path = tmp_path / "a.mp4"
    frames = pictures(3, *size)
    encode_mp4(frames, path, 10.0, codec)
    _, decoded = decode(path)
    assert decoded[0].shape[0] % 2 == decoded[0].shape[1] % 2 == 0
    inside = decoded[0][: size[0], : size[1]].astype(int)
    assert np.abs(inside - frames[0]).mean() < 12


def test_failures_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no frame to encode"):
        encode_mp4([], tmp_path / "a.mp4", 10.0)
    with pytest.raises(MediaError, match="frames of several sizes"):
        encode_mp4([*pictures(2), *pictures(1, 10, 10)], tmp_path / "a.mp4", 10.0)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these schedulers")
def test_encoding_leaves_the_scheduling_of_the_process_as_it_was(tmp_path: Path) -> None:
    frames = [np.zeros((64, 64, 3), np.uint8)] * 5
    policies = set[int]()

    def frames_and_policies() -> Iterator[NDArray[np.uint8]]:
        for frame in frames:
            tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
            policies.update(map(os.sched_getscheduler, tasks))
            yield frame

    encode_mp4(frames_and_policies(), tmp_path / "a.mp4", 10.0, codec="av1")
    assert policies == {os.SCHED_OTHER}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
