"""The videos of a LeRobot dataset: per camera, many episodes in one mp4, copied by packets wherever that is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.episode import Camera
from ares.errors import MediaError
from ares.export.lerobot_meta import VIDEO_FILE_MB, VIDEO_PATH, FileNumber, camera_key
from ares.export.lerobot_stats import SAMPLES, Stats, of_images
from ares.media.packets import Joined, NotCopyable, Shape, Span, cut
from ares.media.ref import MediaRef

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# LeRobot compares times as float32 with a tolerance of 1e-4 s: beyond 1024 s a float32 is coarser than that.
MAX_FILE_SECONDS = 1000.0
# See docs/why/004-lerobot-export.md.
CODEC: Literal["h264"] = "h264"
# Frames decoded at once where they have to be picked by time.
_BLOCK = 64
_SAME_RATE_HZ = 1e-3
# Image statistics need no more pixels than this on the longer side (LeRobot: 150 to 300).
_STATS_PIXELS = 150


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """The video of one camera of one episode, ready to be joined.

    Attributes:
        span: Its packets.
        stats: Image statistics of sampled frames.
        encoded: Whether it had to be encoded.
        reason: Why an mp4 had to be encoded, or "".
        scratch: The file it was encoded to, or None.
    """

    span: Span
    stats: Stats
    encoded: bool = False
    reason: str = ""
    scratch: Path | None = None

    def close(self) -> None:
        """Release the source; remove the scratch file."""
        self.span.close()
        if self.scratch:
            self.scratch.unlink()


def prepare(camera: Camera, num_frames: int, rate_hz: int, scratch: Path) -> Clip:
    """Cut the packets out of an mp4, or encode the frames to the scratch file.

    Raises MediaError or SourceError when the frames cannot be had.
    """
    if camera.media.kind != "mp4":
        return _encode(camera.media, num_frames, rate_hz, scratch, "")
    try:
        span = cut(camera.media, num_frames, rate_hz)
    except NotCopyable as error:
        return _encode(camera.media, num_frames, rate_hz, scratch, error.reason)
    try:
        return Clip(span, of_images(_smaller(_sample(camera.media, num_frames, rate_hz))))
    except BaseException:
        span.close()
        raise


def _sample(ref: MediaRef, num_frames: int, rate_hz: int) -> NDArray[np.uint8]:
    from ares.media.frames import frames_at

    return frames_at(ref, [k / rate_hz for k in _sampled(num_frames)])


def _sampled(num_frames: int) -> list[int]:
    """Indices of at most SAMPLES frames, evenly spaced, first and last among them."""
    count = min(SAMPLES, num_frames)
    return sorted({round(k * (num_frames - 1) / max(count - 1, 1)) for k in range(count)})


def _smaller(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    step = max(1, max(images.shape[1:3]) // _STATS_PIXELS)
    return images[:, ::step, ::step]


def _encode(ref: MediaRef, num_frames: int, rate_hz: int, scratch: Path, reason: str) -> Clip:
    import numpy as np

    from ares.media.encode import encode_mp4

    wanted = set(_sampled(num_frames))
    kept: list[NDArray[np.uint8]] = []

    def frames() -> Iterator[NDArray[np.uint8]]:
        for k, frame in enumerate(_frames(ref, num_frames, rate_hz)):
            if k in wanted:
                kept.append(frame)
            yield frame

    scratch.parent.mkdir(parents=True, exist_ok=True)
    written = encode_mp4(frames(), scratch, float(rate_hz), CODEC)
    if written != num_frames:
        raise MediaError("the source has fewer frames than it had", f"{ref.uri}: {written}, not {num_frames}")
    whole = MediaRef(
        kind="mp4",
        uri=str(scratch),
        start_seconds=0.0,
        stop_seconds=num_frames / rate_hz,
        num_frames=num_frames,
        rate_hz=float(rate_hz),
    )
    stats = of_images(_smaller(np.stack(kept)))
    return Clip(cut(whole, num_frames, rate_hz), stats, encoded=True, reason=reason, scratch=scratch)


def _frames(ref: MediaRef, num_frames: int, rate_hz: int) -> Iterator[NDArray[np.uint8]]:
    """The frame of every step: one by one where source and steps go together, else the one shown at its time."""
    from ares.media.frames import all_frames, frames_at

    if ref.num_frames == num_frames and abs(ref.rate_hz - rate_hz) < _SAME_RATE_HZ:
        yield from all_frames(ref)
        return
    for start in range(0, num_frames, _BLOCK):
        steps = range(start, min(start + _BLOCK, num_frames))
        yield from frames_at(ref, [k / rate_hz for k in steps])


class Placed(NamedTuple):
    """Where a clip went, in seconds of its file, half open."""

    number: FileNumber
    from_seconds: float
    to_seconds: float


class Track:
    """The growing video files of one camera.

    Args:
        root: Dataset folder.
        camera: Camera name.
        rate_hz: Frames per second.
    """

    def __init__(self, root: Path, camera: str, rate_hz: int) -> None:
        self._root, self._key, self._rate_hz = root, camera_key(camera), rate_hz
        self._number = FileNumber()
        self._file: Joined | None = None
        self.shape: Shape | None = None
        self.copied_packets = 0
        self.encoded_frames = 0

    def add(self, clip: Clip) -> Placed:
        """Append a clip, in a new file when the current one is full or of another make."""
        span = clip.span
        if self._file and not self._has_room(self._file, span):
            self.close()
            self._number = self._number.following()
        if self._file is None:
            self._file = Joined(self._path(), self._rate_hz, span)
            self.shape = self.shape or span.shape
        first = self._file.append(span)
        count = len(span.packets)
        if clip.encoded:
            self.encoded_frames += count
        else:
            self.copied_packets += count
        return Placed(self._number, first / self._rate_hz, (first + count) / self._rate_hz)

    def close(self) -> None:
        """Finish the current file."""
        if self._file:
            self._file.close()
            self._file = None

    def _has_room(self, file: Joined, span: Span) -> bool:
        small = file.num_bytes + span.num_bytes < VIDEO_FILE_MB * 2**20
        short = (file.frames + len(span.packets)) / self._rate_hz <= MAX_FILE_SECONDS
        return small and short and file.fits(span)

    def _path(self) -> Path:
        number = self._number
        return self._root / VIDEO_PATH.format(
            video_key=self._key, chunk_index=number.chunk, file_index=number.file
        )
