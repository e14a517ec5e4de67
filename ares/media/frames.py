"""Frames of a camera at given seconds, whatever kind of file they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.errors import MediaError
from ares.files import words
from ares.media import hdf5, mcap, mp4, parquet, tfrecord
from ares.media.stamp import check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

# A second that was computed as number / rate must not fall into the frame before.
_ROUNDING_SECONDS = 1e-3


def frames_at(ref: MediaRef, seconds: Sequence[float]) -> NDArray[np.uint8]:
    """The frame shown at each second of the episode: (N, H, W, 3) uint8 RGB, in the order asked.

    That is the last frame that starts no later than the second (within a thousandth of a second, which
    containers round away), the first for a second before 0 and the last for one past the end. Only the frames
    asked for, and those they depend on since the nearest keyframe, are decoded, each once.

    Raises MediaError when the file is missing, cut or cannot be decoded, or holds images of several sizes.
    """
    import numpy as np

    check(ref)
    if not len(seconds):
        first = next(all_frames(ref), None)
        return np.empty((0, *(first.shape if first is not None else (0, 0, 3))), np.uint8)
    order = sorted(range(len(seconds)), key=lambda number: seconds[number])
    made: NDArray[np.uint8] | None = None
    for number, picture in zip(
        order, _rising(ref, [float(seconds[number]) for number in order]), strict=True
    ):
        if made is None:
            made = np.empty((len(seconds), *picture.shape), np.uint8)
        elif picture.shape != made.shape[1:]:
            raise MediaError(
                "images of several sizes", f"{ref.uri} {ref.key}: {made.shape[1:]} and {picture.shape}"
            )
        made[number] = picture
    assert made is not None
    return made


def all_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Every frame of the span in order, one at a time: (H, W, 3) uint8 RGB. Raises MediaError."""
    check(ref)
    if ref.kind == "mp4":
        return _rgb(ref, mp4.all_frames(ref))
    if ref.kind == "mcap":
        return _rgb(ref, mcap.all_frames(ref))
    return _rgb(ref, _pictures(ref, range(ref.num_frames)))


def encoded_frames(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG, PNG) of a camera as they are stored: swapped, where `ref.channels` says so.

    Raises MediaError.
    """
    check(ref)
    try:
        return _encoded(ref)
    except OSError as error:
        raise _unreadable(ref, error) from None


def _encoded(ref: MediaRef) -> list[bytes]:
    if ref.kind == "tfrecord":
        return tfrecord.encoded_frames(ref)
    if ref.kind == "hdf5":
        return hdf5.encoded_frames(ref)
    if ref.kind == "parquet":
        return list(parquet.encoded(ref, range(ref.num_frames)))
    raise _unknown(ref)


def _rising(ref: MediaRef, seconds: Sequence[float]) -> Iterator[NDArray[np.uint8]]:
    if ref.kind == "mp4":
        return _rgb(ref, mp4.frames(ref, seconds))
    if ref.kind == "mcap":
        return _rgb(ref, mcap.frames(ref, seconds))
    last = ref.num_frames - 1
    slack = min(_ROUNDING_SECONDS, 0.5 / ref.rate_hz)
    numbers = [min(max(int((second + slack) * ref.rate_hz), 0), last) for second in seconds]
    return _rgb(ref, _pictures(ref, numbers))


def _pictures(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    if ref.kind == "tfrecord":
        return tfrecord.frames(ref, numbers)
    if ref.kind == "hdf5":
        return hdf5.frames(ref, numbers)
    if ref.kind == "parquet":
        return parquet.frames(ref, numbers)
    raise _unknown(ref)


def _rgb(ref: MediaRef, pictures: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The pictures with red first, however the source stored them."""
    pictures = _read(ref, pictures)
    if ref.channels == "rgb":
        return pictures
    import numpy as np

    return (np.ascontiguousarray(picture[..., ::-1]) for picture in pictures)


def _read(ref: MediaRef, pictures: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The pictures; a disk or a server that fails on the way is a MediaError."""
    try:
        yield from pictures
    except OSError as error:
        raise _unreadable(ref, error) from None


def _unreadable(ref: MediaRef, error: OSError) -> MediaError:
    return MediaError("file cannot be read", f"{ref.uri}: {words(error)}")


def _unknown(ref: MediaRef) -> MediaError:
    return MediaError(f"frames of kind {ref.kind!r} cannot be read", f"{ref.uri} {ref.key}")
