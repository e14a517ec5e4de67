"""A dashboard that a Python program starts and closes, in a child process of its own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.server.asgi import ServedPages, listening
from app.server.jobs import start_module_process
from ares.console import escape_logs
from ares.errors import AresError, RequestError
from ares.workspace import Dashboard, Workspace, open_workspace

if TYPE_CHECKING:
    import uvicorn


# How long the server may take to end.
_CLOSE_SECONDS = 10.0


def start_background_dashboard(
    workspace: Workspace,
    pages: ServedPages,
    *,
    host: str,
    port: int,
    open_browser: bool,
    trusted_proxies: Sequence[str],
) -> Dashboard:
    """Serve a workspace in the background until it is closed or this process ends. Raises as `app.server.serve`."""
    options = {"host": host, "port": port, "trusted_proxies": list(trusted_proxies)}
    # The settings may hold a password: they are passed by a pipe.
    message = (workspace.location, workspace.settings, pages, options)
    process = start_module_process("app.server.child_process", [], message, stdout=subprocess.PIPE)
    address = _read_address(process)
    if open_browser:
        webbrowser.open(address)
    return Dashboard(url=address, close=lambda: _end_process(process))


def _read_address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    with process.stdout:
        answer = process.stdout.readline()
    if not answer:
        _end_process(process)
        raise RequestError("the dashboard did not start", "the lines on standard error say why")
    document: dict[str, str] = json.loads(answer)
    if "reason" in document:
        _end_process(process)
        raise RequestError(document["reason"], document["detail"])
    return document["address"]


def _end_process(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Serve what standard input says until that is closed; a line on standard output says where, or why not."""
    escape_logs()
    location, settings, pages, options = pickle.load(sys.stdin.buffer)
    answers = os.dup(1)
    os.dup2(2, 1)  # nobody reads what is printed later
    try:
        workspace = open_workspace(location, settings, create=False)
        with listening(workspace, pages, **options) as (server, listener, address):
            _write_answer(answers, {"address": address})
            threading.Thread(target=_exit_with_parent, args=(server,), daemon=True).start()
            server.run(sockets=[listener])
    except AresError as error:
        _write_answer(answers, {"reason": error.reason, "detail": error.detail})


def _write_answer(descriptor: int, document: Mapping[str, str]) -> None:
    with os.fdopen(descriptor, "w") as answers:
        answers.write(json.dumps(document) + "\n")


def _exit_with_parent(server: uvicorn.Server) -> None:
    """End the server when the pipe is closed: by the parent, or by the system when the parent has ended."""
    while os.read(0, 1):
        pass
    server.should_exit = True


if __name__ == "__main__":
    main()
