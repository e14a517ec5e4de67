"""Reads one episode of a folder of videos as a record: its cameras, its steps and its rate."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Camera, Episode, MediaRef, Record, Trajectory
from ares.errors import SourceError
from ares.io import file_state
from ares.media import frozen_camera_flags
from ares.media.video import VideoInfo
from ingest.media_files import describe_camera, hash_media_file, hash_media_files, probe_once
from ingest.names import distinct_texts
from ingest.video.listing import VideoClip
from ingest.video.tables import read_sidecar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "video"

_ROUNDING_SECONDS = 2e-3


def load_clip(clip: VideoClip, dataset: str, episode_id: str, user_rate_hz: float | None) -> Record:
    """Read an episode from its video files, without decoding them. Raises SourceError for a file that cannot be used.

    Args:
        clip: The videos of the episode.
        dataset: Name of the dataset.
        episode_id: Id of the episode.
        user_rate_hz: Frames per second to assume instead of the file's own rate, or None. Then one second of the
            episode is not one second of the file.
    """
    clip = _with_sidecar(clip)
    infos = {camera: probe_once(path) for camera, path in clip.videos.items()}
    spans = {camera: _find_span(info, clip, clip.videos[camera]) for camera, info in infos.items()}
    (first_path, *_), (span, *_) = clip.videos.values(), spans.values()
    speed = 1.0 if user_rate_hz is None else user_rate_hz / span.rate_hz
    cameras = tuple(
        _build_camera(name, clip.videos[name], info, spans[name], speed) for name, info in infos.items()
    )
    instructions = distinct_texts([clip.instruction])
    episode = Episode(
        episode_id=episode_id,
        format=FORMAT,
        dataset=dataset,
        version="",
        split=clip.split,
        key=clip.key,
        source=first_path,
        content_hash=_hash_clip(clip),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=clip.robot,
        num_steps=len(span.seconds),
        rate_hz=user_rate_hz or span.rate_hz,
        rate_source="user" if user_rate_hz else "source" if span.is_even else "measured",
        cameras=cameras,
        success=clip.success,
        success_source=clip.success_source,
        metadata=clip.metadata,
    )
    trajectory = Trajectory(timestamps=span.seconds / speed)
    warnings = (*clip.warnings, *_clip_warnings(clip, cameras, infos, span))
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(warnings)))


class _VideoSpan(NamedTuple):
    """The span of a video that is an episode.

    Attributes:
        start: Time of its first frame, in seconds of the file.
        stop: End of its last frame, in seconds of the file, exclusive.
        rate_hz: Frames per second of the span.
        seconds: Time of each frame after the first one, (T,) float64.
        is_even: Whether the frames have the constant rate that the file states.
    """

    start: float
    stop: float
    rate_hz: float
    seconds: NDArray[np.float64]
    is_even: bool


def _find_span(info: VideoInfo, clip: VideoClip, path: str) -> _VideoSpan:
    """The frames that start at most half a step before the span, so that adjacent spans share none."""
    import numpy as np

    count, rate = info.num_frames, info.rate_hz
    steps = np.arange(count, dtype=np.float64) / rate if info.seconds is None else info.seconds
    first, stop = 0, count
    if clip.start_seconds is not None and clip.stop_seconds is not None:
        limits = np.array([clip.start_seconds, clip.stop_seconds]) - 0.5 / rate
        first, stop = (int(number) for number in np.searchsorted(steps, limits))
    if first >= stop:
        description = f"{clip.start_seconds:g} to {clip.stop_seconds:g} s of {info.duration_seconds:g} s"
        raise SourceError("span is not in the video", f"{path}: {description}")
    seconds = steps[first:stop] - steps[first]
    if info.seconds is None:
        return _VideoSpan(first / rate, stop / rate, rate, seconds, True)
    if seconds[-1] > 0:
        rate = (len(seconds) - 1) / float(seconds[-1])
    start = float(steps[first])
    next_start = float(steps[stop]) if stop < count else math.inf
    return _VideoSpan(start, min(next_start, start + len(seconds) / rate), rate, seconds, False)


def _with_sidecar(clip: VideoClip) -> VideoClip:
    """The episode with the values of its JSON file; values of a table have priority. Raises SourceError."""
    if not clip.sidecar:
        return clip
    row, document = read_sidecar(clip.sidecar)
    metadata = {**(row.metadata if row else document), **clip.metadata}
    if row is None:
        return replace(clip, metadata=metadata)
    use_row = clip.success is None
    return replace(
        clip,
        split=clip.split or row.split,
        instruction=clip.instruction or row.instruction,
        success=row.success if use_row else clip.success,
        success_source=row.success_source if use_row else clip.success_source,
        robot=clip.robot or row.robot,
        fps=clip.fps or row.fps,
        metadata={**metadata, "episode": row.episode} if row.episode else metadata,
        warnings=(*clip.warnings, *row.warnings),
    )


def _hash_clip(clip: VideoClip) -> str:
    """Hash of the videos, and of the span, so that two spans of one video differ."""
    if clip.start_seconds is None or clip.stop_seconds is None:
        return hash_media_files(clip.videos.values())
    file_hashes = [hash_media_file(path, file_state(path)) for path in clip.videos.values()]
    text = f"{' '.join(file_hashes)} {clip.start_seconds!r} {clip.stop_seconds!r}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _build_camera(name: str, path: str, info: VideoInfo, span: _VideoSpan, speed: float) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=span.start,
        stop_seconds=span.stop,
        num_frames=len(span.seconds),
        rate_hz=span.rate_hz * speed,
    )
    return describe_camera(name, info, media, flags=frozen_camera_flags(media, info.inactive_spans, 0))


def _clip_warnings(
    clip: VideoClip, cameras: tuple[Camera, ...], infos: Mapping[str, VideoInfo], span: _VideoSpan
) -> Iterator[str]:
    first, *_ = infos.values()
    if clip.fps is not None and abs(clip.fps - first.rate_hz) > 0.01 * first.rate_hz:
        yield "stated fps differs from that of the video"
    lengths = [camera.media.num_frames / camera.media.rate_hz for camera in cameras]
    if max(lengths) - min(lengths) > 1.001 / min(camera.media.rate_hz for camera in cameras):
        yield "cameras differ in length"
    if first.seconds is not None and _has_variable_rate(span.seconds):
        yield "variable frame rate"
    if any(info.is_truncated for info in infos.values()):
        yield "video ends before its container says"
    if not all(info.square_pixels for info in infos.values()):
        yield "pixels are not square"
    shortest = min(info.duration_seconds + 1 / info.rate_hz for info in infos.values())
    if clip.stop_seconds is not None and clip.stop_seconds > shortest:
        yield "span goes past the end of its video"


def _has_variable_rate(seconds: NDArray[np.float64]) -> bool:
    """Whether intervals differ by more than a tenth of the median, and by more than containers round."""
    import numpy as np

    if len(seconds) < 3:
        return False
    steps = np.diff(seconds)
    median = float(np.median(steps))
    return float(np.abs(steps - median).max()) > max(0.1 * median, _ROUNDING_SECONDS)
