"""Writes MCAP recordings for tests: joints, images and texts at given times."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import cv2
import numpy as np
import pytest
from mcap.records import Schema
from mcap_ros2.writer import Writer

from ares.episode import Record
from ares_ingest.base import Source, SourceOptions
from ares_ingest.recordings import mcap

HEADER = (
    "\n" + 80 * "=" + "\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
    + 80 * "=" + "\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
)  # fmt: skip
SCHEMAS = {
    "sensor_msgs/msg/JointState": "std_msgs/Header header\nstring[] name\nfloat64[] position\n"
    "float64[] velocity\nfloat64[] effort" + HEADER,
    "sensor_msgs/msg/CompressedImage": "std_msgs/Header header\nstring format\nuint8[] data" + HEADER,
    "sensor_msgs/msg/Image": "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
    "uint8 is_bigendian\nuint32 step\nuint8[] data" + HEADER,
    "foxglove_msgs/msg/CompressedVideo": "builtin_interfaces/Time timestamp\nstring frame_id\nuint8[] data\n"
    "string format",
    "std_msgs/msg/String": "string data",
    "std_msgs/msg/Float64MultiArray": "float64[] data",
    "std_msgs/msg/Float64": "float64 data",
    "std_msgs/msg/Bool": "bool data",
    "geometry_msgs/msg/PointStamped": "std_msgs/Header header\ngeometry_msgs/Point point"
    + HEADER
    + 80 * "="
    + "\nMSG: geometry_msgs/Point\nfloat64 x\nfloat64 y\nfloat64 z\n",
    "trajectory_msgs/msg/JointTrajectoryPoint": "float64[] positions\nfloat64[] velocities\n"
    "float64[] accelerations\nfloat64[] effort",
    "test_msgs/srv/Empty_Event": "int32 a\n---\nint32 b",
}
START = 1_760_000_000 * 10**9
STEP = 100_000_000
IMAGE = cv2.imencode(".jpg", np.full((24, 32, 3), 90, np.uint8))[1].tobytes()
Entry = tuple[str, str, int, Any]


def header(at: int) -> Message:
    return Message(stamp=Message(sec=at // 10**9, nanosec=at % 10**9), frame_id="")


def joints(at: int, position: Iterable[float], name: Iterable[str] = ("a", "b"), **more: Any) -> Message:
    fields = {"velocity": [], "effort": [], **more}
    return Message(header=header(at), name=list(name), position=list(position), **fields)


def states(count: int = 10, topic: str = "/joint_states", late: int = 0) -> list[Entry]:
    at = [START + STEP * k + late for k in range(count)]
    return [(topic, "sensor_msgs/msg/JointState", t, joints(t, [k, -k])) for k, t in enumerate(at)]


def images(count: int = 10, topic: str = "/camera/front/image_raw/compressed") -> list[Entry]:
    at = [START + STEP * k for k in range(count)]
    form = "rgb8; jpeg compressed bgr8"
    return [
        (topic, "sensor_msgs/msg/CompressedImage", t, Message(header=header(t), format=form, data=IMAGE))
        for t in at
    ]


def task(text: str, topic: str = "/task", at: int = START) -> Entry:
    return (topic, "std_msgs/msg/String", at, Message(data=text))


def write(path: Path, entries: Iterable[Entry], encoding: str = "", **options: Any) -> Path:
    """Messages (topic, schema, nanoseconds of log, message) in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = Writer(file, **options)
        schemas = {name: writer.register_msgdef(name, text) for name, text in SCHEMAS.items()}
        inner: Any = writer._writer
        for topic, name, at, message in entries:
            if isinstance(message, bytes):
                schema: Schema = schemas[name]
                channel = inner.register_channel(topic, encoding or "cdr", schema.id)
                inner.add_message(channel, log_time=at, publish_time=at, data=message)
            else:
                writer.write_message(topic, schemas[name], message, at, at - 1_000)
        writer.finish()  # type: ignore[no-untyped-call]
    return path


def opened(path: Path, **options: Any) -> Source:
    """The one source of a recording."""
    (source,) = mcap.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> Record:
    """The one record of a recording."""
    (item,) = opened(path, **options).items
    return item.load()


@pytest.fixture(scope="session")
def kit() -> Any:
    """Functions that make messages, write them to a file and ingest it."""
    producers = {"header": header, "joints": joints, "states": states, "images": images, "task": task}
    return Message(**producers, write=write, opened=opened, read=read)
