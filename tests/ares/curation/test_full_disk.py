"""A full disk is one error of ARES, whichever method of a workspace meets it, and never one of the system."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import filelock
import pytest

from ares.errors import DiskFull
from ares.workspace import Workspace
from ares.workspace.answers import Reviews
from ares.workspace.sets import SetCollection, StoredSet

ACTS: dict[str, Callable[[Workspace, list[str]], object]] = {
    "tag": lambda ws, ids: ws.tag("t", ids=ids[:1]),
    "undo": lambda ws, ids: ws.undo(),
    "delete": lambda ws, ids: ws.sets.delete("good"),
}


def _refuse(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "w/lock")


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_no_room_for_the_lock_is_said_and_what_to_do(
    act: Callable[[Workspace, list[str]], object],
    curated: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = curated
    ids = sorted(workspace.stores.tables.episodes.ids())
    workspace.tag("t", ids=ids[:1])
    monkeypatch.setattr(filelock.FileLock, "acquire", _refuse)
    with pytest.raises(DiskFull, match=r"w/lock: No space left on device; free some space"):
        act(workspace, ids)


def test_no_room_for_a_file_that_was_asked_for_is_said(
    curated: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = curated.sets["good"]
    monkeypatch.setattr(Path, "open", _refuse)
    with pytest.raises(DiskFull):
        stored.write_lock(tmp_path / "lock.json")


@pytest.mark.parametrize("kind", [Workspace, Reviews, SetCollection])
def test_every_public_method_turns_errors_of_the_system_into_its_own(kind: type[Any]) -> None:
    methods = {name: item for name, item in vars(kind).items() if isinstance(item, FunctionType)}
    bare = [name for name, item in methods.items() if name[0] != "_" and not hasattr(item, "__wrapped__")]
    assert not bare and hasattr(StoredSet.write_lock, "__wrapped__")
