"""Copy: the cameras of an episode as videos inside the workspace, so that it needs its source no more."""

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

from ares import files
from ares.episode import Camera
from ares.errors import DiskFull, MediaError, SourceError
from ares.media import mcap, mp4
from ares.media.encode import Encoding, encode_mp4
from ares.media.frames import all_frames
from ares.media.mcap_copy import copy_packets
from ares.media.packets import NotCopyable
from ares.media.probe import probe
from ares.media.ref import MediaRef
from ares.media.trim import trim

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEDIA = "media"
# Chosen by measurement: docs/why/007-media-copy.md. The second is for odd sizes, which H.264 would have to pad.
_EVEN = ("h264", Encoding("libx264", {"preset": "veryfast", "crf": "18", "sc_threshold": "0", "mbtree": "0"}))
_ODD = ("av1", Encoding("libsvtav1", {"preset": "10", "crf": "20", "svtav1-params": "lp=1"}, even=False))
_SMALLEST = 16
_ROUNDING_SECONDS = 3e-3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_NAME = 80


def copy_cameras(workspace: Path, episode_id: str, cameras: tuple[Camera, ...]) -> tuple[Camera, ...]:
    """Copy the pixels of an episode into a workspace: packets of videos, images encoded once.

    The files stand in media/<first 2 digits>/<episode_id>/ when all of them are whole, not before. What an
    earlier run left there is replaced.

    Returns:
        The cameras on their copies, with uris relative to the workspace and byte_size the size of the file.

    Raises:
        MediaError: A camera cannot be read; nothing is left behind.
        DiskFull: There is no room left.
    """
    if not cameras:
        return cameras
    place = f"{MEDIA}/{episode_id[:2]}/{episode_id}"
    folder, partial = workspace / place, workspace / f"{place}.tmp"
    with _room(folder):
        for left in (partial, folder):
            shutil.rmtree(left, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            made = [_copy(camera, partial / _file_name(camera.name)) for camera in cameras]
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return tuple(_inside(camera, place) for camera in made)


def _inside(camera: Camera, place: str) -> Camera:
    """The camera with its uri relative to the workspace."""
    return replace(camera, media=replace(camera.media, uri=f"{place}/{Path(camera.media.uri).name}"))


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """Tell a full disk from a camera that cannot be copied."""
    import av

    try:
        yield
    except (OSError, av.FFmpegError) as error:
        if getattr(error, "errno", None) in _FULL:
            raise DiskFull("the disk is full", f"no room left for {folder}") from None
        raise MediaError("camera cannot be copied", f"to {folder}: {error}") from None


def _file_name(camera: str) -> str:
    """A name that any file system takes, without its ending; different for different cameras."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", camera)[:_LONGEST_NAME]
    return (
        plain
        if plain == camera != ""
        else f"{plain}-{hashlib.blake2b(camera.encode(), digest_size=4).hexdigest()}"
    )


def _copy(camera: Camera, stem: Path) -> Camera:
    ref, codec = camera.media, camera.codec
    if ref.kind != "mp4":
        made, codec = _encoded(camera, stem.with_suffix(".mp4"))
    elif _is_whole(ref):
        path = stem.with_suffix(Path(ref.uri).suffix.lower() or ".mp4")
        files.copy(ref.uri, path)
        made = replace(ref, uri=str(path))
    else:
        try:
            made = trim(ref, stem.with_suffix(".mp4"))
        except NotCopyable:
            made, codec = _encoded(camera, stem.with_suffix(".mp4"))
    return replace(camera, codec=codec, media=replace(made, byte_size=Path(made.uri).stat().st_size))


def _is_whole(ref: MediaRef) -> bool:
    """Whether a reference is all of a video file. Raises MediaError when it cannot be read."""
    try:
        return ref.start_seconds == 0.0 and ref.num_frames == probe(ref.uri).num_frames
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Every frame; of a video whose frames may come at uneven times, the one shown at each step."""
    if ref.kind == "mp4" and ref.channels == "rgb":
        return mp4.frames(ref, [number / ref.rate_hz for number in range(ref.num_frames)])
    return all_frames(ref)


def _encoded(camera: Camera, path: Path) -> tuple[MediaRef, str]:
    ref = camera.media
    odd = camera.width % 2 or camera.height % 2 or min(camera.width, camera.height) < _SMALLEST
    codec, encoding = _ODD if odd else _EVEN
    seconds = mcap.seconds_of(ref) if ref.kind == "mcap" else None
    if seconds is not None:
        with suppress(NotCopyable):
            return _told(ref, path, copy_packets(ref, path)), camera.codec
    written = encode_mp4(_frames(ref), path, ref.rate_hz, encoding, seconds)
    if written != ref.num_frames:
        raise MediaError(
            "the source has fewer frames than it should", f"{ref.uri}: {written}, not {ref.num_frames}"
        )
    return _told(ref, path, seconds), codec


def _told(ref: MediaRef, path: Path, seconds: list[float] | None) -> MediaRef:
    """All of a span in a file of its own.

    Args:
        ref: Where it is in the source.
        path: The file.
        seconds: When each frame of the file is shown, in seconds of the episode; below 0 before the span.
    """
    length, count = ref.num_frames / ref.rate_hz, ref.num_frames
    if seconds is not None:
        # The span must reach to its last frame, also of a camera that began after the episode did.
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
