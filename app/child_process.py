"""Python processes of their own, which import the same modules as the one that starts them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence

# Of two modules of one name the child finds the same: without this, an `app.py` in the working folder would hide ours.
_PROGRAM = """\
import json, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def start_module(
    module: str,
    arguments: Sequence[str],
    message: object,
    *,
    inherited: Sequence[int] = (),
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    """Run a module as the main one of a process that Ctrl+C in the terminal does not reach.

    Args:
        module: Name of the module.
        arguments: Its command line; every user of the machine can read it.
        message: What it reads from its standard input by `pickle.load`; the pipe stays open.
        inherited: File descriptors that it keeps.
        stdout: As for `subprocess.Popen`.
    """
    command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), module, *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=stdout, pass_fds=inherited, start_new_session=True
    )
    assert process.stdin
    pickle.dump(message, process.stdin)
    process.stdin.flush()
    return process
