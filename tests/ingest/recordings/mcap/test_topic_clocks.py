"""One clock for each topic of a recording, and one for all: header stamps that begin at 0, or lie years apart."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import cv2
import numpy as np
import pytest

from ares.checks import check_record, find_check_code
from ares.errors import SourceError
from ares.media import all_frames

Entry = tuple[str, str, int, Any]
WALL = 1_760_000_000 * 10**9
FORM = "rgb8; jpeg compressed bgr8"


def picture(number: int) -> bytes:
    """A grey picture whose level tells its number, up to 60 of them."""
    return bytes(cv2.imencode(".png", np.full((16, 16, 3), 4 * number, np.uint8))[1].tobytes())


def image(kit: Any, number: int, at: int, own: int) -> Entry:
    message = Message(header=kit.header(own), format="rgb8; png compressed bgr8", data=picture(number))
    return ("/camera/image/compressed", "sensor_msgs/msg/CompressedImage", at, message)


def joint(kit: Any, number: int, at: int, own: int) -> Entry:
    return ("/joint_states", "sensor_msgs/msg/JointState", at, kit.joints(own, [number, -number]))


def shown_numbers(record: Any) -> list[int]:
    """The number of each picture of the only camera, in the order in which they are shown."""
    (camera,) = record.episode.cameras
    return [round(float(frame.mean()) / 4) for frame in all_frames(camera.media)]


def codes(record: Any) -> list[str]:
    return [finding.code for finding in check_record(record.episode, record.trajectory)]


@pytest.mark.parametrize("seed", range(6))
def test_a_topic_whose_first_stamps_are_zero_keeps_its_order_and_its_length(
    kit: Any, tmp_path: Path, seed: int
) -> None:
    """Simulated time: nothing is stamped until the clock comes, and then it has another epoch than publication."""
    rng = random.Random(seed)
    count, rate, zeros = rng.randint(30, 60), rng.choice((10, 20, 30)), rng.randint(1, 25)
    epoch = rng.choice((0, 12 * 10**9, 86_400 * 10**9))
    zero_topics = rng.choice((("image",), ("joint",), ("image", "joint")))
    entries = []
    for k in range(count):
        at = WALL + k * 10**9 // rate
        stamp = epoch + k * 10**9 // rate + 10**6
        entries.append(image(kit, k, at, 0 if "image" in zero_topics and k < zeros else stamp))
        entries.append(joint(kit, k, at, 0 if "joint" in zero_topics and k < zeros else stamp))
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert record.episode.num_steps == count
    assert record.episode.duration_seconds == pytest.approx(count / rate, rel=0.05)
    assert shown_numbers(record) == list(range(count))
    assert record.trajectory.state.values[:, 0].tolist() == list(range(count))
    for name in zero_topics:
        topic = "/camera/image/compressed" if name == "image" else "/joint_states"
        assert (
            f"topic {topic} has messages without header stamps; it goes by publish times" in record.warnings
        )
    assert codes(record) == ["A053"]


@pytest.mark.parametrize("late", [0, 3, 7])
def test_topics_whose_clocks_do_not_overlap_go_by_publish_time_together(
    kit: Any, tmp_path: Path, late: int
) -> None:
    """A camera on wall time, joints on simulated time; both published at once, the camera some steps later."""
    entries = [image(kit, k, WALL + k * 10**8, WALL + k * 10**8) for k in range(late, 40)]
    entries += [joint(kit, k, WALL + k * 10**8, 5 * 10**9 + k * 10**8) for k in range(40)]
    record = kit.read(kit.write(tmp_path / "a.mcap", sorted(entries, key=lambda entry: entry[2])))
    assert record.trajectory.state.values[:, 0].tolist() == list(range(late, 40))
    assert shown_numbers(record) == list(range(late, 40))
    assert any("header stamps of the topics do not overlap" in text for text in record.warnings)


def test_topics_that_overlap_by_neither_clock_fail(kit: Any, tmp_path: Path) -> None:
    entries = [image(kit, k, WALL + k * 10**8, WALL + k * 10**8) for k in range(40)]
    hour = 3_600 * 10**9
    entries += [joint(kit, k, WALL + hour + k * 10**8, 5 * 10**9 + k * 10**8) for k in range(40)]
    with pytest.raises(SourceError, match="no message of a topic lies in the time of the steps"):
        kit.read(kit.write(tmp_path / "a.mcap", entries))


def test_a_jump_of_the_clock_to_wall_time_is_a_fault(kit: Any, tmp_path: Path) -> None:
    """Stamps that are never 0: which of the two clocks is right cannot be told, the length is impossible."""
    own = [10**9 + k * 10**8 if k < 15 else WALL + k * 10**8 for k in range(40)]
    record = kit.read(
        kit.write(tmp_path / "a.mcap", [image(kit, k, WALL + k * 10**8, own[k]) for k in range(40)])
    )
    found = codes(record)
    assert "A055" in found
    assert find_check_code("A055").severity == "fault"


def test_the_reported_bag_with_a_prefix_of_zeros(kit: Any, shared_data: Path) -> None:
    record = kit.read(shared_data / "reported" / "mcap_simclock_prefix" / "a.mcap")
    assert (record.episode.num_steps, round(record.episode.duration_seconds, 2)) == (60, 2.0)
    periods = np.diff(record.trajectory.timestamps)
    assert periods.min() > 0.01 and periods.max() < 0.1
