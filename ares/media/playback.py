"""Videos, thumbnails and small frames, derived once and kept in a bounded cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import TOPIC_KINDS
from ares.errors import MediaError, SourceError
from ares.io import describe_os_error, file_state, is_url
from ares.media.file_cache import FileCache
from ares.media.fingerprint import verify_source
from ares.media.frames import all_frames, frames_at, frames_in_order
from ares.media.recordings.topic_frames import image_seconds
from ares.media.video.codec import read_video_frames
from ares.media.video.encode import VideoCodec, encode_mp4
from ares.media.video.packets import NotCopyable, write_span
from ares.media.video.probe import VideoInfo, probe_video

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


_BROWSER_CODECS = frozenset({"h264", "av1", "vp9"})
# Part of every key of the cache: raised when the derived files change.
_CACHE_VERSION = "3"


def browser_video(ref: MediaRef, codec: VideoCodec, cache: FileCache) -> Path:
    """An mp4 that a browser plays at the speed of the episode: the source file itself, else one in the cache.

    The source is returned when it is an mp4 of H.264, AV1 or VP9 in yuv420p whose seconds are those of the episode
    (players apply its rotation). Of a span of a shared file, or a file at a rate set by the user, the packets are
    copied where that is exact. All other sources (images, other codecs, a span that starts between keyframes) are
    encoded once. Images of a recording are shown at their stamps; at a varying rate the frames of a video are shown
    within a mean step of their time.

    Raises MediaError when the frames cannot be read.
    """
    verify_source(ref)
    info = _probe_source(ref) if ref.kind == "mp4" and ref.is_as_stored else None
    is_playable = info is not None and info.codec in _BROWSER_CODECS and info.pixel_format == "yuv420p"
    if info and is_playable and _is_entire_file(ref, info) and not is_url(ref.uri):
        return Path(ref.uri)

    def write(path: Path) -> None:
        if is_playable:
            with suppress(NotCopyable):
                write_span(ref, path)
                return
        seconds = image_seconds(ref) if ref.kind in TOPIC_KINDS else None
        encode_mp4(_constant_rate_frames(ref), path, ref.rate_hz, codec, seconds)

    return cache.path(f"{_cache_key(ref, 'video', codec)}.mp4", write)


def thumbnail(ref: MediaRef, second: float, width: int, cache: FileCache) -> Path:
    """A JPEG of the frame at a second of the episode, at most `width` pixels wide. Raises MediaError."""

    def write(path: Path) -> None:
        import cv2

        frame = frames_at(ref, [second])[0]
        height = max(1, round(frame.shape[0] * width / frame.shape[1]))
        if frame.shape[1] > width:
            frame = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)
        is_encoded, data = cv2.imencode(
            ".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85]
        )
        if not is_encoded:
            raise MediaError("thumbnail cannot be encoded", f"{ref.uri} at {second:.3f} s")
        path.write_bytes(data.tobytes())

    return cache.path(f"{_cache_key(ref, 'thumbnail', f'{second:.4f}', str(width))}.jpg", write)


# Sides of a small frame. It is made from one twice as large, which is blurred so that compression leaves little trace.
SMALL_FRAME_PIXELS = 16
# A frame is made small at most so often; one that shows for longer is of a clock that jumps.
_MOST_SMALL_FRAMES = 100


def small_frames(ref: MediaRef, rate_hz: float, cache: FileCache) -> Path:
    """A file of small grey frames (T, 16, 16) float16 of a whole camera, so many a second; -128 is black, 127 white.

    A camera that shows each frame for many seconds has fewer pictures a second. Half precision rounds by a
    thirty-second of a level at most. Raises MediaError.
    """
    import numpy as np

    def write(path: Path) -> None:
        # As long as a step of the camera remains, the last frame shows.
        period = 1 / min(rate_hz, _MOST_SMALL_FRAMES * ref.rate_hz)
        seconds = np.arange(0, ref.num_frames / ref.rate_hz - 1e-6, period)
        frames = [_shrink_frame(frame) for frame in frames_in_order(ref, seconds.tolist())]
        np.stack(frames).tofile(path)

    return cache.path(f"{_cache_key(ref, 'small', f'{rate_hz:g}')}.raw", write)


def _shrink_frame(frame: NDArray[np.uint8]) -> NDArray[np.float16]:
    """(16, 16) grey of a frame (H, W, 3)."""
    import cv2
    import numpy as np

    grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).astype(np.float32) - 128
    larger = cv2.resize(grey, (2 * SMALL_FRAME_PIXELS,) * 2, interpolation=cv2.INTER_AREA)
    blurred = cv2.GaussianBlur(larger, (0, 0), 1.0)
    small = cv2.resize(blurred, (SMALL_FRAME_PIXELS,) * 2, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float16)


def _constant_rate_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame shown at every 1 / rate_hz seconds."""
    info = _probe_source(ref) if ref.kind == "mp4" and ref.is_as_stored else None
    if info is None or info.seconds is None:
        return all_frames(ref)
    return read_video_frames(ref, [number / ref.rate_hz for number in range(ref.num_frames)])


def _probe_source(ref: MediaRef) -> VideoInfo:
    try:
        return probe_video(ref.uri)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _is_entire_file(ref: MediaRef, info: VideoInfo) -> bool:
    """Whether a reference covers all of an mp4, at the speed of the file."""
    return (
        ref.start_seconds == 0.0
        and ref.num_frames == info.num_frames
        and abs(ref.rate_hz - info.rate_hz) <= 1e-3 * info.rate_hz
        and "mp4" in info.container
        and info.starts_with_keyframe
        and info.start_seconds * info.rate_hz < 1
    )


def _cache_key(ref: MediaRef, *variant: str) -> str:
    """Key of a file derived from a reference; a changed source gives another key."""
    try:
        state = file_state(ref.uri)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        reason = "file is missing" if is_missing else "file cannot be read"
        raise MediaError(reason, f"{ref.uri}: {describe_os_error(error)}") from None
    text = "\x1f".join((_CACHE_VERSION, repr(ref), *map(str, state), *variant))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
