"""Reads arrays of .npy and .npz files, also those with a file for each step; nothing is ever unpickled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

from ares.errors import AresError, MediaError, SourceError
from ares.input import open_input, open_zip
from ares.io import describe_os_error
from ares.media.readers.arrays import find_zarr_pixel_scale, has_zarr_images, read_zarr_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


# What stands before the last number of a file's name, the number, and what follows: files of steps differ by it.
LAST_NUMBER = re.compile(r"^(.*?)(\d+)(\D*)$")
# A picture has more pixels along each of its sides.
_FEWEST_PIXELS = 16


class NpyArray:
    """An array whose rows are read when they are asked for; read them in rising order where it is compressed.

    Args:
        file: The .npy data, which can seek.
        num_bytes: Their size.
        where: File and member, for messages.

    Attributes:
        shape: Its shape.
        dtype: Its type.
        size: Its number of elements.

    Raises:
        SourceError: It is no .npy data, holds objects, or has not the size that it declares.
    """

    def __init__(self, file: IO[bytes], num_bytes: int, where: str) -> None:
        self._file, self._where = file, where
        self.shape, is_fortran, self.dtype = _read_header(file, where)
        self._offset = file.tell()
        self.size, self.ndim = math.prod(self.shape), len(self.shape)
        self._is_fortran = is_fortran and self.ndim > 1
        if self.dtype.hasobject:
            raise SourceError("array is stored by pickle, which can run code", where)
        if self.size * self.dtype.itemsize != num_bytes - self._offset:
            raise SourceError(
                "array does not have the size that it declares",
                f"{where}: {self.shape} {self.dtype}, {num_bytes - self._offset} bytes are there",
            )

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """A row by its number, rows by a slice without step, or all by an empty tuple."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            return self._read(start, max(stop, start))
        if rows == ():
            return self._read(0, self.shape[0]) if self.ndim else self._read_bytes(0, 1).reshape(())
        row: NDArray[Any] = self._read(rows, rows + 1)[0]
        return row

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._is_fortran:
            whole = self._read_bytes(0, self.size).reshape(self.shape, order="F")
            return whole[start:stop]
        row_size = math.prod(self.shape[1:])
        values = self._read_bytes(start * row_size, (stop - start) * row_size)
        return values.reshape(stop - start, *self.shape[1:])

    def _read_bytes(self, start: int, count: int) -> NDArray[Any]:
        """`count` elements from element `start` on."""
        import numpy as np

        num_bytes = count * self.dtype.itemsize
        with translate_npy_errors(self._where):
            self._file.seek(self._offset + start * self.dtype.itemsize)
            data = self._file.read(num_bytes)
            if start + count == self.size:
                self._file.read(1)  # a zip entry compares its checksum at its end
        if len(data) != num_bytes:
            raise SourceError("array is cut", f"{self._where}: {num_bytes - len(data)} bytes are missing")
        return np.frombuffer(data, self.dtype) if num_bytes else np.empty(count, self.dtype)


def _read_header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, Any]:
    from numpy.lib import format as npy

    with translate_npy_errors(where):
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
    if any(size < 0 for size in shape):
        raise SourceError("array is no .npy data", f"{where}: its shape is {shape}")
    return shape, is_fortran, dtype


@contextmanager
def translate_npy_errors(where: str) -> Iterator[None]:
    """Turn what numpy and zipfile raise for damaged data into a SourceError; wrap their calls only."""
    try:
        yield
    except AresError:
        raise
    except Exception as error:  # the parsers of numpy and zipfile raise a dozen kinds
        text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise SourceError("array is no .npy data, or is cut", f"{where}: {text}") from None


@contextmanager
def open_npy(path: str) -> Iterator[dict[str, NpyArray | SourceError]]:
    """The arrays of an .npz file by name, or that of an .npy file as ""; an error for each that cannot be read.

    Raises:
        SourceError: The file is damaged, or goes beyond the budgets.
        OSError: It cannot be opened.
    """
    with ExitStack() as files:
        arrays: dict[str, NpyArray | SourceError] = {}
        if path.lower().endswith(".npy"):
            file: IO[bytes] = files.enter_context(open_input(path))
            size = file.seek(0, 2)
            file.seek(0)
            arrays[""] = _open_array(file, size, path)
        else:
            archive = files.enter_context(open_zip(path))
            for entry in archive.infolist():
                if entry.filename.endswith(".npy"):
                    where = f"{path} {entry.filename!r}"
                    with translate_npy_errors(where):
                        file = files.enter_context(archive.open(entry))
                    arrays[entry.filename.removesuffix(".npy")] = _open_array(file, entry.file_size, where)
        yield arrays


