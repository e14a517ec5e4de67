"""Plants hostile cases among good episodes, ingests the folder, and compares with what must happen."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.children import ChildEnd, obey_permissions, run_ares, run_child
from tests.torture.corpus.case import Case, Site
from tests.torture.datasets import WRITERS, ingester_of
from tests.torture.mutations import link_copy
from tests.torture.trials import Trial
from tests.torture.workspaces import WorkspaceState, holds_text, read_state

GOOD_EPISODES = 12
_SECONDS, _MEGABYTES, _PLANT_MEGABYTES = 60.0, 2_000, 16_000
_COMPARED = ("content_hash", "num_steps", "rate_hz", "instruction", "success")


class Listener:
    """A server on loopback that notes whether anybody connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()


@dataclass(slots=True)
class Corpus:
    """Runs cases in a separate folder.

    Args:
        folder: Where everything is written.
        seed: Seed of the random choices.
    """

    folder: Path
    seed: str
    _listener: Listener = field(default_factory=Listener)
    _good: dict[str, WorkspaceState] = field(default_factory=dict)

    def try_case(self, case: Case) -> Trial:
        """Run a case among good episodes of its kind."""
        expected = self._good_state(case.kind)
        site = self._site(case)
        link_copy(self.folder / "good" / case.kind, site.root / "good")
        asked = self._listener.connections
        # In a separate process: the memory that it takes would count for every later child of this one.
        planted = run_child(lambda: case.plant(site), seconds=_SECONDS, megabytes=_PLANT_MEGABYTES)
        if planted.status:
            problem = f"not planted: {planted.fault or planted.errors[-300:]}"
            return Trial(group=case.group, name=f"{case.kind}: {case.name}", problem=problem)
        workspace = self.folder / "ws"
        shutil.rmtree(workspace, ignore_errors=True)
        end = self._ingest(site.root, case.kind, workspace)
        stored = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS)
        problem = end.fault or _wrong_answer(end, case) or _wrong_state(stored, expected, case)
        problem = problem or self._harm(site, workspace, end, self._listener.connections - asked)
        _make_removable(site.root)
        return Trial(
            group=case.group,
            name=f"{case.kind}: {case.name}",
            problem=problem,
            seconds=end.seconds,
            peak_bytes=end.peak_bytes,
        )

    def _good_state(self, kind: str) -> WorkspaceState:
        """What the good episodes of a kind are without anything beside them."""
        if kind not in self._good:
            WRITERS[kind](self.folder / "good" / kind, GOOD_EPISODES)
            root = self.folder / "only" / "lab"
            shutil.rmtree(root.parent, ignore_errors=True)
            link_copy(self.folder / "good" / kind, root / "good")
            workspace = self.folder / "only" / "ws"
            end = self._ingest(root, kind, workspace)
            state = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS).value
            assert isinstance(state, WorkspaceState) and len(state.rows) == GOOD_EPISODES, (kind, end)
            self._good[kind] = state
        return self._good[kind]

    def _site(self, case: Case) -> Site:
        place = self.folder / "site"
        _make_removable(place)
        shutil.rmtree(place, ignore_errors=True)
        root, outside = place / "lab", place / "outside"
        root.mkdir(parents=True)
        outside.mkdir()
        secret = f"SECRET{secrets.token_hex(12)}"
        (outside / "secret.txt").write_text(secret)
        rng = random.Random(f"{self.seed} {case.kind} {case.name}")
        return Site(
            root=root, outside=outside, secret=secret, marker=place / "ran", url=self._listener.url, rng=rng
        )

    def _ingest(self, root: Path, kind: str, workspace: Path) -> ChildEnd:
        arguments = ["ingest", str(root), "-w", str(workspace), "--json", "-q"]
        return run_ares(
            [*arguments, "--format", ingester_of(kind)],
            seconds=_SECONDS,
            megabytes=_MEGABYTES,
            prepare=_limit,
        )

    def _harm(self, site: Site, workspace: Path, end: ChildEnd, connections: int) -> str:
        """What must never happen, whatever the case."""
        if site.marker.exists():
            return "code in the data was run"
        if connections:
            return "an address in the data was asked"
        if site.secret in end.output + end.errors:
            return "the message holds the secret of a file outside"
        if path := holds_text(workspace, site.secret):
            return f"the workspace holds the secret of a file outside, in {path}"
        return _raw_controls(end.errors)


def _wrong_answer(end: ChildEnd, case: Case) -> str:
    """What is wrong with the exit status and the answer."""
    if end.status not in (0, 1):
        return f"exit status {end.status}: {end.errors[-300:]}"
    try:
        answer: dict[str, Any] = json.loads(end.output)
    except ValueError:
        return f"the answer is no JSON: {end.output[:200]!r}"
    reasons = [entry["reason"] for entry in answer["failures"]]
    unnamed = [entry for entry in answer["failures"] if "ingester '" in entry["reason"]]
    if unnamed:
        return f"an exception that no rule names: {unnamed[0]['reason']}: {unnamed[0]['example']}"
    unread = sum(answer["files"].get(use, 0) for use in ("unused", "pointer", "unreadable"))
    is_read = answer["failed"] == 0 and not unread
    if (end.status == 0) != is_read:
        return f"exit status {end.status} with {answer['failed']} failed and {unread} files not read"
    texts = reasons + [entry["reason"] for entry in answer["warnings"]]
    if case.reason and not any(case.reason in text for text in texts):
        return f"no reason holds {case.reason!r}: {texts}"
    return ""


def _wrong_state(stored: ChildEnd, expected: WorkspaceState, case: Case) -> str:
    """What is wrong with the stored episodes."""
    if not isinstance(stored.value, WorkspaceState):
        return f"the workspace cannot be read: {stored.errors[-300:]}"
    if stored.value.findings:
        return f"doctor: {stored.value.findings}"
    rest = _contents(stored.value)
    for content in _contents(expected):
        if content not in rest:
            return f"a good episode is missing or changed: {content}"
        rest.remove(content)
    if case.outcome == "failed" and rest:
        return f"{len(rest)} hostile episodes were kept"
    if case.outcome == "kept" and not rest:
        return "the hostile episodes were not kept"
    return ""


def _contents(state: WorkspaceState) -> list[tuple[Any, ...]]:
    return [
        (*(row[name] for name in _COMPARED), len(row.get("cameras") or ()), state.signals.get(episode_id))
        for episode_id, row in state.rows.items()
    ]


def _raw_controls(text: str) -> str:
    raw = {character for character in text if ord(character) < 32 and character not in "\n\t"} | (
        set(text) & {"\x7f", "\x9b", "\u202e"}
    )
    return f"control characters reach the terminal: {sorted(raw)!r}" if raw else ""


def _limit() -> None:
    """Take the privileges of root away, and give every reader half a gigabyte and 20 seconds per record."""
    obey_permissions()
    os.environ.update(ARES_READER_GB="0.5", ARES_RECORD_SECONDS="20")


def _make_removable(folder: Path) -> None:
    """Give back the permissions that a case has taken away."""
    for path in [folder, *folder.rglob("*")] if folder.exists() else []:
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.chmod(0o755)
