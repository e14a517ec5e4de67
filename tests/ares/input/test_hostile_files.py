"""Hostile files cost one clear error within their budgets: the last that is read, and the first that is refused."""

from __future__ import annotations

import os
import sqlite3
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import cv2
import fsspec
import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ares.errors import AresError, MediaError, SourceError
from ares.input import (
    check_parquet_read,
    check_path_template,
    check_relative_path,
    connect_sqlite,
    decode_image,
    decompress_lz4,
    decompress_zlib,
    decompress_zstd,
    is_hard_link,
    limited_memory,
    open_hdf5,
    open_hdf5_object,
    open_input,
    open_parquet,
    open_video,
    open_zip,
    parse_image_header,
    parse_json,
    parse_xml,
    read_input,
    read_lines,
    read_xml,
    read_zip_entry,
    refuse_outside_links,
    require_own_storage,
)
from ares.input.documents import parse_yaml
from ares.input.limits import InputBudgets
from ares.io import file_state
from ares.media import read_csv_table


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> InputBudgets:
    """Small budgets, in every module that reads them."""
    small = InputBudgets(
        pixels=10_000,
        array_bytes=100_000,
        elements=10_000,
        text_bytes=10_000,
        line_bytes=100,
        ratio_free_bytes=1000,
    )
    for module in ("files", "documents", "tables", "hdf5", "containers", "pictures"):
        monkeypatch.setattr(f"ares.input.{module}.input_budgets", lambda: small)
    return small


@pytest.mark.parametrize(("suffix", "progressive"), [(".jpg", 0), (".jpg", 1), (".png", 0)])
def test_every_picture_has_its_size_in_the_header(suffix: str, progressive: int) -> None:
    picture, options = np.zeros((37, 211, 3), np.uint8), [cv2.IMWRITE_JPEG_PROGRESSIVE, progressive]
    encoded = cv2.imencode(suffix, picture, options)[1].tobytes()
    codec = {".jpg": "jpeg", ".png": "png"}[suffix]
    assert parse_image_header(encoded) == (211, 37, codec)
    assert [parse_image_header(data) for data in (encoded[:3], b"GIF89a", b"")] == [None] * 3
    if suffix == ".jpg":
        comment = b"\xff\xfe" + struct.pack(">H", 60_002) + b"c" * 60_000
        for more in (b"\xff" * 3, comment):
            assert parse_image_header(encoded[:2] + more + encoded[2:]) == (211, 37, "jpeg")


