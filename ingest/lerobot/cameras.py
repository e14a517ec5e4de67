"""Cameras of a LeRobot episode: its span of a shared video, a video of its own, or images in the data file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ares.episode import Camera, MediaRef
from ares.errors import MediaError, SourceError
from ares.formats import video_columns
from ares.input import ImageInfo, parse_image_header
from ares.media import frozen_camera_flags
from ares.media.readers import read_column_images
from ares.media.video import VideoInfo
from ingest.lerobot.feature_map import CameraFeature
from ingest.lerobot.metadata import as_count
from ingest.lerobot.values import EpisodeRows
from ingest.media_files import describe_camera, probe_once

# info.json and the video may round the rate differently.
_RATE_TOLERANCE = 0.01
# Codec by the encoder name or fourcc code that info.json may give in its place.
_CODEC_BY_ENCODER = {
    "libsvtav1": "av1",
    "libaom-av1": "av1",
    "av01": "av1",
    "libx264": "h264",
    "avc1": "h264",
    "libx265": "hevc",
    "h265": "hevc",
    "hvc1": "hevc",
    "mp4v": "mpeg4",
}


class VideoSpan(NamedTuple):
    """Part of a video that is one episode.

    Attributes:
        path: The video.
        start_seconds: Second of the video at which the episode begins.
        stop_seconds: Its end, half open; None for the end of the video.
    """

    path: str
    start_seconds: float = 0.0
    stop_seconds: float | None = None


def video_span(template: str, root: str, feature: CameraFeature, row: Mapping[str, Any]) -> VideoSpan | None:
    """Where the metadata of a v3.0 dataset places an episode's video; None when it names no file for the camera."""
    columns = video_columns(feature.key)
    chunk, file = as_count(row.get(columns.chunk_index)), as_count(row.get(columns.file_index))
    if chunk is None or file is None:
        return None
    start = _finite_seconds(row.get(columns.from_timestamp))
    stop = _finite_seconds(row.get(columns.to_timestamp))
    path = template.format(video_key=feature.key, chunk_index=chunk, file_index=file)
    return VideoSpan(f"{root}/{path}", start or 0.0, stop)


def _finite_seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def video_cameras(
    spans: Mapping[CameraFeature, VideoSpan | None],
    steps: int,
    fps: float,
    rate_hz: float,
    warnings: list[str],
) -> Iterator[Camera]:
    """Yield the cameras whose videos can be used.

    Args:
        spans: Video span of each camera; None where the metadata names no video.
        steps: Steps of the episode, or 0 when they are not known yet.
        fps: Frames per second of the dataset.
        rate_hz: Steps per second, which differ from fps when the user set another rate.
        warnings: Receives the reason for each camera that is left out, and other warnings.
    """
    for feature, span in spans.items():
        if span is None:
            warnings.append(f"camera {feature.name} left out: the metadata names no video")
            continue
        try:
            info = probe_once(span.path)
            camera = _make_camera(feature, span, info, fps, rate_hz)
        except SourceError as error:
            warnings.append(f"camera {feature.name} left out: {error.reason}")
            continue
        warnings.extend(_camera_warnings(feature, span, info, camera, steps, fps))
        yield camera


def _make_camera(
    feature: CameraFeature, span: VideoSpan, info: VideoInfo, fps: float, rate_hz: float
) -> Camera:
    path, start, stop = span
    video_rate_hz = fps if _has_dataset_rate(info, fps) else info.rate_hz
    video_seconds = info.num_frames / video_rate_hz
    end = video_seconds if stop is None else min(stop, video_seconds)
    num_frames = round((end - start) * video_rate_hz) if 0 <= start < end else 0
    if not num_frames:
        raise SourceError(
            "its span lies outside the video", f"{path}: {start:g} to {stop} s of {video_seconds:g} s"
        )
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=start,
        stop_seconds=end,
        num_frames=num_frames,
        rate_hz=video_rate_hz * rate_hz / fps,
    )
    flags = frozen_camera_flags(media, info.inactive_spans, round(start * video_rate_hz))
    return describe_camera(feature.name, info, media, flags=flags)


def _camera_warnings(
    feature: CameraFeature, span: VideoSpan, info: VideoInfo, camera: Camera, steps: int, fps: float
) -> Iterator[str]:
    declared_codec = feature.codec.lower()
    if declared_codec and _CODEC_BY_ENCODER.get(declared_codec, declared_codec) != info.codec:
        yield f"camera {feature.name} is {info.codec}, not {feature.codec} as info.json says"
    if feature.size and feature.size != (info.width, info.height):
        yield f"camera {feature.name} is not of the size that info.json says"
    if not _has_dataset_rate(info, fps):
        yield f"camera {feature.name} has not the fps of info.json"
    elif span.stop_seconds is not None and span.stop_seconds * fps > info.num_frames + 0.5:
        yield f"the span of camera {feature.name} goes past the end of its video"
    elif steps and abs(camera.media.num_frames - steps) >= 1:
        yield f"camera {feature.name} has not one frame for each step"


def _has_dataset_rate(info: VideoInfo, fps: float) -> bool:
    return abs(info.rate_hz - fps) <= _RATE_TOLERANCE * fps or info.num_frames == 1


def image_cameras(
    features: Sequence[CameraFeature], path: str, rows: EpisodeRows, rate_hz: float, warnings: list[str]
) -> Iterator[Camera]:
    """Yield the cameras whose images can be used.

    Args:
        features: Columns of images.
        path: The data file.
        rows: The episode's rows in it.
        rate_hz: Steps per second.
        warnings: Receives the reason for each camera that is left out, and other warnings.
    """
    for feature in features:
        media = MediaRef(
            kind="parquet",
            uri=path,
            start_seconds=rows.first_row / rate_hz,
            stop_seconds=(rows.first_row + rows.count) / rate_hz,
            num_frames=rows.count,
            rate_hz=rate_hz,
            key=feature.key,
        )
        try:
            info = _first_image_info(media)
        except (MediaError, SourceError) as error:
            warnings.append(f"camera {feature.name} left out: {error.reason}")
            continue
        if feature.size and feature.size != (info.width, info.height):
            warnings.append(f"camera {feature.name} is not of the size that info.json says")
        yield describe_camera(feature.name, info, media)


def _first_image_info(media: MediaRef) -> ImageInfo:
    """Size and codec of the first image. Raises MediaError or SourceError when it is no colour JPEG or PNG."""
    data = next(read_column_images(media, [0]))
    info = parse_image_header(data)
    if info is None:
        raise SourceError("its images are neither JPEG nor PNG", f"{media.key} of {media.uri}")
    if info.codec == "png" and data[24:25] == b"\x10":
        raise SourceError("it holds depth, not colour", f"{media.key} of {media.uri}")
    return info
