"""Limits of the operating system for a process that reads foreign data: address space, and resident memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ares.errors import SourceError
from ares.input.budgets import input_budgets

_lock = threading.Lock()
_num_blocks = 0
_limit_before = (0, 0)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process allocate no more than the budget of memory within the block; larger requests fail.

    A request that fails is a MemoryError, or ArrowMemoryError, which becomes a SourceError. Blocks of several threads
    share one limit. On systems other than Linux it does nothing.

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
        _limit_before = resource.getrlimit(resource.RLIMIT_AS)
        soft, hard = _limit_before
        limit = _address_space_bytes() + input_budgets().memory_bytes
        bounds = [limit, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))


def _leave_limit() -> None:
    global _num_blocks
    if sys.platform != "linux":
        return
    import resource

    with _lock:
        _num_blocks -= 1
        if not _num_blocks:
            resource.setrlimit(resource.RLIMIT_AS, _limit_before)


def _address_space_bytes() -> int:
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def resident_bytes(process_id: int) -> int:
    """Resident memory of a process of this machine; 0 where the system does not tell, or it has ended."""
    import resource

    try:
        return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
