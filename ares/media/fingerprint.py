"""Tells whether a source file, or a link on the way to it, has changed since it was ingested."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import MediaError, SourceError
from ares.formats import ROSBAG2_METADATA, recording_files, zarr_metadata_files
from ares.input import (
    check_symbolic_links,
    forget_checked_links,
    is_lfs_pointer,
    lfs_pointer_error,
    open_input,
)
from ares.io import FileState, describe_os_error, file_state, is_url
from ares.media.readers.image_files import sample_images

if TYPE_CHECKING:
    from ares.episode import Camera, MediaRef


def leads_out_of_dataset(path: str) -> bool:
    """Whether links lead a local file further away than two folders above the one that holds it: out of its dataset.

    The folder of the dataset itself is not stored with an episode.
    """
    if is_url(path):
        return False
    try:
        check_symbolic_links(path, find_grandparent_folder(path))
    except SourceError:
        return True
    return False


def were_outside_links_allowed(stamp: str, paths: Iterable[str]) -> bool:
    """Whether links out of the dataset of a camera were allowed when it was ingested.

    They were where one of the files that have just been compared with its stamp lies behind such a link.
    """
    return bool(stamp) and any(map(leads_out_of_dataset, paths))


def find_grandparent_folder(path: str) -> str:
    """The folder two above the one that holds a file, or above a folder ("/" at the end); "" for a URL."""
    if is_url(path):
        return ""
    folder = path.rstrip("/") if path.endswith("/") else os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
    above = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120
    return folder if above == os.sep else above


_FULL_CHECKSUM_BYTES = 8 * 2**20
_BLOCK_BYTES = 2**18
_BLOCKS = 16
# Images of a folder whose content is compared.
_SAMPLED_IMAGES = 8
# Checksums that a process remembers: a shard is shared by thousands of episodes.
_MAX_CACHED = 100_000

MISSING_REASON, CHANGED_REASON = "file is missing", "file has changed since it was ingested"
SOURCE_REMEDIES = {
    MISSING_REASON: "put it back, or tell where it is now: ares doctor --relocate OLD=NEW",
    CHANGED_REASON: "put the old one back, or ingest the new one under another name (--dataset NAME)",
}

_cache: dict[tuple[str, FileState], str] = {}


def file_fingerprint(path: str, state: FileState) -> str:
    """8 hex digits of the content of a file, computed once per state of the file. Raises OSError.

    This is the crc32c of a whole file up to 8 MiB. Of a larger file it covers 16 blocks of 256 KiB: the first, the
    last, and 14 spaced evenly between them.
    """
    while (checksum := _cache.get((path, state))) is None:
        for _ in fingerprint_blocks(path, state):
            pass
    return checksum


def fingerprint_blocks(path: str, state: FileState) -> Iterator[bytes]:
    """Yield the blocks that a fingerprint covers; the last step stores the fingerprint. Raises OSError."""
    import google_crc32c

    crc = 0
    with open_input(path, long_reads=True) as file:
        for start, size in _block_ranges(state.size):
            file.seek(start)
            block = file.read(size)
            crc = google_crc32c.extend(crc, block)
            yield block
    if len(_cache) >= _MAX_CACHED:
        _cache.clear()
    _cache[path, state] = f"{crc:08x}"


def _block_ranges(size: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and size of each block of a file of so many bytes."""
    if size <= _FULL_CHECKSUM_BYTES:
        yield 0, size
        return
    for number in range(_BLOCKS):
        yield (size - _BLOCK_BYTES) * number // (_BLOCKS - 1), _BLOCK_BYTES


def compute_file_stamp(uri: str) -> str:
    """The stamp of a file, "SIZE:VERSION:FINGERPRINT"; for a recording of several files, their stamps joined by "|".

    Raises OSError when a file cannot be read, SourceError when the file list of a recording cannot.
    """
    stamps = []
    for path in source_files(uri):
        state = file_state(path)
        stamps.append(f"{state.size}:{state.version}:{file_fingerprint(path, state)}")
    return "|".join(stamps)


