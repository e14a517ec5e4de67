"""Decoders of ROS messages by the definitions of their types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.imports import needs_extra

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore


# Types of foxglove_msgs, which are no part of ROS. Definitions inside a file are never turned into code.
_FOXGLOVE = {
    "foxglove_msgs/msg/CompressedVideo": "time timestamp\nstring frame_id\nuint8[] data\nstring format\n",
    "foxglove_msgs/msg/CompressedImage": "time timestamp\nstring frame_id\nuint8[] data\nstring format\n",
}


def ros2_definition(name: str) -> str:
    """The concatenated definition of a type of ROS 2, or "" for an unknown type.

    Raises RequestError when the library rosbags is not installed.
    """
    with needs_extra("rosbag"):
        from rosbags.typesys import TypesysError
    try:
        return _ros_typestore("LATEST").generate_msgdef(name, ros_version=2)[0]
    except (TypesysError, KeyError):
        return ""


def make_ros1_decoder(name: str, checksum: str = "") -> Callable[[bytes], Any]:
    """A decoder of ROS 1 messages, to objects with plain lists and bytes.

    Args:
        name: Type, such as "sensor_msgs/JointState".
        checksum: MD5 of its definition, as the recording states it, or "".

    The decoder raises SourceError for a type that ROS 1 Noetic does not have or defines otherwise, and for bytes that
    do not fit the type. Raises RequestError when the library rosbags is not installed.
    """
    with needs_extra("rosbag"):
        from rosbags.serde import SerdeError

    type_name = _ros2_name(name)
    problem = _type_problem(type_name, checksum)

    def decode(data: bytes) -> Any:
        if problem:
            raise SourceError(problem, name)
        try:
            return _plain_message(_ros_typestore("ROS1_NOETIC").deserialize_ros1(data, type_name))
        except (SerdeError, AssertionError) as error:
            raise SourceError("message is not what its schema says", str(error)) from None

    return decode


@functools.cache
def _ros_typestore(name: str) -> Typestore:
    """The types of a distribution of ROS, with those of foxglove_msgs."""
    with needs_extra("rosbag"):
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores[name])
    for type_name, text in _FOXGLOVE.items():
        definition = text.replace("time ", "builtin_interfaces/Time ")
        store.register(get_types_from_msg(definition, type_name))
    return store


def _ros2_name(name: str) -> str:
    """ "sensor_msgs/msg/JointState" for "sensor_msgs/JointState"."""
    package, _, message = name.partition("/")
    return f"{package}/msg/{message.rpartition('/')[2]}"


def _type_problem(type_name: str, checksum: str) -> str:
    """Why messages of a type cannot be decoded, or ""."""
    store = _ros_typestore("ROS1_NOETIC")
    if type_name not in store.fielddefs:
        return "its message type is not one of ROS 1"
    expected = store.generate_msgdef(type_name, ros_version=1)[1]
    return "" if checksum in ("", "*", expected) else "its message type is not defined as in ROS 1 Noetic"


def _plain_message(message: Any) -> SimpleNamespace:
    """The fields of a message: numbers as lists, bytes as bytes, nested messages as they are."""
    fields: Mapping[str, Any] = {
        name: getattr(message, name) for name in message.__dataclass_fields__ if name != "__msgtype__"
    }
    return SimpleNamespace(**{name: _plain_value(value) for name, value in fields.items()})


def _plain_value(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray):
        return value
    return value.tobytes() if value.dtype == np.uint8 else value.tolist()
