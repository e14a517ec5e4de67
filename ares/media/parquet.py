"""Pictures in a column of a Parquet file, as LeRobot keeps them; only the row groups of the episode are read."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from ares import files
from ares.errors import MediaError
from ares.media.tfrecord import decode_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.files import State
    from ares.media.ref import MediaRef

_BATCH_ROWS = 8
_BUFFER_BYTES = 2**20
_INFO = "meta/info.json"


def frames(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """The frames of those numbers, which must rise; (H, W, 3) uint8 RGB, the very same array for a number again.

    Raises MediaError.
    """
    wanted = list(dict.fromkeys(numbers))
    found = zip(wanted, encoded(ref, wanted), strict=True)
    shown, picture = -1, None
    for number in numbers:
        if picture is None or number != shown:
            shown, data = next(found)
            picture = decode_image(data, f"{ref.key!r} frame {shown} of {ref.uri}")
        yield picture


def encoded(ref: MediaRef, numbers: Sequence[int]) -> Iterator[bytes]:
    """The JPEG or PNG images of those numbers, which must rise and differ, as they stand in the file (or beside it).

    Raises MediaError.
    """
    import pyarrow as pa

    try:
        with files.opened(ref.uri, records=True) as source:
            yield from _encoded(ref, source, numbers)
    except FileNotFoundError:
        raise MediaError("file is missing", ref.uri) from None
    except (pa.ArrowException, OSError) as error:
        raise MediaError("data file cannot be read", f"{ref.uri}: {error}") from None


def _encoded(ref: MediaRef, source: Any, numbers: Sequence[int]) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    metadata, starts = _footer(ref.uri, files.state(ref.uri))
    file = pq.ParquetFile(source, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    if ref.key not in file.schema_arrow.names:
        raise MediaError("data file has no such images", f"{ref.key!r} in {ref.uri}")
    first = round(ref.start_seconds * ref.rate_hz)
    rows = [first + number for number in numbers]
    if rows and rows[-1] >= starts[-1]:
        raise MediaError("data file has fewer rows", f"{ref.uri}: {rows[-1]} of {starts[-1]}")
    for group, inside in groupby(rows, lambda row: bisect_right(starts, row) - 1):
        yield from _of_group(ref, file, group, [row - starts[group] for row in inside])


def _of_group(ref: MediaRef, file: Any, group: int, rows: list[int]) -> Iterator[bytes]:
    """The images of some rows of a row group, which is read no further than the last of them."""
    start, left = 0, iter(rows)
    row = next(left, None)
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[ref.key], use_threads=False)
    for batch in batches:
        column = batch.column(ref.key)
        while row is not None and row < start + len(column):
            yield _image(ref, column[row - start].as_py())
            row = next(left, None)
        if row is None:
            return
        start += len(column)


def _image(ref: MediaRef, value: Any) -> bytes:
    """What a row holds: the bytes of an image, or the path of one in the dataset."""
    data = value.get("bytes") if isinstance(value, dict) else value
    path = value.get("path") if isinstance(value, dict) else None
    if isinstance(data, bytes) and data:
        return data
    if not path:
        raise MediaError("row holds no image", f"{ref.key!r} of {ref.uri}")
    return _beside(ref.uri, str(path))


def _beside(uri: str, path: str) -> bytes:
    """An image file of the dataset that a data file belongs to, by its path from the dataset or the data file."""
    if path.startswith("/") or files.is_url(path) or ".." in path.split("/") or "\0" in path:
        raise MediaError("image leads out of the dataset", f"{uri}: {path!r}")
    for folder in files.place(uri).parents:
        if (folder / path).is_file():
            return (folder / path).read_bytes()
        if (folder / _INFO).is_file():
            break
    raise MediaError("image file is missing", f"{path!r} of {uri}")


@functools.lru_cache(maxsize=8)  # the footer of a file with thousands of row groups takes 20 MB
def _footer(uri: str, state: State) -> tuple[Any, tuple[int, ...]]:
    """The metadata of a file, and the first row of each row group with the number of rows."""
    import pyarrow.parquet as pq

    with files.opened(uri) as source:
        metadata = pq.read_metadata(source)
    sizes = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return metadata, (0, *accumulate(sizes))
