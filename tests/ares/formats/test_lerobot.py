"""Keys and paths of LeRobot datasets, as reader and writer share them."""

from __future__ import annotations

import pytest

from ares.formats import markers as lerobot


def test_a_camera_key_holds_no_slash() -> None:
    assert lerobot.camera_key("front") == "observation.images.front"
    assert lerobot.camera_key("arm/left") == "observation.images.arm_left"


def test_columns_of_a_video() -> None:
    columns = lerobot.video_columns("observation.images.front")
    assert columns.chunk_index == "videos/observation.images.front/chunk_index"
    assert columns.to_timestamp == "videos/observation.images.front/to_timestamp"


@pytest.mark.parametrize(
    ("template", "path"),
    [
        (lerobot.V2_DATA_PATH, "data/chunk-000/episode_000000.parquet"),
        (lerobot.V2_VIDEO_PATH, "videos/chunk-000/key/episode_000000.mp4"),
        (lerobot.V3_DATA_PATH, "data/chunk-000/file-000.parquet"),
        (lerobot.V3_VIDEO_PATH, "videos/key/chunk-000/file-000.mp4"),
        (lerobot.V3_EPISODES_PATH, "meta/episodes/chunk-000/file-000.parquet"),
    ],
)
def test_every_template_is_filled_by_its_fields(template: str, path: str) -> None:
    numbers = dict.fromkeys(("episode_chunk", "episode_index", "chunk_index", "file_index"), 0)
    assert template.format(video_key="key", **numbers) == path
