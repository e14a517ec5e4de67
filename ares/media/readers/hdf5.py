"""Reads frames that are rows of arrays in HDF5 files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ares.errors import MediaError, SourceError
from ares.input import (
    decode_image,
    open_hdf5,
    open_hdf5_object,
    require_own_storage,
    translate_hdf5_errors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


# A row is an image; HDF5 can claim rows of any size without storing them. 8K in three bytes is 100 MB.
_LARGEST_ROW_BYTES = 2**28


def has_raw_images(dataset: Any) -> bool:
    """Whether a dataset is (T, H, W, C) uint8 with 1, 3 or 4 channels."""
    return bool(dataset.ndim == 4 and dataset.dtype == "uint8" and dataset.shape[-1] in (1, 3, 4))


def has_encoded_images(dataset: Any) -> bool:
    """Whether the rows of a dataset hold bytes: (T, padded bytes) uint8, or (T,) of bytes of any length."""
    import h5py  # type: ignore[import-untyped]

    if dataset.ndim == 2:
        return bool(dataset.dtype == "uint8")
    if dataset.ndim != 1:
        return False
    return bool(dataset.dtype.kind == "S" or h5py.check_vlen_dtype(dataset.dtype) == "uint8")


def read_encoded_image(dataset: Any, row_number: int) -> bytes:
    """The JPEG or PNG in a row, without the zeros that pad it. Raises SourceError."""
    import numpy as np

    row = _read_row(dataset, row_number)
    # Neither format can end in a zero byte.
    return (row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()).rstrip(b"\0")


def read_raw_image(dataset: Any, row_number: int) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of a row of raw pixels: grey is repeated, alpha is dropped. Raises SourceError."""
    import numpy as np

    row: NDArray[np.uint8] = _read_row(dataset, row_number)
    if row.shape[-1] == 1:
        return np.repeat(row, 3, axis=-1)
    return np.ascontiguousarray(row[..., :3])


def read_raw_bytes(dataset: Any, row_number: int) -> bytes:
    """The bytes of a row of raw pixels as stored. Raises SourceError."""
    row: NDArray[np.uint8] = _read_row(dataset, row_number)
    return row.tobytes()


def _read_row(dataset: Any, row_number: int) -> Any:
    where = f"{dataset.file.filename} {dataset.name} row {row_number}"
    row_bytes = dataset.nbytes // max(len(dataset), 1)
    if row_bytes > _LARGEST_ROW_BYTES:
        raise SourceError("image is too large", f"{where}: {row_bytes} bytes, at most {_LARGEST_ROW_BYTES}")
    with translate_hdf5_errors(where):
        return require_own_storage(dataset)[row_number]


def read_hdf5_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    with _open_images(ref) as dataset:
        for number in frame_numbers:
            yield _read_frame(ref, dataset, number)


def read_hdf5_images(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG or PNG) of a camera as the file stores them. Raises MediaError, also for raw pixels."""
    with _open_images(ref) as dataset:
        if not has_encoded_images(dataset):
            raise MediaError("images are not encoded", f"{ref.uri} {ref.key}: {dataset.shape}")
        _check_length(ref, dataset, ref.num_frames - 1)
        return [read_encoded_image(dataset, number) for number in range(ref.num_frames)]


@contextmanager
def _open_images(ref: MediaRef) -> Iterator[Any]:
    import h5py

    try:
        with open_hdf5(ref.uri) as file:
            dataset = open_hdf5_object(file, ref.key)
            is_dataset = isinstance(dataset, h5py.Dataset)
            if not is_dataset or not (has_raw_images(dataset) or has_encoded_images(dataset)):
                raise MediaError("file has no such images", f"{ref.key!r} in {ref.uri}")
            yield dataset
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None


def _read_frame(ref: MediaRef, dataset: Any, number: int) -> NDArray[np.uint8]:
    _check_length(ref, dataset, number)
    if has_raw_images(dataset):
        return read_raw_image(dataset, number)
    return decode_image(read_encoded_image(dataset, number), f"{ref.key!r} frame {number} of {ref.uri}")


def _check_length(ref: MediaRef, dataset: Any, number: int) -> None:
    if number >= len(dataset):
        raise MediaError("file has fewer images", f"{ref.key!r} of {ref.uri}: {number} of {len(dataset)}")
