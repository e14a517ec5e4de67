"""A camera whose source stores red and blue swapped is shown in its right colours everywhere."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from ares.episode import Channels, MediaRef
from ares.media import (
    FileCache,
    NotCopyable,
    all_frames,
    browser_video,
    cut_packets,
    encoded_frames,
    frames_at,
    thumbnail,
)
from tests.ares.media.written_videos import span_ref, write_record


def red_camera(folder: Path, channels: Channels) -> MediaRef:
    """Five red pictures of 32x48, stored for "bgr" as a writer stores them that mistakes BGR for RGB: blue."""
    picture = np.zeros((32, 48, 3), np.uint8)
    picture[..., 0 if channels == "rgb" else 2] = 200
    data = bytes(cv2.imencode(".png", picture[..., ::-1])[1].tobytes())
    return write_record(folder / f"{channels}.tfrecord", [data] * 5, 5.0, channels=channels)


@pytest.mark.parametrize("channels", ["rgb", "bgr"])
def test_red_stays_red(tmp_path: Path, channels: Channels) -> None:
    ref = red_camera(tmp_path, channels)
    pictures = frames_at(ref, [0.0, 0.5])
    assert pictures[:, 5, 5].tolist() == [[200, 0, 0]] * 2
    assert [picture[0, 0].tolist() for picture in all_frames(ref)] == [[200, 0, 0]] * 5
    cache = FileCache(tmp_path / "cache", 1 << 24)
    jpeg = cv2.imread(str(thumbnail(ref, 0.0, 40, cache)))
    assert jpeg is not None
    blue, green, red = jpeg[10, 10].tolist()
    assert red > 150 and max(blue, green) < 60
    video = span_ref(browser_video(ref, "h264", cache), 5, 5.0)
    red, green, blue = frames_at(video, [0.4])[0, 10, 10].tolist()
    assert red > 150 and max(blue, green) < 60


def test_what_is_stored_is_given_as_it_is(tmp_path: Path) -> None:
    ref = red_camera(tmp_path, "bgr")
    stored = cv2.imdecode(np.frombuffer(encoded_frames(ref)[0], np.uint8), cv2.IMREAD_COLOR)
    assert stored is not None and stored[0, 0].tolist() == [200, 0, 0]


def test_packets_of_swapped_videos_are_not_copied(tmp_path: Path) -> None:
    ref = red_camera(tmp_path, "bgr")
    with pytest.raises(NotCopyable, match="colours are swapped or pictures are turned"):
        cut_packets(ref, 5, 5.0)
