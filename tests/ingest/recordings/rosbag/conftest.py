"""Writes ROS bags for tests with the library rosbags: joints, images and texts at given times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer as Writer2
from rosbags.typesys import Stores, get_typestore

from ares.episode import Record
from ares_ingest.base import Source, SourceOptions
from ares_ingest.recordings import rosbag

START = 1_760_000_000 * 10**9
STEP = 100_000_000
Entry = tuple[str, str, int, Any]


def entries(store: Any, count: int = 10) -> Iterator[Entry]:
    """Topic, type, nanoseconds and message: a task, and joints, a command and a picture for every step."""
    types = store.types
    yield "/task", "std_msgs/msg/String", START, types["std_msgs/msg/String"](data="stack the cups")
    for number in range(count):
        at = START + number * STEP
        stamp = types["builtin_interfaces/msg/Time"](sec=at // 10**9, nanosec=at % 10**9)
        sequence = (
            {"seq": number} if "ROS1" in str(store.types["std_msgs/msg/Header"].__module__).upper() else {}
        )
        header = types["std_msgs/msg/Header"](**sequence, stamp=stamp, frame_id="")
        values = {"velocity": np.zeros(0), "effort": np.zeros(0)}
        joints = types["sensor_msgs/msg/JointState"]
        position = np.array([number, -number], float)
        yield "/joint_states", joints.__msgtype__, at, joints(header, ["a", "b"], position, **values)
        yield "/command", joints.__msgtype__, at, joints(header, ["a", "b"], position + 0.5, **values)
        image = types["sensor_msgs/msg/CompressedImage"]
        yield (
            "/camera/front/image_raw/compressed",
            image.__msgtype__,
            at,
            image(header, "jpeg", picture(number)),
        )


def picture(number: int) -> np.ndarray[Any, Any]:
    """(N,) uint8, a JPEG whose brightness tells its number."""
    return cv2.imencode(".jpg", np.full((24, 32, 3), 20 * number % 256, np.uint8))[1].ravel()


def write_ros1(path: Path, count: int = 10, compression: str = "") -> Path:
    """A ROS 1 bag."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.ROS1_NOETIC)
    writer = Writer1(path)
    if compression:
        writer.set_compression(Writer1.CompressionFormat[compression])
    with writer:
        connections: dict[str, Any] = {}
        for topic, kind, at, message in entries(store, count):
            connection = connections.get(topic) or writer.add_connection(topic, kind, typestore=store)
            connections[topic] = connection
            writer.write(connection, at, store.serialize_ros1(message, kind))
    return path


def write_ros2(folder: Path, count: int = 10, *, packed: bool = False) -> Path:
    """A folder of rosbag2 with a .db3; `packed` compresses every message."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.LATEST)
    writer = Writer2(folder, version=9, storage_plugin=StoragePlugin.SQLITE3)
    if packed:
        writer.set_compression(CompressionMode.MESSAGE, CompressionFormat.ZSTD)
    with writer:
        connections: dict[str, Any] = {}
        for topic, kind, at, message in entries(store, count):
            connection = connections.get(topic) or writer.add_connection(topic, kind, typestore=store)
            connections[topic] = connection
            writer.write(connection, at, store.serialize_cdr(message, kind))
    return folder


def opened(path: Path, **options: Any) -> Source:
    """The one source of a folder or file."""
    (source,) = rosbag.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> Record:
    """The one record of a bag."""
    (item,) = opened(path, **options).items
    return item.load()
