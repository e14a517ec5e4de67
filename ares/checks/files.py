"""Files: nothing that a killed job left half made, and every index that the stores declare."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares.checks.finding import REPAIR, Finding

if TYPE_CHECKING:
    from ares.workspace import Workspace

# A page may be making a playable video; none takes this long.
_OLD_SECONDS = 3600.0


def check_files(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """Files with ".tmp" in their name, an hour old at least."""
    left = sorted(_left(ws.folder))
    if left:
        if repair:
            for path in left:
                path.unlink(missing_ok=True)
        yield Finding(
            check="no files that a killed job left half made",
            count=len(left),
            example=str(left[0]),
            repaired=repair,
            remedy=REPAIR,
        )


def check_indexes(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """Indexes of the annotation log."""
    missing = ws.annotations.missing_indexes()
    if missing:
        if repair:
            ws.annotations.make_indexes()
        yield Finding(
            check="the annotations have every index",
            count=len(missing),
            example=missing[0],
            repaired=repair,
            remedy=REPAIR,
        )


def _left(folder: Path) -> Iterator[Path]:
    limit = time.time() - _OLD_SECONDS
    # Exports and what else a person keeps here are left alone.
    for path in [*folder.glob("*.tmp"), *folder.glob("cache/*/*.tmp*")]:
        if path.is_file() and path.stat().st_mtime < limit:
            yield path
