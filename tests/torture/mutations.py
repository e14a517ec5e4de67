"""Damages files at random: any bytes, and by their structure JSON, Parquet, TFRecord, SQLite and zip files."""

from __future__ import annotations

import copy
import json
import random
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

_NUMBERS = [0, 1, -1, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, 2**62, 2**63 - 1]
_MAGIC = [
    b"\x89HDF\r\n\x1a\n", b"\x89MCAP0\r\n", b"PK\x03\x04", b"PK\x05\x06", b"PAR1", b"#ROSBAG V2.0\n",
    b"SQLite format 3\0", b"ftypisom", b"moov", b"mdat", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"NaN", b"Infinity", b"1e999", b"../", b"\0", b"\xff\xfe", b"null",
    b"\x78\x9c", b"{{{{",
]  # fmt: skip
WRONG_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, 1e308, -0.0, float("nan"), float("inf"), "", "\0", "NaN", "-1",
    "../../etc/passwd", "\x1b[31m", "\ud800", [], {}, [[]], [0, 0], [10**12], [-1, 2], {"shape": [10**9]}, [None],
    "x", "a" * 9_999,
]  # fmt: skip


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """One to eight bits anywhere, half of them near the ends, where headers and indexes are."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[_position(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The file ends early."""
    return data[: rng.randrange(len(data))]


def repeat_or_remove(data: bytes, rng: random.Random) -> bytes:
    """A part is missing, or is there twice."""
    start, stop = sorted((_position(data, rng), rng.randrange(len(data) + 1)))
    stop = min(stop, start + 4_096)
    return data[:start] + (data[start:stop] * rng.choice((0, 2, 3))) + data[stop:]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A part is overwritten with another part."""
    size = rng.randint(1, min(512, len(data)))
    source, target = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    return data[:target] + data[source : source + size] + data[target + size :]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """A number at the limits of its type, or bytes that begin some format, anywhere."""
    value = rng.choice(_MAGIC)
    if rng.random() < 0.7:
        code = rng.choice(("<q", "<i", ">q", ">i", "<h", "<d"))
        number = rng.choice(_NUMBERS)
        bits = 8 * struct.calcsize(code)
        signed = (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        value = struct.pack(code, float("nan") if code == "<d" else signed)
    at = _position(data, rng)
    return data[:at] + value + data[at + len(value) :]


def change_json(data: bytes, rng: random.Random) -> bytes:
    """Values of a JSON document, or of some lines of JSON, are removed or replaced."""
    try:
        text = data.decode()
        lines = text.splitlines() if "\n{" in text.strip() else [text]
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(_change_tree(json.loads(lines[at]), rng))
        return "\n".join(lines).encode(errors="surrogatepass")
    except (ValueError, IndexError):
        return overwrite(data, rng)


def _change_tree(tree: Any, rng: random.Random) -> Any:
    for _ in range(rng.randint(1, 3)):
        paths = list(_paths(tree))
        if not paths:
            return copy.deepcopy(rng.choice(WRONG_VALUES))
        *parents, last = rng.choice(paths)
        node = tree
        for key in parents:
            node = node[key]
        if rng.random() < 0.3:
            del node[last]
        else:
            node[last] = copy.deepcopy(rng.choice(WRONG_VALUES))
    return tree


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


ANY_BYTES: tuple[Mutation, ...] = (flip_bits, cut, repeat_or_remove, splice, overwrite)


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file in place, as its kind allows; returns the name of what was done."""
    by_suffix = {".json": _json, ".jsonl": _json, ".parquet": change_parquet, ".zip": change_zip}
    structured = by_suffix.get(path.suffix)
    if path.name in (".zarray", ".zgroup", "zarr.json"):
        structured = _json
    if ".tfrecord" in path.name:
        structured = change_records
    if path.suffix == ".db3":
        structured = change_database
    if structured and rng.random() < 0.6:
        structured(path, rng)
        return structured.__name__.strip("_")
    mutation = rng.choice(ANY_BYTES)
    _rewrite(path, lambda data: mutation(data, rng) if data else b"\0")
    return mutation.__name__


