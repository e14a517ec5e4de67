"""Copies the cameras of a record into the workspace while it is read, before any row refers to the copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from ares.episode import Camera, Record
from ares.errors import StoreError
from ingest.base import Item

MediaMode = Literal["reference", "copy"]


def copying_media(item: Item, media: MediaMode, workspace: Path) -> Item:
    """The item; with media "copy", loading it also copies its cameras into the workspace."""
    if media == "reference":
        return item
    return replace(item, load=partial(load_and_copy, item.load, str(workspace)))


def load_and_copy(load: Callable[[], Record], workspace: str) -> Record:
    """Read a record and copy its cameras into the workspace.

    Raises:
        SourceError: It cannot be read.
        MediaError: One of its cameras cannot be copied.
        StoreError: The workspace is not on this machine, or its disk is full (DiskFull).
    """
    from ares.media import copy_cameras

    record = load()
    folder = Path(workspace)
    if not (folder / "workspace.json").is_file():
        raise StoreError(
            "the workspace folder is not on the machine that reads",
            f"{workspace}: every worker needs it under this path",
        )
    cameras = copy_cameras(folder, record.episode.episode_id, record.episode.cameras)
    return replace(record, episode=replace(record.episode, cameras=cameras))


def count_copied_bytes(cameras: Sequence[Camera]) -> int:
    """Bytes of the cameras that are copies: until they are stored, their uri is relative."""
    refs = (camera.media for camera in cameras)
    return sum(ref.byte_size for ref in refs if not ref.uri.startswith("/") and "://" not in ref.uri)
