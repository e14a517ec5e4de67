"""Where the images of an MCAP recording stand and when each is shown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ares.errors import SourceError
from ares.media.mcap_file import Decoders, Heard, decode, expect, header_stamp, published, scan, times
from ares.media.mcap_image import ImageKind, fields_of, image_kind, is_keyframe, video_codec

_RECORDINGS_KEPT = 8


@dataclass(slots=True)
class Images:
    """The images of a topic, in the order of the file, which a video needs.

    Attributes:
        kind: How its messages hold an image.
        codec: Codec of a video, else "".
        decoders: What reads its messages, by number of the file.
        places: File number, byte of the chunk, and number of the message in it.
        keys: Numbers of the images at which decoding can begin.
        order: Numbers of the images as they are shown.
        start: Nanoseconds at which the first is shown.
        seconds: When each is shown, rising, from the first on.
        stamped: Whether the messages' own stamps say so.
        sorted: Whether they stand in the file in that order.
        sizes: Bytes of each.
        same: Whether all of them are the same bytes.
    """

    kind: ImageKind
    codec: str
    decoders: dict[int, Callable[[bytes], Any]] = field(default_factory=dict)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    start: int = 0
    seconds: list[float] = field(default_factory=list)
    stamped: bool = True
    sorted: bool = True
    sizes: list[int] = field(default_factory=list)
    same: bool = True


@dataclass(slots=True)
class _Topic:
    """Images that are being collected."""

    images: Images
    first: bytes
    stamps: list[int | None] = field(default_factory=list)
    published: list[int] = field(default_factory=list)


class Collector:
    """Finds the images among the messages of a recording."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def take(
        self, kind: ImageKind, file: int, heard: Heard, decoder: Callable[[bytes], Any], message: Any
    ) -> bool:
        """Enter an image; False for a frame before the first keyframe, which cannot be decoded."""
        name = heard.channel.topic
        topic = self._topics.get(name)
        key = True
        if kind == "video":
            key = is_keyframe(topic.images.codec if topic else video_codec(message), message.data)
        if topic is None:
            if not key:
                return False
            codec = video_codec(message) if kind == "video" else ""
            topic = self._topics[name] = _Topic(Images(kind, codec), message.data)
        images = topic.images
        if key:
            images.keys.append(len(images.places))
        images.sizes.append(len(message.data))
        images.same = images.same and message.data == topic.first
        images.decoders[file] = decoder
        images.places.append((file, heard.offset, heard.number))
        topic.stamps.append(header_stamp(message))
        topic.published.append(published(heard.message))
        return True

    def images(self) -> dict[str, Images]:
        """The images of each topic, by the order of their stamps."""
        import numpy as np

        for topic in self._topics.values():
            images = topic.images
            at, images.stamped = times(topic.stamps, topic.published)
            order = np.argsort(at, kind="stable")
            images.order = order.tolist()
            images.sorted = bool((np.diff(at) >= 0).all())
            images.start = int(at[order[0]])
            images.seconds = ((at[order] - images.start) / 1e9).tolist()
        return {name: topic.images for name, topic in self._topics.items()}


@functools.lru_cache(maxsize=_RECORDINGS_KEPT)
def find_images(files: tuple[tuple[str, int, str], ...]) -> dict[str, Images]:
    """The images of every topic of some files (path, bytes, time of change): one pass, kept while they stay so.

    Raises SourceError when a file cannot be read.
    """
    collector = Collector()
    for number, (path, *_) in enumerate(files):
        decoders = Decoders()
        for heard in scan(path, []):
            kind = image_kind(heard.schema.name) if heard.schema else None
            if kind is None:
                continue
            try:
                decoder = decoders.of(heard)
                message = decode(decoder, heard.message.data)
                expect(message, fields_of(kind))
            except SourceError:  # was said on ingest, and left out there too
                continue
            collector.take(kind, number, heard, decoder, message)
    return collector.images()
