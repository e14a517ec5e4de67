"""Headers and metadata that claim what the data do not hold: shapes, counts, offsets, lengths, stamps.

More are among the tests of each format in tests/ingest, such as arrays of HDF5 and shapes in info.json.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.torture.corpus.case import Case, Site, action_feature, edit_json, json_of

Row = tuple[str, str, Callable[[Site], None]]
_HUGE = 10**12


def cases() -> Iterator[Case]:
    """Every case."""
    for kind, name, plant in [*_metadata_lies(), *_header_lies()]:
        yield Case(group="lies", name=name, kind=kind, plant=plant)


def _metadata_lies() -> list[Row]:
    """Datasets described by metadata files."""
    return [
        ("lerobot", "camera of 10**9 by 10**9", _camera_size),
        ("lerobot", "10**12 episodes", partial(_info, total_episodes=_HUGE, total_frames=_HUGE)),
        ("lerobot", "split of 10**12 episodes", partial(_info, splits={"train": f"0:{_HUGE}"})),
        ("lerobot", "0 fps", partial(_info, fps=0)),
        ("lerobot", "negative fps", partial(_info, fps=-30)),
        ("lerobot", "NaN fps", partial(_info, fps=math.nan)),
        ("lerobot", "fps of 1e308", partial(_info, fps=1e308)),
        ("lerobot", "0 files per chunk", partial(_info, chunks_size=0)),
        ("lerobot", "length of -1", partial(_listed_episodes, length=-1)),
        ("lerobot", "length of 10**12", partial(_listed_episodes, length=_HUGE)),
        ("lerobot", "episode number 10**18", partial(_listed_episodes, numbers=(0, 10**18))),
        ("lerobot", "NaN stamps", partial(_stamps, [math.nan] * 6)),
        ("lerobot", "stamps of 1e300", partial(_stamps, [1e300 * k for k in range(6)])),
        ("rlds", "record of 2**62 bytes", partial(_record_length, 2**62)),
        ("rlds", "record of -1 bytes", partial(_record_length, 2**64 - 1)),
        ("rlds", "shape of 10**12", partial(_rlds_shape, [str(_HUGE)])),
        ("rlds", "shape of [10**6, 10**6]", partial(_rlds_shape, ["1000000", "1000000"])),
        ("rlds", "negative shape", partial(_rlds_shape, ["-5"])),
        ("zarr", "10**12 steps", partial(_zarray, shape=[_HUGE, 2])),
        ("zarr", "chunks of 0", partial(_zarray, chunks=[0, 2])),
        ("zarr", "negative shape", partial(_zarray, shape=[-1, 2])),
        ("zarr", "type of 1,000,000 bytes", partial(_zarray, dtype="|V1000000")),
        ("zarr", "negative ends", partial(_ends, [-5, 10])),
        ("zarr", "falling ends", partial(_ends, [10, 5])),
        ("zarr", "ends of 2**62", partial(_ends, [5, 2**62])),
    ]


def _header_lies() -> list[Row]:
    """Files that describe themselves."""
    return [
        ("mcap", "record of 2**63 bytes", partial(_mcap_length, 2**63)),
        ("mcap", "record of 0 bytes", partial(_mcap_length, 0)),
        ("mcap", "stamps of 2**64", partial(_write_mcap, _late_entries)),
        ("mcap", "falling stamps", partial(_write_mcap, lambda entries: entries[::-1])),
        ("mcap", "NaN joints", partial(_write_mcap, _infinite_joints)),
        ("bag", "header of 2**32 bytes", partial(_bag_number, 13, 2**32 - 1)),
        ("bag", "index at 2**63", _bag_index),
        ("db3", "string of 2**32 bytes", _db3_string),
        ("video", "mdat before the file", partial(_mp4_atom, b"stco", 2**32 - 1)),
        ("video", "10**9 samples", partial(_mp4_atom, b"stsz", 10**9)),
        ("video", "durations of 2**32", partial(_mp4_atom, b"stts", 2**32 - 1)),
        ("video", "frames of 65535 by 65535", _mp4_size),
        ("video", "atom of 2**63 bytes", _mp4_length),
        ("video", "spans of NaN and 1e308 seconds", _video_spans),
    ]


def _info(site: Site, **changes: Any) -> None:
    edit_json(site.dataset("lerobot") / "meta" / "info.json", **changes)


def _camera_size(site: Site) -> None:
    with json_of(site.dataset("lerobot") / "meta" / "info.json") as info:
        info["features"]["observation.images.front"]["shape"] = [10**9, 10**9, 3]


def _listed_episodes(site: Site, numbers: tuple[int, int] = (0, 1), length: int = 6) -> None:
    lines = [{"episode_index": number, "tasks": ["do it"], "length": length} for number in numbers]
    path = site.dataset("lerobot") / "meta" / "episodes.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))


def _stamps(stamps: list[float], site: Site) -> None:
    from tests.ingest.lerobot.conftest import LeRobotFolders

    LeRobotFolders().rewrite(site.dataset("lerobot"), 0, timestamp=np.array(stamps))


def _record_length(length: int, site: Site) -> None:
    """The checksum of the length is right."""
    import google_crc32c

    from ares.formats.tfrecord import masked_crc

    (path,) = site.dataset("rlds").glob("*.tfrecord-*")
    header = struct.pack("<Q", length)
    header += struct.pack("<I", masked_crc(google_crc32c.value(header)))
    path.write_bytes(header + path.read_bytes()[12:])


def _rlds_shape(sizes: list[str], site: Site) -> None:
    with action_feature(site.dataset("rlds")) as action:
        action["shape"] = {"dimensions": sizes}


def _zarray(site: Site, **changes: Any) -> None:
    site.dataset("zarr")
    edit_json(site.hostile / "hostile.zarr" / "data" / "action" / ".zarray", **changes)


def _ends(ends: list[int], site: Site) -> None:
    import zarr

    site.dataset("zarr")
    zarr.open_group(str(site.hostile / "hostile.zarr"))["meta/episode_ends"][:] = np.array(ends)  # type: ignore[index]


def _mcap_length(length: int, site: Site) -> None:
    site.dataset("mcap")
    path = site.hostile / "hostile_00.mcap"
    data = bytearray(path.read_bytes())
    second = 8 + 9 + struct.unpack_from("<Q", data, 9)[0]
    struct.pack_into("<Q", data, second + 1, length)
    path.write_bytes(data)


def _write_mcap(change: Callable[[list[Any]], list[Any]], site: Site) -> None:
    from tests.ingest.recordings.mcap.conftest import images, states, write

    write(site.path("lie.mcap"), change([*states(), *images()]))


def _late_entries(entries: list[Any]) -> list[Any]:
    last = 2**64 - 11
    return [(topic, kind, last + n % 10, message) for n, (topic, kind, _, message) in enumerate(entries)]


def _infinite_joints(entries: list[Any]) -> list[Any]:
    for _, _, _, message in entries:
        if hasattr(message, "position"):
            message.position = [math.nan, math.inf]
    return entries


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
