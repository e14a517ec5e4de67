"""Starts pytest by a fork of a process that has imported the libraries already: a run of a test then costs little more.

Reads lists of arguments as JSON, one a line, and answers each with the status of pytest, whose output stands in a file.
What a run leaves behind ends with it, also in a separate session: the next one has the machine as this one had it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

# None whose threads a fork would not have: lance waits for its own for ever.
_LIBRARIES = (
    "pytest", "hypothesis", "hypothesis.strategies", "numpy", "pydantic", "yaml", "pyarrow.parquet",
    "pyarrow.compute", "duckdb", "cv2", "av", "rich.console", "sqlite3",
)  # fmt: skip
# Of libraries no assertion is rewritten, so it does not matter that hypothesis is there already.
_OPTIONS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
# Of <sys/prctl.h>: orphans among the descendants of this process become its children.
_SUBREAPER = 36


def serve() -> None:
    """Run what is asked until there is no more."""
    warnings.filterwarnings("ignore", message=".*fork")
    for library in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(library)
    assert not any(name.partition(".")[0] in ("ares", "annotators") for name in sys.modules), "changed ones"
    gc.freeze()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        print(_run(*json.loads(line)), flush=True)


def _run(arguments: Sequence[str], output: str, limits: Mapping[str, tuple[float, float]]) -> int:
    """Exit status of pytest in a child; minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        _be_pytest(arguments, output, limits)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while left := _children():
        for process in left:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def _children() -> list[int]:
    """The processes that a run has left; none where the system does not tell."""
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return []


def _be_pytest(arguments: Sequence[str], output: str, limits: Mapping[str, tuple[float, float]]) -> NoReturn:
    os.setsid()
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    status = 3
    try:
        import pytest

        from tests.mutants import plugin

        plugin.limits.update(limits)
        status = int(pytest.main([*_OPTIONS, *arguments]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
