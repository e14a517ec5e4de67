"""Reads frames stored as single images: image files, table columns, TFRecord examples."""

from __future__ import annotations

import functools
import io
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.errors import MediaError, SourceError
from ares.formats import INFO_PATH, RecordLocation, parse_tf_example, read_record
from ares.input import check_relative_path, decode_image, input_budgets, open_parquet, read_input
from ares.io import describe_os_error, file_state, list_folder, parse_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef
    from ares.io import FileState


_BATCH_ROWS = 8
_BUFFER_BYTES = 2**20
_MAX_IMAGE_BYTES = 2**28


def read_parquet_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising, distinct numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    for number, data in zip(frame_numbers, read_parquet_images(ref, frame_numbers), strict=True):
        yield decode_image(data, f"{ref.key!r} frame {number} of {ref.uri}")


def read_parquet_images(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield the encoded images (JPEG or PNG) of rising, distinct numbers as the dataset stores them.

    Only the row groups of those frames are read. Raises MediaError.
    """
    import pyarrow as pa

    try:
        yield from _read_rows(ref, frame_numbers)
    except FileNotFoundError:
        raise MediaError("file is missing", ref.uri) from None
    except (pa.ArrowException, OSError) as error:
        raise MediaError("data file cannot be read", f"{ref.uri}: {error}") from None


def _read_rows(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[bytes]:
    metadata, group_starts = _read_footer(ref.uri, file_state(ref.uri))
    options = {"metadata": metadata, "pre_buffer": False, "buffer_size": _BUFFER_BYTES}
    with open_parquet(ref.uri, long_reads=True, **options) as file:
        yield from _read_images(ref, file, group_starts, frame_numbers)


def _read_images(
    ref: MediaRef, file: Any, group_starts: Sequence[int], frame_numbers: Sequence[int]
) -> Iterator[bytes]:
    if ref.key not in file.schema_arrow.names:
        raise MediaError("data file has no such images", f"{ref.key!r} in {ref.uri}")
    first_row = round(ref.start_seconds * ref.rate_hz)
    rows = [first_row + number for number in frame_numbers]
    if rows and rows[-1] >= group_starts[-1]:
        raise MediaError("data file has fewer rows", f"{ref.uri}: {rows[-1]} of {group_starts[-1]}")
    for group, group_rows in groupby(rows, lambda row: bisect_right(group_starts, row) - 1):
        yield from _read_row_group(ref, file, group, [row - group_starts[group] for row in group_rows])


def _read_row_group(ref: MediaRef, file: Any, group: int, rows: list[int]) -> Iterator[bytes]:
    """Yield the images of rows of a row group, reading no further than the last of them."""
    batch_start, remaining_rows = 0, iter(rows)
    row = next(remaining_rows, None)
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[ref.key], use_threads=False)
    for batch in batches:
        column = batch.column(ref.key)
        while row is not None and row < batch_start + len(column):
            yield _image_bytes(ref, column[row - batch_start].as_py())
            row = next(remaining_rows, None)
        if row is None:
            return
        batch_start += len(column)


def _image_bytes(ref: MediaRef, value: Any) -> bytes:
    """The encoded image of a row, which holds its bytes or its path in the dataset."""
    data = value.get("bytes") if isinstance(value, dict) else value
    path = value.get("path") if isinstance(value, dict) else None
    if isinstance(data, bytes) and data:
        return data
    if not path:
        raise MediaError("row holds no image", f"{ref.key!r} of {ref.uri}")
    return _read_image_file(ref.uri, str(path))


def _read_image_file(uri: str, path: str) -> bytes:
    """An image file by its path relative to the dataset or to the data file."""
    try:
        check_relative_path(path, uri)
    except SourceError as error:
        raise MediaError("image leads out of the dataset", error.detail) from None
    for folder in parse_path(uri).parents:
        if (folder / path).is_file():
            return read_input(str(folder / path), _MAX_IMAGE_BYTES)
        if (folder / INFO_PATH).is_file():
            break
    raise MediaError("image file is missing", f"{path!r} of {uri}")


@functools.lru_cache(maxsize=8)  # the footer of a file with thousands of row groups takes 20 MB
def _read_footer(uri: str, state: FileState) -> tuple[Any, tuple[int, ...]]:
    """The metadata of a file, and the first row of each row group followed by the number of rows."""
    with open_parquet(uri) as file:
        metadata = file.metadata
    group_sizes = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return metadata, (0, *accumulate(group_sizes))


def read_tfrecord_images(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG or PNG) of a camera as the record stores them. Raises MediaError."""
    location = f"{ref.uri}, byte {ref.byte_offset}"
    try:
        payload, _ = read_record(ref.uri, RecordLocation(ref.byte_offset, ref.byte_size))
        example = parse_tf_example(payload, location)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    images = list(example[ref.key].bytes_list.value) if ref.key in example else []
    if not images:
        raise MediaError("record has no such images", f"{ref.key!r} in {location}")
    return images


def read_tfrecord_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    images = read_tfrecord_images(ref)
    for number in frame_numbers:
        if number >= len(images):
            raise MediaError(
                "record has fewer images", f"{ref.key!r} of {ref.uri}: {number} of {len(images)}"
            )
        yield decode_image(images[number], f"{ref.key!r} frame {number} of {ref.uri}, byte {ref.byte_offset}")


# Memory that parsing takes at most, in sizes of the text.
_PARSE_FACTOR = 8
_MOST_COLUMNS = 10_000


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A parsed table.

    Attributes:
        names: Names of the columns, in order.
        num_rows: Rows below the header.
    """

    columns: Any
    names: tuple[str, ...]
    num_rows: int

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.int64] | None:
        """(T,) numbers of a column: int64 where all are whole, else float64 with NaN for empty cells; None for texts.

        Dates are seconds since 1970.
        """
        import numpy as np
        import pyarrow as pa

        column = self.columns.column(name)
        if pa.types.is_timestamp(column.type):
            nanoseconds = column.cast(pa.timestamp("ns")).cast(pa.int64())
            return np.asarray(nanoseconds.to_numpy(), np.float64) / 1e9
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_boolean(column.type)
        ):
            return None
        if pa.types.is_integer(column.type) and not column.null_count:
            return np.asarray(column.to_numpy(), np.int64)
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)

    def texts(self, name: str) -> list[str]:
        """The texts of a column, "" for empty cells; an empty list for another column or a missing one."""
        import pyarrow as pa

        if name not in self.names or not pa.types.is_string(self.columns.column(name).type):
            return []
        return [text or "" for text in self.columns.column(name).to_pylist()]


@functools.lru_cache(maxsize=4)
def read_csv_table(path: str, state: FileState) -> CsvTable:
    """Parse a table, once per state of its file.

    Args:
        path: Path or URL; `.tsv` has tabs, other files what their header holds most of: comma, semicolon or tab.
        state: State of the file, from `file_state`.

    Raises SourceError when it cannot be read, is too large, or its rows have several lengths.
    """
    import pyarrow as pa
    from pyarrow import csv

    budgets = input_budgets()
    try:
        # Arrow takes several times the size of a text to parse it, and ends the process where it gets no memory.
        data = read_input(path, min(budgets.array_bytes, budgets.memory_bytes // _PARSE_FACTOR))
    except OSError as error:
        raise SourceError("table cannot be read", f"{path}: {describe_os_error(error)}") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    header = data[: 2**16].partition(b"\n")[0]
    if not header.strip():
        raise SourceError("table is empty", f"{path}: {len(data)} bytes")
    delimiter = (
        "\t"
        if path.lower().endswith(".tsv")
        else max(",;\t", key=lambda separator: header.count(separator.encode()))
    )
    try:
        columns = csv.read_csv(
            io.BytesIO(data),
            # One block: the type of a column follows from all of its rows.
            read_options=csv.ReadOptions(block_size=min(len(data) + 1, 2**31 - 1), use_threads=False),
            parse_options=csv.ParseOptions(delimiter=delimiter),
        )
        names = tuple(str(name) for name in columns.column_names)  # fails where they are not UTF-8
    except (pa.ArrowException, ValueError) as error:
        raise SourceError("table cannot be parsed", f"{path}: {' '.join(str(error).split())[:300]}") from None
    if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
        raise SourceError(
            "table has two columns of one name, or too many", f"{path}: {count_of(len(names), 'column')}"
        )
    return CsvTable(columns, names, columns.num_rows)


IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
_NUMBER_IN_NAME = re.compile(r"^(?P<prefix>.*?)(?P<number>\d+(?:\.\d+)?)$")
# Smallest whole number that is a stamp, with its unit in seconds: 10^9 s since 1970 was in 2001.
_STAMP_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e9, 1.0))
_LARGEST_IMAGE_BYTES = 2**28


class CameraImageFiles(NamedTuple):
    """The images of one camera.

    Attributes:
        names: Names in the folder, in the order of their numbers.
        seconds: Stamps of the names in seconds, strictly rising; None where the numbers are no stamps.
    """

    names: tuple[str, ...]
    seconds: tuple[float, ...] | None


def group_images(
    names: Sequence[str], suffixes: tuple[str, ...] = IMAGE_SUFFIXES
) -> dict[str, CameraImageFiles]:
    """The images among the names of a folder by the text before their numbers; other files are left out."""
    numbered: dict[str, list[tuple[float, str, str]]] = {}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}".lower() not in suffixes or name.startswith("."):
            continue
        match = _NUMBER_IN_NAME.match(stem)
        if match:
            numbered.setdefault(match["prefix"], []).append((float(match["number"]), match["number"], name))
    groups = {}
    for prefix, images in numbered.items():
        images.sort()
        groups[prefix] = CameraImageFiles(
            tuple(name for _, _, name in images), _stamp_seconds([number for _, number, _ in images])
        )
    return groups


def _stamp_seconds(numbers: Sequence[str]) -> tuple[float, ...] | None:
    """Seconds of numbers that are stamps; None for plain numbers, or stamps that do not strictly rise."""
    if any("." in number for number in numbers):
        seconds = tuple(float(number) for number in numbers)
    else:
        unit = next((unit for smallest, unit in _STAMP_UNITS if float(numbers[0]) >= smallest), None)
        if unit is None:
            return None
        # Whole numbers are divided as such, so that no digit is lost before.
        seconds = tuple(int(number) / round(1 / unit) for number in numbers)
    is_rising = all(first < second for first, second in pairwise(seconds))
    return seconds if is_rising else None


def folder_images(ref: MediaRef) -> CameraImageFiles:
    """The images of a camera. Raises MediaError when there are none, SourceError for a table that cannot be read."""
    if ref.uri.endswith("/"):
        images = _list_images(ref.uri, file_state(ref.uri)).get(ref.key)
    else:
        column = read_csv_table(ref.uri, file_state(ref.uri)).texts(ref.key)
        images = CameraImageFiles(tuple(column), None) if column else None
    if images is None:
        raise MediaError("folder holds no such images", f"{ref.uri} {ref.key}")
    return images


@functools.lru_cache(maxsize=32)  # 10^5 names take about 10 MB
def _list_images(folder: str, state: FileState) -> dict[str, CameraImageFiles]:
    return group_images(list(list_folder(Path(folder)).files))


def sample_images(uri: str, count: int) -> list[str]:
    """Paths of up to `count` images of a folder, evenly spread. Raises OSError when it is missing."""
    groups = _list_images(uri, file_state(uri)).values()
    names = [name for images in groups for name in images.names]
    step = max(1, -(-len(names) // count))
    return [f"{uri}{name}" for name in names[::step]]


def image_file_seconds(ref: MediaRef) -> list[float] | None:
    """When each image is shown, in seconds of the episode; None where the names hold no stamps. Raises MediaError."""
    seconds = folder_images(ref).seconds
    return [second - ref.start_seconds for second in seconds] if seconds else None


def frame_numbers(ref: MediaRef, seconds: Sequence[float], tolerance: float) -> list[int] | None:
    """Number of the last image at or before each second, by the stamps; None where the names hold none."""
    stamps = image_file_seconds(ref)
    if stamps is None:
        return None
    return [max(bisect_right(stamps, second + tolerance) - 1, 0) for second in seconds]


def read_image_files(ref: MediaRef, numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield the files of some images, as they are. Raises MediaError for a missing file, and OSError."""
    images = folder_images(ref)
    folder = ref.uri if ref.uri.endswith("/") else f"{Path(ref.uri).parent}/"
    for number in numbers:
        if number >= len(images.names):
            raise MediaError(
                "there are fewer images", f"{ref.uri} {ref.key}: {number} of {len(images.names)}"
            )
        try:
            path = folder + check_relative_path(images.names[number], ref.uri)
            yield read_input(path, _LARGEST_IMAGE_BYTES)
        except FileNotFoundError:
            raise MediaError("image file is missing", f"{images.names[number]!r} of {ref.uri}") from None
        except SourceError as error:
            raise MediaError(error.reason, error.detail) from None


def read_image_file_frames(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    for number, data in zip(numbers, read_image_files(ref, numbers), strict=True):
        yield decode_image(data, f"image {number} of {ref.uri} {ref.key}")
