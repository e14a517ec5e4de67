"""Messages of any type, in protobuf, JSON or ROS 2, by the schema in the file; videos in CompressedImage."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import numpy as np
import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from mcap.writer import Writer
from mcap_protobuf.writer import Writer as ProtobufWriter

import ares
from ares.errors import SourceError
from ares.media import frames_at
from tests.ares.media.recordings.test_frames import ENCODERS, encode_access_units
from tests.ingest.recordings.mcap.conftest import IMAGE, START, STEP, header

COUNT = 10
SEEDS = [*range(2), *(pytest.param(number, marks=pytest.mark.nightly) for number in range(2, 100))]
Fields = dict[str, tuple[int, int]]
DOUBLE, STRING = 1, 9


def protobuf_type(name: str, fields: Fields) -> Any:
    """A message type of fields with the number of their type, and 3 for a list or 1."""
    pool, package = descriptor_pool.DescriptorPool(), name.rpartition(".")[0]
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    message = file.message_type.add(name=name.rpartition(".")[2])
    for number, (field, (kind, label)) in enumerate(fields.items(), 1):
        message.field.add(name=field, number=number, type=kind, label=label)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def write_protobuf(path: Path) -> Path:
    arm = protobuf_type("yam.Arm", {"position": (DOUBLE, 3), "label": (STRING, 1)})
    text = protobuf_type("yam.Text", {"text": (STRING, 1)})
    with path.open("wb") as file, ProtobufWriter(file) as writer:
        for k in range(COUNT):
            at = START + k * STEP
            for number, topic in enumerate(("/left-state", "/right-state", "/left-action", "/load")):
                writer.write_message(topic, arm(position=[k, number], label="a"), at, at)
        writer.write_message("/instruction", text(text="fold it"), START, START)
        writer.write_message("/calibration", arm(position=[1, 2]), START, START)
    return path


def write_json(path: Path, encoding: str = "json") -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        writer.add_metadata("session", {"task": "fold it", "outcome": "failure", "operator": "one"})
        arm, camera = (
            writer.register_channel(topic, "json", writer.register_schema(name, "jsonschema", b"{}"))
            for topic, name in (("/arm/state", "lab.Arm"), ("/eye", "foxglove.CompressedImage"))
        )
        scan = writer.register_channel("/scan", encoding, writer.register_schema("lab.Scan", encoding, b""))
        for k in range(COUNT):
            at = START + k * STEP
            stamp = {"timestamp": {"sec": at // 10**9, "nsec": at % 10**9}}
            picture = {"frame_id": "", "format": "jpeg", "data": base64.b64encode(IMAGE).decode()}
            for channel, fields in ((arm, {"q": [k, 0.5], "mode": "a"}), (camera, picture)):
                writer.add_message(channel, at + 7, json.dumps(stamp | fields).encode(), at + 7)
            writer.add_message(scan, at, b"{}", at)
        writer.finish()  # type: ignore[no-untyped-call]
    return path


def test_protobuf_of_another_type_is_state_action_and_text_by_the_names_of_topics(
    kit: Any, tmp_path: Path
) -> None:
    record = kit.read(write_protobuf(tmp_path / "a.mcap"))
    state, action, k = record.trajectory.state, record.trajectory.action, np.arange(COUNT)
    np.testing.assert_array_equal(state.values, np.stack([k, 0 * k, k, 0 * k + 1], axis=1))
    assert state.names[0] == "/left-state/position_0"
    np.testing.assert_array_equal(action.values, np.stack([k, 0 * k + 2], axis=1))
    assert [*record.trajectory.extra] == ["/load"]
    assert record.episode.instruction == "fold it"
    assert any("the state is /left-state, /right-state" in warning for warning in record.warnings)
    (unused,) = (array for array in record.arrays if array.use == "unused")
    assert (unused.key, unused.note) == ("/calibration", "a single message is no signal")


def test_json_is_read_with_its_stamps_and_pictures_and_another_encoding_is_named(
    kit: Any, tmp_path: Path
) -> None:
    path = write_json(tmp_path / "a.mcap", "flatbuffer")
    record = kit.read(path)
    assert record.trajectory.state.names == ("q_0", "q_1")
    assert record.episode.metadata["start_stamp_seconds"] == START / 1e9
    assert (record.episode.instruction, record.episode.success) == ("fold it", False)
    assert record.episode.metadata["operator"] == "one"
    (camera,) = record.episode.cameras
    (frame,) = frames_at(camera.media, [0.4])
    assert frame.shape == (24, 32, 3)
    (dataset,) = ares.check(path).datasets
    encodings = "'flatbuffer' with schema encoding 'flatbuffer'"
    assert f"topic /scan is skipped: its message encoding is not known: {encodings}" in dataset.warnings


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_drawn_topics_are_state_and_action_by_their_names(
    encoding: str, seed: int, kit: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    arms = sorted(rng.choice(["left", "right", "base", "torso"], rng.integers(1, 4), replace=False))
    words = [str(rng.choice(["state", "joints", "qpos"])), str(rng.choice(["action", "cmd", "target"]))]
    field = str(rng.choice(["position", "q", "values"]))
    tables = {
        f"/{arm}/{word}": rng.normal(size=(COUNT, rng.integers(1, 9))) for word in words for arm in arms
    }
    kind = protobuf_type("lab.Arm", {field: (DOUBLE, 3)})
    with (tmp_path / "a.mcap").open("wb") as file:
        writer: Any = ProtobufWriter(file) if encoding == "protobuf" else Writer(file)
        if encoding == "json":
            writer.start()
            schema = writer.register_schema("lab.Arm", "jsonschema", b"{}")
            channels = {topic: writer.register_channel(topic, "json", schema) for topic in tables}
        for k, (topic, table) in itertools.product(range(COUNT), tables.items()):
            at, values = START + k * STEP, table[k].tolist()
            if encoding == "json":
                writer.add_message(channels[topic], at, json.dumps({field: values}).encode(), at)
            else:
                writer.write_message(topic, kind(**{field: values}), at, at)
        writer.finish()
    trajectory = kit.read(tmp_path / "a.mcap").trajectory
    for signal, word in zip((trajectory.state, trajectory.action), words, strict=True):
        goal = np.hstack([tables[f"/{arm}/{word}"] for arm in arms]).astype(np.float32)
        np.testing.assert_array_equal(signal.values, goal)


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_a_video_in_compressed_images_is_a_video(kit: Any, tmp_path: Path, codec: str) -> None:
    encoder, options = ENCODERS[codec]
    units = encode_access_units(encoder, COUNT, **options)
    entries = []
    for k, unit in enumerate(units):
        at = START + k * STEP
        message = Message(header=header(at), format=codec, data=unit)
        entries.append(("/eye/compressed", "sensor_msgs/msg/CompressedImage", at, message))
    (camera,) = kit.read(kit.write(tmp_path / "a.mcap", entries)).episode.cameras
    assert (camera.codec, camera.media.num_frames) == ({"h265": "hevc"}.get(codec, codec), COUNT)
    assert [frame.shape for frame in frames_at(camera.media, [0.0, 0.5])] == [(64, 64, 3)] * 2


def test_numbers_of_other_types_alone_are_no_episode_and_a_spec_reads_them(kit: Any, tmp_path: Path) -> None:
    point = Message(point=Message(x=1.0, y=2.0, z=3.0))
    entries = [
        ("/tool", "geometry_msgs/msg/PointStamped", at, Message(header=header(at), point=point.point))
        for at in range(START, START + COUNT * STEP, STEP)
    ]
    path = kit.write(tmp_path / "a.mcap", entries)
    with pytest.raises(SourceError, match=r"holds no camera and no signal.*/tool"):
        kit.read(path)
    spec = tmp_path / "spec.yaml"
    spec.write_text("reference: me\nstate: [{key: /tool, names: [x, y, z]}]\n")
    assert kit.read(path, spec=str(spec)).trajectory.extra["/tool"].values.shape == (COUNT, 3)


def test_a_further_topic_outside_the_steps_costs_nothing_else(kit: Any, tmp_path: Path) -> None:
    late = START + 100 * STEP
    message = Message(header=header(late), point=Message(x=1.0, y=2.0, z=3.0))
    entries = [("/tool", "geometry_msgs/msg/PointStamped", late + k, message) for k in range(COUNT)]
    record = kit.read(kit.write(tmp_path / "a.mcap", [*kit.states(), *entries]))
    assert not record.trajectory.extra and record.trajectory.state is not None
    (unused,) = (array for array in record.arrays if array.use == "unused")
    assert unused.note == "none of its messages lies in the time of the steps"
