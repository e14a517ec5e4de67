"""What reading one record or file of a foreign dataset may cost, and the limit of its memory."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from ares.errors import SourceError
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


_lock = threading.Lock()
_num_blocks = 0
_limit_before = (0, 0)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process allocate no more than the budget of memory within the block; larger requests fail.

    The limit counts memory that can be written (RLIMIT_DATA of Linux): unlike RLIMIT_AS it leaves out what allocators
    and threads only reserve. Blocks of several threads share one limit. On other systems nothing is limited.

    Raises:
        SourceError: The block ran out of memory.
    """
    _enter_limit()
    try:
        yield
    except MemoryError as error:
        text = " ".join(str(error).split())[:200]
        raise SourceError("reading takes more memory than allowed", text) from None
    finally:
        _leave_limit()


def _enter_limit() -> None:
    global _num_blocks, _limit_before
    if sys.platform != "linux":
        return
    import resource

    with _lock:
        _num_blocks += 1
        if _num_blocks > 1:
            return
        _limit_before = resource.getrlimit(resource.RLIMIT_DATA)
        soft, hard = _limit_before
        limit = _data_bytes() + input_budgets().memory_bytes
        bounds = [limit, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))


def _leave_limit() -> None:
    global _num_blocks
    if sys.platform != "linux":
        return
    import resource

    with _lock:
        _num_blocks -= 1
        if not _num_blocks:
            resource.setrlimit(resource.RLIMIT_DATA, _limit_before)


def _data_bytes() -> int:
    import resource

    file = os.open("/proc/self/statm", os.O_RDONLY)  # pathlib takes four times as long
    try:
        return int(os.read(file, 256).split()[5]) * resource.getpagesize()
    finally:
        os.close(file)
