"""Copies: the videos that a workspace keeps itself, held against the episodes that name them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares.media.copy import MEDIA

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace


def broken(ws: Workspace) -> Iterator[str]:
    """Copies that an episode names and that are gone or cut, relative to the workspace."""
    for batch in ws.tables.episodes.scan(["cameras"]):
        for uri, size in _named(batch):
            try:
                good = (ws.folder / uri).stat().st_size == size
            except OSError:
                good = False
            if not good:
                yield uri


def unnamed(ws: Workspace) -> Iterator[Path]:
    """Folders of episodes below media/ that no episode names: a run was killed before it wrote its rows."""
    media = ws.folder / MEDIA
    for shelf in sorted(media.iterdir()) if media.is_dir() else ():
        name = shelf.name.replace("'", "''")
        rows = ws.tables.episodes.scan(["cameras"], f"starts_with(episode_id, '{name}')")
        known = {uri.rpartition("/")[0] for batch in rows for uri, _ in _named(batch)}
        with os.scandir(shelf) as found:
            left = [entry.name for entry in found if f"{MEDIA}/{shelf.name}/{entry.name}" not in known]
        yield from (shelf / one for one in sorted(left))


def remove(folder: Path) -> None:
    """Remove what `unnamed` found. Raises OSError when it may not be."""
    if folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink()


def _named(batch: pa.RecordBatch) -> list[tuple[str, int]]:
    """Relative uris and their sizes."""
    import pyarrow.compute as pc

    media = batch["cameras"].flatten()
    media = media.filter(pc.starts_with(pc.struct_field(media, "uri"), f"{MEDIA}/"))
    uris, sizes = (pc.struct_field(media, name).to_pylist() for name in ("uri", "byte_size"))
    return list(zip(uris, sizes, strict=True))
