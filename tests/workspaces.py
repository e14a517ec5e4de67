"""Workspaces that tests share: made once in a test process, then copied for each test that changes one."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CommandResult:
    """What a command of `ares` left: its exit status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document that `--json` printed."""
        return json.loads(self.out)


def copy_workspace(folder: Path, copy: Path) -> Path:
    """Copy a workspace that nothing has open; files of Lance, which ARES never changes, are hard links.

    A test that damages files of tables copies them by `shutil.copytree`.

    Args:
        folder: The workspace.
        copy: Folder of the copy, which does not exist yet.
    """
    shutil.copytree(folder, copy, copy_function=_link_or_copy)
    return copy


def _link_or_copy(source: str, copy: str) -> None:
    if ".lance" in Path(source).parent.as_posix():
        os.link(source, copy)
    else:
        shutil.copy2(source, copy)
