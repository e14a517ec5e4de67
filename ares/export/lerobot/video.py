"""Videos of a LeRobot dataset: many episodes of a camera in one mp4, copied by packets wherever that is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.clock import rounding_seconds
from ares.episode import Camera, MediaRef
from ares.errors import MediaError
from ares.export.grouped import DatasetCounts
from ares.export.lerobot.metadata import VIDEO_FILE_MB, FileNumber
from ares.export.lerobot.stats import MAX_SAMPLED_FRAMES, FeatureStats, image_stats
from ares.export.retime import RetimedEpisode
from ares.export.step_frames import step_frames
from ares.formats import V3_VIDEO_PATH, camera_key
from ares.media import frames_at
from ares.media.video import NotCopyable, PacketJoiner, PacketSpan, StreamFormat, cut_packets, encode_mp4

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# LeRobot compares times as float32 with a tolerance of 1e-4 s: beyond 1024 s a float32 is coarser than that.
MAX_FILE_SECONDS = 1000.0
# See docs/why/004-lerobot-export.md.
EXPORT_CODEC: Literal["h264"] = "h264"
_NO_VIDEO = "the source has images, not a video file"
# Image statistics need no more pixels than this on the longer side (LeRobot: 150 to 300).
_STATS_PIXELS = 150


@dataclass(frozen=True, slots=True, eq=False)
class PreparedVideo:
    """The video of one camera of one episode, ready to be joined with others.

    Attributes:
        span: Its packets.
        stats: Image statistics of sampled frames.
        is_encoded: Whether it had to be encoded.
        encoding_reason: Why it had to be encoded, which changes its pixels, or "".
        scratch_file: The file it was encoded to, or None.
    """

    span: PacketSpan
    stats: FeatureStats
    is_encoded: bool = False
    encoding_reason: str = ""
    scratch_file: Path | None = None

    def close(self) -> None:
        """Close the source; delete the scratch file."""
        self.span.close()
        if self.scratch_file:
            self.scratch_file.unlink()


def prepare_video(
    camera: Camera, retimed: RetimedEpisode, rate_hz: float, scratch_file: Path
) -> PreparedVideo:
    """Cut the packets out of an mp4, or encode the frames to the scratch file.

    Args:
        camera: The camera.
        retimed: Its episode, which has a frame for each written step.
        rate_hz: Frames per second to write.
        scratch_file: File to encode to.

    Raises MediaError or SourceError when the frames cannot be read.
    """
    seconds = retimed.camera_seconds(camera)
    if camera.media.kind != "mp4":
        return _encode_video(camera, retimed, seconds, rate_hz, scratch_file, _NO_VIDEO)
    try:
        span = _cut_steps(camera, retimed, rate_hz)
    except NotCopyable as error:
        return _encode_video(camera, retimed, seconds, rate_hz, scratch_file, error.reason)
    try:
        sample_seconds = [seconds[number] for number in _sample_numbers(len(seconds))]
        return PreparedVideo(span, image_stats(_downscale(frames_at(camera.media, sample_seconds))))
    except BaseException:
        span.close()
        raise


def _cut_steps(camera: Camera, retimed: RetimedEpisode, rate_hz: float) -> PacketSpan:
    """The packets of a camera, one for each step. Raises NotCopyable where frames are not those of the steps."""
    if not retimed.keeps_steps:
        raise NotCopyable("the export has another rate", f"{camera.media.uri}: {rate_hz:g} Hz")
    count, media = retimed.episode.num_steps, camera.media
    if retimed.source.frame_pairing == "index":
        return cut_packets(media, count, media.rate_hz)
    # Steps have to be as even as the packets that are copied.
    if retimed.shift_seconds > rounding_seconds(rate_hz):
        raise NotCopyable("steps are not at a constant rate", f"{media.uri}: {retimed.shift_seconds:.3f} s")
    return cut_packets(media, count, rate_hz)


def _sample_numbers(num_frames: int) -> list[int]:
    """Numbers of at most MAX_SAMPLED_FRAMES frames, evenly spaced, the first and the last among them."""
    count = min(MAX_SAMPLED_FRAMES, num_frames)
    return sorted({round(k * (num_frames - 1) / max(count - 1, 1)) for k in range(count)})


def _downscale(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    step = max(1, max(images.shape[1:3]) // _STATS_PIXELS)
    return images[:, ::step, ::step]


def _encode_video(
    camera: Camera,
    retimed: RetimedEpisode,
    seconds: Sequence[float],
    rate_hz: float,
    scratch_file: Path,
    reason: str,
) -> PreparedVideo:
    import numpy as np

    num_frames = len(seconds)
    sample_numbers = set(_sample_numbers(num_frames))
    samples: list[NDArray[np.uint8]] = []

    def frames() -> Iterator[NDArray[np.uint8]]:
        for number, frame in enumerate(step_frames(camera, retimed, seconds)):
            if number in sample_numbers:
                samples.append(frame)
            yield frame

    scratch_file.parent.mkdir(parents=True, exist_ok=True)
    written = encode_mp4(frames(), scratch_file, float(rate_hz), EXPORT_CODEC)
    if written != num_frames:
        raise MediaError(
            "the source has fewer frames than it had", f"{camera.media.uri}: {written}, not {num_frames}"
        )
    encoded_ref = MediaRef(
        kind="mp4",
        uri=str(scratch_file),
        start_seconds=0.0,
        stop_seconds=num_frames / rate_hz,
        num_frames=num_frames,
        rate_hz=float(rate_hz),
    )
    stats = image_stats(_downscale(np.stack(samples)))
    return PreparedVideo(
        span=cut_packets(encoded_ref, num_frames, rate_hz),
        stats=stats,
        is_encoded=True,
        encoding_reason=reason,
        scratch_file=scratch_file,
    )


def count_video(counts: DatasetCounts, video: PreparedVideo) -> None:
    """Count the frames of a video that is written, and why it was encoded."""
    if video.is_encoded:
        counts.encoded_frames += len(video.span.packets)
    else:
        counts.copied_packets += len(video.span.packets)
    if video.encoding_reason:
        counts.reencoded[video.encoding_reason] += 1


class VideoLocation(NamedTuple):
    """File of an episode's video, and its span in seconds of that file, half open."""

    file_number: FileNumber
    from_seconds: float
    to_seconds: float


