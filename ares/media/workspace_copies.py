"""Copies of an episode's cameras as videos inside the workspace, so that the source is no longer needed."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import TOPIC_KINDS, Camera, MediaRef
from ares.errors import DiskFull, MediaError, SourceError
from ares.io import copy_file
from ares.media.frames import all_frames
from ares.media.mcap import copy_topic_packets, image_seconds
from ares.media.readers import image_file_seconds, read_video_frames
from ares.media.video import NotCopyable, VideoEncoding, encode_mp4, probe_video, trim_video

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEDIA_FOLDER = "media"
# Selected by measurement, see docs/why/007-media-copy.md.
_DEFAULT_CODEC = "h264"
_DEFAULT_ENCODING = VideoEncoding(
    "libx264", {"preset": "veryfast", "crf": "18", "sc_threshold": "0", "mbtree": "0"}
)
# For small sizes and sides of an uneven number of pixels, which H.264 would have to pad.
_ANY_SIZE_CODEC = "av1"
_ANY_SIZE_ENCODING = VideoEncoding(
    "libsvtav1", {"preset": "10", "crf": "20", "svtav1-params": "lp=1"}, even_size=False
)
_MIN_SIDE_PIXELS = 16
_ROUNDING_SECONDS = 3e-3
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_MAX_NAME_LENGTH = 80


def copy_cameras(workspace: Path, episode_id: str, cameras: tuple[Camera, ...]) -> tuple[Camera, ...]:
    """Copy the pixels of an episode into a workspace: videos by packets, images encoded once.

    The files appear in media/<first 2 digits>/<episode_id>/ when all of them are complete. They replace what an
    earlier run left there.

    Returns:
        The cameras that refer to their copies, with uris relative to the workspace and byte_size the size of the file.

    Raises:
        MediaError: A camera cannot be read; no file is left behind.
        DiskFull: The disk is full.
    """
    if not cameras:
        return cameras
    location = f"{MEDIA_FOLDER}/{episode_id[:2]}/{episode_id}"
    folder, partial = workspace / location, workspace / f"{location}.tmp"
    with _translate_copy_errors(folder):
        for old_folder in (partial, folder):
            shutil.rmtree(old_folder, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            copies = [_copy_camera(camera, partial / _file_name(camera.name)) for camera in cameras]
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return tuple(_relative_to_workspace(camera, location) for camera in copies)


def _relative_to_workspace(camera: Camera, location: str) -> Camera:
    """The camera with its uri relative to the workspace."""
    return replace(camera, media=replace(camera.media, uri=f"{location}/{Path(camera.media.uri).name}"))


@contextmanager
def _translate_copy_errors(folder: Path) -> Iterator[None]:
    """Turn errors of writing into DiskFull or MediaError."""
    import av

    try:
        yield
    except (OSError, av.FFmpegError) as error:
        if getattr(error, "errno", None) in _DISK_FULL_ERRNOS:
            raise DiskFull("the disk is full", f"no room left for {folder}") from None
        raise MediaError("camera cannot be copied", f"to {folder}: {error}") from None


def _file_name(camera: str) -> str:
    """A name without suffix that every file system allows; different for different cameras."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", camera)[:_MAX_NAME_LENGTH]
    if plain == camera != "":
        return plain
    return f"{plain}-{hashlib.blake2b(camera.encode(), digest_size=4).hexdigest()}"


def _copy_camera(camera: Camera, stem: Path) -> Camera:
    """Copy a camera to a file of its own: the whole file, a span by packets, or encoded anew."""
    ref, codec = camera.media, camera.codec
    if ref.kind != "mp4":
        copied_ref, codec = _encode_camera(camera, stem.with_suffix(".mp4"))
    elif _is_entire_file(ref):
        path = stem.with_suffix(Path(ref.uri).suffix.lower() or ".mp4")
        copy_file(ref.uri, path)
        copied_ref = replace(ref, uri=str(path))
    else:
        try:
            copied_ref = trim_video(ref, stem.with_suffix(".mp4"))
        except NotCopyable:
            copied_ref, codec = _encode_camera(camera, stem.with_suffix(".mp4"))
    byte_size = Path(copied_ref.uri).stat().st_size
    return replace(camera, codec=codec, media=replace(copied_ref, byte_size=byte_size))


def _is_entire_file(ref: MediaRef) -> bool:
    """Whether a reference covers all of a video file. Raises MediaError when the file cannot be read."""
    try:
        return ref.start_seconds == 0.0 and ref.num_frames == probe_video(ref.uri).num_frames
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _constant_rate_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame; of a video, whose frames may be spaced unevenly, the frame shown at each step."""
    if ref.kind == "mp4" and ref.channels == "rgb":
        return read_video_frames(ref, [number / ref.rate_hz for number in range(ref.num_frames)])
    return all_frames(ref)


def _encode_camera(camera: Camera, path: Path) -> tuple[MediaRef, str]:
    """Write a camera as an mp4 and return the copy and its codec; a video topic is copied by packets if possible."""
    ref = camera.media
    seconds = image_seconds(ref) if ref.kind in TOPIC_KINDS else None
    if seconds is not None:
        with suppress(NotCopyable):
            return _copied_reference(ref, path, copy_topic_packets(ref, path)), camera.codec
    if ref.kind == "images":
        seconds = image_file_seconds(ref)
    codec, encoding = _encoding_for(camera)
    written = encode_mp4(_constant_rate_frames(ref), path, ref.rate_hz, encoding, seconds)
    if written != ref.num_frames:
        raise MediaError(
            "the source has fewer frames than it should", f"{ref.uri}: {written}, not {ref.num_frames}"
        )
    return _copied_reference(ref, path, seconds), codec


def _encoding_for(camera: Camera) -> tuple[str, VideoEncoding]:
    """Codec and settings for the size of a camera."""
    has_even_sides = camera.width % 2 == camera.height % 2 == 0
    if has_even_sides and min(camera.width, camera.height) >= _MIN_SIDE_PIXELS:
        return _DEFAULT_CODEC, _DEFAULT_ENCODING
    return _ANY_SIZE_CODEC, _ANY_SIZE_ENCODING


def _copied_reference(ref: MediaRef, path: Path, seconds: list[float] | None) -> MediaRef:
    """The reference to a span that has been copied to a file of its own.

    Args:
        ref: The span in the source.
        path: The file.
        seconds: When each frame of the file is shown, in seconds of the episode; below 0 before the span.
    """
    length, count = ref.num_frames / ref.rate_hz, ref.num_frames
    if seconds is not None:
        # The span must reach its last frame, also for a camera that started after the episode.
        length = max(length, (seconds[-1] + _ROUNDING_SECONDS) * count / (count - 0.5))
    start = -seconds[0] if seconds else 0.0
    return MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=start,
        stop_seconds=start + length,
        num_frames=count,
        rate_hz=count / length if seconds is not None else ref.rate_hz,
    )
