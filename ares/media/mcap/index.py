"""Location, time and size of every image in an MCAP recording, by topic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ares.errors import SourceError
from ares.media.mcap.container import (
    McapMessage,
    MessageDecoders,
    decode_message,
    header_time,
    message_times,
    publish_time,
    require_fields,
)
from ares.media.mcap.messages import ImageKind, image_kind, is_keyframe, required_fields, video_codec
from ares.media.mcap.recording import scan_messages

_CACHED_RECORDINGS = 8


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
        has_own_times: Whether these are the messages' own timestamps.
        in_time_order: Whether the file order is the order in time.
        sizes: Bytes of each.
        identical: Whether all of them have the same bytes.
    """

    kind: ImageKind
    codec: str
    decoders: dict[int, Callable[[bytes], Any]] = field(default_factory=dict)
    locations: list[tuple[int, int, int]] = field(default_factory=list)
    keyframes: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    start: int = 0
    seconds: list[float] = field(default_factory=list)
    has_own_times: bool = True
    in_time_order: bool = True
    sizes: list[int] = field(default_factory=list)
    identical: bool = True


@dataclass(slots=True)
class _TopicBuilder:
    """Images of a topic while messages are added."""

    images: TopicImages
    first_data: bytes
    own_times: list[int | None] = field(default_factory=list)
    publish_times: list[int] = field(default_factory=list)

    def build(self) -> TopicImages:
        """The images, with their times and order filled in."""
        import numpy as np

        images = self.images
        times, images.has_own_times = message_times(self.own_times, self.publish_times)
        order = np.argsort(times, kind="stable")
        images.order = order.tolist()
        images.in_time_order = bool((np.diff(times) >= 0).all())
        images.start = int(times[order[0]])
        images.seconds = ((times[order] - images.start) / 1e9).tolist()
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
        topic.own_times.append(header_time(message))
        topic.publish_times.append(publish_time(entry.message))
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
            kind = image_kind(entry.schema.name) if entry.schema else None
            if kind is None:
                continue
            try:
                decoder = decoders.decoder_for(entry)
                message = decode_message(decoder, entry.message.data)
                require_fields(message, required_fields(kind))
            except SourceError:  # reported when the recording was ingested, which skips it too
                continue
            collector.add(kind, number, entry, decoder, message)
    return collector.finish()
