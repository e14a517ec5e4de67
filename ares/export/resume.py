"""What an export that was stopped left whole, and how the next run of the same request goes on from there.

A stopped export leaves its folder, beside the one it was asked for, with a marker: its first line is the hash of the
request, every other line a unit. A unit is a file that was finished, with its SHA-256, or a video that was prepared:
its statistics, the sizes of its packets and, where it was encoded, the file with them. Of a video whose file is whole
no packet is read again; one whose file is not is cut out of its source, or out of the file it was encoded to.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.annotation import canonical_json
from ares.episode import Json
from ares.media import StreamFormat

if TYPE_CHECKING:
    from ares.media import PacketSpan


def read_earlier_units(marker: Path, key: str) -> dict[str, Json]:
    """The units that a stopped export of the same request left; its folder is removed where the request is another.

    Files that are no units are removed, and so is a line that was cut off: the folder then holds what is whole alone.

    Args:
        marker: The marker in the folder of the export.
        key: Hash of the request and of what the workspace holds.

    Returns:
        By name, what the export noted of each unit.
    """
    lines = list(_read_lines(marker))
    if not lines or lines[0] != {"key": key}:
        shutil.rmtree(marker.parent)
        return {}
    kept, earlier = lines[:1], dict[str, Json]()
    written: dict[str, dict[str, Json]] = {}
    for line in lines[1:]:
        if _is_whole(marker.parent, line):
            kept.append(line)
            earlier[str(line["name"])] = line["value"]
            units = cast("Mapping[str, Mapping[str, Json]]", cast("Any", line["value"]).get("units", {}))
            written |= {name: dict(value) for name, value in units.items()}
    videos = {str(line["name"]): line for line in lines[1:] if str(line["name"]) in written}
    kept += [line for name, line in videos.items() if name not in earlier]
    for name, value in written.items():
        noted = cast("Mapping[str, Json]", videos[name]["value"]) if name in videos else {}
        earlier[name] = {**noted, **value, "is_written": True}
    _remove_others(marker, {str(line["file"]) for line in kept if "file" in line})
    partial = marker.with_name(f"{marker.name}.tmp")
    partial.write_text("".join(f"{canonical_json(line)}\n" for line in kept), encoding="utf-8")
    partial.replace(marker)
    return earlier


def _read_lines(marker: Path) -> Iterator[dict[str, Json]]:
    """The lines of a marker, up to one that was cut off."""
    for line in marker.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            return
        if not isinstance(document, dict) or not (
            {"key"} == document.keys() or {"name", "value"} <= document.keys()
        ):
            return
        yield document


def _is_whole(folder: Path, line: Mapping[str, Json]) -> bool:
    """Whether the file of a unit is the one that was noted; a unit without a file always is."""
    if "file" not in line:
        return True
    path = folder / str(line["file"])
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == line["sha256"]


def _remove_others(marker: Path, files: set[str]) -> None:
    """Remove every file below the folder of a marker that is no unit."""
    folder = marker.parent
    for path in [*folder.rglob("*")]:
        if path.is_symlink() or (
            path.is_file() and path != marker and path.relative_to(folder).as_posix() not in files
        ):
            path.unlink()


class SizedPacket(NamedTuple):
    """What is left to know of a packet that was written: its size in bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class WrittenSpan:
    """The packets of a video that a whole file has: their number and sizes, as `PacketSpan` has them."""

    packets: tuple[SizedPacket, ...]
    decoding_delay: int
    format: StreamFormat
    lead: int
    num_frames: int

    @property
    def num_bytes(self) -> int:
        """Compressed size."""
        return sum(packet.size for packet in self.packets)

    def close(self) -> None:
        """Nothing is open."""


class WholeVideo:
    """In place of `PacketJoiner` for a file that an earlier run finished: it counts what it has, and writes nothing.

    Args:
        rate_hz: Frames per second.
        first_span: The first span of the file; it is not counted yet.
    """

    def __init__(self, rate_hz: float, first_span: PacketSpan) -> None:
        self.rate_hz, self.num_frames, self.num_bytes = rate_hz, 0, 0
        self._format, self._decoding_delay = first_span.format, first_span.decoding_delay

    def fits(self, span: PacketSpan) -> bool:
        """Whether one decoder can decode this file and then the span."""
        return span.format == self._format and span.decoding_delay <= self._decoding_delay

    def append(self, span: PacketSpan) -> int:
        """Count the packets of a span; returns the number of its first frame."""
        first_frame = self.num_frames
        self.num_frames += len(span.packets)
        self.num_bytes += span.num_bytes
        return first_frame

    def close(self) -> None:
        """Nothing is open."""


class WholeTable:
    """In place of a `ParquetWriter` for a file that an earlier run finished: it writes nothing."""

    def write_table(self, table: object, row_group_size: int) -> None:
        """The table is in the file."""

    def close(self) -> None:
        """Nothing is open."""