def make_file_stamp_fields(source: str, cameras: Sequence[Camera]) -> dict[str, Any]:
    """The fields of an episode with stamps: `source_stamp` of its source file, `cameras` with those of their files.

    A file gets no stamp, and is never reported as changed, when it does not exist or lies inside the workspace
    (its path is then relative).
    """
    stamped = tuple(
        replace(camera, media=replace(camera.media, stamp=file_stamp_or_empty(camera.media.uri)))
        for camera in cameras
    )
    return {"cameras": stamped, "source_stamp": file_stamp_or_empty(source)}


def verify_source(ref: MediaRef) -> None:
    """Compare the file of a reference with its stamp; a touched or copied file of the same content passes.

    A file that a link leads out of its dataset is compared by content, whatever its time.

    Raises MediaError when the file is missing, cannot be read, or has changed since it was ingested.
    """
    error = stamp_mismatch(ref.uri, ref.stamp)
    if error:
        raise error


def has_file_changed(uri: str, stamp: str, *, by_content: bool = False) -> bool:
    """Whether a file is another than when its stamp was made; False where it is gone, or nothing can be compared.

    Args:
        uri: Path or URL of the file.
        stamp: Its stamp, "" for none.
        by_content: Whether its content is compared also where size and time are as they were.
    """
    if not stamp or not (uri.startswith("/") or is_url(uri)):
        return False
    try:
        states = [file_state(path) for path in source_files(uri)]
        known = [text.split(":") for text in stamp.split("|")]
        if by_content:
            now = [text.split(":") for text in compute_file_stamp(uri).split("|")]
            return [part[::2] for part in now] != [part[::2] for part in known]
        if [[str(state.size), state.version] for state in states] == [part[:2] for part in known]:
            return False
    except (OSError, SourceError):
        return False
    error = stamp_mismatch(uri, stamp)
    return error is not None and error.reason == CHANGED_REASON


def stamp_mismatch(uri: str, stamp: str) -> MediaError | None:
    """The difference between a file and its stamp ("" when there is no stamp), or None."""
    forget_checked_links()
    try:
        paths = source_files(uri)
        states = [file_state(path) for path in paths]
        if not stamp:
            return None
        return _compare_stamps(uri, paths, states, [text.split(":") for text in stamp.split("|")])
    except FileNotFoundError as error:
        return MediaError(MISSING_REASON, f"{error.filename or uri}; {SOURCE_REMEDIES[MISSING_REASON]}")
    except OSError as error:
        return MediaError("file cannot be read", f"{uri}: {describe_os_error(error)}")
    except SourceError as error:
        return MediaError(error.reason, error.detail)


def _compare_stamps(
    uri: str, paths: list[str], states: list[FileState], stamps: list[list[str]]
) -> MediaError | None:
    """The first difference between files and their stamps, each as [size, version, fingerprint]."""
    if len(stamps) != len(states):
        return _changed_error(
            uri, f"it was a recording of {count_of(len(stamps), 'file')}, it is one of {len(states)}"
        )
    for path, state, (size, version, checksum) in zip(paths, states, stamps, strict=True):
        if is_lfs_pointer(path, state.size):
            raise lfs_pointer_error(path)
        if str(state.size) != size:
            return _changed_error(path, f"it had {size} bytes, it has {state.size}")
        is_elsewhere = leads_out_of_dataset(path)
        target = os.path.realpath(path) if is_elsewhere else path
        if (is_elsewhere or state.version != version) and file_fingerprint(target, state) != checksum:
            return _changed_error(path, f"it still has {size} bytes, but other content")
    return None


def _changed_error(path: str, difference: str) -> MediaError:
    return MediaError(CHANGED_REASON, f"{path}: {difference}; {SOURCE_REMEDIES[CHANGED_REASON]}")


def file_stamp_or_empty(uri: str) -> str:
    """The stamp of a file; "" for one in the workspace, and where there is none that can be read."""
    if not uri.startswith("/") and not is_url(uri):
        return ""
    try:
        return compute_file_stamp(uri)
    except (OSError, SourceError):
        return ""


def source_files(uri: str) -> list[str]:
    """The files of a source: the file itself, those of a rosbag2 recording, some images, or Zarr metadata."""
    if uri.endswith("/"):
        return sample_images(uri, _SAMPLED_IMAGES)
    if uri.endswith(".zarr") and Path(uri).is_dir():
        return zarr_metadata_files(uri)
    return recording_files(uri) if uri.endswith(ROSBAG2_METADATA) else [uri]