def png_header(width: int, height: int) -> bytes:
    """A PNG that declares a size and holds no pixels."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return (
        b"\x89PNG\r\n\x1a\n" + data + struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    )


def test_pixels_are_limited_by_the_header_of_any_kind_of_image() -> None:
    bitmap = (
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 50_000, 50_000, 1, 24, 0, 0, 0, 0, 0, 0)
    )
    for image in (png_header(50_000, 50_000), bitmap):
        with pytest.raises(MediaError, match="more pixels than allowed"):
            decode_image(image, "here")
    for image in (b"", b"GIF89a", b"\xff\xd8\xff", png_header(10, 10), os.urandom(1000)):
        with pytest.raises(MediaError, match="image cannot be decoded"):
            decode_image(image, "here")


def test_zip_bombs_are_refused_and_an_entry_is_read_whole_or_not_at_all(
    tmp_path: Path, budgets: InputBudgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb, path = str(tmp_path / "bomb.zip"), str(tmp_path / "a.zip")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1_000_000))
    with pytest.raises(SourceError, match="entry of the zip archive is too large"), open_zip(bomb):
        pass
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a", "b", "c"):
            archive.writestr(name, bytes(1001))
    with open_zip(path) as archive:
        assert len(read_zip_entry(archive, "a", 1001)) == 1001
        with pytest.raises(SourceError, match="entry of the zip archive is too large"):
            read_zip_entry(archive, "a", 1000)
    monkeypatch.setattr("ares.input.containers.input_budgets", lambda: InputBudgets(entries=2))
    with pytest.raises(SourceError, match="too many entries"), open_zip(path):
        pass


def test_compressed_bytes_stop_at_their_limit_and_are_not_unpacked_to_be_refused() -> None:
    import lz4.frame  # type: ignore[import-untyped]

    plain = bytes(10_000_000)
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    for unpack, data in (
        (decompress_zlib, zlib.compress(plain)),
        (lambda data, limit, where: decompress_zstd(data, where, limit), zstandard.compress(plain)),
        (lambda data, limit, where: decompress_zstd(data, where, limit), streamed),
        (lambda data, limit, where: decompress_lz4(data, where, limit), lz4.frame.compress(plain)),
    ):
        assert unpack(data, len(plain), "here") == plain
        with pytest.raises(SourceError, match="larger than allowed"):
            unpack(data, 1000, "here")
        with pytest.raises(SourceError, match="damaged"):
            unpack(data[:-5], len(plain), "here")
    bomb = zlib.compress(bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match="larger than allowed"):
            decompress_zlib(bomb, 1000, "here")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_documents_are_limited_in_size_depth_and_aliases(tmp_path: Path, budgets: InputBudgets) -> None:
    for text in ("[" * 9_000, '{"a":' * 150 + "[[1, 2]]" + "}" * 150):
        with pytest.raises(SourceError, match="nested too deeply"):
            parse_json(text, "here")
    depth = budgets.depth
    assert parse_json("[" * depth + "]" * depth, "here")
    with pytest.raises(SourceError, match="nested too deeply: here: more than 100 levels"):
        parse_json("[" * (depth + 1) + "]" * (depth + 1), "here")
    assert parse_json(b"[" + b"[0]," * 500 + b"[1]]", "here")[-1] == [1]
    with pytest.raises(SourceError, match="larger than allowed"):
        parse_json(" " * 20_000 + "1", "here")
    laughs = "a0: &a0 [lol]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    for text in (laughs, "&a [*a]"):
        with pytest.raises(SourceError, match="aliases of the document expand too far"):
            parse_yaml(text, "here")
    with pytest.raises(SourceError, match=r"nested too deeply|not YAML"):
        parse_yaml("[" * 3000, "here")
    with pytest.raises(SourceError, match="not YAML"):
        parse_yaml("!!python/object/apply:os.system [ls]", "here")
    assert parse_yaml("a: &x [1, 2]\nb: *x\n", "here") == {"a": [1, 2], "b": [1, 2]}
    assert parse_yaml("", "here") is None
    (tmp_path / "lines").write_bytes(b"1\n" + b"9" * 250 + b"\n3")
    assert [*read_lines(str(tmp_path / "lines"))] == [b"1\n", b"9" * 100, b"3"], "a long line is cut"
    (tmp_path / "large").write_bytes(bytes(10_001))
    with pytest.raises(SourceError, match="larger than allowed"):
        read_input(str(tmp_path / "large"))


def _write_h264(path: Path, width: int, height: int) -> bytes:
    import av

    with av.open(str(path), "w", format="h264") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for _ in range(5):
            frame = av.VideoFrame.from_ndarray(np.zeros((height, width, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()


def test_pixels_of_a_video_are_limited_by_its_header_and_in_every_frame(
    budgets: InputBudgets, tmp_path: Path
) -> None:
    import av

    small, large = (
        _write_h264(tmp_path / "small.h264", 64, 64),
        _write_h264(tmp_path / "large.h264", 400, 300),
    )
    with pytest.raises(SourceError, match="more pixels than allowed"):
        open_video(str(tmp_path / "large.h264"))
    growing = tmp_path / "growing.h264"
    growing.write_bytes(small * 40 + large)  # so long that the header is read without the large frames
    sizes = set()
    with open_video(str(growing)) as container:
        try:
            sizes = {(frame.width, frame.height) for frame in container.decode(video=0)}
        except av.FFmpegError:
            return
    assert sizes == {(64, 64)}


@pytest.mark.parametrize(
    "text",
    ["{a.__class__}", "{a[0]}", "{a!r}", "{video_key:>999999999}", "{x:0999d}", "../{a}", "/etc/{a}", "{a}/../../b",
     "{", "}",
     "{}", "{0}", "file:///etc/{a}", "a\0b", "", 5, None, "~/x", "a" * 2000],
)  # fmt: skip
def test_path_templates_outside_the_whitelist_are_refused(text: object) -> None:
    with pytest.raises(SourceError):
        check_path_template(text, "info.json")


def test_paths_of_metadata_stay_inside_the_dataset() -> None:
    check_path_template("v/{chunk:03d}/{key}/file-{n:06d}_{n}.mp4", "info.json")
    check_path_template("{x:020d}", "here")
    with pytest.raises(SourceError, match="path template is not understood"):
        check_path_template("{x:021d}", "here")
    assert check_relative_path("a/b..c/d", "here") == "a/b..c/d"
    for path in ("", "..", "a/../../b", "/a", "http://a/b", "a\\..\\b", "a\0b", "a/" * 2049):
        with pytest.raises(SourceError, match="leads out of the dataset"):
            check_relative_path(path, "here")


def test_links_do_not_lead_out_of_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret" / "passwords"
    secret.parent.mkdir()
    secret.write_text("root")
    dataset = tmp_path / "data"
    (dataset / "inside").mkdir(parents=True)
    (dataset / "inside" / "a").write_text("fine")
    (dataset / "near").symlink_to(dataset / "inside" / "a")
    (dataset / "far").symlink_to(secret)
    (dataset / "folder").symlink_to(secret.parent)
    with refuse_outside_links(str(dataset)):
        assert read_input(str(dataset / "near")) == b"fine"
        for path in ("far", "folder/passwords"):
            with pytest.raises(SourceError, match="a link leads out of the dataset"):
                read_input(str(dataset / path))
        with pytest.raises(SourceError, match="leads out of the dataset"):
            open_input("http://localhost/x")
    (tmp_path / "alias").symlink_to(dataset)
    with refuse_outside_links(str(tmp_path / "alias")):
        assert read_input(str(tmp_path / "alias" / "near")) == b"fine"
    monkeypatch.setattr("ares.input.files.input_budgets", lambda: InputBudgets(follow_links=True))
    with refuse_outside_links(str(dataset)):
        assert read_input(str(dataset / "far")) == b"root"


@pytest.mark.parametrize(
    ("dataset", "outside"), [("data", "data-private"), ("mine/snapshots/abc", "mine/blobs")]
)
def test_a_folder_that_only_looks_like_one_of_the_dataset_is_outside(
    tmp_path: Path, dataset: str, outside: str
) -> None:
    """Its name begins alike, or the names are those of a cache of Hugging Face."""
    for folder in (dataset, outside):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / outside / "secret").write_text("root")
    link = tmp_path / dataset / "a"
    link.symlink_to(tmp_path / outside / "secret")
    with refuse_outside_links(str(tmp_path / dataset)), pytest.raises(SourceError, match="a link leads out"):
        read_input(str(link))


def test_links_of_a_hugging_face_cache_stay_readable(tmp_path: Path) -> None:
    cache = tmp_path / "hub" / "datasets--lab--set"
    snapshot = cache / "snapshots" / "abc" / "meta"
    (cache / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (cache / "blobs" / "f00").write_text("{}")
    (snapshot / "info.json").symlink_to("../../../blobs/f00")
    (snapshot / "other").symlink_to(tmp_path / "x")
    (tmp_path / "x").write_text("x")
    with refuse_outside_links(str(snapshot.parent)):
        assert read_input(str(snapshot / "info.json")) == b"{}"
        with pytest.raises(SourceError, match="a link leads out"):
            read_input(str(snapshot / "other"))


def test_special_files_are_refused_without_opening_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    for opened in (open_input, open_parquet, open_video, connect_sqlite):
        with pytest.raises(SourceError, match="not a regular file"):
            opened(str(tmp_path / "pipe.mp4"))
        with pytest.raises(SourceError, match="not a regular file"):
            opened("/dev/zero")
        with pytest.raises(IsADirectoryError):
            opened(str(tmp_path))


def test_hdf5_values_come_from_the_file_itself(tmp_path: Path, budgets: InputBudgets) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = [1.0]
    (tmp_path / "text").write_bytes(b"root:x:0:0" + bytes(90))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["out"] = h5py.ExternalLink(str(secret), "x")
        file["chain"] = h5py.SoftLink("/out")
        file.create_dataset("external", (100,), "S1", external=[(str(tmp_path / "text"), 0, 100)])
        layout = h5py.VirtualLayout((1,), "f8")
        layout[0] = h5py.VirtualSource(str(secret), "x", (1,))[0]
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("chunk", (10**12,), "f8", chunks=(10**8,))
        file["good"] = [1.0, 2.0]
        file["alias"] = h5py.SoftLink("/good")
    with open_hdf5(str(tmp_path / "a.h5")) as file:
        for key in ("out", "chain"):
            with pytest.raises(SourceError, match="another file"):
                open_hdf5_object(file, key)
        for key in ("external", "virtual", "chunk"):
            with pytest.raises(SourceError, match=r"another file|chunk of the dataset is too large"):
                require_own_storage(open_hdf5_object(file, key))
        assert require_own_storage(open_hdf5_object(file, "alias"))[:].tolist() == [1.0, 2.0]


def test_a_name_in_hdf5_that_is_no_text_is_an_object_like_others(
    tmp_path: Path, budgets: InputBudgets
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5py.h5g.create(file.id, b"\xff\xfe")
        file["out"] = h5py.SoftLink("/nowhere")
    with open_hdf5(str(tmp_path / "a.h5")) as file:
        assert {name: is_hard_link(file, name) for name in file} == {b"\xff\xfe": True, "out": False}


def test_columns_are_limited_by_the_footer(tmp_path: Path, budgets: InputBudgets) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"constant": np.zeros(1_000_000), "b": np.arange(1_000_000)}), path, row_group_size=10_000
    )
    with open_parquet(str(path)) as file:
        check_parquet_read(file, [0], ["constant"], "here")
        with pytest.raises(SourceError, match="columns of the data file are larger than allowed"):
            check_parquet_read(file, range(100), ["constant"], "here")
    texts = pa.table({"text": [f"{number}" * 20_000 for number in range(10)]})
    pq.write_table(texts, path, use_dictionary=False, compression=None)
    with open_parquet(str(path)) as file, pytest.raises(SourceError, match="larger than allowed"):
        check_parquet_read(file, [0], None, "here")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nother.mp4\n#EXT-X-ENDLIST\n"),
        ("a.mp4", "ffconcat version 1.0\nfile other.mp4\n"),
    ],
)
def test_playlists_do_not_open_other_files(tmp_path: Path, demo_samples: Path, name: str, text: str) -> None:
    import av

    (tmp_path / "other.mp4").write_bytes(next((demo_samples / "video").rglob("*.mp4")).read_bytes())
    (tmp_path / name).write_text(text)
    with open_video(str(tmp_path / "other.mp4")) as container:
        assert container.streams.video
    with pytest.raises((av.FFmpegError, AresError, ValueError)):
        open_video(str(tmp_path / name))
    # FFmpeg alone would follow the list: it is the list of formats that keeps it from that.
    with av.open(str(tmp_path / name)) as container:
        assert container.streams.video


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux limits the memory of a process")
def test_memory_beyond_the_budget_is_an_error_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.input.limits.input_budgets", lambda: InputBudgets(memory_bytes=2**28))
    with pytest.raises(SourceError, match="reading takes more memory than allowed"), limited_memory():
        np.ones(2**27)
    with pytest.raises(SourceError, match="reading takes more memory than allowed"), limited_memory():
        pa.allocate_buffer(2**30)
    assert np.ones(2**26).nbytes == 2**29


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux limits the memory of a process")
def test_a_short_file_takes_little_memory_whatever_it_might_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.input.limits.input_budgets", lambda: InputBudgets(memory_bytes=2**28))
    (tmp_path / "a.csv").write_bytes(b"1,2\n" * 2**19)
    with limited_memory():
        assert len(read_input(str(tmp_path / "a.csv"), 2**31)) == 2**21
    with pytest.raises(SourceError, match="file is larger than allowed"):
        read_input(str(tmp_path / "a.csv"), 2**21 - 1)


def test_a_table_whose_parsing_exceeds_the_memory_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ares.media.readers.csv_table.input_budgets", lambda: InputBudgets(memory_bytes=2**20)
    )
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    assert read_csv_table(str(path), file_state(str(path))).num_rows == 1
    path.write_text("a,b\n1," + "x" * 2**18 + "\n")
    with pytest.raises(SourceError, match="file is larger than allowed"):
        read_csv_table(str(path), file_state(str(path)))


def test_a_table_whose_header_is_not_utf8_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\xff\n1,2\n")
    with pytest.raises(SourceError, match="table cannot be parsed"):
        read_csv_table(str(path), file_state(str(path)))


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
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    (tmp_path / "a.parquet").write_bytes(pointer)
    with pytest.raises(SourceError, match="Git LFS pointer"):
        open_input(str(tmp_path / "a.parquet"))
    fsspec.filesystem("memory").pipe("/pointer.json", pointer)
    with pytest.raises(SourceError, match="Git LFS pointer"):
        read_input("memory://pointer.json")


BILLION_LAUGHS = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
OTHER_FILE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'


def test_elements_and_attributes_of_xml_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<?xml version='1.0'?><!-- a --><a b='1 &lt; 2'><c/>text<c/></a>")
    root = read_xml(str(path))
    assert (root.tag, root.get("b"), [child.tag for child in root]) == ("a", "1 < 2", ["c", "c"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BILLION_LAUGHS, "XML declares a document type"),
        (OTHER_FILE, "XML declares a document type"),
        ("<a>", "file is not XML"),
        ("<a></b>", "file is not XML"),
        ("", "file is not XML"),
        (b"\xff\xfe\x00", "file is not XML"),
        ("<a>\ud800</a>", "file is not XML"),
        ("<a>" * 101 + "</a>" * 101, "document is nested too deeply"),
    ],
)
def test_other_xml_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_xml(text, "robot.xml")
    assert caught.value.reason == reason
    assert str(caught.value).count("\n") == 0 and "robot.xml" in str(caught.value)
