"""Cameras of a LeRobot episode: its span of a shared video, or a video of its own, looked at without decoding."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ares.episode import Camera
from ares.errors import SourceError
from ares.files import State
from ares.media.probe import VideoInfo, probe
from ares.media.ref import MediaRef
from ares.media.still import still_flags
from ingest.lerobot_data import stamp
from ingest.lerobot_meta import whole_number
from ingest.lerobot_plan import View
from ingest.roles import camera_role

# info.json and the video may round the rate differently.
_SAME_RATE = 0.01
# Names of encoders and of fourcc codes that stand in info.json for a codec.
_CODECS = {
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

Span = tuple[str, float, float | None]


def span_of(template: str, root: str, view: View, row: Mapping[str, Any]) -> Span | None:
    """File of a camera in a v3.0 dataset and where the episode begins and ends in it, as the metadata says.

    None when the metadata does not name a file for this camera.
    """
    place = f"videos/{view.key}"
    chunk, file = (whole_number(row.get(f"{place}/{name}")) for name in ("chunk_index", "file_index"))
    if chunk is None or file is None:
        return None
    start, stop = (_seconds(row.get(f"{place}/{name}")) for name in ("from_timestamp", "to_timestamp"))
    path = template.format(video_key=view.key, chunk_index=chunk, file_index=file)
    return f"{root}/{path}", start or 0.0, stop


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def cameras(
    spans: Mapping[View, Span | None], steps: int, fps: float, rate_hz: float, warnings: list[str]
) -> Iterator[Camera]:
    """The cameras whose videos can be used; of each other one the reason goes into the warnings.

    Args:
        spans: Where the frames of each camera should be; None when that is not told.
        steps: Steps of the episode, or 0 when they are not known yet.
        fps: Frames per second of the dataset.
        rate_hz: Steps per second, which are not fps when the user gave another rate.
        warnings: Grows.
    """
    for view, span in spans.items():
        if span is None:
            warnings.append(f"camera {view.name} left out: the metadata names no video")
            continue
        try:
            info = _looked_at(span[0])
            camera = _camera(view, span, info, fps, rate_hz)
        except SourceError as error:
            warnings.append(f"camera {view.name} left out: {error.reason}")
            continue
        warnings.extend(_oddities(view, span, info, camera, steps, fps))
        yield camera


def _looked_at(path: str) -> VideoInfo:
    found = stamp(path)
    if found is None:
        raise SourceError("video file is missing", path)
    return _probed(path, found)


@functools.lru_cache(maxsize=512)
def _probed(path: str, stamp: State) -> VideoInfo:
    return probe(path)


def _camera(view: View, span: Span, info: VideoInfo, fps: float, rate_hz: float) -> Camera:
    path, start, stop = span
    video_rate = fps if _same_rate(info, fps) else info.rate_hz
    whole = info.num_frames / video_rate
    end = whole if stop is None else min(stop, whole)
    inside = 0 <= start < min(end, whole)
    num_frames = round((end - start) * video_rate) if inside else 0
    if not num_frames:
        raise SourceError("its span is not in the video", f"{path}: {start:g} to {stop} s of {whole:g} s")
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=start,
        stop_seconds=end,
        num_frames=num_frames,
        rate_hz=video_rate * rate_hz / fps,
    )
    return Camera(
        name=view.name,
        role=camera_role(view.name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=still_flags(media, info.quiet, round(start * video_rate)),
    )


def _oddities(
    view: View, span: Span, info: VideoInfo, camera: Camera, steps: int, fps: float
) -> Iterator[str]:
    told = view.codec.lower()
    if told and _CODECS.get(told, told) != info.codec:
        yield f"camera {view.name} is {info.codec}, not {view.codec} as info.json says"
    if view.size and view.size != (info.width, info.height):
        yield f"camera {view.name} is not of the size that info.json says"
    if not _same_rate(info, fps):
        yield f"camera {view.name} has not the fps of info.json"
    elif span[2] is not None and span[2] * fps > info.num_frames + 0.5:
        yield f"the span of camera {view.name} goes past the end of its video"
    elif steps and abs(camera.media.num_frames - steps) >= 1:
        yield f"camera {view.name} has not one frame for each step"


def _same_rate(info: VideoInfo, fps: float) -> bool:
    return abs(info.rate_hz - fps) <= _SAME_RATE * fps or info.num_frames == 1
