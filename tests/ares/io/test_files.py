"""Local paths and URLs go through the same functions, and failures are errors with the path in them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.io import (
    absolute_path,
    copy_file,
    describe_os_error,
    existing_path,
    file_state,
    folder_name,
    is_url,
    open_file,
    parse_path,
    relative_path,
    walk_folders,
)


@pytest.fixture
def memory_folder() -> str:
    """A URL of a folder in memory that holds sub/a.bin and b.bin."""
    folder = parse_path("memory://test-files")
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "sub" / "a.bin").write_bytes(b"0123456789")
    (folder / "b.bin").write_bytes(b"b")
    return "memory://test-files"


def test_a_url_has_a_scheme() -> None:
    assert is_url("s3://bucket/name") and not is_url("/data/a:b") and not is_url("C:/data")
    assert parse_path("file:///data/a") == Path("/data/a")
    with pytest.raises(RequestError, match="not a supported URL scheme"):
        parse_path("nosuchscheme://bucket")


def test_an_absolute_path_has_no_dots_and_a_url_stays(tmp_path: Path, memory_folder: str) -> None:
    assert absolute_path(f"{tmp_path}/a/../b") == tmp_path / "b"
    assert str(absolute_path(memory_folder)).startswith("memory:")


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert existing_path(str(tmp_path)) == tmp_path
    with pytest.raises(RequestError, match=r"there is no such file or folder: .*gone"):
        existing_path(str(tmp_path / "gone"))


def test_names_relative_to_a_folder(tmp_path: Path) -> None:
    assert relative_path(tmp_path / "a" / "b", tmp_path) == "a/b" and relative_path(tmp_path, tmp_path) == "."
    assert folder_name(Path("/data/set")) == "set"


def test_a_url_is_walked_like_a_folder(memory_folder: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.bin").touch()
    (tmp_path / "b.bin").touch()
    remote = [(folders, files) for _, folders, files in walk_folders(parse_path(memory_folder))]
    local = [(folders, files) for _, folders, files in walk_folders(tmp_path)]
    assert remote == local == [(["sub"], ["b.bin"]), ([], ["a.bin"])]


def test_a_subfolder_that_the_caller_removes_is_not_entered(memory_folder: str) -> None:
    visited = 0
    for _, folders, _ in walk_folders(parse_path(memory_folder)):
        visited += 1
        folders.clear()
    assert visited == 1


def test_a_remote_file_is_read_and_copied(memory_folder: str, tmp_path: Path) -> None:
    uri = f"{memory_folder}/sub/a.bin"
    with open_file(uri) as file:
        file.seek(4)
        assert file.read(3) == b"456" and file.tell() == 7
    copy_file(uri, tmp_path / "copy.bin")
    assert (tmp_path / "copy.bin").read_bytes() == b"0123456789"
    assert file_state(uri).size == 10


def test_the_state_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    before = file_state(str(path))
    os.utime(path, ns=(0, 1))
    after = file_state(str(path))
    assert before.size == after.size == 1 and before.version != after.version == "1"
    with pytest.raises(FileNotFoundError):
        file_state(str(tmp_path / "gone"))


def test_an_os_error_is_one_line() -> None:
    assert describe_os_error(OSError(errno.ENOENT, "No such\nfile", "a")) == "No such file"
    assert describe_os_error(OSError()) == "OSError"


@pytest.mark.parametrize("use", [file_state, open_file])
def test_a_path_with_a_null_byte_is_a_file_that_is_missing(use: Callable[[str], object]) -> None:
    with pytest.raises(FileNotFoundError):
        use("/tmp/\0-train.tfrecord")
