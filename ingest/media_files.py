"""Hashes, cached probes and camera descriptions of the media files that episodes refer to."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ares.episode import Camera, MediaRef, Role
from ares.errors import SourceError
from ares.io import FileState, file_state
from ares.media import fingerprint_blocks
from ares.media.video import VideoInfo, probe_video
from ingest.names import camera_role

if TYPE_CHECKING:
    from ares.input import ImageInfo


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
    except OSError:
        raise SourceError("video file is missing", path) from None
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
    return Camera(
        name=name,
        role=role or camera_role(name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=flags,
    )
