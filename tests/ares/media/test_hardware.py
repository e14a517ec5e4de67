"""The processors decode wherever the device of the settings is not there or fails, and give the same pixels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.media import all_frames, frames_at, open_video_stream
from ares.media.video import codec as hardware
from ares.media.video.codec import announce_failure, convert_device_frame, hardware_decoder

SECONDS = [0.0, 0.3, 1.2]


@pytest.fixture
def use_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Choose the device of the settings for one test."""

    def use(name: str) -> None:
        monkeypatch.setenv("ARES_VIDEO_DEVICE", name)
        hardware_decoder.cache_clear()

    yield use
    hardware_decoder.cache_clear()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, make_video: Any) -> Path:
    video: Path = make_video(tmp_path_factory.mktemp("video") / "a.mp4", 40, 20, bf=2, g=7)
    return video


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cuda:97", "the processors decode videos, not ARES_VIDEO_DEVICE 'cuda:97': "),
        ("quantum", "no device of this kind; its kinds are cuda"),
        ("cuda:first", "invalid literal"),
    ],
)
def test_a_device_that_is_not_there_is_one_line(
    name: str, reason: str, path: Path, video_ref: Any, use_device: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = frames_at(video_ref(path), SECONDS)
    use_device(name)
    for _ in range(2):
        assert np.array_equal(frames_at(video_ref(path), SECONDS), expected)
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_a_device_that_fails_amid_a_file_is_replaced_there(
    path: Path, video_ref: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import av

    from ares.media.video import codec as video_file

    def to_pixels(frame: Any, device: object) -> Any:
        if device is not None:
            used.append(frame)
            if len(used) > 7:
                raise av.error.ExternalError(1, "device lost")
        return plain(frame, None)

    used: list[object] = []
    ref, plain = video_ref(path), video_file._to_pixels
    expected = np.stack(list(all_frames(ref)))
    # No machine of the tests has a device: the stand-in fails as FFmpeg does when one is lost.
    monkeypatch.setattr(video_file, "hardware_decoder", object)
    monkeypatch.setattr(video_file, "open_video_stream", lambda uri, device: open_video_stream(uri))
    monkeypatch.setattr(video_file, "_to_pixels", to_pixels)
    announce_failure.cache_clear()
    assert np.array_equal(np.stack(list(all_frames(ref))), expected)
    assert len(used) == 8
    used.clear()
    assert np.array_equal(frames_at(ref, list(np.arange(40) / 20)), expected)
    assert len(used) == 8
    assert capsys.readouterr().err.count("could not: video cannot be decoded") == 1


@pytest.mark.parametrize(("of_device", "planar"), hardware._SEPARATE_PLANES.items())
def test_frames_of_a_device_have_the_pixels_of_the_processors(of_device: str, planar: str) -> None:
    import av

    colours = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(colours).reformat(format=planar)
    again = convert_device_frame(frame.reformat(format=of_device))
    assert np.array_equal(again.to_ndarray(format="rgb24"), frame.to_ndarray(format="rgb24"))
