"""Checks for incomplete files that killed jobs left, stored text encoders, and indexes of the annotation log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares.doctor.finding import REPAIR, Finding
from ares.search import TEXT_ENCODER_FOLDER, is_text_encoder_usable

if TYPE_CHECKING:
    from ares.store import Stores

# A page may be writing a playable video; none takes this long.
_MIN_AGE_SECONDS = 3600.0


def check_files(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find files with ".tmp" in their name that are at least an hour old."""
    files = sorted(_leftover_files(stores.folder))
    yield from _useless_files(files, repair, check="no incomplete files of killed jobs", remedy=REPAIR)


def check_vector_files(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find files of vectors that a killed worker was writing; the caller holds the write lock."""
    if not stores.is_writable:
        return  # without the lock these may be files that somebody is writing
    unused = stores.tables.unused_vector_files()
    if unused:
        if repair:
            stores.tables.delete_unused_files(list(unused))
        yield Finding(
            check="each file of vectors belongs to its table",
            count=sum(unused.values()),
            example=f"{stores.tables.uri}/{next(iter(unused))}.lance",
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


def check_text_encoders(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find stored text encoders that cannot be used, or whose embedding space has no vectors."""
    useless = [path for path in _text_encoder_files(stores) if not is_text_encoder_usable(stores, path)]
    yield from _useless_files(
        useless,
        repair,
        check="each stored text encoder can be read and belongs to an embedding space",
        remedy="ares doctor --repair removes it; the next search by text stores it again",
    )


def _useless_files(files: list[Path], repair: bool, *, check: str, remedy: str) -> Iterator[Finding]:
    """One finding for files that should not be there, if any are; a repair removes them."""
    if not files:
        return
    if repair:
        for path in files:
            path.unlink(missing_ok=True)
    yield Finding(check=check, count=len(files), example=str(files[0]), repaired=repair, remedy=remedy)


def _text_encoder_files(stores: Stores) -> list[Path]:
    return sorted((stores.folder / TEXT_ENCODER_FOLDER).glob("*.safetensors"))


def _leftover_files(folder: Path) -> Iterator[Path]:
    newest = time.time() - _MIN_AGE_SECONDS
    # Only these patterns: exports, and other files that a user keeps here, are not touched.
    for path in [
        *folder.glob("*.tmp"),
        *folder.glob("cache/*/*.tmp*"),
        *folder.glob(f"{TEXT_ENCODER_FOLDER}/*.tmp"),
    ]:
        if path.is_file() and path.stat().st_mtime < newest:
            yield path
