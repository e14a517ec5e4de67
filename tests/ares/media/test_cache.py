"""The cache makes a file once, whoever asks, keeps to its bound and keeps no half-made file."""

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
from ares.media.cache import Cache


def writes(data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def test_made_once_for_many_threads(tmp_path: Path) -> None:
    made = []

    def make(path: Path) -> None:
        made.append(path)
        time.sleep(0.05)
        path.write_bytes(b"x")

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: Cache(tmp_path, 100).path("key.mp4", make), range(16)))
    assert len(made) == 1 and len(paths) == 1 and paths.pop().read_bytes() == b"x"


_MAKER = """
import sys, time
from pathlib import Path
from ares.media.cache import Cache
folder = Path(sys.argv[1])
def make(path):
    with (folder / "makers").open("a") as file:
        file.write("made\\n")
    time.sleep(0.5)
    path.write_bytes(b"x")
Cache(folder / "cache", 100).path("key.mp4", make)
"""


def test_made_once_for_many_processes(tmp_path: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", _MAKER, str(tmp_path)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert (tmp_path / "makers").read_text() == "made\n"


def old(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_least_recently_used_goes_first_and_fresh_files_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 25)

    def put(key: str) -> Path:
        return cache.path(key, writes(b"0123456789"))

    first, second = put("a.mp4"), put("b.mp4")
    old(first, 1000)
    old(second, 900)
    assert put("a.mp4") == first
    third = put("c.mp4")
    assert first.exists() and third.exists() and not second.exists()
    assert cache.size_bytes() == 20
    fourth = put("d.mp4")
    assert all(path.exists() for path in (first, third, fourth)), "in use within the last minute"


def test_a_failed_maker_leaves_nothing_and_may_try_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100)

    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise MediaError("no picture")

    with pytest.raises(MediaError, match="no picture"):
        cache.path("a.mp4", fails)
    assert cache.size_bytes() == 0
    assert cache.path("a.mp4", writes(b"whole")).read_bytes() == b"whole"


def test_what_a_killed_process_left_is_swept_up(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10)
    left = cache.path("a.mp4", writes(b"x")).with_name("a.tmp.mp4")
    left.write_bytes(b"0" * 50)
    old(left, 1000)
    cache.path("b.mp4", writes(b"x"))
    assert not left.exists()