def _json(path: Path, rng: random.Random) -> None:
    _rewrite(path, lambda data: change_json(data, rng))


def change_records(path: Path, rng: random.Random) -> None:
    """The payload of a TFRecord is damaged, and its checksum is right."""
    from ares.errors import SourceError
    from ares.formats import read_record, scan_record_file
    from tests.generators.tfrecords import write_tfrecords

    spans = [span for span in scan_record_file(str(path)) if not isinstance(span, SourceError)]
    payloads = [read_record(str(path), span)[0] for span in spans]
    at = rng.randrange(len(payloads))
    payloads[at] = rng.choice(ANY_BYTES)(payloads[at], rng)
    path.unlink()
    write_tfrecords(path, payloads)


def change_parquet(path: Path, rng: random.Random) -> None:
    """A column of a Parquet file is missing, renamed, of another type, null, not finite, or of other length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    count = table.num_rows
    columns: list[Any] = [
        pa.nulls(count), pa.array(["\x1b[2J" * 5] * count), pa.array([float("nan")] * count),
        pa.array([2**62] * count), pa.array([[]] * count, pa.list_(pa.float32())), pa.array([b"\xff"] * count),
        pa.array([-1] * count), pa.array([[1.0, None]] * count), pa.array([{"a": 1}] * count),
        pa.array([10**15] * count, pa.timestamp("us")), pa.array([1e308] * count), pa.array([True] * count),
    ]  # fmt: skip
    choice = rng.randrange(5)
    if choice == 0:
        table = table.remove_column(at)
    elif choice == 1:
        table = table.rename_columns(
            [f"{column}\n" if column == name else column for column in table.column_names]
        )
    elif choice == 2:
        table = table.take(
            pa.array([rng.randrange(count) for _ in range(rng.randrange(2 * count))], pa.int64())
        )
    else:
        table = table.set_column(at, name, rng.choice(columns))
    path.unlink()
    pq.write_table(table, path)


def change_database(path: Path, rng: random.Random) -> None:
    """Values in the tables of an SQLite file are replaced."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as database:
        table, columns = rng.choice(
            [
                ("messages", ("data", "timestamp", "topic_id")),
                ("topics", ("name", "type", "serialization_format", "id")),
            ]
        )
        column = rng.choice(columns)
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        row, value = rng.choice(rows)
        if isinstance(value, bytes) and rng.random() < 0.7:
            new: Any = rng.choice(ANY_BYTES)(value, rng)
        else:
            new = rng.choice([None, -1, 2**63 - 1, 1.5, float("nan"), "", "x", b"\0", "../x", "a\nb"])
        with suppress(sqlite3.IntegrityError):  # a key that cannot have the value
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))
            database.commit()


def change_zip(path: Path, rng: random.Random) -> None:
    """A member of a zip file is damaged, renamed or there twice; its checksum is right."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, data = members[at]
    choice = rng.randrange(4)
    if choice == 0:
        members[at] = (rng.choice(["../" + name, "/" + name, name + "\n", "x"]), data)
    elif choice == 1:
        members.append(members[at])
    elif data:
        changed = change_json(data, rng) if data[:1] == b"{" else rng.choice(ANY_BYTES)(data, rng)
        members[at] = (name, changed)
    path.unlink()
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(name, data)


def link_copy(source: Path, target: Path) -> None:
    """Copy a folder by hard links; a file is replaced before it is changed."""
    shutil.copytree(source, target, copy_function=_link)


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(change(data))


def _position(data: bytes, rng: random.Random) -> int:
    if rng.random() < 0.5:
        return rng.randrange(len(data))
    near = rng.randrange(min(len(data), 512))
    return near if rng.random() < 0.5 else len(data) - 1 - near
