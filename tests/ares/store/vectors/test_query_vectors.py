"""The vectors of searched texts stay, within a bound, whoever reads and writes them at the same time."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.search.encoding import QueryVectorCache

_DIM = 4


def _vector(number: int) -> NDArray[np.float32]:
    return np.full(_DIM, number, np.float32)


def _get(path: Path, text: str) -> float | None:
    """The first number of a vector, as a new process reads it."""
    vector = QueryVectorCache(path, _DIM, max_texts=10).get(text)
    return None if vector is None else float(vector[0])


def test_the_newest_texts_stay(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "space.npy"
    for number in range(25):
        QueryVectorCache(path, _DIM, max_texts=10).add(f"text {number}", _vector(number))
    assert [_get(path, f"text {number}") for number in range(25)] == [None] * 15 + [*range(15, 25)]


def test_a_text_that_is_searched_again_stays(tmp_path: Path) -> None:
    path = tmp_path / "space.npy"
    for number in range(30):
        QueryVectorCache(path, _DIM, max_texts=10).add(f"text {number}", _vector(number))
        assert _get(path, "text 0") == 0.0
    assert path.stat().st_size < 1_000


def test_the_text_is_not_in_the_file(tmp_path: Path) -> None:
    QueryVectorCache(tmp_path / "space.npy", _DIM).add("the red mug of Anna", _vector(1))
    assert b"Anna" not in (tmp_path / "space.npy").read_bytes()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"x" * 1_000, None])
def test_a_file_of_another_kind_counts_as_empty(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "space.npy"
    if content is None:
        np.save(path, np.zeros((3, 7), np.float32))
    else:
        path.write_bytes(content)
    assert _get(path, "text") is None
    QueryVectorCache(path, _DIM).add("text", _vector(1))
    assert _get(path, "text") == 1.0
    assert QueryVectorCache(path, _DIM + 1).get("text") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to read-only folders")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    QueryVectorCache(tmp_path / "space.npy", _DIM).add("text", _vector(1))
    tmp_path.chmod(0o500)
    try:
        vectors = QueryVectorCache(tmp_path / "space.npy", _DIM)
        vectors.add("other", _vector(2))
        assert vectors.get("other") is not None, "this process remembers it"
        assert (_get(tmp_path / "space.npy", "text"), _get(tmp_path / "space.npy", "other")) == (1.0, None)
    finally:
        tmp_path.chmod(0o700)


def _write_and_read(path: Path, writer: int) -> int:
    """Texts whose vector was wrong."""
    wrong = 0
    for number in range(50):
        vectors = QueryVectorCache(path, _DIM)
        vectors.add(f"{writer}-{number}", _vector(number))
        for other in range(4):
            vector = QueryVectorCache(path, _DIM).get(f"{other}-{number}")
            wrong += vector is not None and vector[0] != number
    return wrong


def test_several_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "space.npy"
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_write_and_read, [(path, writer) for writer in range(4)]) == [0] * 4
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".npy"]
