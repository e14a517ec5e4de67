"""What the columns of LeRobot data files hold, by their Arrow types; their values as arrays, cut to an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.formats import arrow_numbers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_MAX_CLAIMED_WIDTH = 65_536
_FEW_TEXTS = 1000


class ColumnValues(NamedTuple):
    """A decoded column.

    Attributes:
        flat: All its numbers in the source's own dtype, or indices into `texts`.
        width: Numbers per row, where all rows have as many.
        offsets: (rows + 1,) offset of each row in `flat` where the widths of rows differ, else None.
        texts: Distinct texts of a text column, else None.
    """

    flat: NDArray[Any]
    width: int
    offsets: NDArray[np.int64] | None = None
    texts: tuple[str, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.flat.nbytes

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
        numbers: (T, D) by column, in the source's own dtype.
        texts: Distinct texts by column, in order of appearance.
        warnings: Why columns are left out.
        first_row: Number of the first row in its file.
        is_sorted: Whether the rows were put in another order than that of the file.
    """

    count: int
    numbers: Mapping[str, NDArray[Any]]
    texts: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()
    first_row: int = 0
    is_sorted: bool = False


def decode_table(table: pa.Table) -> dict[str, ColumnValues]:
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
        columns[name] = _decode_column(array)
    return columns


def _encoded_texts(array: Any) -> ColumnValues:
    """The distinct texts of an Arrow array, and which each row has; a missing one is empty."""
    import numpy as np

    if len(array) <= _FEW_TEXTS:  # pyarrow.compute takes 0.1 s to import
        numbers: dict[str, int] = {}
        indices = [numbers.setdefault(text or "", len(numbers)) for text in array.to_pylist()]
        return ColumnValues(np.array(indices, np.int32), 1, None, tuple(numbers))
    encoded = array.fill_null("").dictionary_encode()
    texts = tuple(str(text) for text in encoded.dictionary.to_pylist())
    return ColumnValues(arrow_numbers(encoded.indices), 1, None, texts)


def _list_lengths(array: Any) -> NDArray[Any]:
    """Values of each list of an Arrow list array; 0 for a missing one."""
    import numpy as np

    if not array.null_count and hasattr(array, "offsets"):
        return np.diff(arrow_numbers(array.offsets).astype(np.int64))  # pyarrow.compute takes 0.1 s to import
    import pyarrow.compute as pc

    lengths: NDArray[Any] = np.nan_to_num(arrow_numbers(pc.list_value_length(array)), nan=0)
    return lengths


def _decode_column(array: Any) -> ColumnValues:
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
            lengths = _list_lengths(array)
            array = array.flatten()
            size = int(lengths[0]) if len(lengths) else 0
            if (lengths != size).any() or size == 0:
                if offsets is not None or width != 1:
                    return ColumnValues(np.empty(0), 1, np.zeros(1, np.int64))
                offsets, size = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), 1
        if offsets is not None and size != 1:
            offsets = offsets * size
        width *= size
        array = getattr(array, "storage", array)
    return ColumnValues(arrow_numbers(array), width, offsets)


def slice_rows(
    block: Mapping[str, ColumnValues], columns: tuple[str, ...], start: int, stop: int
) -> EpisodeRows:
    """Rows [start, stop) of a decoded block."""
    numbers: dict[str, NDArray[Any]] = {}
    texts: dict[str, tuple[str, ...]] = {}
    warnings = []
    for name in columns:
        if name not in block:
            if name != "frame_index":
                warnings.append(f"column {name} is missing")
            continue
        values = block[name]
        if values.texts is not None:
            codes = dict.fromkeys(values.flat[start:stop].tolist())
            texts[name] = tuple(values.texts[code] for code in codes)
            continue
        rows = values.rows(start, stop)
        if rows is None:
            warnings.append(f"column {name} is not equally wide in every step")
        elif rows.dtype.kind not in "biuf":
            warnings.append(f"column {name} holds no numbers")
        else:
            numbers[name] = rows
    return EpisodeRows(stop - start, numbers, texts, tuple(warnings))


def concat_rows(parts: list[EpisodeRows]) -> EpisodeRows:
    """Join the rows of an episode that lie in several blocks."""
    import numpy as np

    warnings = dict.fromkeys(warning for part in parts for warning in part.warnings)
    numbers: dict[str, NDArray[Any]] = {}
    for name in parts[0].numbers:
        arrays = [part.numbers[name] for part in parts if name in part.numbers]
        if len({array.shape[1] for array in arrays}) == 1 and len(arrays) == len(parts):
            numbers[name] = np.concatenate(arrays)
        else:
            warnings[f"column {name} is not equally wide in every step"] = None
    texts = {
        name: tuple(dict.fromkeys(text for part in parts for text in part.texts[name]))
        for name in parts[0].texts
    }
    return EpisodeRows(sum(part.count for part in parts), numbers, texts, tuple(warnings))


def in_order(rows: EpisodeRows, warnings: list[str]) -> EpisodeRows:
    """The rows in the order of frame_index, with a warning where they were not, or where numbers are missing."""
    import numpy as np

    stored = rows.numbers.get("frame_index")
    if stored is None or stored.shape[1] != 1 or rows.count < 2:
        return rows
    frames = stored[:, 0]
    steps = frames[1:] - frames[:-1]
    if (steps == 1).all():
        return rows
    order = np.argsort(frames, kind="stable")
    if (np.diff(frames[order]) == 1).all():
        warnings.append("rows are not in the order of frame_index: sorted")
        numbers = {name: values[order] for name, values in rows.numbers.items()}
        return replace(rows, numbers=numbers, is_sorted=True)
    warnings.append("frame_index has gaps or repeats: steps are missing")
    return rows


def frame_range(rows: EpisodeRows, declared_length: int) -> tuple[int, int]:
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


def row_width(column_type: pa.DataType, feature: Mapping[str, Any]) -> int:
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


def is_image(column_type: pa.DataType) -> bool:
    """Whether a column holds encoded images: structs with a field "bytes"."""
    import pyarrow.types as types

    return bool(types.is_struct(column_type) and any(field.name == "bytes" for field in column_type))
