"""Reads JSON files of datasets, finds those of labels, and hashes, probes and describes the media of episodes."""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import CUT_CAMERA, MISSING_CAMERAS, UNREAD, Camera, Json, MediaRef, Role
from ares.errors import SourceError
from ares.input import TABLE_SUFFIXES, parse_json, read_input
from ares.io import FileState, describe_os_error, file_state, is_url, walk_folders
from ares.media import VideoInfo, fingerprint_blocks, probe_video
from ares_ingest.guarded_loading import call_ingester_safely
from ares_ingest.source_words import guess_camera_role

if TYPE_CHECKING:
    from ares.input import ImageInfo
    from ares_ingest.base import Source


def read_json_object(path: Path, parse: Callable[[bytes], Any] | None = None) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: Path or URL.
        parse: Parses its bytes; None for `ares.input.parse_json`.

    Raises SourceError when the file cannot be read, is nested too deeply, or holds no JSON object.
    """
    try:
        document = (parse or partial(parse_json, where=str(path)))(read_input(str(path)))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {describe_os_error(error)}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(f"{path.name} is not a JSON object", f"{path}: {type(document).__name__}")
    return document


def local_files(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of some paths that are local files."""
    return tuple(path for path in paths if not is_url(path) and os.path.isfile(path))  # noqa: PTH113


def hash_media_files(paths: Iterable[str]) -> str:
    """Hash of the content of videos or recordings, 32 hex digits. Raises OSError.

    Files up to 8 MiB are hashed in full. A larger file counts with its size, its first and last blocks and 14 blocks
    between them (256 KiB each), since hashing terabytes would take longer than all else. Compressed video differs
    everywhere when it differs at all. The first or last block holds the index with the size of every frame.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = file_state(path)
        digest.update(state.size.to_bytes(8, "little"))
        for block in fingerprint_blocks(path, state):
            digest.update(block)
    return digest.hexdigest()


@functools.lru_cache(maxsize=256)
def hash_media_file(path: str, state: FileState) -> str:
    """Hash of one file, computed once per state of the file: many episodes may lie in it. Raises OSError."""
    return hash_media_files([path])


def probe_once(path: str) -> VideoInfo:
    """Probe a video, once for all the episodes in it. Raises SourceError when it is missing or cannot be read."""
    try:
        state = file_state(path)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError("video file is missing", path) from None
    except OSError as error:
        raise SourceError("video file cannot be read", f"{path}: {describe_os_error(error)}") from None
    return _probe_cached(path, state)


@functools.lru_cache(maxsize=512)
def _probe_cached(path: str, state: FileState) -> VideoInfo:
    return probe_video(path)


def whole_video(path: str, info: VideoInfo) -> MediaRef:
    """All frames of a video file, at the rate that the file has."""
    return MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=0.0,
        stop_seconds=info.num_frames / info.rate_hz,
        num_frames=info.num_frames,
        rate_hz=info.rate_hz,
    )


def add_missing_cameras(metadata: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """The metadata of an episode with the cameras that its source names and of which it has no pictures."""
    missing: list[Json] = [*dict.fromkeys(names)]
    return {**metadata, **({MISSING_CAMERAS: missing} if missing else {})}


def add_unread(metadata: Mapping[str, Json], reasons: Iterable[str]) -> dict[str, Json]:
    """The metadata of an episode with what its source promises and could not be read, each in words."""
    unread: list[Json] = [*dict.fromkeys(reasons)]
    return {**metadata, **({UNREAD: unread} if unread else {})}


def describe_camera(
    name: str,
    info: VideoInfo | ImageInfo,
    media: MediaRef,
    *,
    flags: tuple[str, ...] = (),
    role: Role | None = None,
) -> Camera:
    """Build a Camera from the size and codec of its images.

    Args:
        name: The camera's name.
        info: Width, height and codec.
        media: Where its frames are.
        flags: What is wrong with its pixels.
        role: Where it looks from; guessed from the name where None.
    """
    if isinstance(info, VideoInfo) and info.is_truncated:
        # An episode whose frames end before the cut has all of them.
        is_cut = media.stop_seconds > info.duration_seconds - 1.5 / info.rate_hz
        flags = (*flags, CUT_CAMERA) if is_cut else flags
    return Camera(
        name=name,
        role=role or guess_camera_role(name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=flags,
    )


_LABEL_SUFFIXES = (*TABLE_SUFFIXES, ".json", ".yaml", ".yml")
# A folder with more such files of one kind has one for each episode.
MOST_LABEL_FILES = 12


def find_label_files(source: Source) -> tuple[list[Path], list[Path]]:
    """Files of the folder of a dataset that may hold labels and that its reader does not read; none at a URL.

    The second list has those of which a folder holds too many of one kind to be read. Raises AresError where the
    dataset's files cannot be listed.
    """
    paths: list[Path] = []
    left: list[Path] = []
    dataset_files: frozenset[str] | None = None
    for documents in _find_documents(source.folder):
        dataset_files = _list_dataset_files(source) if dataset_files is None else dataset_files
        others = [path for path in documents if str(path) not in dataset_files]
        counts = Counter(path.suffix.lower() for path in others)
        for path in others:
            (paths if counts[path.suffix.lower()] <= MOST_LABEL_FILES else left).append(path)
    return sorted(paths), sorted(left)


def _list_dataset_files(source: Source) -> frozenset[str]:
    files = call_ingester_safely(source.format, lambda: list(source.files()), source.folder)
    return frozenset(file.path for file in files)


def _find_documents(folder: str) -> Iterator[list[Path]]:
    """The tables, JSON and YAML files of each folder in and below one that has any."""
    if not folder or not Path(folder).is_dir():
        return
    for parent, below, names in walk_folders(Path(folder)):
        below[:] = [name for name in below if not name.startswith(".")]
        seen = [name for name in names if not name.startswith(".")]
        if documents := [parent / name for name in seen if name.lower().endswith(_LABEL_SUFFIXES)]:
            yield documents
