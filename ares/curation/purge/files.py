"""Deletes the files of purged episodes: copies of their videos, and everything derived from any video."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.media import MEDIA_FOLDER

if TYPE_CHECKING:
    from ares.store import Stores


def delete_files(stores: Stores, ids: Sequence[str]) -> int:
    """Delete the copied videos of episodes and the whole cache, which names no episode and is derived again.

    Returns:
        Number of folders of copied videos.
    """
    count, media = 0, stores.folder / MEDIA_FOLDER
    for episode_id in ids:
        for name in (episode_id, f"{episode_id}.tmp"):
            folder = media / episode_id[:2] / name
            if folder.is_dir():
                shutil.rmtree(folder)
                count += 1
        shard = media / episode_id[:2]
        if shard.is_dir() and not any(shard.iterdir()):
            shard.rmdir()
    shutil.rmtree(stores.folder / "cache", ignore_errors=True)
    return count
