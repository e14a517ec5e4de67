"""Copied: records whose cameras are copied into the workspace as they are read, before a row names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from ares.episode import Camera, Record
from ares.errors import StoreError
from ingest.base import Item

Media = Literal["reference", "copy"]


def copying(item: Item, media: Media, workspace: Path) -> Item:
    """The item, which copies its cameras into the workspace when it is loaded, if that was asked for."""
    if media == "reference":
        return item
    return replace(item, load=partial(load_copied, item.load, str(workspace)))


def load_copied(load: Callable[[], Record], workspace: str) -> Record:
    """Read a record and copy its cameras.

    Raises:
        SourceError: It cannot be read.
        MediaError: One of its cameras cannot be copied.
        StoreError: The workspace is not on this machine, or its disk is full (DiskFull).
    """
    from ares.media.copy import copy_cameras

    record = load()
    folder = Path(workspace)
    if not (folder / "workspace.json").is_file():
        raise StoreError(
            "the workspace is not on the machine that reads",
            f"{workspace}; every worker needs it under this path",
        )
    cameras = copy_cameras(folder, record.episode.episode_id, record.episode.cameras)
    return replace(record, episode=replace(record.episode, cameras=cameras))


def copied_bytes(cameras: Sequence[Camera]) -> int:
    """Bytes of those cameras that are copies, before they are stored: their uri is relative."""
    relative = (
        one.media for one in cameras if not one.media.uri.startswith("/") and "://" not in one.media.uri
    )
    return sum(media.byte_size for media in relative)
