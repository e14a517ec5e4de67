"""The cache writes a file once for all callers, respects its bound and keeps no partial file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ares.errors import MediaError
from ares.media import FileCache


def writer_of(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def test_a_file_is_written_once_for_many_threads(tmp_path: Path) -> None:
    written_paths = []

    def write(path: Path) -> None:
        written_paths.append(path)
        time.sleep(0.05)
        path.write_bytes(b"x")

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: FileCache(tmp_path, 100).path("key.mp4", write), range(16)))
    assert len(written_paths) == 1 and len(paths) == 1 and paths.pop().read_bytes() == b"x"


_WORKER = """
import sys, time
from pathlib import Path
from ares.media.playback import FileCache
folder = Path(sys.argv[1])
def write(path):
    with (folder / "writes").open("a") as file:
        file.write("written\\n")
    time.sleep(0.5)
    path.write_bytes(b"x")
FileCache(folder / "cache", 100).path("key.mp4", write)
"""


@pytest.mark.slow
def test_a_file_is_written_once_for_many_processes(tmp_path: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", _WORKER, str(tmp_path)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert (tmp_path / "writes").read_text() == "written\n"


def set_age(path: Path, seconds: float) -> None:
    timestamp = time.time() - seconds
    os.utime(path, (timestamp, timestamp))


def test_least_recently_used_goes_first_and_fresh_files_stay(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 25)

    def put(key: str) -> Path:
        return cache.path(key, writer_of(b"0123456789"))

    first, second = put("a.mp4"), put("b.mp4")
    set_age(first, 1000)
    set_age(second, 900)
    assert put("a.mp4") == first
    third = put("c.mp4")
    assert first.exists() and third.exists() and not second.exists()
    assert len(list(tmp_path.rglob("*.mp4"))) == 2
    fourth = put("d.mp4")
    assert all(path.exists() for path in (first, third, fourth)), "in use within the last minute"


def test_a_failed_write_leaves_no_file_and_can_be_repeated(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)

    def failing_write(path: Path) -> None:
        path.write_bytes(b"half")
        raise MediaError("no picture")

    with pytest.raises(MediaError, match="no picture"):
        cache.path("a.mp4", failing_write)
    assert not list(tmp_path.rglob("*.mp4"))
    assert cache.path("a.mp4", writer_of(b"whole")).read_bytes() == b"whole"


def test_a_partial_file_of_a_killed_process_is_evicted(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 10)
    partial = cache.path("a.mp4", writer_of(b"x")).with_name("a.tmp.mp4")
    partial.write_bytes(b"0" * 50)
    set_age(partial, 1000)
    cache.path("b.mp4", writer_of(b"x"))
    assert not partial.exists()
