"""Reads the rows of an episode from LeRobot data files, and turns their columns into arrays."""

from __future__ import annotations

import functools
import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import SourceError
from ares.formats import LANGUAGE_EVENTS, LANGUAGE_PERSISTENT, is_subtask_column
from ares.input import check_parquet_read, open_parquet
from ares.io import FileState, describe_os_error, file_state
from ares_ingest.lerobot.episode_list import arrow_to_numbers, list_lengths

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray


_MAX_CLAIMED_WIDTH = 65_536
_FEW_TEXTS = 1000


class DecodedColumn(NamedTuple):
    """A decoded column.

    Attributes:
        flat: All its numbers in the source's dtype, or indices into `texts`.
        width: Numbers per row, where all rows have as many.
        offsets: (rows + 1,) offset of each row in `flat` where the widths of rows differ, else None.
        texts: Distinct texts of a text column, else None.
        array: (rows,) the Arrow array of a column of rows of text, or of the texts of subtasks, else None.
    """

    flat: NDArray[Any]
    width: int
    offsets: NDArray[np.int64] | None = None
    texts: tuple[str, ...] | None = None
    array: pa.Array | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers and of the Arrow array."""
        return self.flat.nbytes + (0 if self.array is None else int(self.array.nbytes))

    def rows(self, start: int, stop: int) -> NDArray[Any] | None:
        """(stop - start, D) numbers, a copy; None when the widths of these rows differ."""
        import numpy as np

        if self.offsets is None:
            return self.flat[start * self.width : stop * self.width].reshape(stop - start, self.width).copy()
        bounds = self.offsets[start : stop + 1]
        widths = np.diff(bounds)
        if len(widths) == 0 or widths[0] == 0 or (widths != widths[0]).any():
            return None
        return self.flat[bounds[0] : bounds[-1]].reshape(stop - start, -1).copy()


@dataclass(frozen=True, slots=True)
class EpisodeRows:
    """The rows of an episode.

    Attributes:
        count: Number of rows.
        numbers: (T, D) by column, in the source's dtype.
        texts: Distinct texts by column, in order of appearance.
        warnings: Why columns are left out.
        first_row: Number of the first row in its file.
        is_sorted: Whether the rows were put in another order than that of the file.
        arrays: (T,) Arrow array by column, of columns of rows of text, of texts of subtasks, and of texts that change.
    """

    count: int
    numbers: Mapping[str, NDArray[Any]]
    texts: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()
    first_row: int = 0
    is_sorted: bool = False
    arrays: Mapping[str, pa.Array] = field(default_factory=dict)


def decode_table(table: pa.Table) -> dict[str, DecodedColumn]:
    """Decode every column of a table."""
    import pyarrow as pa

    columns = {}
    for name in table.column_names:
        column = table.column(name)
        array = (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.chunks
            else pa.array([], column.type)
        )
        if name in (LANGUAGE_PERSISTENT, LANGUAGE_EVENTS) and is_text_rows(array.type):
            columns[name] = DecodedColumn(arrow_to_numbers(pa.array([], pa.int8())), 1, array=array)
            continue
        columns[name] = _decode_column(array)
        if columns[name].texts is not None and is_subtask_column(name):
            columns[name] = columns[name]._replace(array=array)
    return columns


def _encoded_texts(array: Any) -> DecodedColumn:
    """The distinct texts of an Arrow array, and which each row has; a missing one is empty."""
    import numpy as np

    if len(array) <= _FEW_TEXTS:  # pyarrow.compute takes 0.1 s to import
        numbers: dict[str, int] = {}
        indices = [numbers.setdefault(text or "", len(numbers)) for text in array.to_pylist()]
        return DecodedColumn(np.array(indices, np.int32), 1, None, tuple(numbers))
    encoded = array.fill_null("").dictionary_encode()
    texts = tuple(str(text) for text in encoded.dictionary.to_pylist())
    return DecodedColumn(arrow_to_numbers(encoded.indices), 1, None, texts)


def _decode_column(array: Any) -> DecodedColumn:
    """Decode a column: lists of equal length are flattened, missing numbers become NaN, texts become indices."""
    import numpy as np
    import pyarrow.types as types

    array = getattr(array, "storage", array)
    if is_text(array.type):
        return _encoded_texts(array)
    width, offsets = 1, None
    while is_list(array.type):
        if types.is_fixed_size_list(array.type) and not array.null_count:
            size = array.type.list_size
            array = array.values.slice(array.offset * size, len(array) * size)
        else:
            lengths = list_lengths(array)
            array = array.flatten()
            size = int(lengths[0]) if len(lengths) else 0
            if (lengths != size).any() or size == 0:
                if offsets is not None or width != 1:
                    return DecodedColumn(np.empty(0), 1, np.zeros(1, np.int64))
                offsets, size = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), 1
        if offsets is not None and size != 1:
            offsets = offsets * size
        width *= size
        array = getattr(array, "storage", array)
    return DecodedColumn(arrow_to_numbers(array), width, offsets)


def slice_decoded_rows(
    block: Mapping[str, DecodedColumn], columns: tuple[str, ...], start: int, stop: int
) -> EpisodeRows:
    """Rows [start, stop) of a decoded block."""
    import pyarrow as pa

    numbers: dict[str, NDArray[Any]] = {}
    texts: dict[str, tuple[str, ...]] = {}
    arrays: dict[str, pa.Array] = {}
    warnings = []
    for name in columns:
        if name not in block:
            if name != "frame_index":
                warnings.append(f"column {name} is missing")
            continue
        values = block[name]
        if values.array is not None:
            arrays[name] = values.array.slice(start, stop - start)
        if values.texts is not None:
            row_codes = values.flat[start:stop].tolist()
            codes = dict.fromkeys(row_codes)
            texts[name] = tuple(values.texts[code] for code in codes)
            if name not in arrays and len(codes) > 1:
                arrays[name] = pa.array([values.texts[code] for code in row_codes], pa.string())
            continue
        if values.array is not None:
            continue
        rows = values.rows(start, stop)
        if rows is None:
            warnings.append(f"column {name} is not equally wide in every step")
        elif rows.dtype.kind not in "biuf":
            warnings.append(f"column {name} holds no numbers")
        else:
            numbers[name] = rows
    return EpisodeRows(stop - start, numbers, texts, tuple(warnings), arrays=arrays)


def join_decoded_rows(parts: list[EpisodeRows]) -> EpisodeRows:
    """Join the rows of an episode that lie in several blocks."""
    import numpy as np
    import pyarrow as pa

    warnings = dict.fromkeys(warning for part in parts for warning in part.warnings)
    numbers: dict[str, NDArray[Any]] = {}
    for name in parts[0].numbers:
        values = [part.numbers[name] for part in parts if name in part.numbers]
        if len({array.shape[1] for array in values}) == 1 and len(values) == len(parts):
            numbers[name] = np.concatenate(values)
        else:
            warnings[f"column {name} is not equally wide in every step"] = None
    texts = {
        name: tuple(dict.fromkeys(text for part in parts for text in part.texts[name]))
        for name in parts[0].texts
    }
    # A text may change between two blocks alone.
    changing = (name for name, of_name in texts.items() if len(of_name) > 1)
    names = dict.fromkeys((*(name for part in parts for name in part.arrays), *changing))
    arrays = {name: pa.concat_arrays([_array_of_part(part, name) for part in parts]) for name in names}
    return EpisodeRows(sum(part.count for part in parts), numbers, texts, tuple(warnings), arrays=arrays)


def _array_of_part(part: EpisodeRows, name: str) -> pa.Array:
    """The column of texts of a part; one whose text is the same in all rows has no array."""
    import pyarrow as pa

    return part.arrays[name] if name in part.arrays else pa.array(part.texts[name] * part.count, pa.string())


def in_order(rows: EpisodeRows, warnings: list[str]) -> EpisodeRows:
    """The rows in the order of frame_index, with a warning where they were not, or where numbers are missing."""
    import numpy as np
    import pyarrow as pa

    stored = rows.numbers.get("frame_index")
    if stored is None or stored.shape[1] != 1 or stored.dtype == np.bool_ or rows.count < 2:
        return rows
    frames = stored[:, 0]
    steps = frames[1:] - frames[:-1]
    if (steps == 1).all():
        return rows
    order = np.argsort(frames, kind="stable")
    steps = np.diff(frames[order])
    if not (steps == 1).all():
        warnings.append("frame_index has gaps or repeats: steps are missing")
    if (np.diff(order) == 1).all() or not (steps > 0).all():
        return rows
    warnings.append("rows are not in the order of frame_index: sorted")
    numbers = {name: values[order] for name, values in rows.numbers.items()}
    arrays = {name: array.take(pa.array(order)) for name, array in rows.arrays.items()}
    return replace(rows, numbers=numbers, arrays=arrays, is_sorted=True)


def find_frame_range(rows: EpisodeRows, declared_length: int) -> tuple[int, int]:
    """First and end frame of the steps: by frame_index where rows are missing, else 0 and their number.

    Frames before the first row count only where the declared length has them too.
    """
    stored = rows.numbers.get("frame_index")
    if stored is None or stored.shape[1] != 1 or not rows.count or stored.dtype.kind not in "iu":
        return 0, rows.count
    first, last = int(stored[0, 0]), int(stored[-1, 0])
    is_rising = rows.count == 1 or bool((stored[1:, 0] > stored[:-1, 0]).all())
    if not is_rising or first < 0 or last + 1 > max(declared_length, rows.count):
        return 0, rows.count
    return first, last + 1


def count_numbers_per_row(column_type: pa.DataType, feature: Mapping[str, Any]) -> int:
    """Numbers per step: by the type where it fixes them, else by the shape in info.json; 1 when neither does.

    A shape is a claim, so that it counts as 65,536 numbers at most.
    """
    import pyarrow.types as types

    width, inner = 1, _storage_type(column_type)
    while types.is_fixed_size_list(inner):
        width, inner = width * inner.list_size, _storage_type(inner.value_type)
    if not is_list(inner):
        return width
    shape = feature.get("shape")
    sizes = shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else ()
    return min(max(math.prod(sizes), 1), _MAX_CLAIMED_WIDTH)


def is_list(column_type: pa.DataType) -> bool:
    """Whether a type is a list of fixed or variable size."""
    import pyarrow.types as types

    return bool(
        types.is_list(column_type)
        or types.is_large_list(column_type)
        or types.is_fixed_size_list(column_type)
    )


def _storage_type(column_type: pa.DataType) -> pa.DataType:
    """The storage type of an extension type, such as Hugging Face's Array2D; other types unchanged."""
    return getattr(column_type, "storage_type", column_type)


