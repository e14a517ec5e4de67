"""Cameras of an HDF5 episode whose frames are in a video beside the file."""

from __future__ import annotations

from ares.episode import Camera, MediaRef, Role
from ares.errors import SourceError
from ares.media import frozen_camera_flags
from ares.media.video import VideoInfo, probe_video
from ingest.hdf5.reader import HDF5EpisodeReader
from ingest.media_files import describe_camera, hash_media_files

# A video about as long as the episode keeps its own rate; any other has one frame per step.
_LENGTH_TOLERANCE = 0.05


def video_camera(
    name: str, role: Role, path: str, reader: HDF5EpisodeReader, hash_label: str = ""
) -> Camera | None:
    """The camera of a video; None, and a warning, when the video cannot be read.

    Args:
        name: The camera's name.
        role: Where it looks from.
        path: Path of the video.
        reader: Reader of the episode, which hashes the video and collects the warnings.
        hash_label: Label of the video in the content hash; the name where it is "".
    """
    try:
        info = probe_video(path)
    except SourceError as error:
        reader.warnings.append(f"camera {name} is not stored ({error.reason})")
        return None
    reader.add_to_hash(hash_label or name, hash_media_files([path]).encode())
    return _describe(name, role, path, info, reader)


def _describe(name: str, role: Role, path: str, info: VideoInfo, reader: HDF5EpisodeReader) -> Camera:
    rate_hz, length = reader.rate_hz, reader.steps / reader.rate_hz
    is_of_equal_length = abs(info.duration_seconds - length) <= _LENGTH_TOLERANCE * length
    if info.num_frames != reader.steps and is_of_equal_length:
        rate_hz = info.rate_hz
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=0.0,
        stop_seconds=info.duration_seconds,
        num_frames=info.num_frames,
        rate_hz=rate_hz,
    )
    flags = frozen_camera_flags(media, info.inactive_spans, 0)
    return describe_camera(name, info, media, flags=flags, role=role)
