"""Small files that become large: pictures, compressed chunks and pages.

Zip files, nesting, aliases and pictures in other places are in tests/ares/input/test_hostile_files.py.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.torture.corpus.case import Case, Site, action_feature, edit_json

_SIDE = 50_000
_MIB = 2**20
_BOMB_MIB = 2_000


@cache
def png_bomb(side: int = _SIDE) -> bytes:
    """A black picture of one bit per pixel: 300 KB that decode to 7.5 GB as RGB."""
    packer = zlib.compressobj(9)
    row = bytes(1 + side // 8)
    data = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


@cache
def _zeros(library: str) -> bytes:
    """Zeros of `_BOMB_MIB`, packed."""
    import lz4.frame  # type: ignore[import-untyped]
    import zstandard

    packers: dict[str, Any] = {
        "zlib": lambda: zlib.compressobj(6),
        "bz2": lambda: bz2.BZ2Compressor(9),
        "zstd": lambda: zstandard.ZstdCompressor(1).compressobj(),
        "lz4": lz4.frame.LZ4FrameCompressor,
    }
    packer, block = packers[library](), bytes(_MIB)
    start = bytes(packer.begin()) if library == "lz4" else b""
    return start + b"".join(packer.compress(block) for _ in range(_BOMB_MIB)) + bytes(packer.flush())


def cases() -> Iterator[Case]:
    """Every bomb."""
    bombs: dict[tuple[str, str], Callable[[Site], None]] = {
        ("rlds", "picture in a TFRecord"): _rlds_picture,
        ("rlds", "zlib tensor of 2 GB in a TFRecord"): _rlds_zlib,
        ("lerobot", "Parquet pages of 150,000,000 equal rows"): _lerobot_pages,
        ("mcap", "zstd chunk of 2 GB"): partial(_mcap_chunk, "zstd"),
        ("mcap", "lz4 chunk of 2 GB"): partial(_mcap_chunk, "lz4"),
        ("bag", "bz2 chunk of 2 GB"): _bag_chunk,
        ("db3", "zstd message of 2 GB"): _db3_message,
        ("hdf5", "gzip dataset of 8 GB"): _hdf5_filter,
        ("zarr", "chunk of 2 GB"): _zarr_chunk,
    }
    for (kind, name), plant in bombs.items():
        yield Case(group="bombs", name=name, kind=kind, plant=plant)


def _rlds_picture(site: Site) -> None:
    rewrite_example(site.dataset("rlds"), {"steps/observation/image": [png_bomb()] * 4})


def _rlds_zlib(site: Site) -> None:
    folder = site.dataset("rlds")
    with action_feature(folder) as action:
        action["encoding"] = "zlib"
    rewrite_example(folder, {"steps/action": [_zeros("zlib")] * 4})


def rewrite_example(folder: Path, values: dict[str, list[bytes]]) -> None:
    """Set values of the first record; the checksums are right."""
    from ares.errors import SourceError
    from ares.formats import read_record, scan_record_file
    from ares.formats.tf_example import make_tf_example_class
    from tests.generators.tfrecords import write_tfrecords

    (path,) = folder.glob("*.tfrecord-*")
    spans = [span for span in scan_record_file(str(path)) if not isinstance(span, SourceError)]
    payloads = [read_record(str(path), span)[0] for span in spans]
    example = make_tf_example_class()()
    example.ParseFromString(payloads[0])
    for key, new in values.items():
        feature = example.features.feature[key]
        feature.Clear()
        feature.bytes_list.value.extend(new)
    path.unlink()
    write_tfrecords(path, [example.SerializeToString(), *payloads[1:]])


def _lerobot_pages(site: Site) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tests.ingest.lerobot.conftest import DATA, LeRobotFolders

    folder = site.dataset("lerobot", name="bomb")
    path = folder / DATA.format(0)
    schema = pa.table(LeRobotFolders().columns(0)).schema
    block = 5_000_000
    zeros = pa.array(np.zeros(block, np.int64))
    state = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * block, np.float32)), 2).cast(
        pa.list_(pa.float32())
    )
    columns = {
        name: state if "list" in str(kind) else zeros.cast(kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    }
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(30):
            writer.write_table(table)


def _mcap_chunk(compression: str, site: Site) -> None:
    """A chunk whose header tells the truth: 4 GB, packed into a few hundred kilobytes."""
    from mcap.data_stream import RecordBuilder
    from mcap.records import Chunk

    site.dataset("mcap")
    data = _zeros(compression)
    chunk = Chunk(
        compression=compression, data=data, message_end_time=2, message_start_time=1,
        uncompressed_crc=0, uncompressed_size=_BOMB_MIB * _MIB,
    )  # fmt: skip
    body = RecordBuilder()
    chunk.write(body)
    good = (site.hostile / "hostile_00.mcap").read_bytes()
    at = 8 + 9 + struct.unpack_from("<Q", good, 9)[0]
    record: bytes = body.end()  # type: ignore[no-untyped-call]
    site.path("bomb.mcap").write_bytes(good[:at] + record + good[at:])


def _bag_chunk(site: Site) -> None:
    site.dataset("bag")
    data = (site.hostile / "hostile_00.bag").read_bytes()
    packed = _zeros("bz2")
    header = _bag_fields(op=b"\x05", compression=b"bz2", size=struct.pack("<I", _BOMB_MIB * _MIB))
    chunk = struct.pack("<I", len(header)) + header + struct.pack("<I", len(packed)) + packed
    at = 13 + 4_096
    site.path("bomb.bag.active").write_bytes(data[:at] + chunk + data[at:])
    site.path("bomb.bag").write_bytes(data[:at] + chunk + data[at:])


def _bag_fields(**fields: bytes) -> bytes:
    named = [name.encode() + b"=" + value for name, value in fields.items()]
    return b"".join(struct.pack("<I", len(field)) + field for field in named)


def _db3_message(site: Site) -> None:
    import sqlite3
    from contextlib import closing

    site.dataset("db3")
    (path,) = (site.hostile / "hostile_01").glob("*.db3")
    packed = _zeros("zstd")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE messages SET data = ? WHERE id = 3", (packed,))
        database.commit()


def _hdf5_filter(site: Site) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(site.path("bomb.hdf5"), "w") as file:
        group = file.create_group("data/demo_0")
        shape = (10**6, 1_000)
        group.create_dataset("actions", (10**6, 7), "f4", chunks=(10**5, 7), compression="gzip")
        states = group.create_dataset(
            "obs/robot0_joint_pos", shape, "f8", chunks=(10**4, 1_000), compression="gzip"
        )
        block = zlib.compress(bytes(10**4 * 1_000 * 8))
        for start in range(0, 10**6, 10**4):
            states.id.write_direct_chunk((start, 0), block)


def _zarr_chunk(site: Site) -> None:
    site.dataset("zarr")
    array = site.hostile / "hostile.zarr" / "data" / "action"
    steps = 10**9
    edit_json(
        array / ".zarray", shape=[steps, 2], chunks=[250_000_000, 2], compressor={"id": "zlib", "level": 9}
    )
    for chunk in array.glob("[0-9]*"):
        chunk.unlink()
    (array / "0.0").write_bytes(_zeros("zlib"))