class CameraVideoWriter:
    """The growing video files of one camera.

    Args:
        root: Dataset folder.
        camera: Camera name.
        rate_hz: Frames per second.
    """

    def __init__(self, root: Path, camera: str, rate_hz: float) -> None:
        self._root, self._key, self._rate_hz = root, camera_key(camera), rate_hz
        self._file_number = FileNumber()
        self._file: PacketJoiner | None = None
        self.format: StreamFormat | None = None

    def append(self, video: PreparedVideo) -> VideoLocation:
        """Append a video, in a new file when the current one is full or has another format."""
        span = video.span
        if self._file and not self._has_room(self._file, span):
            self.close()
            self._file_number = self._file_number.next()
        if self._file is None:
            self._file = PacketJoiner(self._path(), self._rate_hz, span)
            self.format = self.format or span.format
        first = self._file.append(span)
        count = len(span.packets)
        return VideoLocation(self._file_number, first / self._rate_hz, (first + count) / self._rate_hz)

    def close(self) -> None:
        """Finish the current file."""
        if self._file:
            self._file.close()
            self._file = None

    def _has_room(self, file: PacketJoiner, span: PacketSpan) -> bool:
        fits_size = file.num_bytes + span.num_bytes < VIDEO_FILE_MB * 2**20
        fits_duration = (file.num_frames + len(span.packets)) / self._rate_hz <= MAX_FILE_SECONDS
        return fits_size and fits_duration and file.fits(span)

    def _path(self) -> Path:
        number = self._file_number
        return self._root / V3_VIDEO_PATH.format(
            video_key=self._key, chunk_index=number.chunk, file_index=number.file
        )
