"""Reads datasets from an S3 server that fails: it refuses, is too busy, cuts answers, drops connections, is slow."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import S3
from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.datasets import WRITERS, ingester_of
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 120.0
_KINDS = ("rlds", "lerobot")  # the formats that are read from object stores
_EPISODES = 3
FAULTS = ("500", "503 SlowDown", "cut", "dropped", "slow")
# A client asks again after these, so that one of them costs nothing.
_SURVIVED = ("500", "503 SlowDown", "slow")
_SLOW_SECONDS = 2.0
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class FailingS3(S3):
    """An S3 server whose requests fail by their number.

    Attributes:
        faults: By number of a request, from 1, what happens there.
        count: Requests so far.
    """

    def __init__(self) -> None:
        self.faults: dict[int, str] = {}
        self.count = 0
        super().__init__()

    def plan(self, faults: dict[int, str]) -> None:
        """Count again, and fail these requests."""
        self.faults, self.count = faults, 0

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.count += 1
        fault = self.faults.get(self.count, "")
        if fault == "slow":
            time.sleep(_SLOW_SECONDS)
        if fault == "dropped":
            raise ConnectionError("the connection is closed without an answer")
        if fault in ("500", "503 SlowDown"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = _BUSY if environ["REQUEST_METHOD"] != "HEAD" else b""
            status = "500 Internal Server Error" if fault == "500" else "503 Slow Down"
            start_response(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
            return [body]
        answer = super()._answer(environ, start_response)
        return _cut(b"".join(answer)) if fault == "cut" else answer


def _cut(body: bytes) -> Iterator[bytes]:
    """The first half of an answer; then the connection is closed."""
    yield body[: len(body) // 2]
    raise ConnectionError("the connection is closed in the middle")


class Bucket:
    """Datasets on a failing server, and what an ingestion makes of each.

    Args:
        folder: Where datasets and workspaces are written.
    """

    def __init__(self, folder: Path) -> None:
        import s3fs

        assert s3fs  # imported once, in the process that all children are forked from
        self._folder = folder
        self._server = FailingS3()
        self._bucket = self._server.bucket()
        self._expected: dict[str, tuple[WorkspaceState, int]] = {}

    def attempts(self, seed: str) -> Iterator[Attempt]:
        """A dataset of some kind is read while one to three requests fail, or all from one on."""
        for number in itertools.count():
            rng = random.Random(f"{seed} s3 {number}")
            fails_on = rng.random() < 0.2
            shares = [rng.random() for _ in range(1 if fails_on else rng.choice((1, 1, 2, 3)))]
            yield partial(self._try, rng.choice(_KINDS), shares, rng.choice(FAULTS), fails_on)

    def _try(self, kind: str, shares: Sequence[float], fault: str, fails_on: bool) -> Trial:
        expected, count = self._undisturbed(kind)
        numbers = sorted({1 + int(share * count) for share in shares})
        last = numbers[-1] + 1_000 if fails_on and fault != "slow" else numbers[-1]
        planned = {**dict.fromkeys(numbers, fault), **dict.fromkeys(range(numbers[-1], last), fault)}
        workspace = self._new_workspace()
        end = self._ingest(kind, workspace, planned)
        problem = end.fault or _wrong_end(end, len(planned) == 1 and fault in _SURVIVED)
        again = self._ingest(kind, workspace, {}) if not problem and end.status else end
        if not problem and again.status != 0:
            problem = f"given again it ended with {again.status}: {again.errors[-300:]}"
        if not problem:
            state = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS)
            is_read = isinstance(state.value, WorkspaceState)
            problem = (
                state.value.difference(expected) if is_read else f"cannot be read: {state.errors[-300:]}"
            )
        where = f"request {', '.join(map(str, numbers))}{' and all later ones' if last > numbers[-1] else ''}"
        name = f"{kind}: {fault} at {where} of {count}"
        return Trial(group="faults of S3", name=name, problem=problem, seconds=end.seconds)

    def _undisturbed(self, kind: str) -> tuple[WorkspaceState, int]:
        if kind not in self._expected:
            WRITERS[kind](self._folder / kind, _EPISODES)
            self._server.upload(self._folder / kind, f"{self._bucket}/{kind}")
            workspace = self._new_workspace()
            end = self._ingest(kind, workspace, {})
            count = self._server.count
            assert end.status == 0, (kind, end.errors)
            state = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS).value
            assert isinstance(state, WorkspaceState) and state.rows
            self._expected[kind] = state, count
        return self._expected[kind]

    def _new_workspace(self) -> Path:
        workspace = self._folder / "ws"
        shutil.rmtree(workspace, ignore_errors=True)
        return workspace

    def _ingest(self, kind: str, workspace: Path, faults: dict[int, str]) -> ChildEnd:
        self._server.plan(faults)
        source = f"s3://{self._bucket}/{kind}"
        command = ["ingest", source, "-w", str(workspace), "--json", "-q", "--format", ingester_of(kind)]
        return run_ares(command, seconds=_SECONDS, prepare=lambda: os.environ.update(self._server.environ))


def _wrong_end(end: ChildEnd, is_survived: bool) -> str:
    if end.status not in (0, 1, 2) or (is_survived and end.status):
        return f"exit status {end.status}: {end.errors[-300:]} {end.output[-300:]}"
    if end.status == 2 and end.errors.count("\n") > 1:
        return f"more than one line: {end.errors[-300:]}"
    return ""
