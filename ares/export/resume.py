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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.annotation import canonical_json
from ares.episode import Json
from ares.errors import RequestError, StoreError, is_disk_full
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


# In the folder of an unfinished export: a line that names its request, and a line for each unit that is whole.
STAGING_MARKER = ".ares-export"


class StagedExport:
    """The folder that an export is written in, and what of it is whole: its units.

    A unit is a file that is finished, or a result that takes long to make again. The next run of the same request
    keeps the units that an earlier one left, and writes the rest.

    Args:
        folder: The folder.
        key: Hash of the request and of what the workspace held.

    Attributes:
        folder: The folder.
        earlier: The values of the units that an earlier run left, by name.
        has_units: Whether anything is whole.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.earlier, self._lock = folder, dict[str, Json](), Lock()
        marker = folder / STAGING_MARKER
        if marker.is_file():
            self.earlier = read_earlier_units(marker, key)
        elif folder.exists() and any(folder.iterdir()):  # an empty one was left before it had a marker
            raise RequestError(
                "the folder for the unfinished export exists already", f"{folder}; move it away"
            )
        if not marker.exists():
            folder.mkdir(parents=True, exist_ok=True)
            marker.write_text(canonical_json({"key": key}) + "\n", encoding="utf-8")
        self.has_units = bool(self.earlier)

    def keep(self, name: str, value: Json, file: Path | None = None) -> None:
        """Note a unit that is whole.

        Args:
            name: Its name; a file is named by its path in the export.
            value: What the next run has to know of it.
            file: The file that has it.
        """
        line: dict[str, Json] = {"name": name, "value": value}
        if file is not None:
            with file.open("rb") as opened:
                sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
            line |= {"file": file.relative_to(self.folder).as_posix(), "sha256": sha256}
        with self._lock, (self.folder / STAGING_MARKER).open("a", encoding="utf-8") as marker:
            marker.write(canonical_json(line) + "\n")
        self.has_units = True


@contextmanager
def staging_folder(destination: Path, *request: object) -> Iterator[StagedExport]:
    """Yield a folder to write into, which is renamed to the destination on success.

    On failure it is removed, unless units of it are whole and the next run of the same request can go on.

    Args:
        destination: The folder of the export.
        request: What decides what is written: values with a `repr`.

    Raises:
        RequestError: The destination is not empty, cannot be created, or another process writes it.
        StoreError: The disk is full.
    """
    destination = destination.expanduser().resolve()
    with _hold_destination(destination):
        yield from _write_staged(destination, request)


@contextmanager
def _hold_destination(destination: Path) -> Iterator[None]:
    """Keep other processes from writing an export: they would take its folder for one that was stopped."""
    import fcntl

    path = destination.with_name(f"{destination.name}.tmp.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise RequestError("the export folder cannot be created", f"{destination}: {error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(
                "another process writes this export",
                f"{destination}; wait for its end, or name another folder",
            ) from None
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _write_staged(destination: Path, request: tuple[object, ...]) -> Iterator[StagedExport]:
    partial = destination.with_name(destination.name + ".tmp")
    try:
        if (destination / STAGING_MARKER).is_file() and not partial.exists():
            destination.replace(partial)  # it was complete, and its marker was about to go
        # A device such as /dev/null is no file, and no folder either.
        if any(destination.iterdir()) if destination.is_dir() else destination.exists():
            raise RequestError(
                "the export folder is not empty", f"{destination}; name a new or an empty folder"
            )
        staged = StagedExport(partial, hashlib.sha256(repr(request).encode()).hexdigest())
    except OSError as error:
        raise RequestError("the export folder cannot be created", f"{destination}: {error}") from None
    try:
        yield staged
        partial.replace(destination)
        (destination / STAGING_MARKER).unlink()
    except BaseException as error:
        stopped = isinstance(error, OSError | StoreError) or not isinstance(error, Exception)
        if not (stopped and staged.has_units):
            shutil.rmtree(partial, ignore_errors=True)
        if is_disk_full(error):
            rest = f"{partial} has what is whole: run the same command again, or remove it"
            detail = rest if staged.has_units else f"nothing is left of the export to {destination}"
            raise StoreError("the disk is full", detail) from error
        raise