def _open_array(file: IO[bytes], num_bytes: int, where: str) -> NpyArray | SourceError:
    try:
        return NpyArray(file, num_bytes, where)
    except SourceError as error:
        return SourceError(error.reason, error.detail)


def step_file_path(first: str, number: int) -> str:
    """The file of a step, counted from the one of the first step, by the last number in its name."""
    folder, slash, name = first.rpartition("/")
    match = LAST_NUMBER.match(name)
    if match is None:
        raise SourceError("file of a step has no number", first)
    digits = match[2]
    return f"{folder}{slash}{match[1]}{int(digits) + number:0{len(digits)}d}{match[3]}"


@contextmanager
def open_step(path: str) -> Iterator[dict[str, NpyArray | SourceError]]:
    """The arrays of the file of one step. Raises SourceError."""
    try:
        with open_npy(path) as arrays:
            yield arrays
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None


def value_of_step(
    arrays: Mapping[str, NpyArray | SourceError], key: str, shape: tuple[int, ...], path: str
) -> NDArray[Any]:
    """An array of a step. Raises SourceError where it is missing, or of another shape than in the first step."""
    array = arrays.get(key)
    if isinstance(array, SourceError):
        raise array
    if array is None or array.shape != shape:
        fault = "is missing" if array is None else f"is {array.shape}, in the first step {shape}"
        raise SourceError("steps of an episode differ", f"{path}: {key} {fault}")
    value: NDArray[Any] = array[()]
    return value


def is_single_image(array: Any) -> bool:
    """Whether an array is one picture (H, W, C), or one depth map (H, W) of floats."""
    if array.ndim == 3:
        return bool(array.shape[2] in (1, 3, 4) and min(array.shape[:2]) > _FEWEST_PIXELS)
    return bool(array.ndim == 2 and array.dtype.kind == "f" and min(array.shape) > _FEWEST_PIXELS)


class StackedSteps:
    """An array of which each step is in a separate file; rows are read when they are asked for.

    Args:
        first: The file of the first step.
        num_steps: How many steps there are.
        key: Name of the array in each file.
        step: The array of the first step.
    """

    def __init__(self, first: str, num_steps: int, key: str, step: NpyArray) -> None:
        self._first, self._key = first, key
        self.shape, self.dtype = (num_steps, *step.shape), step.dtype
        self.ndim, self.size = step.ndim + 1, step.size * num_steps

    def __getitem__(self, rows: Any) -> Any:
        """A row by its number, rows by a slice, or all by an empty tuple. Raises SourceError."""
        import numpy as np

        if not isinstance(rows, slice):
            return self[:] if rows == () else self._read(rows % self.shape[0])
        numbers = range(*rows.indices(self.shape[0]))
        return (
            np.stack([self._read(number) for number in numbers])
            if numbers
            else np.empty((0, *self.shape[1:]), self.dtype)
        )

    def _read(self, number: int) -> NDArray[Any]:
        path = step_file_path(self._first, number)
        with open_step(path) as arrays:
            return value_of_step(arrays, self._key, self.shape[1:], path)


def read_npy_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB.

    Where the array is one picture, the files whose names have the next numbers hold the next ones. Raises MediaError.
    """
    first_row = round(ref.start_seconds * ref.rate_hz)
    try:
        with open_npy(ref.uri) as arrays:
            array: Any = arrays.get(ref.key)
            if isinstance(array, NpyArray) and is_single_image(array):
                array = StackedSteps(ref.uri, ref.num_frames, ref.key, array)
            if array is None or isinstance(array, SourceError):
                raise MediaError("file has no such images", f"{ref.key!r} in {ref.uri}")
            if not has_zarr_images(array) or first_row + ref.num_frames > array.shape[0]:
                raise MediaError("file has no such images", f"{ref.key!r} in {ref.uri}: {array.shape}")
            scale = find_zarr_pixel_scale(array)
            for number in frame_numbers:
                yield read_zarr_image(array, first_row + number, scale)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
