"""Keys and paths of LeRobot datasets, as reader and writer share them."""

from __future__ import annotations

from ares.formats import markers as lerobot


def test_a_camera_key_holds_no_slash() -> None:
    assert lerobot.camera_key("front") == "observation.images.front"
    assert lerobot.camera_key("arm/left") == "observation.images.arm_left"
