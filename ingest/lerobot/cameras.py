"""Cameras of a LeRobot episode: its span of a shared video, a video for it alone, or images in the data file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.episode import Camera, Json, MediaRef, NotRead
from ares.errors import MediaError, SourceError
from ares.formats import CONTENT_HASH_COLUMN, ROWS_HASH_COLUMN, hash_written_episode, video_columns
from ares.input import ImageInfo, parse_image_header
from ares.media import HOLDS_DEPTH, VideoInfo, frozen_camera_flags, read_parquet_images
from ares_ingest.files import describe_camera, probe_once
from ares_ingest.lerobot.feature_map import CameraFeature
from ares_ingest.lerobot.file_contents import DatasetFileContents
from ares_ingest.lerobot.metadata import LeRobotInfo, PathRole, parse_count
from ares_ingest.lerobot.rows import EpisodeRows, file_state_or_none

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# info.json and the video may round the rate differently.
_RATE_TOLERANCE = 0.01
# Why a video is another than the metadata says.
_BY_NUMBER = "its video was found by the number in its name"
# Why a camera of an episode is left out.
BEHIND_VIDEO = "its span ends behind its video: correct from_timestamp"
OTHER_NUMBERS = "its videos have not the numbers of the episodes: rename them"


class VideoSpan(NamedTuple):
    """Part of a video that is one episode.

    Attributes:
        path: The video.
        start_seconds: Second of the video at which the episode begins.
        stop_seconds: Its end by the metadata, half open; None where it says none.
        is_whole: Whether the video is of this episode alone.
    """

    path: str
    start_seconds: float = 0.0
    stop_seconds: float | None = None
    is_whole: bool = False


def read_claimed_video_span(
    info: LeRobotInfo, feature: CameraFeature, episode: int, row: Mapping[str, Any]
) -> VideoSpan | None:
    """Where info.json and the list of episodes place an episode's video; None when they name no file."""
    template = info.video_path
    if template.has("episode"):
        values: dict[PathRole, int | str] = {
            "episode": episode,
            "chunk": episode // info.chunk_size,
            "camera": feature.key,
        }
        return VideoSpan(f"{info.root}/{template.fill(values)}", is_whole=True)
    columns = video_columns(feature.key)
    chunk, file = parse_count(row.get(columns.chunk_index)), parse_count(row.get(columns.file_index))
    if chunk is None or file is None:
        return None
    start = _finite_seconds(row.get(columns.from_timestamp))
    stop = _finite_seconds(row.get(columns.to_timestamp))
    path = template.fill({"chunk": chunk, "file": file, "camera": feature.key})
    return VideoSpan(f"{info.root}/{path}", start or 0.0, stop)


def _finite_seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSearch:
    """What is known of an episode when its videos are looked for.

    Attributes:
        info: The dataset.
        evidence: What the files of the dataset hold.
        episode: Number of the episode.
        row: Its entry in the list of episodes.
        first_frame: Frames of its videos before its first step, whose rows are missing.
        steps: Frames from the beginning of its videos to its last step, or 0 when they are not known yet.
        fps: Frames per second of the dataset.
        rate_hz: Steps per second, which differ from fps when the user set another rate.
        contradicted: Why the metadata about a camera cannot be right, by the camera's key.
    """

    info: LeRobotInfo
    evidence: DatasetFileContents
    episode: int
    row: Mapping[str, Any]
    first_frame: int
    steps: int
    fps: float
    rate_hz: float
    contradicted: Mapping[str, str]


def video_cameras(
    features: Sequence[CameraFeature], search: VideoSearch, warnings: list[str], depth: dict[str, Json]
) -> Iterator[Camera]:
    """Yield the cameras whose videos can be used.

    Args:
        features: The cameras.
        search: What is known of the episode.
        warnings: Receives the reason for each camera that is left out, and other warnings.
        depth: Receives where the depth of each camera is, and its range and unit: it is no camera.
    """
    for feature in features:
        try:
            span, reason = find_video_span(feature, search)
            if _holds_depth(feature, span):
                depth[feature.name] = _describe_depth(feature, span)
                warnings.append(f"camera {feature.name} left out: {HOLDS_DEPTH}")
                continue
            info = probe_once(span.path)
            camera = _make_camera(feature, span, info, search)
        except SourceError as error:
            warnings.append(NotRead(f"camera {feature.name} left out: {error.reason}", feature.key))
            continue
        if reason:
            warnings.append(f"camera {feature.name} is not where the metadata says: {reason}")
        warnings.extend(_camera_warnings(feature, span, info, camera, search))
        yield camera


def _holds_depth(feature: CameraFeature, span: VideoSpan) -> bool:
    """Whether a video is depth, by info.json or by its pixels. Raises SourceError for one that cannot be read."""
    try:
        probe_once(span.path)
    except SourceError as error:
        if error.reason == HOLDS_DEPTH:
            return True
        raise
    return feature.is_depth


def _describe_depth(feature: CameraFeature, span: VideoSpan) -> dict[str, Json]:
    """Where the depth of an episode is, and what info.json says of it."""
    facts = {
        name: value for name, value in feature.info.items() if isinstance(value, str | bool | int | float)
    }
    return {
        **facts,
        "path": span.path,
        "start_seconds": span.start_seconds,
        "stop_seconds": span.stop_seconds,
    }


