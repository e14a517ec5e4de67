"""Reads the messages of any recording (MCAP, ROS 1 bag, rosbag2 in SQLite) by one interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

from ares.media.recordings.container import (
    McapMessage,
    open_recording_file,
    read_mcap_messages,
    scan_mcap,
)
from ares.media.recordings.ros1_bag import Ros1Bag, scan_ros1_bag
from ares.media.recordings.sqlite_bag import SqliteBag, scan_sqlite_bag

if TYPE_CHECKING:
    from mcap.records import Message


_SQLITE_SUFFIX = ".db3"
_ROS1_SUFFIXES = (".bag", ".bag.active")


class OpenRecording(Protocol):
    """A file of a recording that is open for reading."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def messages(self, offset: int) -> list[Message]:
        """The messages at a location that `scan_messages` gave. Raises SourceError."""


def scan_messages(path: str, warnings: list[str]) -> Iterator[McapMessage]:
    """Yield every message of a file in file order; unreadable parts are skipped and add a warning.

    Raises SourceError when the file is missing, empty or not what its suffix says; RequestError where its format
    needs a library that is not installed.
    """
    name = path.lower()
    if name.endswith(_SQLITE_SUFFIX):
        return scan_sqlite_bag(path, warnings)
    return scan_ros1_bag(path, warnings) if name.endswith(_ROS1_SUFFIXES) else scan_mcap(path, warnings)


def open_recording(path: str) -> OpenRecording:
    """Open a file of a recording for reading messages by their location. Raises SourceError."""
    name = path.lower()
    if name.endswith(_SQLITE_SUFFIX):
        return SqliteBag(path)
    return Ros1Bag(path) if name.endswith(_ROS1_SUFFIXES) else _McapFile(path)


class _McapFile:
    """An open MCAP file."""

    def __init__(self, path: str) -> None:
        self._file: Any = open_recording_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def messages(self, offset: int) -> list[Message]:
        """The messages of the chunk that begins at a byte."""
        return read_mcap_messages(self._file, offset)
