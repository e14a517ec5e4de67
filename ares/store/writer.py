"""Writer: who writes, as it stands in a document of MongoDB, and whether that process is dead on this machine."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping

# Tells this process from one that had its number in an earlier life of the same container.
_PROCESS = uuid.uuid4().hex


def me() -> dict[str, str | int]:
    """Host, number and life of this process."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "process": _PROCESS}


def is_dead(writer: Mapping[str, object]) -> bool:
    """Whether a process was one of this machine and is gone; of other machines nothing is known."""
    if writer["host"] != socket.gethostname() or writer["process"] == _PROCESS:
        return False
    return writer["pid"] == os.getpid() or not _alive(int(str(writer["pid"])))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
