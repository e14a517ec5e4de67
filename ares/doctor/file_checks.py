"""Checks for incomplete files that killed jobs left, and for missing indexes of the annotation log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares.doctor.finding import REPAIR, Finding

if TYPE_CHECKING:
    from ares.store import Stores

# A page may be writing a playable video; none takes this long.
_MIN_AGE_SECONDS = 3600.0


def check_files(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find files with ".tmp" in their name that are at least an hour old."""
    files = sorted(_leftover_files(stores.folder))
    if files:
        if repair:
            for path in files:
                path.unlink(missing_ok=True)
        yield Finding(
            check="no incomplete files of killed jobs",
            count=len(files),
            example=str(files[0]),
            repaired=repair,
            remedy=REPAIR,
        )


def check_indexes(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find missing indexes of the annotation log."""
    missing = stores.annotations.missing_indexes()
    if missing:
        if repair:
            stores.annotations.create_indexes()
        yield Finding(
            check="the annotations have every index",
            count=len(missing),
            example=missing[0],
            repaired=repair,
            remedy=REPAIR,
        )


def _leftover_files(folder: Path) -> Iterator[Path]:
    newest = time.time() - _MIN_AGE_SECONDS
    # Only these patterns: exports, and other files that a user keeps here, are not touched.
    for path in [*folder.glob("*.tmp"), *folder.glob("cache/*/*.tmp*")]:
        if path.is_file() and path.stat().st_mtime < newest:
            yield path
