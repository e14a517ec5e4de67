"""One episode of a folder of videos made into a record: its cameras, its length and its rate."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ares import files
from ares.episode import Camera, Episode, Record, Trajectory
from ares.errors import SourceError
from ares.files import State
from ares.media import stamp
from ares.media.probe import VideoInfo, probe
from ares.media.ref import MediaRef
from ares.media.still import still_flags
from ingest.roles import camera_role, distinct
from ingest.video_files import Clip
from ingest.video_tables import note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "video"

_ROUNDING_SECONDS = 2e-3


def load_clip(clip: Clip, dataset: str, episode_id: str, user_rate_hz: float | None) -> Record:
    """Look at the videos of an episode, without decoding any. Raises SourceError for one that cannot be used.

    With a rate given by the user the frames are taken to be that many a second, whatever the file says, so a
    second of the episode is not a second of the file.
    """
    clip = _with_note(clip)
    looked = {camera: _looked_at(path) for camera, path in clip.videos.items()}
    spans = {camera: _span(info, clip, clip.videos[camera]) for camera, info in looked.items()}
    (first_path, *_), (span, *_) = clip.videos.values(), spans.values()
    speed = 1.0 if user_rate_hz is None else user_rate_hz / span.rate_hz
    cameras = tuple(
        _camera(name, clip.videos[name], info, spans[name], speed) for name, info in looked.items()
    )
    instructions = distinct([clip.instruction])
    episode = Episode(
        episode_id=episode_id,
        format=FORMAT,
        dataset=dataset,
        version="",
        split=clip.split,
        key=clip.key,
        source=first_path,
        content_hash=_hash(clip),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=clip.robot,
        num_steps=len(span.seconds),
        rate_hz=user_rate_hz or span.rate_hz,
        rate_source="source" if user_rate_hz is None else "user",
        cameras=cameras,
        success=clip.success,
        success_source=clip.success_source,
        metadata=clip.metadata,
    )
    trajectory = Trajectory(timestamps=span.seconds / speed)
    warnings = (*clip.warnings, *_warnings(clip, cameras, looked, span))
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(warnings)))


class _Span(NamedTuple):
    """The part of a video that is an episode.

    Attributes:
        start: Second of the file at which its first frame is shown.
        stop: Its end, half open.
        rate_hz: Frames per second in it.
        seconds: When each of its frames is shown after the first.
    """

    start: float
    stop: float
    rate_hz: float
    seconds: NDArray[np.float64]


def _span(info: VideoInfo, clip: Clip, path: str) -> _Span:
    """The frames that begin within half a step of the span, so that spans which meet share none."""
    import numpy as np

    count, rate = info.num_frames, info.rate_hz
    steps = np.arange(count, dtype=np.float64) / rate if info.seconds is None else info.seconds
    first, after = 0, count
    if clip.start_seconds is not None and clip.stop_seconds is not None:
        asked = np.array([clip.start_seconds, clip.stop_seconds]) - 0.5 / rate
        first, after = (int(number) for number in np.searchsorted(steps, asked))
    if first >= after:
        told = f"{clip.start_seconds:g} to {clip.stop_seconds:g} s of {info.duration_seconds:g} s"
        raise SourceError("span is not in the video", f"{path}: {told}")
    seconds = steps[first:after] - steps[first]
    if info.seconds is None:
        return _Span(first / rate, after / rate, rate, seconds)
    if seconds[-1] > 0:
        rate = (len(seconds) - 1) / float(seconds[-1])
    start = float(steps[first])
    follows = float(steps[after]) if after < count else math.inf
    return _Span(start, min(follows, start + len(seconds) / rate), rate, seconds)


def _with_note(clip: Clip) -> Clip:
    """The episode with what the JSON file beside it says; a table goes before it. Raises SourceError."""
    if not clip.sidecar:
        return clip
    row, other = note(clip.sidecar)
    metadata = {**(row.metadata if row else other), **clip.metadata}
    if row is None:
        return replace(clip, metadata=metadata)
    named = clip.success is None
    return replace(
        clip,
        split=clip.split or row.split,
        instruction=clip.instruction or row.instruction,
        success=row.success if named else clip.success,
        success_source=row.success_source if named else clip.success_source,
        robot=clip.robot or row.robot,
        fps=clip.fps or row.fps,
        metadata={**metadata, "episode": row.episode} if row.episode else metadata,
        warnings=(*clip.warnings, *row.warnings),
    )


def _looked_at(path: str) -> VideoInfo:
    try:
        return _probed(path, files.state(path))
    except OSError:
        raise SourceError("video file is missing", path) from None


@functools.lru_cache(maxsize=64)
def _probed(path: str, state: State) -> VideoInfo:
    """Many episodes may be spans of one video, which is looked at once."""
    return probe(path)


def _hash(clip: Clip) -> str:
    """Hash of the videos, and of the span where an episode is one: two of one video are not the same."""
    if clip.start_seconds is None or clip.stop_seconds is None:
        return content_hash(clip.videos.values())
    whole = [_hashed(path, files.state(path)) for path in clip.videos.values()]
    text = f"{' '.join(whole)} {clip.start_seconds!r} {clip.stop_seconds!r}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=64)
def _hashed(path: str, state: State) -> str:
    return content_hash([path])


def content_hash(paths: Iterable[str]) -> str:
    """Hash of the content of video files, 32 hex digits.

    Files up to 8 MiB are hashed whole; of a larger one its size, its first and last blocks and 14 between them
    (256 KiB each), since hashing terabytes would take longer than all else. Compressed video differs everywhere
    when it differs at all, and the first or last block holds the index with the size of every frame.
    """
    total = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = files.state(path)
        total.update(state.size.to_bytes(8, "little"))
        for block in stamp.fingerprinted(path, state):
            total.update(block)
    return total.hexdigest()


def _camera(name: str, path: str, info: VideoInfo, span: _Span, speed: float) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=span.start,
        stop_seconds=span.stop,
        num_frames=len(span.seconds),
        rate_hz=span.rate_hz * speed,
    )
    return Camera(
        name=name,
        role=camera_role(name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=still_flags(media, info.quiet, 0),
    )


def _warnings(
    clip: Clip, cameras: tuple[Camera, ...], looked: Mapping[str, VideoInfo], span: _Span
) -> Iterator[str]:
    first, *_ = looked.values()
    if clip.fps is not None and abs(clip.fps - first.rate_hz) > 0.01 * first.rate_hz:
        yield "told fps is not that of the video"
    lengths = [camera.media.num_frames / camera.media.rate_hz for camera in cameras]
    if max(lengths) - min(lengths) > 1.001 / min(camera.media.rate_hz for camera in cameras):
        yield "cameras are not equally long"
    if first.seconds is not None and _varies(span.seconds):
        yield "variable frame rate"
    if any(info.is_cut for info in looked.values()):
        yield "video ends before its container says"
    if not all(info.square_pixels for info in looked.values()):
        yield "pixels are not square"
    ends = min(info.duration_seconds + 1 / info.rate_hz for info in looked.values())
    if clip.stop_seconds is not None and clip.stop_seconds > ends:
        yield "span goes past the end of its video"


def _varies(seconds: NDArray[np.float64]) -> bool:
    """Whether steps differ by more than a tenth, and by more than containers round."""
    import numpy as np

    if len(seconds) < 3:
        return False
    steps = np.diff(seconds)
    usual = float(np.median(steps))
    return float(np.abs(steps - usual).max()) > max(0.1 * usual, _ROUNDING_SECONDS)
