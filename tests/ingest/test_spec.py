"""Dataset specs can all be read, and names tell what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ingest.roles import camera_role, distinct, says_something
from ingest.spec import dataset_spec, read_spec

SPECS = sorted((Path(__file__).parents[2] / "ingest" / "specs").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_shipped_spec_is_valid_and_says_where_it_is_from(path: Path) -> None:
    assert read_spec(path).reference


def test_known_and_unknown_datasets() -> None:
    droid = dataset_spec("droid")
    assert droid is not None and (droid.rate_hz, droid.cameras["wrist_image_left"]) == (15.0, "wrist")
    assert (
        dataset_spec("nobody_knows") is None and dataset_spec("") is None and dataset_spec("../spec") is None
    )


def test_wrong_specs_name_the_field(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rate_hz: -1\nreference: x\n")
    with pytest.raises(SourceError, match=r"a.yaml: rate_hz"):
        read_spec(path)
    path.write_text("{")
    with pytest.raises(SourceError, match="dataset spec is not YAML"):
        read_spec(path)


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
    assert camera_role(name) == role


def test_texts_that_say_nothing() -> None:
    assert distinct(["", " ", "None", "NULL", "open it ", "open it", "n/a"]) == ("open it",)
    assert says_something("none of the cups")
