"""Frames of an image topic of an MCAP recording, at seconds or all of them, by the timestamps of the images."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ares.clock import rounding_seconds
from ares.errors import MediaError, SourceError
from ares.formats import recording_files
from ares.io import describe_os_error, file_state
from ares.media.mcap.container import decode_message
from ares.media.mcap.index import TopicImages, index_images
from ares.media.mcap.messages import decode_access_units, decode_image_message
from ares.media.mcap.recording import open_recording

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Message
    from numpy.typing import NDArray

    from ares.episode import MediaRef

_MIN_STEP_SECONDS = 1e-6


def read_topic_frames(ref: MediaRef, seconds: Sequence[float]) -> Iterator[NDArray[np.uint8]]:
    """Yield the image shown at each second of the episode, seconds in rising order; (H, W, 3) uint8 RGB.

    That is the last image whose timestamp is not later. A repeated image yields the same array again.
    Raises MediaError.
    """
    images, first = find_topic_images(ref)
    tolerance = rounding_seconds(ref.rate_hz)
    last = first + ref.num_frames - 1
    ranks = (bisect_right(images.seconds, ref.start_seconds + second + tolerance) - 1 for second in seconds)
    yield from _decode_ranks(ref, images, [min(max(rank, first), last) for rank in ranks])


def read_all_topic_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Yield every image of the span in the order of the timestamps; (H, W, 3) uint8 RGB. Raises MediaError."""
    images, first = find_topic_images(ref)
    yield from _decode_ranks(ref, images, range(first, first + ref.num_frames))


def image_seconds(ref: MediaRef) -> list[float]:
    """When each image of the span is shown, in seconds of the episode, strictly rising from 0.

    Raises MediaError.
    """
    images, first = find_topic_images(ref)
    shown_seconds = [0.0]
    for second in images.seconds[first + 1 : first + ref.num_frames]:
        # Of images with equal timestamps the last is shown; the others get times too short to be requested.
        shown_seconds.append(max(float(second) - ref.start_seconds, shown_seconds[-1] + _MIN_STEP_SECONDS))
    return shown_seconds


def first_image_at(seconds: Sequence[float], start: float) -> int:
    """Number of the image that is shown at a second of the topic: the last that is no later, or the first."""
    length = seconds[-1] - seconds[0] if len(seconds) > 1 else 0.0
    rounding = rounding_seconds((len(seconds) - 1) / length) if length > 0 else 0.0
    return max(bisect_right(seconds, start + rounding) - 1, 0)


def find_topic_images(ref: MediaRef) -> tuple[TopicImages, int]:
    """The images of a topic, and the rank in time of the episode's first image. Raises MediaError."""
    try:
        files = tuple((path, *file_state(path)) for path in recording_files(ref.uri))
        images = index_images(files).get(ref.key)
    except FileNotFoundError as error:
        raise MediaError("file is missing", f"{ref.uri}: {describe_os_error(error)}") from None
    except OSError as error:
        raise MediaError("file cannot be read", f"{ref.uri}: {describe_os_error(error)}") from None
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    if images is None:
        raise MediaError("recording has no such images", f"{ref.key!r} in {ref.uri}")
    first = first_image_at(images.seconds, ref.start_seconds)
    if first + ref.num_frames > len(images.order):
        counts = f"{len(images.order)}, not {first + ref.num_frames}"
        raise MediaError("recording has fewer images", f"{ref.key!r} in {ref.uri}: {counts}")
    return images, first


def read_access_units(ref: MediaRef, images: TopicImages, numbers: Sequence[int]) -> list[bytes]:
    """The access units of a video topic by number. Raises MediaError."""
    with ExitStack() as stack:
        reader = _TopicReader(ref, images, stack)
        return [reader.access_unit(number) for number in numbers]


def _decode_ranks(ref: MediaRef, images: TopicImages, ranks: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the images of rising ranks in time."""
    with ExitStack() as stack:
        reader = _TopicReader(ref, images, stack)
        decode = reader.video_frame if images.kind == "video" else reader.image
        decoded_rank, frame = -1, None
        for rank in ranks:
            if frame is None or rank != decoded_rank:
                decoded_rank, frame = rank, decode(images.order[rank])
            yield frame


class _TopicReader:
    """The open files of a recording, with the last chunk cached because it holds the neighbouring images too."""

    def __init__(self, ref: MediaRef, images: TopicImages, stack: ExitStack) -> None:
        self._ref, self._images = ref, images
        try:
            self._files = [stack.enter_context(open_recording(path)) for path in recording_files(ref.uri)]
        except SourceError as error:
            raise MediaError(error.reason, error.detail) from None
        self._chunk: tuple[tuple[int, int], list[Message]] | None = None
        self._frames: Iterator[tuple[int, Any]] = iter(())
        self._last_decoded = -1

    def image(self, number: int) -> NDArray[np.uint8]:
        """The still image of a number."""
        return decode_image_message(self._images.kind, self._message(number), self._describe(number))

    def access_unit(self, number: int) -> bytes:
        """The access unit of a number."""
        return bytes(self._message(number).data)

    def video_frame(self, number: int) -> NDArray[np.uint8]:
        """The video frame of a number, decoded from the keyframe before it or on from the last decoded frame."""
        keyframes = self._images.keyframes
        keyframe = keyframes[bisect_right(keyframes, number) - 1]
        if not keyframe <= self._last_decoded < number:
            self._frames = decode_access_units(self._images.codec, self._access_units_from(keyframe))
        self._last_decoded = number
        for frame_number, frame in self._frames:
            if frame_number == number:
                pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24", threads=1)
                return pixels
        raise MediaError("video cannot be decoded", self._describe(number))

    def _access_units_from(self, keyframe: int) -> Iterator[tuple[int, bytes]]:
        for number in range(keyframe, len(self._images.locations)):
            yield number, self._message(number).data

    def _message(self, number: int) -> Any:
        file, offset, number_in_chunk = self._images.locations[number]
        try:
            if self._chunk is None or self._chunk[0] != (file, offset):
                self._chunk = ((file, offset), self._files[file].messages(offset))
            data = self._chunk[1][number_in_chunk].data
            return decode_message(self._images.decoders[file], data)
        except (SourceError, IndexError) as error:
            raise MediaError("image cannot be read", f"{self._describe(number)}: {error}") from None

    def _describe(self, number: int) -> str:
        return f"image {number} of {self._ref.key!r} in {self._ref.uri}"