def find_video_span(feature: CameraFeature, search: VideoSearch) -> tuple[VideoSpan, str]:
    """The span of the metadata, or the video that has the number of the episode, with the reason for it.

    Raises SourceError where the metadata names none, or cannot be right.
    """
    claim = read_claimed_video_span(search.info, feature, search.episode, search.row)
    contradiction = search.contradicted.get(feature.key)
    where = f"{search.info.root}: episode {search.episode}"
    if contradiction:
        raise SourceError(contradiction, where)
    if claim is None:
        raise SourceError("the metadata names no video", where)
    if _fits_video(claim, search):
        return claim, ""
    if claim.is_whole:
        path = search.evidence.video_of_episode(feature.key, search.episode)
        return (VideoSpan(path, is_whole=True), _BY_NUMBER) if path else (claim, "")
    if claim.start_seconds > 0 and file_state_or_none(claim.path) is not None:
        # Its first frame may be another's as well as its last one may be missing.
        raise SourceError(
            BEHIND_VIDEO, f"{claim.path}: from {claim.start_seconds:g} s, {count_of(search.steps, 'step')}"
        )
    return claim, ""


def _fits_video(claim: VideoSpan, search: VideoSearch) -> bool:
    """Whether a video is there and goes on until the end of the episode; a damaged one does."""
    if claim.is_whole:
        return file_state_or_none(claim.path) is not None
    try:
        info = probe_once(claim.path)
    except SourceError:
        return file_state_or_none(claim.path) is not None
    rate_hz = search.fps if _has_dataset_rate(info, search.fps) else info.rate_hz
    end = claim.start_seconds + search.steps / search.fps
    return claim.start_seconds >= 0 and end <= (info.num_frames + 0.5) / rate_hz


def _make_camera(feature: CameraFeature, span: VideoSpan, info: VideoInfo, search: VideoSearch) -> Camera:
    fps, start = search.fps, span.start_seconds + search.first_frame / search.fps
    video_rate_hz = fps if _has_dataset_rate(info, fps) else info.rate_hz
    video_seconds = info.num_frames / video_rate_hz
    stop = None if span.is_whole else _stop_seconds(span, search)
    end = video_seconds if stop is None else min(stop, video_seconds)
    num_frames = round((end - start) * video_rate_hz) if 0 <= start < end else 0
    if not num_frames:
        raise SourceError(
            "its span lies outside the video", f"{span.path}: {start:g} to {stop} s of {video_seconds:g} s"
        )
    media = MediaRef(
        kind="mp4",
        uri=span.path,
        start_seconds=start,
        stop_seconds=end,
        num_frames=num_frames,
        rate_hz=video_rate_hz * search.rate_hz / fps,
    )
    flags = frozen_camera_flags(media, info.inactive_spans, round(start * video_rate_hz))
    return describe_camera(feature.name, info, media, flags=flags)


def _stop_seconds(span: VideoSpan, search: VideoSearch) -> float | None:
    """End of an episode in a shared video: by its steps, as LeRobot reads it, else by the metadata."""
    if not search.steps:
        return span.stop_seconds
    stop = span.start_seconds + search.steps / search.fps
    claimed = span.stop_seconds
    return claimed if claimed is not None and abs(claimed - stop) < 0.5 / search.fps else stop


def _camera_warnings(
    feature: CameraFeature, span: VideoSpan, info: VideoInfo, camera: Camera, search: VideoSearch
) -> Iterator[str]:
    fps = search.fps
    if feature.size and feature.size != (info.width, info.height):
        yield f"camera {feature.name} is not of the size that info.json says"
    if span.stop_seconds is not None and _stop_seconds(span, search) != span.stop_seconds:
        yield f"to_timestamp of camera {feature.name} is not where its steps end: the steps are used"
    if not _has_dataset_rate(info, fps):
        yield f"camera {feature.name} has not the fps of info.json"


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
            warnings.append(NotRead(f"camera {feature.name} left out: {error.reason}", feature.key))
            continue
        if feature.size and feature.size != (info.width, info.height):
            warnings.append(f"camera {feature.name} is not of the size that info.json says")
        yield describe_camera(feature.name, info, media)


def _first_image_info(media: MediaRef) -> ImageInfo:
    """Size and codec of the first image. Raises MediaError or SourceError when it is no colour JPEG or PNG."""
    data = next(read_parquet_images(media, [0]))
    info = parse_image_header(data)
    if info is None:
        raise SourceError("its images are neither JPEG nor PNG", f"{media.key} of {media.uri}")
    if info.codec == "png" and data[24:25] == b"\x10":
        raise SourceError(HOLDS_DEPTH, f"{media.key} of {media.uri}")
    return info


def packet_sizes(camera: Camera) -> NDArray[np.int32]:
    """(frames,) bytes of the packets of a camera's span of its video; (0,) for images in the data file."""
    import numpy as np

    media = camera.media
    sizes = probe_once(media.uri).packet_sizes if media.kind == "mp4" else None
    if sizes is None:
        return np.empty(0, np.int32)
    rate_hz = media.num_frames / (media.stop_seconds - media.start_seconds)
    first = round(media.start_seconds * rate_hz)
    return sizes[first : first + media.num_frames]


def take_stated_hash(
    row: Mapping[str, Any], rows: EpisodeRows, cameras: Sequence[Camera], computed: tuple[str, str]
) -> tuple[str, str]:
    """The content hash of an episode and another one that may be stored for it.

    An export of ARES names the hash of the episode that it was made from. It counts where rows and videos are those
    that were written with it; then the hash of the rows is the other one.

    Args:
        row: The entry of the episode in the list of episodes.
        rows: Its rows.
        cameras: Its cameras.
        computed: Hash of the rows and videos, and the one of earlier versions.
    """
    stated, written = row.get(CONTENT_HASH_COLUMN), row.get(ROWS_HASH_COLUMN)
    if not (isinstance(stated, str) and stated and written):
        return computed
    sizes = {camera.name: packet_sizes(camera) for camera in cameras}
    return (stated, computed[0]) if hash_written_episode(rows.numbers, sizes) == written else computed
