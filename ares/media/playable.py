"""Videos that a browser plays and pictures to look at, made once from any reference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares import files
from ares.errors import MediaError, SourceError
from ares.media import mp4
from ares.media.cache import Cache
from ares.media.encode import VideoCodec, encode_mp4
from ares.media.frames import all_frames, frames_at
from ares.media.packets import Joined, NotCopyable, cut
from ares.media.probe import VideoInfo, probe
from ares.media.stamp import check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

_PLAYED = frozenset({"h264", "av1", "vp9"})
_VERSION = "2"


def playable(ref: MediaRef, codec: VideoCodec, cache: Cache) -> Path:
    """An mp4 that a browser plays at the speed of the episode: the file itself, else one in the cache.

    A file that is played as it stands is a whole mp4 of H.264, AV1 or VP9 in yuv420p whose seconds are those of
    the episode (players turn it as its container says). Of a span of a shared file, or one at a rate given by the
    user, the packets are copied where that is exact. All else (images, other codecs, a span that starts between
    keyframes) is encoded, once; at a varying rate each frame is then shown within a mean step of its time.

    Raises MediaError when the frames cannot be had.
    """
    check(ref)
    info = _probe(ref) if ref.kind == "mp4" and ref.channels == "rgb" else None
    known = info is not None and info.codec in _PLAYED and info.pixel_format == "yuv420p"
    if info and known and _whole(ref, info) and not files.is_url(ref.uri):
        return Path(ref.uri)

    def make(path: Path) -> None:
        if not (known and _copied(ref, path)):
            encode_mp4(_evenly(ref), path, ref.rate_hz, codec)

    return cache.path(f"{_key(ref, 'video', codec)}.mp4", make)


def thumbnail(ref: MediaRef, second: float, width: int, cache: Cache) -> Path:
    """A JPEG of the frame at a second of the episode, at most that wide. Raises MediaError."""

    def make(path: Path) -> None:
        import cv2

        picture = frames_at(ref, [second])[0]
        height = max(1, round(picture.shape[0] * width / picture.shape[1]))
        if picture.shape[1] > width:
            picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        good, data = cv2.imencode(
            ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85]
        )
        if not good:
            raise MediaError("thumbnail cannot be encoded", f"{ref.uri} at {second:.3f} s")
        path.write_bytes(data.tobytes())

    return cache.path(f"{_key(ref, 'thumbnail', f'{second:.4f}', str(width))}.jpg", make)


def _evenly(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """The frames shown at every 1 / rate_hz seconds."""
    info = _probe(ref) if ref.kind == "mp4" and ref.channels == "rgb" else None
    if info is None or info.seconds is None:
        return all_frames(ref)
    return mp4.frames(ref, [number / ref.rate_hz for number in range(ref.num_frames)])


def _copied(ref: MediaRef, path: Path) -> bool:
    """Copy the packets of a reference; False where that is not exact."""
    rate = round(ref.rate_hz)
    if rate < 1 or abs(ref.rate_hz - rate) > 1e-6:
        return False
    try:
        span = cut(ref, ref.num_frames, ref.rate_hz)
    except NotCopyable:
        return False
    try:
        joined = Joined(path, rate, span)
        joined.append(span)
        joined.close()
    finally:
        span.close()
    return True


def _probe(ref: MediaRef) -> VideoInfo:
    try:
        return probe(ref.uri)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _whole(ref: MediaRef, info: VideoInfo) -> bool:
    """Whether a reference is all of an mp4, at the speed of the file."""
    return (
        ref.start_seconds == 0.0
        and ref.num_frames == info.num_frames
        and abs(ref.rate_hz - info.rate_hz) <= 1e-3 * info.rate_hz
        and "mp4" in info.container
        and info.starts_with_keyframe
        and info.start_seconds * info.rate_hz < 1
    )


def _key(ref: MediaRef, *made: str) -> str:
    """Name of what is made of a reference; another one when the file has changed."""
    try:
        state = files.state(ref.uri)
    except OSError as error:
        raise MediaError("file is missing", f"{ref.uri}: {files.words(error)}") from None
    text = "\x1f".join((_VERSION, repr(ref), *map(str, state), *made))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
