"""Frames of the image topics of a recording, by number and by second."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ares.clock import time_tolerance
from ares.errors import MediaError, SourceError
from ares.formats import recording_files
from ares.io import describe_os_error, file_state
from ares.media.recordings.container import McapMessage
from ares.media.recordings.messages import (
    MessageDecoders,
    decode_message,
    header_time,
    message_times,
    publish_time,
    require_fields,
)
from ares.media.recordings.recording import open_recording, scan_messages

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Message
    from numpy.typing import NDArray

    from ares.episode import MediaRef
from ares.media.recordings.images import (
    ImageKind,
    classify_image_message,
    decode_access_units,
    decode_image_message,
    is_keyframe,
    list_image_message_fields,
    settle_image_kind,
    video_codec,
)

_CACHED_RECORDINGS = 8

# Ends the key of a camera whose images are ordered by their times of publication, though they have stamps of their
# own; no name of a topic has this character.
PUBLISHED = "@published"


@dataclass(slots=True)
class TopicImages:
    """The images of a topic, in file order, in which a video has to be decoded.

    Attributes:
        kind: How its messages hold an image.
        codec: Codec of a video, else "".
        decoders: Decoder of its messages, by number of the file.
        locations: File number, byte of the chunk, and number of the message in the chunk.
        keyframes: Numbers of the images at which decoding can start.
        order: Numbers of the images in the order in which they are shown.
        start: Nanoseconds at which the first is shown.
        seconds: When each is shown, rising, counted from the first.
        has_header_times: Whether these are the timestamps in the messages.
        in_time_order: Whether the file order is the order in time.
        sizes: Bytes of each.
        identical: Whether all of them have the same bytes.
        publish_times: Nanoseconds at which each was published.
    """

    kind: ImageKind
    codec: str
    decoders: dict[int, Callable[[bytes], Any]] = field(default_factory=dict)
    locations: list[tuple[int, int, int]] = field(default_factory=list)
    keyframes: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    start: int = 0
    seconds: list[float] = field(default_factory=list)
    has_header_times: bool = True
    in_time_order: bool = True
    sizes: list[int] = field(default_factory=list)
    identical: bool = True
    publish_times: list[int] = field(default_factory=list)

    def by_publication(self) -> TopicImages:
        """The same images at the times at which they were published."""
        import numpy as np

        images = replace(self, has_header_times=False)
        images.set_times(np.array(self.publish_times, np.int64))
        return images

    def set_times(self, times: NDArray[np.int64]) -> None:
        """Order the images by their (N,) times in nanoseconds."""
        import numpy as np

        order = np.argsort(times, kind="stable")
        self.order = order.tolist()
        self.in_time_order = bool((np.diff(times) >= 0).all())
        self.start = int(times[order[0]])
        self.seconds = ((times[order] - self.start) / 1e9).tolist()


@dataclass(slots=True)
class _TopicBuilder:
    """Images of a topic while messages are added."""

    images: TopicImages
    first_data: bytes
    header_times: list[int | None] = field(default_factory=list)

    def build(self) -> TopicImages:
        """The images, with their times and order filled in."""
        images = self.images
        times, images.has_header_times = message_times(self.header_times, images.publish_times)
        images.set_times(times)
        return images


class ImageCollector:
    """Collects the image messages of a recording by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicBuilder] = {}

    def add(
        self, kind: ImageKind, file: int, entry: McapMessage, decoder: Callable[[bytes], Any], message: Any
    ) -> bool:
        """Add an image; False for a frame before the first keyframe, which cannot be decoded."""
        name = entry.channel.topic
        topic = self._topics.get(name)
        is_key = True
        if kind == "video":
            is_key = is_keyframe(topic.images.codec if topic else video_codec(message), message.data)
        if topic is None:
            if not is_key:
                return False
            codec = video_codec(message) if kind == "video" else ""
            topic = self._topics[name] = _TopicBuilder(TopicImages(kind, codec), message.data)
        images = topic.images
        if is_key:
            images.keyframes.append(len(images.locations))
        images.sizes.append(len(message.data))
        images.identical = images.identical and message.data == topic.first_data
        images.decoders[file] = decoder
        images.locations.append((file, entry.chunk_offset, entry.number_in_chunk))
        topic.header_times.append(header_time(message))
        images.publish_times.append(publish_time(entry.message))
        return True

    def finish(self) -> dict[str, TopicImages]:
        """The images of each topic, ordered by time."""
        return {name: topic.build() for name, topic in self._topics.items()}


@functools.lru_cache(maxsize=_CACHED_RECORDINGS)
def index_images(files: tuple[tuple[str, int, str], ...]) -> dict[str, TopicImages]:
    """The images of every topic of a recording, found in one pass and cached until a file changes.

    Args:
        files: Path, bytes and version of each file of the recording.

    Raises SourceError when a file cannot be read.
    """
    collector = ImageCollector()
    for number, (path, *_) in enumerate(files):
        decoders = MessageDecoders()
        for entry in scan_messages(path, []):
            kind = classify_image_message(entry.schema.name) if entry.schema else None
            if kind is None:
                continue
            try:
                decoder = decoders.decoder_for(entry)
                message = decode_message(decoder, entry.message.data)
                require_fields(message, list_image_message_fields(kind))
            except SourceError:  # reported when the recording was ingested, which skips it too
                continue
            collector.add(settle_image_kind(kind, message), number, entry, decoder, message)
    return collector.finish()


_MIN_STEP_SECONDS = 1e-6


def read_topic_frames(ref: MediaRef, seconds: Sequence[float]) -> Iterator[NDArray[np.uint8]]:
    """Yield the image shown at each second of the episode, seconds in rising order; (H, W, 3) uint8 RGB.

    That is the last image whose timestamp is not later. A repeated image yields the same array again.
    Raises MediaError.
    """
    images, first = find_topic_images(ref)
    tolerance = time_tolerance(ref.rate_hz)
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
    rounding = time_tolerance((len(seconds) - 1) / length) if length > 0 else 0.0
    return max(bisect_right(seconds, start + rounding) - 1, 0)


def find_topic_images(ref: MediaRef) -> tuple[TopicImages, int]:
    """The images of a topic, and the rank in time of the episode's first image. Raises MediaError."""
    try:
        files = tuple((path, *file_state(path)) for path in recording_files(ref.uri))
        topic, is_published, _ = ref.key.partition(PUBLISHED)
        images = index_images(files).get(topic)
        images = images.by_publication() if images and is_published else images
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
