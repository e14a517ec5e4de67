"""Where a workspace can be created, what is said where it cannot, and what is left behind then: nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ares.errors import DiskFull, RequestError, StoreError
from ares.settings import Settings
from ares.store import open_stores, workspace_exists
from ares.store.manifest import read_or_create, write_format
from ares.workspace import open_workspace


@pytest.mark.parametrize(
    ("path", "message"),
    [("/dev/null", "'/dev/null' is not a workspace"), ("/proc/x", "/proc/x"), ("/sys/foo", "/sys/foo")],
)
def test_a_place_that_can_be_no_folder_is_one_line(path: str, message: str) -> None:
    with pytest.raises((RequestError, StoreError), match=message):
        read_or_create(path, Settings())


def _fail_writing(path: Path, text: str) -> int:
    path.touch()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_manifest_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_or_create(str(tmp_path / "old"), Settings())
    monkeypatch.setattr(Path, "write_text", _fail_writing)
    with pytest.raises(DiskFull):
        read_or_create(str(tmp_path / "new"), Settings())
    with pytest.raises(StoreError):
        write_format(str(tmp_path / "old"), 2)
    assert not list((tmp_path / "new").iterdir())
    assert [file.name for file in (tmp_path / "old").iterdir()] == ["workspace.json"]


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini", "Desktop.ini", ".directory"])
def test_a_folder_with_nothing_but_the_file_of_a_desktop_is_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert read_or_create(str(tmp_path), Settings())["annotations"] == "sqlite"
    assert workspace_exists(str(tmp_path))


def test_the_url_of_a_local_folder_is_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    stores = open_stores(f"file://{folder}", Settings())
    assert (stores.path, stores.is_remote, stores.folder) == (str(folder), False, folder.resolve())
    stores.close()
    with open_workspace(f"file://{folder}", Settings(), create=False) as workspace:
        assert workspace.path == str(folder)
    assert read_or_create(f"file://{folder}", Settings())["workspace_id"] == stores.workspace_id
