"""Frames of an image topic of an MCAP recording: those wanted, or all of them, by the stamps of the images."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ares import files
from ares.errors import MediaError, SourceError
from ares.media.mcap_file import decode, files_of, messages_at, opened
from ares.media.mcap_image import picture, video_frames
from ares.media.mcap_index import Images, find_images

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Message
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

_ROUNDING_SECONDS = 1e-3
_SHORTEST_SECONDS = 1e-6


def frames(ref: MediaRef, seconds: Sequence[float]) -> Iterator[NDArray[np.uint8]]:
    """The image shown at each second of the episode, which must rise; (H, W, 3) uint8 RGB.

    That is the last one whose stamp is not later. The very same array is given for the same image again.
    Raises MediaError.
    """
    images, first = find(ref)
    slack = min(_ROUNDING_SECONDS, 0.5 / ref.rate_hz)
    last = first + ref.num_frames - 1
    asked = (bisect_right(images.seconds, ref.start_seconds + second + slack) - 1 for second in seconds)
    yield from _pictures(ref, images, [min(max(number, first), last) for number in asked])


def all_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Every image of the span in the order of the stamps; (H, W, 3) uint8 RGB. Raises MediaError."""
    images, first = find(ref)
    yield from _pictures(ref, images, range(first, first + ref.num_frames))


def seconds_of(ref: MediaRef) -> list[float]:
    """When each image of the span is shown, in seconds of the episode: from 0 on, each later than the one before.

    Raises MediaError.
    """
    images, first = find(ref)
    made = [0.0]
    for stamp in images.seconds[first + 1 : first + ref.num_frames]:
        # Of images with one stamp the last is shown: the others get no time that anybody could ask for.
        made.append(max(float(stamp) - ref.start_seconds, made[-1] + _SHORTEST_SECONDS))
    return made


def first_shown(seconds: Sequence[float], start: float) -> int:
    """Number of the image that is shown at a second of the topic: the last that is no later, or the first."""
    return max(bisect_right(seconds, start + _ROUNDING_SECONDS) - 1, 0)


def find(ref: MediaRef) -> tuple[Images, int]:
    """The images of a topic and which is the first of the episode. Raises MediaError."""
    try:
        states = []
        for path in files_of(ref.uri):
            states.append((path, *files.state(path)))
        images = find_images(tuple(states)).get(ref.key)
    except OSError as error:
        raise MediaError("file is missing", f"{ref.uri}: {files.words(error)}") from None
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    if images is None:
        raise MediaError("recording has no such images", f"{ref.key!r} in {ref.uri}")
    first = first_shown(images.seconds, ref.start_seconds)
    if first + ref.num_frames > len(images.order):
        found = f"{len(images.order)}, not {first + ref.num_frames}"
        raise MediaError("recording has fewer images", f"{ref.key!r} in {ref.uri}: {found}")
    return images, first


def units(ref: MediaRef, images: Images, numbers: Sequence[int]) -> list[bytes]:
    """The access units of those numbers of a video topic. Raises MediaError."""
    with ExitStack() as stack:
        tape = _Tape(ref, images, stack)
        return [tape.unit(number) for number in numbers]


def _pictures(ref: MediaRef, images: Images, shown: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """The images of those ranks, which must rise."""
    with ExitStack() as stack:
        tape = _Tape(ref, images, stack)
        read = tape.video if images.kind == "video" else tape.still
        before, made = -1, None
        for rank in shown:
            if made is None or rank != before:
                before, made = rank, read(images.order[rank])
            yield made


class _Tape:
    """The open files of a recording; the last chunk is kept, since neighbours stand in it."""

    def __init__(self, ref: MediaRef, images: Images, stack: ExitStack) -> None:
        self._ref, self._images = ref, images
        try:
            self._files = [stack.enter_context(opened(path)) for path in files_of(ref.uri)]
        except SourceError as error:
            raise MediaError(error.reason, error.detail) from None
        self._chunk: tuple[tuple[int, int], list[Message]] | None = None
        self._frames: Iterator[tuple[int, Any]] = iter(())
        self._here = -1

    def still(self, number: int) -> NDArray[np.uint8]:
        """The image of that number."""
        return picture(self._images.kind, self._message(number), self._where(number))

    def unit(self, number: int) -> bytes:
        """The access unit of that number."""
        return bytes(self._message(number).data)

    def video(self, number: int) -> NDArray[np.uint8]:
        """The frame of that number, decoded from the keyframe before or on from the last one that was asked for."""
        keys = self._images.keys
        key = keys[bisect_right(keys, number) - 1]
        if not key <= self._here < number:
            self._frames = video_frames(self._images.codec, self._units(key))
        self._here = number
        for found, frame in self._frames:
            if found == number:
                made: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
                return made
        raise MediaError("video cannot be decoded", self._where(number))

    def _units(self, key: int) -> Iterator[tuple[int, bytes]]:
        for number in range(key, len(self._images.places)):
            yield number, self._message(number).data

    def _message(self, number: int) -> Any:
        file, offset, inside = self._images.places[number]
        try:
            if self._chunk is None or self._chunk[0] != (file, offset):
                self._chunk = ((file, offset), messages_at(self._files[file], offset))
            data = self._chunk[1][inside].data
            return decode(self._images.decoders[file], data)
        except (SourceError, IndexError) as error:
            raise MediaError("image cannot be read", f"{self._where(number)}: {error}") from None

    def _where(self, number: int) -> str:
        return f"image {number} of {self._ref.key!r} in {self._ref.uri}"
