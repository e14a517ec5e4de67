"""A video that is stored rotated is exported upright: LeRobot's decoders ignore display matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np

from ares.export.base import ExportRate
from ares.export.lerobot.writer import prepare_video
from ares.export.retime import retime_episode
from ingest.base import SourceOptions
from ingest.video import video
from tests.ares.media.written_videos import A_QUARTER_TO_THE_RIGHT, write_video


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
