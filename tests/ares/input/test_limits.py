"""The edges of the limits on foreign files: the last that is read, and the first that is refused."""

from __future__ import annotations

import sqlite3
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.errors import SourceError
from ares.input import (
    check_parquet_read,
    check_path_template,
    check_relative_path,
    connect_sqlite,
    decompress_zlib,
    open_input,
    open_parquet,
    open_zip,
    parse_image_header,
    parse_json,
    read_input,
    read_lines,
    read_zip_entry,
    refuse_outside_links,
)
from ares.input.limits import InputBudgets

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


def _limit(monkeypatch: pytest.MonkeyPatch, module: str, **budgets: int) -> None:
    limited = InputBudgets(**budgets)  # type: ignore[arg-type]
    monkeypatch.setattr(f"ares.input.{module}.input_budgets", lambda: limited)


def test_an_entry_of_an_archive_is_read_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a", "b", "c"):
            archive.writestr(name, bytes(1001))
    with open_zip(path) as archive:
        assert len(read_zip_entry(archive, "a", 1001)) == 1001
        with pytest.raises(SourceError, match="entry of the zip archive is too large"):
            read_zip_entry(archive, "a", 1000)
    _limit(monkeypatch, "containers", entries=2)
    with pytest.raises(SourceError, match="too many entries"), open_zip(path):
        pass


def test_a_bomb_is_not_unpacked_to_be_refused() -> None:
    bomb = zlib.compress(bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match="larger than allowed"):
            decompress_zlib(bomb, 1000, "here")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * 250 + b"\nshort\n")
    _limit(monkeypatch, "files", line_bytes=100)
    assert list(read_lines(str(tmp_path / "a.jsonl"))) == [b"x" * 100, b"short\n"]


def test_a_folder_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    dataset, private = tmp_path / "data", tmp_path / "data-private"
    for folder in (dataset, private):
        folder.mkdir()
    (private / "secret").write_text("root")
    (dataset / "a").symlink_to(private / "secret")
    with refuse_outside_links(str(dataset)), pytest.raises(SourceError, match="a link leads out"):
        read_input(str(dataset / "a"))


def test_a_dataset_does_not_make_itself_a_cache_by_its_folder_names(tmp_path: Path) -> None:
    dataset, blobs = tmp_path / "mine" / "snapshots" / "abc", tmp_path / "mine" / "blobs"
    for folder in (dataset, blobs):
        folder.mkdir(parents=True)
    (blobs / "secret").write_text("root")
    (dataset / "a").symlink_to(blobs / "secret")
    with refuse_outside_links(str(dataset)), pytest.raises(SourceError, match="a link leads out"):
        read_input(str(dataset / "a"))


def test_paths_of_metadata_have_no_null_byte_and_an_end() -> None:
    assert check_relative_path("a/b..c/d", "here") == "a/b..c/d"
    for path in ("a\0b", "a/" * 2049):
        with pytest.raises(SourceError, match="leads out of the dataset"):
            check_relative_path(path, "here")
    check_path_template("{x:020d}", "here")
    with pytest.raises(SourceError, match="path template is not understood"):
        check_path_template("{x:021d}", "here")


def test_a_document_may_be_as_deep_as_the_budget() -> None:
    depth = InputBudgets().depth
    assert parse_json("[" * depth + "]" * depth, "here")
    with pytest.raises(SourceError, match="nested too deeply"):
        parse_json("[" * (depth + 1) + "]" * (depth + 1), "here")


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("progressive", [0, 1])
def test_every_jpeg_has_its_size_in_the_header(progressive: int, padding: int) -> None:
    picture = np.zeros((37, 211, 3), np.uint8)
    encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_PROGRESSIVE, progressive])[1].tobytes()
    assert parse_image_header(encoded[:2] + b"\xff" * padding + encoded[2:]) == (211, 37, "jpeg")


def test_few_long_texts_are_limited_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{number}" * 20_000 for number in range(10)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False, compression=None)
    _limit(monkeypatch, "documents", array_bytes=100_000, elements=10_000)
    with (
        open_parquet(str(tmp_path / "a.parquet")) as file,
        pytest.raises(SourceError, match="larger than allowed"),
    ):
        check_parquet_read(file, [0], None, "here")


def test_a_database_attaches_no_other_file(tmp_path: Path) -> None:
    for name in ("a.db3", "b.db3"):
        with sqlite3.connect(tmp_path / name) as made:
            made.execute("CREATE TABLE t (x)")
        made.close()
    connection = connect_sqlite(str(tmp_path / "a.db3"))
    with pytest.raises(sqlite3.OperationalError, match="attached"):
        connection.execute("ATTACH DATABASE ? AS other", [str(tmp_path / "b.db3")])
    connection.close()


def test_a_pointer_of_git_lfs_is_told_apart_here_and_at_a_url(tmp_path: Path) -> None:
    import fsspec

    (tmp_path / "a.parquet").write_bytes(POINTER)
    with pytest.raises(SourceError, match="Git LFS pointer"):
        open_input(str(tmp_path / "a.parquet"))
    fsspec.filesystem("memory").pipe("/pointer.json", POINTER)
    with pytest.raises(SourceError, match="Git LFS pointer"):
        read_input("memory://pointer.json")
