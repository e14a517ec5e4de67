"""Pictures in a dataset of an HDF5 file, raw or a JPEG or PNG in each row; only the rows wanted are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ares import files
from ares.errors import MediaError, SourceError
from ares.media.tfrecord import decode_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

# A chunk that spans several pictures is unpacked once, not once for each of them.
_CHUNK_CACHE_BYTES = 64 * 2**20


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn what HDF5 says of a cut or damaged file into a SourceError; to be put around calls of h5py alone."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        words = str(error).strip("'\"") or type(error).__name__
        written = "unable to lock file" in words
        reason = "HDF5 file is being written" if written else "HDF5 file is cut or damaged"
        raise SourceError(reason, f"{where}: {words}") from None


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """An HDF5 file, open for reading and closed afterwards.

    Raises SourceError for a file that is missing, empty, cut, being written, or none.
    """
    import h5py  # type: ignore[import-untyped]

    try:
        size = files.state(path).size
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {files.words(error)}") from None
    if not size:
        raise SourceError("HDF5 file is empty", f"{path}: 0 bytes")
    with reading(path):
        told = {"rdcc_nbytes": _CHUNK_CACHE_BYTES}
        if files.is_url(path):
            handle = h5py.File(files.opened(path), "r", **told)
        else:
            # "best-effort": network and read-only file systems that know no locks are read all the same.
            handle = h5py.File(path, "r", locking="best-effort", **told)
    try:
        yield handle
    finally:
        handle.close()


def is_raw(pictures: Any) -> bool:
    """Whether a dataset is (T, H, W, 1, 3 or 4) uint8: pixels as they are."""
    return bool(pictures.ndim == 4 and pictures.dtype == "uint8" and pictures.shape[-1] in (1, 3, 4))


def is_encoded(pictures: Any) -> bool:
    """Whether the rows of a dataset hold bytes: (T, padded bytes) uint8, or (T,) of bytes of any length."""
    import h5py

    if pictures.ndim == 2:
        return bool(pictures.dtype == "uint8")
    if pictures.ndim != 1:
        return False
    return bool(pictures.dtype.kind == "S" or h5py.check_vlen_dtype(pictures.dtype) == "uint8")


def encoded_row(pictures: Any, number: int) -> bytes:
    """The JPEG or PNG in a row, without the zeros that fill it up. Raises SourceError."""
    import numpy as np

    with reading(f"{pictures.file.filename} {pictures.name} row {number}"):
        row = pictures[number]
    # Neither format can end in a zero byte.
    return (row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()).rstrip(b"\0")


def raw_row(pictures: Any, number: int) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of a row of raw pixels: grey is repeated, alpha is left out. Raises SourceError."""
    import numpy as np

    with reading(f"{pictures.file.filename} {pictures.name} row {number}"):
        row: NDArray[np.uint8] = pictures[number]
    if row.shape[-1] == 1:
        return np.repeat(row, 3, axis=-1)
    return np.ascontiguousarray(row[..., :3])


def frames(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """The frames of those numbers, which must rise; (H, W, 3) uint8 RGB, the very same array for a number again.

    Raises MediaError.
    """
    shown, picture = -1, None
    with _pictures(ref) as pictures:
        for number in numbers:
            if picture is None or number != shown:
                shown, picture = number, _picture(ref, pictures, number)
            yield picture


def encoded_frames(ref: MediaRef) -> list[bytes]:
    """The JPEG or PNG images of a camera as they stand in the file. Raises MediaError, also for raw pixels."""
    with _pictures(ref) as pictures:
        if not is_encoded(pictures):
            raise MediaError("pictures are not encoded", f"{ref.uri} {ref.key}: {pictures.shape}")
        _there(ref, pictures, ref.num_frames - 1)
        return [encoded_row(pictures, number) for number in range(ref.num_frames)]


@contextmanager
def _pictures(ref: MediaRef) -> Iterator[Any]:
    import h5py

    try:
        with opened(ref.uri) as file:
            with reading(f"{ref.uri} {ref.key}"):
                pictures = file.get(ref.key)
            if not isinstance(pictures, h5py.Dataset) or not (is_raw(pictures) or is_encoded(pictures)):
                raise MediaError("file has no such pictures", f"{ref.key!r} in {ref.uri}")
            yield pictures
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _picture(ref: MediaRef, pictures: Any, number: int) -> NDArray[np.uint8]:
    _there(ref, pictures, number)
    if is_raw(pictures):
        return raw_row(pictures, number)
    return decode_image(encoded_row(pictures, number), f"{ref.key!r} frame {number} of {ref.uri}")


def _there(ref: MediaRef, pictures: Any, number: int) -> None:
    if number >= len(pictures):
        raise MediaError("file has fewer pictures", f"{ref.key!r} of {ref.uri}: {number} of {len(pictures)}")
