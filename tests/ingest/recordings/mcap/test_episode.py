"""MCAP ingestion: topics aligned by their times, values as the library decodes them, and a warning for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap_ros2.decoder import DecoderFactory

from ares.clock import settle_measured_clock
from ares.errors import SourceError
from ares.media import frames_at
from tests.ingest.recordings.mcap.conftest import START, STEP, Entry, header, images, joints, states, task

JOINTS = "sensor_msgs/msg/JointState"


def decoded(path: Path, topic: str) -> Iterator[Any]:
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for message in reader.iter_decoded_messages(topics=[topic]):
            yield message.decoded_message


def seconds(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def test_a_real_ros2_recording_has_the_values_of_the_library(kit: Any, shared_data: Path) -> None:
    path = shared_data / "mcap" / "g1_ep010_ros2.mcap"
    record = kit.read(path)
    episode, trajectory = record.episode, record.trajectory
    assert episode.instruction == "Pick up the yellow bottle on the table."
    assert (episode.num_steps, episode.rate_source, round(episode.rate_hz, 4)) == (290, "measured", 30.0)
    assert [(c.name, c.role, c.codec, c.width, c.height) for c in episode.cameras] == [
        ("head", "front", "jpeg", 640, 480)
    ]
    clock = [seconds(message) for message in decoded(path, "/camera/head/image/compressed")]
    assert np.array_equal(trajectory.timestamps, (np.array(clock) - clock[0]) / 1e9)
    assert trajectory.state is not None and trajectory.action is not None
    for topic, signal in (("/joint_states", trajectory.state), ("/joint_command", trajectory.action)):
        messages = sorted(decoded(path, topic), key=seconds)
        latest = [[m for m in messages if seconds(m) <= at][-1:] or messages[:1] for at in clock]
        assert signal.names == tuple(messages[0].name)
        assert np.array_equal(signal.values, np.array([m[0].position for m in latest], np.float32))
    assert record.warnings == ()


def test_what_holds_nothing_fails_and_says_what_there_is(kit: Any, shared_data: Path) -> None:
    folder = shared_data / "rosbag2_mcap"
    source = kit.opened(folder)
    items = {item.location.removeprefix(f"{folder}/"): item for item in source.items}
    assert source.total == len(items) == 10
    texts = {}
    for name, item in items.items():
        with pytest.raises(SourceError) as caught:
            item.load()
        wrong = name.startswith("wrong_rmw_test")
        assert caught.value.reason == ("no topic can be read" if wrong else "holds no camera and no signal")
        texts[name] = caught.value.detail
    unread = texts["wrong_rmw_test/wrong_rmw_test_0.mcap"]
    assert "/test_topic (its message encoding is not known: 'wrong_format'" in unread
    bag = "bag_with_topics_and_service_events"
    service = texts[f"{bag}/{bag}.mcap"]
    assert (
        "/test_service1/_service_event (its schema cannot be parsed: test_msgs/srv/BasicTypes_Event"
        in service
    )
    assert "6074 messages" in texts["wbag"]  # five files, one recording
    assert sum(name.startswith("reindex_test_bags") for name in items) == 3  # no metadata.yaml
    assert "/chatter (std_msgs/msg/String)" in texts["reindex_test_bags/multiple_files/multiple_files_0.mcap"]


def unstamped(entry: Entry, number: int) -> Entry:
    """Joints of a number without a stamp in their header."""
    topic, schema, at, _ = entry
    return topic, schema, at, joints(0, [number, -number])


SERVICE = ("/srv/_service_event", "test_msgs/srv/Empty_Event", START, b"\x00\x01\x00\x00\x01\x00\x00\x00")
SERVICE_SKIPPED = (
    "topic /srv/_service_event is skipped: its schema cannot be parsed: test_msgs/srv/Empty_Event is a service, not a"
    " message"
)
EMPTY = [("/js", JOINTS, START + k, joints(START + k, [], [])) for k in range(3)]
UNEVEN = [START + STEP * k + 30_000_000 * (k % 2) for k in range(10)]
STAMPS = "topic /joint_states has messages without header stamps; it goes by publish times"
# Entries, and what is said of them.
WARNED: dict[str, tuple[list[Entry], list[str]]] = {
    "service": ([SERVICE, *states()], [SERVICE_SKIPPED]),
    "broken message": (
        [*states(), ("/joint_states", JOINTS, START + 1, b"\x00\x01\x00\x00\x01")],
        ["topic /joint_states: message is not what its schema says"],
    ),
    "beyond float32": (
        [*states()[1:], ("/joint_states", JOINTS, START, joints(START, [1e300, 1.0]))],
        ["topic /joint_states has values beyond float32; they are infinite",
         "topic /joint_states has stamps that run backwards; its messages were sorted"],
    ),
    "stamps run backwards": (
        [*states()[5:], *states()[:5]],
        ["topic /joint_states has stamps that run backwards; its messages were sorted"],
    ),
    "no values": ([*EMPTY, *states()], ["topic /js has messages without values; they are left out"]),
    "dropped": (
        [entry for k, entry in enumerate(images(12)) if k not in (4, 5)],
        ["topic /camera/front/image_raw/compressed dropped messages"],
    ),
    "uneven": (
        [("/joint_states", JOINTS, at, joints(at, [k, -k])) for k, at in enumerate(UNEVEN)],
        ["topic /joint_states is not evenly spaced (jitter above 20 %)"],
    ),
    "no stamps": ([unstamped(entry, k) for k, entry in enumerate(states())], [STAMPS]),
    "one without a stamp": ([*states()[:4], unstamped(states()[4], 4), *states()[5:]], [STAMPS]),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "warnings"), WARNED.values(), ids=WARNED)
def test_what_is_wrong_with_a_topic_is_said_and_its_steps_are_kept(
    kit: Any, tmp_path: Path, entries: list[Entry], warnings: list[str]
) -> None:
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert sorted(record.warnings) == sorted(warnings)
    assert (record.episode.num_steps, round(record.episode.rate_hz)) == (10, 10)
    if record.trajectory.state is not None:
        assert record.trajectory.state.values[1:, 0].tolist() == list(range(1, 10))


def test_a_channel_of_another_encoding_is_skipped(kit: Any, tmp_path: Path) -> None:
    wrong = ("/other", "std_msgs/msg/String", START, b"abc")
    record = kit.read(kit.write(tmp_path / "b.mcap", [wrong, *states()], encoding="wrong_format"))
    assert record.warnings == (
        "topic /other is skipped: its message encoding is not known: 'wrong_format' with schema encoding 'ros2msg'",
    )


def test_steps_are_the_images_and_hold_the_latest_sample(kit: Any, tmp_path: Path) -> None:
    entries = [*images(), *states(late=30_000_000), *states(topic="/arm/command", late=-10_000_000)]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    state, action = record.trajectory.state, record.trajectory.action
    assert state is not None and action is not None
    assert state.values[:, 0].tolist() == [0, *range(9)]
    assert action.values[:, 1].tolist() == [-k for k in range(10)]
    assert record.trajectory.timestamps.tolist() == [k / 10 for k in range(10)]
    assert (record.episode.rate_hz, record.episode.rate_source) == (10.0, "measured")
    assert record.episode.metadata["state_topics"] == ["/joint_states"]
    assert record.episode.metadata["action_topics"] == ["/arm/command"]


def test_joints_by_name_whatever_their_order(kit: Any, tmp_path: Path) -> None:
    def message(k: int) -> Any:
        names = [("a", "b"), ("b", "a"), ("b",)][k % 3]
        return joints(START + STEP * k, [{"a": k, "b": -k}[name] for name in names], names)

    entries = [("/js", JOINTS, START + STEP * k, message(k)) for k in range(9)]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert record.trajectory.state is not None and record.episode.state_names == ("a", "b")
    assert record.trajectory.state.values.tolist() == [[k if k % 3 < 2 else k - 1, -k] for k in range(9)]
    assert record.warnings == ("topic /js lacks some joints in some messages; they keep their last value",)


def test_a_joint_that_comes_later_has_its_first_value_before(kit: Any, tmp_path: Path) -> None:
    positions = [{"a": 1}, {"a": 2, "late": 7}, {"late": 8}, {"a": 4, "late": 9}]
    at = [START + STEP * k for k in range(4)]
    entries = [
        ("/js", JOINTS, t, joints(t, values.values(), values))
        for t, values in zip(at, positions, strict=True)
    ]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert record.trajectory.state is not None and record.episode.state_names == ("a", "late")
    assert record.trajectory.state.values.tolist() == [[1, 7], [2, 7], [2, 8], [4, 9]]


def test_arrays_may_be_empty(kit: Any, tmp_path: Path) -> None:
    at = [START + STEP * k for k in range(6)]
    still = [joints(t, [], velocity=[1.5, 2.5]) for t in at]
    both = [joints(t, [k, k], effort=[0.5, 0.5]) for k, t in enumerate(at)]
    both[2] = joints(at[2], [])
    both[4] = joints(at[4], [1.0])
    schema = JOINTS
    entries = [
        *(("/cmd", schema, t, m) for t, m in zip(at, still, strict=True)),
        *(("/js", schema, t, m) for t, m in zip(at, both, strict=True)),
    ]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert record.trajectory.action is not None and record.trajectory.state is not None
    assert record.trajectory.action.values.tolist() == [[1.5, 2.5]] * 4
    assert record.trajectory.state.values[:, 0].tolist() == [0, 1, 3, 5]
    assert list(record.trajectory.extra) == ["effort"]
    assert {
        "action topic /cmd holds velocity, not position",
        "topic /js has messages without values; they are left out",
        "topic /js has messages whose names and values do not fit; they are left out",
    } <= set(record.warnings)


def test_a_topic_without_any_value_is_no_signal(kit: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no camera and no signal.*3 messages"):
        kit.read(kit.write(tmp_path / "a.mcap", EMPTY))


def test_a_schema_of_another_version_is_said(kit: Any, tmp_path: Path) -> None:
    plain = {"compression": CompressionType.NONE, "enable_crcs": False}
    path = kit.write(tmp_path / "a.mcap", [task("lift"), *states()], **plain)
    path.write_bytes(path.read_bytes().replace(b"string data", b"string text"))
    record = kit.read(path)
    assert record.episode.instruction == ""
    assert "topic /task: its schema lacks a field of its type" in record.warnings


def test_actions_without_stamps_and_two_arms(kit: Any, tmp_path: Path) -> None:
    at = [START + STEP * k for k in range(10)]
    array = "std_msgs/msg/Float64MultiArray"
    point = "trajectory_msgs/msg/JointTrajectoryPoint"
    entries = [
        *states(topic="/left/joint_states"),
        *states(topic="/right/joint_states"),
        *(("/gripper/command", array, t, Message(data=[k])) for k, t in enumerate(at)),
        *(
            ("/target", point, t, Message(positions=[k, k], velocities=[], accelerations=[], effort=[]))
            for k, t in enumerate(at)
        ),
        *(("/gains", array, t, Message(data=[1.0])) for t in at),
    ]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    left_names, right_names = (
        [f"/{side}/joint_states/{name}" for name in "ab"] for side in ("left", "right")
    )
    assert record.episode.state_names == (*left_names, *right_names)
    assert record.episode.action_names == ("/gripper/command/0", "/target/0", "/target/1")
    assert record.trajectory.action is not None
    assert record.trajectory.action.values[:, 2].tolist() == list(range(10))
    assert record.episode.metadata["unused_topics"] == {"/gains": array}
    assert record.warnings == tuple(
        f"topic {topic} has messages without header stamps; it goes by publish times"
        for topic in ("/gripper/command", "/target")
    )


def test_instructions_in_the_order_they_were_given(kit: Any, tmp_path: Path) -> None:
    entries = [
        task("then rest", at=START + STEP),
        task("lift"),
        task("lift"),
        task("hello", "/chatter"),
        task("", "/prompt"),
    ]
    episode = kit.read(kit.write(tmp_path / "a.mcap", [*entries, *states()])).episode
    assert episode.instructions == ("lift", "then rest") and episode.instruction == "lift"


def test_a_topic_that_ends_early_and_repeats_is_told(kit: Any, tmp_path: Path) -> None:
    entries = [*images(20), *states(10), *states(1, "/zero"), *states(2)]
    record = kit.read(kit.write(tmp_path / "c.mcap", entries))
    assert "topic /joint_states does not cover the whole episode" in record.warnings
    assert "topic /joint_states has stamps that repeat" in record.warnings


def test_cameras_by_topic_and_depth_left_out(kit: Any, tmp_path: Path) -> None:
    def raw(topic: str, encoding: str, step: int) -> list[Entry]:
        size = {"height": 4, "width": 6, "step": step, "is_bigendian": 0, "data": bytes(4 * step)}
        at = [START + STEP * k for k in range(10)]
        messages = [Message(header=header(t), encoding=encoding, **size) for t in at]
        return [(topic, "sensor_msgs/msg/Image", t, m) for t, m in zip(at, messages, strict=True)]

    entries = [
        *raw("/wrist/color/image_raw", "bgr8", 18),
        *raw("/wrist/depth/image_raw", "16UC1", 12),
        *raw("/front/image_raw", "yuv422", 12),
        *images(topic="/camera/image"),
        *images(1, topic="/a/map"),
    ]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert [(c.name, c.codec) for c in record.episode.cameras] == [
        ("a_map", "jpeg"),
        ("camera", "jpeg"),
        ("wrist_color", "raw"),
    ]
    assert [c.role for c in record.episode.cameras] == ["other", "front", "wrist"]
    assert record.episode.num_steps == 10
    assert record.warnings == (
        "topic /wrist/depth/image_raw is left out: it holds depth, not colour",
        "topic /front/image_raw is left out: its pixel encoding is not read",
    )
    assert frames_at(record.episode.camera("wrist_color").media, [0.0, 0.9]).shape == (2, 4, 6, 3)


def test_a_camera_that_ran_before_and_after(kit: Any, tmp_path: Path) -> None:
    entries = [*images(10, "/b/image")[3:8], *images(10, "/c/image")]
    cameras = kit.read(kit.write(tmp_path / "a.mcap", entries)).episode.cameras
    assert [(c.name, c.media.num_frames, c.media.start_seconds) for c in cameras] == [
        ("b", 5, 0.0),
        ("c", 5, 0.3),
    ]


def test_a_rate_given_makes_the_steps_even(kit: Any, tmp_path: Path) -> None:
    record = kit.read(kit.write(tmp_path / "a.mcap", [*images(), *states()]), rate_hz=20.0)
    assert (record.episode.rate_hz, record.episode.rate_source) == (20.0, "user")
    assert record.trajectory.timestamps.tolist() == pytest.approx([k / 20 for k in range(19)])
    assert record.trajectory.state is not None
    assert record.trajectory.state.values[:, 0].tolist() == [k // 2 for k in range(19)]
    assert record.warnings == ()
    single = kit.read(kit.write(tmp_path / "one.mcap", states(1)), rate_hz=50.0)
    assert (single.episode.rate_hz, single.episode.rate_source, single.episode.num_steps) == (50.0, "user", 1)


@pytest.mark.parametrize(
    ("steps", "period", "rate_hz"),
    [(300, 33_355_000, 30.0), (3000, 33_355_000, 29.9805), (300, 35_000_000, 28.5714)],
    ids=["near a whole rate", "too long to keep to it", "no whole rate"],
)
def test_stamps_that_keep_to_a_whole_rate(
    kit: Any, tmp_path: Path, steps: int, period: int, rate_hz: float
) -> None:
    at = [START + k * period + (-1) ** k * 1_000_000 for k in range(steps)]
    entries = [("/joint_states", JOINTS, t, joints(t, [1, 2])) for t in at]
    record = kit.read(kit.write(tmp_path / "a.mcap", entries))
    assert round(record.episode.rate_hz, 4) == pytest.approx(rate_hz, abs=0.01)
    settled = settle_measured_clock(record).episode
    assert settled.measured_rate_hz == pytest.approx(1e9 / period, rel=1e-3)
    assert settled.rate_hz == record.episode.rate_hz
    assert np.array_equal(record.trajectory.timestamps, (np.array(at) - at[0]) / 1e9)  # as they are
