"""Headers and metadata that claim what the data do not hold: shapes, counts, offsets, lengths, stamps."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.torture.corpus.case import Case, Outcome, Site, edit_json

Row = tuple[str, str, Callable[[Site], None], Outcome]
_HUGE = 10**12


def cases() -> Iterator[Case]:
    """Every case."""
    for kind, name, plant, outcome in [*_metadata_lies(), *_header_lies()]:
        yield Case(group="lies", name=name, kind=kind, plant=plant, outcome=outcome)


def _metadata_lies() -> list[Row]:
    """Datasets described by metadata files."""
    return [
        ("lerobot", "shape of 10**12", partial(_feature, shape=[_HUGE]), "any"),
        ("lerobot", "negative shape", partial(_feature, shape=[-3]), "any"),
        ("lerobot", "camera of 10**9 by 10**9", _camera_size, "any"),
        ("lerobot", "10**12 episodes", partial(_info, total_episodes=_HUGE, total_frames=_HUGE), "any"),
        ("lerobot", "split of 10**12 episodes", partial(_info, splits={"train": f"0:{_HUGE}"}), "any"),
        ("lerobot", "0 fps", partial(_info, fps=0), "any"),
        ("lerobot", "negative fps", partial(_info, fps=-30), "any"),
        ("lerobot", "NaN fps", partial(_info, fps=math.nan), "any"),
        ("lerobot", "fps of 1e308", partial(_info, fps=1e308), "any"),
        ("lerobot", "0 files per chunk", partial(_info, chunks_size=0), "any"),
        ("lerobot", "length of -1", partial(_length, -1), "any"),
        ("lerobot", "length of 10**12", partial(_length, _HUGE), "any"),
        ("lerobot", "episode number 10**18", _episode_number, "any"),
        ("lerobot", "NaN stamps", partial(_stamps, [math.nan] * 6), "any"),
        ("lerobot", "falling stamps", partial(_stamps, [5.0, 4, 3, 2, 1, 0]), "any"),
        ("lerobot", "stamps of 1e300", partial(_stamps, [1e300 * k for k in range(6)]), "any"),
        ("rlds", "record of 2**62 bytes", partial(_record_length, 2**62), "any"),
        ("rlds", "record of -1 bytes", partial(_record_length, 2**64 - 1), "any"),
        ("rlds", "10**12 records in a shard", _shard_length, "any"),
        ("rlds", "shape of 10**12", partial(_rlds_shape, [str(_HUGE)]), "any"),
        ("rlds", "shape of [10**6, 10**6]", partial(_rlds_shape, ["1000000", "1000000"]), "any"),
        ("rlds", "negative shape", partial(_rlds_shape, ["-5"]), "any"),
        ("zarr", "10**12 steps", partial(_zarray, shape=[_HUGE, 2]), "any"),
        ("zarr", "chunks of 10**12", partial(_zarray, chunks=[_HUGE, 2]), "any"),
        ("zarr", "chunks of 0", partial(_zarray, chunks=[0, 2]), "any"),
        ("zarr", "negative shape", partial(_zarray, shape=[-1, 2]), "any"),
        ("zarr", "type of 1,000,000 bytes", partial(_zarray, dtype="|V1000000"), "any"),
        ("zarr", "negative ends", partial(_ends, [-5, 10]), "any"),
        ("zarr", "falling ends", partial(_ends, [10, 5]), "any"),
        ("zarr", "ends of 2**62", partial(_ends, [5, 2**62]), "any"),
    ]  # fmt: skip


def _header_lies() -> list[Row]:
    """Files that describe themselves."""
    return [
        ("hdf5", "10**12 steps that were never written", _unwritten, "any"),
        ("hdf5", "dataset without dimensions", _scalar, "any"),
        ("mcap", "record of 2**63 bytes", partial(_mcap_length, 2**63), "any"),
        ("mcap", "record of 0 bytes", partial(_mcap_length, 0), "any"),
        ("mcap", "stamps of 2**64", _mcap_stamps, "any"),
        ("mcap", "falling stamps", _mcap_falling, "any"),
        ("mcap", "NaN joints", _mcap_joints, "any"),
        ("bag", "header of 2**32 bytes", partial(_bag_number, 13, 2**32 - 1), "any"),
        ("bag", "index at 2**63", _bag_index, "any"),
        ("db3", "negative stamps", partial(_db3, "timestamp = -timestamp"), "any"),
        ("db3", "stamps that are texts", partial(_db3, "timestamp = 'soon'"), "any"),
        ("db3", "NaN stamps", partial(_db3, "timestamp = 1e999 - 1e999"), "any"),
        ("db3", "messages that are numbers", partial(_db3, "data = 7"), "any"),
        ("db3", "string of 2**32 bytes", _db3_string, "any"),
        ("video", "mdat before the file", partial(_mp4_atom, b"stco", 2**32 - 1), "any"),
        ("video", "10**9 samples", partial(_mp4_atom, b"stsz", 10**9), "any"),
        ("video", "durations of 2**32", partial(_mp4_atom, b"stts", 2**32 - 1), "any"),
        ("video", "frames of 65535 by 65535", _mp4_size, "any"),
        ("video", "atom of 2**63 bytes", _mp4_length, "any"),
        ("video", "spans of NaN and 1e308 seconds", _video_spans, "any"),
    ]  # fmt: skip


def _info(site: Site, **changes: Any) -> None:
    edit_json(site.dataset("lerobot") / "meta" / "info.json", **changes)


def _feature(site: Site, shape: list[int]) -> None:
    path = site.dataset("lerobot") / "meta" / "info.json"
    info = json.loads(path.read_text())
    info["features"]["observation.state"]["shape"] = shape
    path.write_text(json.dumps(info))


def _camera_size(site: Site) -> None:
    path = site.dataset("lerobot") / "meta" / "info.json"
    info = json.loads(path.read_text())
    info["features"]["observation.images.front"]["shape"] = [10**9, 10**9, 3]
    path.write_text(json.dumps(info))


def _length(length: int, site: Site) -> None:
    folder = site.dataset("lerobot")
    lines = [{"episode_index": number, "tasks": ["do it"], "length": length} for number in range(2)]
    (folder / "meta" / "episodes.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _episode_number(site: Site) -> None:
    folder = site.dataset("lerobot")
    lines = [{"episode_index": number, "tasks": ["do it"], "length": 6} for number in (0, 10**18)]
    (folder / "meta" / "episodes.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _stamps(stamps: list[float], site: Site) -> None:
    from tests.ingest.lerobot.conftest import LeRobotFolders

    folder = site.dataset("lerobot")
    LeRobotFolders().rewrite(folder, 0, timestamp=np.array(stamps))


def _shard(site: Site) -> Path:
    (path,) = site.dataset("rlds").glob("*.tfrecord-*")
    return path


def _record_length(length: int, site: Site) -> None:
    """The checksum of the length is right."""
    import google_crc32c

    from ares.formats.tfrecord import masked_crc

    path = _shard(site)
    header = struct.pack("<Q", length)
    header += struct.pack("<I", masked_crc(google_crc32c.value(header)))
    path.write_bytes(header + path.read_bytes()[12:])


def _shard_length(site: Site) -> None:
    path = _shard(site).parent / "dataset_info.json"
    info = json.loads(path.read_text())
    info["splits"][0]["shardLengths"] = [str(_HUGE)]
    path.write_text(json.dumps(info))


def _rlds_shape(sizes: list[str], site: Site) -> None:
    path = _shard(site).parent / "features.json"
    document = json.loads(path.read_text())
    steps = document["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    steps["action"]["tensor"]["shape"] = {"dimensions": sizes}
    path.write_text(json.dumps(document))


def _zarray(site: Site, **changes: Any) -> None:
    site.dataset("zarr")
    edit_json(site.hostile / "hostile.zarr" / "data" / "action" / ".zarray", **changes)


def _ends(ends: list[int], site: Site) -> None:
    import zarr

    site.dataset("zarr")
    zarr.open_group(str(site.hostile / "hostile.zarr"))["meta/episode_ends"][:] = np.array(ends)  # type: ignore[index]


def _unwritten(site: Site) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(site.path("lie.hdf5"), "w") as file:
        group = file.create_group("data/demo_0")
        group.create_dataset("actions", (_HUGE, 7), "f4", chunks=(1_000, 7))
        group.create_dataset("obs/robot0_joint_pos", (_HUGE, 7), "f4", chunks=(1_000, 7))


def _scalar(site: Site) -> None:
    import h5py

    with h5py.File(site.path("lie.hdf5"), "w") as file:
        file["data/demo_0/actions"] = 3.0
        file["data/demo_0/obs/robot0_joint_pos"] = h5py.Empty("f4")


def _mcap_length(length: int, site: Site) -> None:
    site.dataset("mcap")
    path = site.hostile / "hostile_00.mcap"
    data = bytearray(path.read_bytes())
    second = 8 + 9 + struct.unpack_from("<Q", data, 9)[0]
    struct.pack_into("<Q", data, second + 1, length)
    path.write_bytes(data)


def _mcap_stamps(site: Site) -> None:
    from tests.ingest.recordings.mcap import conftest as mcap

    entries = [*mcap.states(), *mcap.images()]
    last = 2**64 - 1
    entries = [
        (topic, kind, last - 10 + number % 10, message)
        for number, (topic, kind, _, message) in enumerate(entries)
    ]
    mcap.write(site.path("lie.mcap"), entries)


def _mcap_falling(site: Site) -> None:
    from tests.ingest.recordings.mcap import conftest as mcap

    mcap.write(site.path("lie.mcap"), reversed([*mcap.states(), *mcap.images()]))


def _mcap_joints(site: Site) -> None:
    from tests.ingest.recordings.mcap import conftest as mcap

    entries = [*mcap.states(), *mcap.images()]
    for _, _, _, message in entries:
        if hasattr(message, "position"):
            message.position = [math.nan, math.inf]
    mcap.write(site.path("lie.mcap"), entries)


def _bag_number(at: int, number: int, site: Site) -> None:
    site.dataset("bag")
    path = site.hostile / "hostile_00.bag"
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, at, number)
    path.write_bytes(data)


def _bag_index(site: Site) -> None:
    site.dataset("bag")
    path = site.hostile / "hostile_00.bag"
    data = path.read_bytes()
    at = data.index(b"index_pos=") + len(b"index_pos=")
    path.write_bytes(data[:at] + struct.pack("<Q", 2**63) + data[at + 8 :])


def _db3(change: str, site: Site) -> None:
    import sqlite3
    from contextlib import closing

    site.dataset("db3")
    (path,) = (site.hostile / "hostile_00").glob("*.db3")
    with closing(sqlite3.connect(path)) as database:
        # The column takes no NULL, which NaN is in SQLite: the table is written again without that rule.
        database.execute("CREATE TABLE free AS SELECT * FROM messages")
        database.execute("DROP TABLE messages")
        database.execute("ALTER TABLE free RENAME TO messages")
        database.execute(f"UPDATE messages SET {change} WHERE id % 3 = 0")
        database.commit()


def _db3_string(site: Site) -> None:
    import sqlite3
    from contextlib import closing

    site.dataset("db3")
    (path,) = (site.hostile / "hostile_00").glob("*.db3")
    with closing(sqlite3.connect(path)) as database:
        message = struct.pack("<IiII", 0x00000100, 1, 0, 2**32 - 1)
        database.execute("UPDATE messages SET data = ? WHERE id > 1", (message,))
        database.commit()


def _mp4(site: Site) -> Path:
    site.dataset("video")
    return site.hostile / "hostile_000_front.mp4"


def _mp4_atom(name: bytes, number: int, site: Site) -> None:
    """Set the last number of the head of an atom: a count, a size or an offset."""
    path = _mp4(site)
    data = bytearray(path.read_bytes())
    at = data.index(name) + 4
    for offset in (4, 8, 12):
        struct.pack_into(">I", data, at + offset, number)
    path.write_bytes(data)


def _mp4_size(site: Site) -> None:
    path = _mp4(site)
    data = bytearray(path.read_bytes())
    at = data.index(b"avc1") + 4 + 24
    struct.pack_into(">HH", data, at, 65535, 65535)
    path.write_bytes(data)


def _mp4_length(site: Site) -> None:
    path = _mp4(site)
    path.write_bytes(path.read_bytes() + struct.pack(">I4sQ", 1, b"free", 2**63))


def _video_spans(site: Site) -> None:
    site.dataset("video")
    spans = [(math.nan, 1.0), (0.0, 1e308), (-1.0, 0.5), (0.5, 0.1)]
    rows = [
        {
            "file": "hostile_000_front.mp4",
            "episode_id": f"e{number}",
            "start_seconds": start,
            "stop_seconds": stop,
        }
        for number, (start, stop) in enumerate(spans)
    ]
    site.path("metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