def value_type(column_type: pa.DataType) -> pa.DataType:
    """The type of the values inside nested lists; the type itself when it is no list."""
    inner = _storage_type(column_type)
    while is_list(inner):
        inner = _storage_type(inner.value_type)
    return inner


def is_number(column_type: pa.DataType) -> bool:
    """Whether a column holds integers, floats or booleans, also inside lists."""
    import pyarrow.types as types

    leaf = value_type(column_type)
    return bool(types.is_integer(leaf) or types.is_floating(leaf) or types.is_boolean(leaf))


def is_text(column_type: pa.DataType) -> bool:
    """Whether a column holds strings."""
    import pyarrow.types as types

    return bool(types.is_string(column_type) or types.is_large_string(column_type))


def is_text_rows(column_type: pa.DataType) -> bool:
    """Whether a column holds lists of rows of text, as language columns do; without any row they have no type."""
    import pyarrow.types as types

    if not (types.is_list(column_type) or types.is_large_list(column_type)):
        return False
    inner = column_type.value_type
    has_content = types.is_struct(inner) and any(field.name == "content" for field in inner)
    return bool(has_content or types.is_null(inner))


def is_image(column_type: pa.DataType) -> bool:
    """Whether a column holds encoded images: structs with a field "bytes"."""
    import pyarrow.types as types

    return bool(types.is_struct(column_type) and any(field.name == "bytes" for field in column_type))


