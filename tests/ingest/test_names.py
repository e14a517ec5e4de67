"""Camera roles follow from camera names, and placeholder texts are no instructions."""

from __future__ import annotations

import pytest

from ingest.source_words import distinct_texts, guess_camera_role, is_meaningful_text


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("image", "front"), ("image_0", "front"), ("front", "front"), ("rgb_static", "front"),
        ("agentview_rgb", "front"), ("exterior_image_1_left", "side"), ("wrist_image_left", "wrist"),
        ("hand_image", "wrist"), ("eye_in_hand_rgb", "wrist"), ("rgb_gripper", "wrist"), ("top_image", "top"),
        ("cam_high", "front"), ("finger_vision_1", "other"), ("video", "other"),
    ],
)  # fmt: skip
def test_camera_roles(name: str, role: str) -> None:
    assert guess_camera_role(name) == role


def test_texts_that_say_nothing() -> None:
    assert distinct_texts(["", " ", "None", "NULL", "open it ", "open it", "n/a"]) == ("open it",)
    assert is_meaningful_text("none of the cups")
