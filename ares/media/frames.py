"""Decoded frames of any camera, at given seconds or in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from ares.clock import time_tolerance
from ares.episode import TOPIC_KINDS
from ares.errors import AresError, MediaError, SourceError
from ares.input import decode_image, refuse_outside_links
from ares.io import describe_os_error
from ares.media.fingerprint import (
    find_grandparent_folder,
    source_files,
    verify_source,
    were_outside_links_allowed,
)
from ares.media.readers.arrays import read_zarr_frames
from ares.media.readers.hdf5 import read_hdf5_frames, read_hdf5_images
from ares.media.readers.image_files import frame_numbers, read_image_file_frames, read_image_files
from ares.media.readers.images import (
    read_parquet_frames,
    read_parquet_images,
    read_tfrecord_frames,
    read_tfrecord_images,
)
from ares.media.readers.npy import read_npy_frames
from ares.media.recordings.topic_frames import read_all_topic_frames, read_topic_frames
from ares.media.video.codec import read_all_video_frames, read_video_frames
from ares.media.video.probe import probe_video

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef
    from ares.media.video.codec import OpenVideos


# Yields the frames of rising, distinct numbers, by the kind of a source that has an image for each of them.
_READERS: Mapping[str, Callable[[MediaRef, Sequence[int]], Iterator[NDArray[np.uint8]]]] = {
    "tfrecord": read_tfrecord_frames,
    "hdf5": read_hdf5_frames,
    "parquet": read_parquet_frames,
    "zarr": read_zarr_frames,
    "images": read_image_file_frames,
    "npy": read_npy_frames,
}


def frames_at(ref: MediaRef, seconds: Sequence[float], videos: OpenVideos | None = None) -> NDArray[np.uint8]:
    """The frame shown at each second of the episode: (N, H, W, 3) uint8 RGB, in the order of `seconds`.

    That is the last frame that starts no later than the second. Starts may be late by a thousandth of a second or a
    tenth of a period, because containers round them. A second before 0 gives the first frame, one past the end the
    last. Only the requested frames and those they depend on since the nearest keyframe are decoded, each once. A video
    file stays open in `videos`, and a later second goes on where the last read ended.

    Raises MediaError when the file is missing, truncated or cannot be decoded, or holds images of several sizes.
    """
    import numpy as np

    verify_source(ref)
    if not len(seconds):
        first_frame = next(all_frames(ref), None)
        return np.empty((0, *(first_frame.shape if first_frame is not None else (0, 0, 3))), np.uint8)
    order = sorted(range(len(seconds)), key=lambda position: seconds[position])
    rising_seconds = [float(seconds[position]) for position in order]
    frames: NDArray[np.uint8] | None = None
    for position, frame in zip(order, _decode_at(ref, rising_seconds, videos), strict=True):
        if frames is None:
            frames = np.empty((len(seconds), *frame.shape), np.uint8)
        elif frame.shape != frames.shape[1:]:
            shapes = f"{frames.shape[1:]} and {frame.shape}"
            raise MediaError("images of several sizes", f"{ref.uri} {ref.key}: {shapes}")
        frames[position] = frame
    assert frames is not None
    return frames


def frames_in_order(
    ref: MediaRef, seconds: Sequence[float], videos: OpenVideos | None = None
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame shown at each of some rising seconds as `frames_at` has it, decoded when it is asked for.

    Yields:
        (H, W, 3) uint8 RGB; the same array again where two seconds show one frame. Raises MediaError.
    """
    verify_source(ref)
    return _decode_at(ref, seconds, videos)


def all_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame of the span in order: (H, W, 3) uint8 RGB. Raises MediaError."""
    verify_source(ref)
    if ref.kind == "mp4":
        return _to_rgb(ref, read_all_video_frames(ref))
    if ref.kind in TOPIC_KINDS:
        return _to_rgb(ref, read_all_topic_frames(ref))
    return _to_rgb(ref, _decode_numbers(ref, range(ref.num_frames)))


def frames_or_errors(ref: MediaRef, first: int) -> Iterator[NDArray[np.uint8] | MediaError]:
    """The frames of `all_frames` from one on, and a MediaError in place of each image that cannot be decoded.

    Raises MediaError where the source does not hold each frame as an encoded image, or cannot be read.
    """
    for number, data in enumerate(encoded_frames(ref)[first:], start=first):
        try:
            yield next(_to_rgb(ref, iter([decode_image(data, f"{ref.uri} {ref.key} frame {number}")])))
        except MediaError as error:
            yield error


def encoded_frames(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG, PNG) of a camera as the source stores them, in the channel order of `ref.channels`.

    Raises MediaError.
    """
    verify_source(ref)
    try:
        with _make_link_guard(ref)():
            return _read_encoded(ref)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    except OSError as error:
        raise _read_error(ref, error) from None


