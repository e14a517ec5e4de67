"""Starts pytest by a fork of a process that has imported the libraries already: a run of a test then costs little more.

Reads lists of arguments as JSON, one a line, and answers each with the status of pytest and where its output stands.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress

# None whose threads a fork would not have: lance waits for its own for ever.
_LIBRARIES = (
    "pytest", "hypothesis", "hypothesis.strategies", "numpy", "pydantic", "yaml", "pyarrow.parquet",
    "pyarrow.compute", "duckdb", "cv2", "av", "rich.console", "sqlite3",
)  # fmt: skip
# Of libraries no assertion is rewritten, so it does not matter that hypothesis is there already.
_OPTIONS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_POLL_SECONDS = 0.02


def serve() -> None:
    """Run what is asked until there is no more."""
    warnings.filterwarnings("ignore", message=".*fork")
    for library in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(library)
    assert not any(name.partition(".")[0] in ("ares", "annotators") for name in sys.modules), "changed ones"
    gc.freeze()
    for line in sys.stdin:
        arguments, output, seconds = json.loads(line)
        print(_run(arguments, output, seconds), flush=True)


def _run(arguments: Sequence[str], output: str, seconds: float) -> int:
    """Exit status of pytest in a child; minus the signal that ended it."""
    ends = time.monotonic() + seconds
    child = os.fork()
    if child == 0:
        _be_pytest(arguments, output)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > ends:
            break
        time.sleep(_POLL_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it started, too
    if not ended:
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _be_pytest(arguments: Sequence[str], output: str) -> None:
    """Never returns."""
    os.setsid()
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    status = 3
    try:
        import pytest

        status = int(pytest.main([*_OPTIONS, *arguments]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
