"""Checks that copied videos in the workspace are complete, and that each belongs to an episode."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ares.doctor.finding import Finding
from ares.media import MEDIA_FOLDER

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores


def check_copies(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find copies that are missing or damaged, and folders of copies that no episode refers to."""
    count, example = 0, ""
    for uri in damaged_copies(stores):
        count, example = count + 1, example or uri
    if count:
        yield Finding(
            check="each copied video is there and whole",
            count=count,
            example=example,
            repaired=False,
            remedy="put it back from a backup, or ingest the source again into a new workspace",
        )
    count, example = 0, ""
    for folder in unreferenced_folders(stores):
        count, example = count + 1, example or str(folder)
        if repair:
            _remove(folder)
    if count:
        yield Finding(
            check="each folder of copied videos belongs to an episode",
            count=count,
            example=example,
            repaired=repair,
            remedy="a killed ingestion left them; ares doctor --repair removes them",
        )


def damaged_copies(stores: Stores) -> Iterator[str]:
    """Yield copies that are missing or have another size than recorded, relative to the workspace."""
    for batch in stores.tables.episodes.scan(["cameras"]):
        for uri, size in _copies(batch):
            try:
                intact = (stores.folder / uri).stat().st_size == size
            except OSError:
                intact = False
            if not intact:
                yield uri


def unreferenced_folders(stores: Stores) -> Iterator[Path]:
    """Yield episode folders below media/ without an episode: a run was killed before it wrote its rows."""
    media = stores.folder / MEDIA_FOLDER
    for shard in sorted(media.iterdir()) if media.is_dir() else ():
        prefix = shard.name.replace("'", "''")
        where = f"starts_with(episode_id, '{prefix}')"
        rows = chain(
            stores.tables.episodes.scan(["cameras"], where), stores.tables.removed.scan(["cameras"], where)
        )
        referenced = {uri.rpartition("/")[0] for batch in rows for uri, _ in _copies(batch)}
        with os.scandir(shard) as entries:
            names = sorted(entry.name for entry in entries)
        yield from (shard / name for name in names if f"{MEDIA_FOLDER}/{shard.name}/{name}" not in referenced)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _copies(batch: pa.RecordBatch) -> list[tuple[str, int]]:
    """Relative URI and size in bytes of each copy that the rows refer to."""
    import pyarrow.compute as pc

    media = batch["cameras"].flatten()
    media = media.filter(pc.starts_with(pc.struct_field(media, "uri"), f"{MEDIA_FOLDER}/"))
    uris, sizes = (pc.struct_field(media, name).to_pylist() for name in ("uri", "byte_size"))
    return list(zip(uris, sizes, strict=True))