def bytes_per_frame(ref: MediaRef) -> float:
    """Stored bytes of a frame, in the mean; those of a raw picture where none is encoded, 0 where none can be read."""
    try:
        if ref.kind == "mp4":
            info = probe_video(ref.uri)
            stored = 0 if info.packet_sizes is None else int(info.packet_sizes.sum())
            return stored / max(info.num_frames, 1)
        try:
            return sum(map(len, encoded_frames(ref))) / max(ref.num_frames, 1)
        except MediaError:
            return float(frames_at(ref, [0.0]).nbytes)
    except AresError:
        return 0.0


def _read_encoded(ref: MediaRef) -> list[bytes]:
    if ref.kind == "tfrecord":
        return read_tfrecord_images(ref)
    if ref.kind == "hdf5":
        return read_hdf5_images(ref)
    if ref.kind == "parquet":
        return list(read_parquet_images(ref, range(ref.num_frames)))
    if ref.kind == "images":
        return list(read_image_files(ref, range(ref.num_frames)))
    raise _unknown_kind(ref)


def _decode_at(
    ref: MediaRef, seconds: Sequence[float], videos: OpenVideos | None
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame at each of some rising seconds."""
    if ref.kind == "mp4":
        return _to_rgb(ref, read_video_frames(ref, seconds, videos))
    if ref.kind in TOPIC_KINDS:
        return _to_rgb(ref, read_topic_frames(ref, seconds))
    last_number = ref.num_frames - 1
    tolerance = time_tolerance(ref.rate_hz)
    if ref.kind == "images" and (stamped := frame_numbers(ref, seconds, tolerance)) is not None:
        return _to_rgb(ref, _decode_numbers(ref, stamped))
    numbers = [min(max(int((second + tolerance) * ref.rate_hz), 0), last_number) for second in seconds]
    return _to_rgb(ref, _decode_numbers(ref, numbers))


def _decode_numbers(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, each decoded once; a repeated number yields the same array again."""
    if ref.kind not in _READERS:
        raise _unknown_kind(ref)
    frames = _READERS[ref.kind](ref, [number for number, _ in groupby(numbers)])
    for frame, (_, repeats) in zip(frames, groupby(numbers), strict=True):
        for _ in repeats:
            yield frame


def _to_rgb(ref: MediaRef, frames: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The frames upright and with the red channel first, however the source stores them."""
    frames = _translate_errors(ref, frames)
    return frames if ref.is_as_stored else (_make_upright(frame, ref) for frame in frames)


def _make_upright(frame: NDArray[np.uint8], ref: MediaRef) -> NDArray[np.uint8]:
    """(H, W, 3) or, after a quarter turn, (W, H, 3): a frame with its colours and its sides in order."""
    import numpy as np

    if ref.channels == "bgr":
        frame = frame[..., ::-1]
    if ref.turn == "vertical flip":
        frame = frame[::-1]
    elif ref.turn == "horizontal flip":
        frame = frame[:, ::-1]
    elif ref.turn:
        frame = np.rot90(frame, -int(ref.turn) // 90)
    return np.ascontiguousarray(_fit_frame(frame, *ref.fit) if ref.fit else frame)


def _fit_frame(frame: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """(height, width, 3): the frame as large as it fits with its sides kept, in the middle of black."""
    import cv2
    import numpy as np

    scale = min(width / frame.shape[1], height / frame.shape[0])
    inner = max(1, round(frame.shape[1] * scale)), max(1, round(frame.shape[0] * scale))
    fitted = np.zeros((height, width, 3), np.uint8)
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    frame = np.ascontiguousarray(frame)
    fitted[top : top + inner[1], left : left + inner[0]] = cv2.resize(frame, inner, interpolation=way)
    return fitted


def _translate_errors(ref: MediaRef, frames: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames; an OSError or SourceError in between becomes a MediaError."""
    try:
        reading = _make_link_guard(ref)
        while True:
            # Not while the caller works with the frame: a context of a generator holds for its caller too.
            with reading():
                frame = next(frames, None)
            if frame is None:
                return
            yield frame
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    except OSError as error:
        raise _read_error(ref, error) from None


def _make_link_guard(ref: MediaRef) -> Callable[[], AbstractContextManager[None]]:
    """Makes blocks in which no link leads out of the dataset of a camera that has just been verified."""
    follows = were_outside_links_allowed(ref.stamp, source_files(ref.uri))
    return partial(refuse_outside_links, find_grandparent_folder(ref.uri), follows)


def _read_error(ref: MediaRef, error: OSError) -> MediaError:
    return MediaError("file cannot be read", f"{ref.uri}: {describe_os_error(error)}")


def _unknown_kind(ref: MediaRef) -> MediaError:
    return MediaError(f"frames of kind {ref.kind!r} cannot be read", f"{ref.uri} {ref.key}")
