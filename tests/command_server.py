"""`ares` in one process that answers commands one after another, so that its libraries are imported once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

_PROGRAM = """
import contextlib, io, json, os, sys
from ares_app.cli.main import main
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    request = json.loads(line)
    os.chdir(request["folder"])
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main(request["arguments"])
        except SystemExit as request_to_exit:
            status = request_to_exit.code
    print(json.dumps([status, out.getvalue(), err.getvalue()]), file=answers, flush=True)
"""


class CommandServer:
    """A process that runs commands of `ares` for a test that needs a process, but not one for every command.

    Args:
        python: Interpreter of the environment that has `ares`.
        folder: Where the process starts.
        environ: Its environment; that of the test when None.
        prepare: Called in the process before the interpreter starts, such as to give up rights.
    """

    def __init__(
        self,
        python: str | Path,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM],
            cwd=folder,
            env=dict(os.environ if environ is None else environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )

    def run(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `ares ARGUMENTS` in a folder, that of the start by default."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"folder": str(folder or self._folder), "arguments": arguments}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the process ended with status {self._process.wait()} at {arguments}"
        return subprocess.CompletedProcess(arguments, *json.loads(answer))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=300)
