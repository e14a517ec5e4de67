"""Limits of what one file or record of a foreign dataset may cost, checked before memory is allocated for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ares.settings import settings_from_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBudgets:
    """Limits for foreign data. The first four are settings of the user (`ares.toml` or the environment).

    Attributes:
        pixels: Pixels of one image or video frame, by its header (ARES_MAX_MEGAPIXELS).
        memory_bytes: Memory that reading may add to a process (ARES_READER_GB).
        record_seconds: Seconds in which one record is read, in whatever process, and those that opening and listing a
            dataset may take from one of its files to the next (ARES_RECORD_SECONDS).
        follow_links: Whether symbolic links may lead out of a dataset (ARES_FOLLOW_LINKS).
        array_bytes: Decoded bytes of one array, column or chunk that is read at once.
        elements: Numbers in one array or column that is read at once.
        text_bytes: Bytes of one JSON, YAML or other text document that is parsed as a whole.
        line_bytes: Bytes of one line of a JSON lines or CSV file.
        yaml_bytes: Bytes of one YAML document.
        depth: Nested lists and objects of a document.
        entries: Files of an archive, and nodes of a YAML document after its aliases are expanded.
        members: Episodes of a dataset, and names in one group of an HDF5 file: ten times the largest workspaces.
        ratio: Plain bytes per compressed byte of zip entries; deflate itself cannot exceed 1032.
        ratio_free_bytes: Plain bytes below which no ratio is checked: short constant arrays compress extremely well.
    """

    pixels: int = 100_000_000
    memory_bytes: int = 4 * 2**30
    record_seconds: float = 300.0
    follow_links: bool = False
    array_bytes: int = 2 * 2**30
    elements: int = 2**28
    text_bytes: int = 64 * 2**20
    line_bytes: int = 16 * 2**20
    yaml_bytes: int = 4 * 2**20
    depth: int = 100
    entries: int = 2_000_000
    members: int = 10_000_000
    ratio: float = 1100.0
    ratio_free_bytes: int = 64 * 2**20


@lru_cache(maxsize=1)
def input_budgets() -> InputBudgets:
    """The limits of this process, from its settings. Raises RequestError for a setting that cannot be read."""
    settings = settings_from_environment()
    return replace(
        InputBudgets(),
        pixels=round(settings.max_megapixels * 1e6),
        memory_bytes=round(settings.reader_gb * 2**30),
        record_seconds=settings.record_seconds,
        follow_links=settings.follow_links,
    )