# LeRobot writes a row group per episode. Reading them one by one costs more than their bytes.
_BLOCK_ROWS = 16_384
# Size of the cache of decoded blocks; it always holds at least one block, however large.
_CACHE_BYTES = 128 * 2**20

_lock = threading.Lock()


def file_state_or_none(path: str) -> FileState | None:
    """Size and version of a file, or None when it is missing. Raises SourceError when it cannot be read."""
    try:
        return file_state(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None


def read_episode_file(path: str, columns: tuple[str, ...]) -> EpisodeRows | None:
    """Read a file that holds one episode; None when it is missing. Raises SourceError when it cannot be read."""
    if file_state_or_none(path) is None:
        return None
    with _open_parquet(path) as file:
        table = _read_columns(path, file, None, columns)
    return slice_decoded_rows(decode_table(table), columns, 0, table.num_rows)


def read_from_shared_file(path: str, episode: int, columns: tuple[str, ...]) -> EpisodeRows | None:
    """Read an episode from a file that holds many; None when the file is missing or does not hold the episode.

    A block of rows is decoded once for all episodes in it. Raises SourceError when the file cannot be read or the
    rows of the episode are not contiguous.
    """
    state = file_state_or_none(path)
    if state is None:
        return None
    with _lock:
        file = _open_shared_file(path, state)
        if episode in file.scattered:
            raise SourceError("rows of the episode are not contiguous", f"{path}: episode {episode}")
        if episode not in file.row_ranges:
            return None
        start, stop = file.row_ranges[episode]
        try:
            parts = [
                _slice_block(file, number, columns, start, stop) for number in file.blocks_of(start, stop)
            ]
        except SourceError:
            # A damaged row group must not make the other episodes of its block unreadable.
            groups = file.row_groups_of(start, stop)
            first = file.group_starts[groups.start]
            block = decode_table(_read_columns(path, file.parquet, groups, columns))
            parts = [slice_decoded_rows(block, columns, start - first, stop - first)]
    rows = parts[0] if len(parts) == 1 else join_decoded_rows(parts)
    return replace(rows, first_row=start)


def _slice_block(
    file: _SharedDataFile, number: int, columns: tuple[str, ...], start: int, stop: int
) -> EpisodeRows:
    first, last = file.block_bounds[number], file.block_bounds[number + 1]
    block = _block_cache.get(file, number, columns)
    return slice_decoded_rows(block, columns, max(start, first) - first, min(stop, last) - first)


def episode_lengths_in_file(path: str) -> Mapping[int, int]:
    """Rows of each episode that a data file holds. Raises SourceError when the file cannot be read."""
    state = file_state_or_none(path)
    if state is None:
        return {}
    with _lock:
        row_ranges = _open_shared_file(path, state).row_ranges
    return {episode: stop - start for episode, (start, stop) in row_ranges.items()}


def count_rows(path: str) -> int:
    """Rows of a data file by its footer; 0 when it cannot be read."""
    try:
        with _open_parquet(path) as file:
            return int(file.metadata.num_rows)
    except SourceError:
        return 0


def measure_timestamp_rate(path: str) -> float | None:
    """Rows per second by the median distance of the timestamps of the first episode; None where it has none.

    A rate within a thousandth of a whole number, which float32 seconds do not distinguish, is that number.
    """
    import numpy as np

    try:
        with _open_parquet(path) as file:
            if not file.metadata.num_row_groups:
                return None
            table = _read_columns(path, file, range(1), ("timestamp", "episode_index"))
    except SourceError:
        return None
    columns = decode_table(table)
    seconds = columns["timestamp"].flat if "timestamp" in columns else np.empty(0)
    episodes = columns["episode_index"].flat if "episode_index" in columns else np.zeros(len(seconds))
    if seconds.dtype.kind not in "fiu" or len(seconds) != len(episodes) or len(seconds) < 2:
        return None
    distances = np.diff(np.sort(seconds[episodes == episodes[0]].astype(np.float64)))
    distance = float(np.median(distances[distances > 0])) if (distances > 0).any() else 0.0
    if not 1e-4 < distance < 1e4:
        return None
    rate_hz = 1 / distance
    return float(round(rate_hz)) if abs(rate_hz - round(rate_hz)) < 1e-3 * rate_hz else rate_hz


@dataclass(frozen=True, slots=True)
class _SharedDataFile:
    """An open file with many episodes.

    Attributes:
        path: The path it was opened by.
        state: Size and version of the file when it was opened.
        parquet: The open file.
        row_ranges: First and end row (half open) of each episode.
        scattered: Episodes whose rows are not contiguous.
        block_groups: First and end row group (half open) of each block.
        block_bounds: First row of each block, then the number of all rows.
        group_starts: First row of each row group, then the number of all rows.
    """

    path: str
    state: FileState
    parquet: pq.ParquetFile
    row_ranges: Mapping[int, tuple[int, int]]
    scattered: frozenset[int]
    block_groups: tuple[tuple[int, int], ...]
    block_bounds: tuple[int, ...]
    group_starts: tuple[int, ...]

    def row_groups_of(self, start: int, stop: int) -> range:
        """Indices of the row groups that hold the rows [start, stop)."""
        return _indices_covering(self.group_starts, start, stop)

    def blocks_of(self, start: int, stop: int) -> range:
        """Indices of the blocks that hold the rows [start, stop)."""
        return _indices_covering(self.block_bounds, start, stop)


def _indices_covering(bounds: tuple[int, ...], start: int, stop: int) -> range:
    return range(bisect_right(bounds, start) - 1, bisect_right(bounds, stop - 1))


class _BlockCache:
    """Least-recently-used cache of decoded blocks; used only while holding the lock."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[Any, ...], dict[str, DecodedColumn]] = OrderedDict()
        self._bytes = 0

    def get(self, file: _SharedDataFile, number: int, columns: tuple[str, ...]) -> dict[str, DecodedColumn]:
        """Return a block from the cache, or read and decode it. Raises SourceError."""
        key = (file.path, file.state, number, columns)
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        first, last = file.block_groups[number]
        block = decode_table(_read_columns(file.path, file.parquet, range(first, last), columns))
        self._blocks[key] = block
        self._bytes += _num_bytes(block)
        while self._bytes > _CACHE_BYTES and len(self._blocks) > 1:
            self._bytes -= _num_bytes(self._blocks.popitem(last=False)[1])
        return block


_block_cache = _BlockCache()


def _num_bytes(block: Mapping[str, DecodedColumn]) -> int:
    return sum(values.nbytes for values in block.values())


def _open_parquet(path: str) -> pq.ParquetFile:
    import pyarrow as pa

    try:
        return open_parquet(path)
    except (pa.ArrowException, OSError) as error:
        raise SourceError("data file cannot be read", f"{path}: {error}") from None


def _read_columns(
    path: str, file: pq.ParquetFile, groups: range | None, columns: tuple[str, ...]
) -> pa.Table:
    import pyarrow as pa

    stored = set(file.schema_arrow.names)
    names = [name for name in columns if name in stored]
    numbers = list(range(file.metadata.num_row_groups) if groups is None else groups)
    check_parquet_read(file, numbers, names, path)
    try:
        return file.read_row_groups(numbers, names)
    except (pa.ArrowException, OSError) as error:
        raise SourceError("data file cannot be read", f"{path}: {error}") from None


@functools.lru_cache(maxsize=4)  # the footer of a file with thousands of row groups takes 20 MB
def _open_shared_file(path: str, state: FileState) -> _SharedDataFile:
    file = _open_parquet(path)
    if "episode_index" not in file.schema_arrow.names:
        raise SourceError("data file has no column episode_index", path)
    table = _read_columns(path, file, range(file.metadata.num_row_groups), ("episode_index",))
    row_ranges, scattered = _find_row_ranges(decode_table(table)["episode_index"].flat)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    block_groups, block_bounds = _group_into_blocks(sizes)
    return _SharedDataFile(
        path,
        state,
        file,
        row_ranges,
        frozenset(scattered),
        block_groups,
        block_bounds,
        (0, *accumulate(sizes)),
    )


def _find_row_ranges(episodes: NDArray[Any]) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """Row range of each episode, and the episodes whose rows are not contiguous.

    Args:
        episodes: (rows,) episode of each row.
    """
    import numpy as np

    starts = (
        np.flatnonzero(np.diff(episodes, prepend=episodes[:1] - 1)) if len(episodes) else np.empty(0, int)
    )
    stops = [*starts[1:].tolist(), len(episodes)]
    row_ranges: dict[int, tuple[int, int]] = {}
    scattered: set[int] = set()
    for episode, start, stop in zip(episodes[starts].tolist(), starts.tolist(), stops, strict=False):
        if episode in row_ranges:
            scattered.add(episode)
        row_ranges[episode] = (start, stop)
    return row_ranges, scattered


def _group_into_blocks(sizes: list[int]) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Join adjacent row groups to blocks of about _BLOCK_ROWS rows.

    Returns:
        First and end row group of each block, and the first row of each block with the number of all rows.
    """
    groups: list[tuple[int, int]] = []
    bounds = [0]
    first = rows = 0
    for number, size in enumerate(sizes, start=1):
        rows += size
        if rows >= _BLOCK_ROWS or number == len(sizes):
            groups.append((first, number))
            bounds.append(bounds[-1] + rows)
            first, rows = number, 0
    return tuple(groups), tuple(bounds)
