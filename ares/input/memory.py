"""A limit of the operating system on the memory that reading foreign data may add to a process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ares.errors import SourceError
from ares.input.budgets import input_budgets

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
