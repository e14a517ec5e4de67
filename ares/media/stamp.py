"""Stamps: what a source file was when it was ingested, so that a changed or missing one is noticed when read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ares import files
from ares.errors import MediaError, SourceError
from ares.files import State

if TYPE_CHECKING:
    from ares.episode import Record
    from ares.media.ref import MediaRef

_WHOLE_BYTES = 8 * 2**20
_BLOCK_BYTES = 2**18
_BLOCKS = 16
# Fingerprints that a process remembers: a shard is shared by thousands of episodes.
_REMEMBERED = 100_000

MISSING, CHANGED = "file is missing", "file has changed since it was ingested"
REMEDIES = {
    MISSING: "put it back, or tell where it is now: ares doctor --relocate OLD=NEW",
    CHANGED: "put the old one back, or ingest the new one under a name of its own (--dataset NAME)",
}

_known: dict[tuple[str, State], str] = {}


def fingerprint(path: str, state: State) -> str:
    """8 hex digits of the content of a file; computed once while it stays as it is. Raises OSError.

    That is the crc32c of all of a file up to 8 MiB, and of 16 blocks of 256 KiB of a larger one: the first, the
    last, and 14 between them.
    """
    while (found := _known.get((path, state))) is None:
        for _ in fingerprinted(path, state):
            pass
    return found


def fingerprinted(path: str, state: State) -> Iterator[bytes]:
    """The bytes that make the fingerprint of a file, which is known once all were taken. Raises OSError."""
    import google_crc32c

    crc = 0
    with files.opened(path, records=True) as file:
        for start, size in _blocks(state.size):
            file.seek(start)
            block = file.read(size)
            crc = google_crc32c.extend(crc, block)
            yield block
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[path, state] = f"{crc:08x}"


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    if size <= _WHOLE_BYTES:
        yield 0, size
        return
    for number in range(_BLOCKS):
        yield (size - _BLOCK_BYTES) * number // (_BLOCKS - 1), _BLOCK_BYTES


def stamp(uri: str) -> str:
    """What is kept of a file, "SIZE:VERSION:FINGERPRINT"; of a recording of several files theirs, joined by "|".

    Raises OSError when a file cannot be read, SourceError when a recording's list of files cannot.
    """
    made = []
    for path in _files(uri):
        state = files.state(path)
        made.append(f"{state.size}:{state.version}:{fingerprint(path, state)}")
    return "|".join(made)


def stamped(record: Record) -> Record:
    """A record whose source and cameras carry the stamps of their files.

    What cannot be stamped has none and is never said to have changed: a file that is not there, and one that the
    workspace keeps itself, whose path is relative to it.
    """
    episode = record.episode
    cameras = tuple(
        replace(camera, media=replace(camera.media, stamp=_stamp_or_none(camera.media.uri)))
        for camera in episode.cameras
    )
    made = replace(episode, cameras=cameras, source_stamp=_stamp_or_none(episode.source))
    return type(record)(episode=made, trajectory=record.trajectory, warnings=record.warnings)


def check(ref: MediaRef) -> None:
    """Hold the file of a reference against its stamp; a touched or copied file of the same content is fine.

    Raises MediaError when the file is missing, cannot be asked for, or has changed since it was ingested.
    """
    told = difference(ref.uri, ref.stamp)
    if told:
        raise told


def difference(uri: str, stamp: str) -> MediaError | None:
    """What is wrong with a file that had a stamp ("" when that is not known), or None."""
    try:
        paths = _files(uri)
        states = [files.state(path) for path in paths]
        if not stamp:
            return None
        was = [one.split(":") for one in stamp.split("|")]
        if len(was) != len(states):
            return _changed(uri, f"it was a recording of {len(was)} files, it is one of {len(states)}")
        for path, now, (size, version, mark) in zip(paths, states, was, strict=True):
            if str(now.size) != size:
                return _changed(path, f"it had {size} bytes, it has {now.size}")
            if now.version != version and fingerprint(path, now) != mark:
                return _changed(path, f"it still has {size} bytes, but other content")
    except FileNotFoundError as error:
        return MediaError(MISSING, f"{error.filename or uri}; {REMEDIES[MISSING]}")
    except OSError as error:
        return MediaError("file cannot be read", f"{uri}: {files.words(error)}")
    except SourceError as error:
        return MediaError(error.reason, error.detail)
    return None


def _changed(path: str, how: str) -> MediaError:
    return MediaError(CHANGED, f"{path}: {how}; {REMEDIES[CHANGED]}")


def _stamp_or_none(uri: str) -> str:
    if not uri.startswith("/") and not files.is_url(uri):
        return ""
    try:
        return stamp(uri)
    except (OSError, SourceError):
        return ""


def _files(uri: str) -> list[str]:
    """The files of a source: itself, or those of a rosbag2 recording."""
    if not uri.endswith("metadata.yaml"):
        return [uri]
    from ares.media.mcap_file import files_of

    return files_of(uri)
