"""Columns of LeRobot data files as arrays, whatever they are nested in, and the rows of one episode cut out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class Values(NamedTuple):
    """A column in memory.

    Attributes:
        flat: All its numbers in the source's own dtype, or codes of its texts.
        width: Numbers a row, or 0 when rows differ.
        offsets: (rows + 1,) first number of each row when they differ, else None.
        texts: What the codes of a text column stand for, else None.
    """

    flat: NDArray[Any]
    width: int
    offsets: NDArray[np.int64] | None = None
    texts: tuple[str, ...] | None = None

    @property
    def nbytes(self) -> int:
        return self.flat.nbytes

    def rows(self, start: int, stop: int) -> NDArray[Any] | None:
        """(stop - start, D) numbers, a copy; None when these rows are not equally wide."""
        import numpy as np

        if self.offsets is None:
            return self.flat[start * self.width : stop * self.width].reshape(stop - start, self.width).copy()
        bounds = self.offsets[start : stop + 1]
        widths = np.diff(bounds)
        if len(widths) == 0 or widths[0] == 0 or (widths != widths[0]).any():
            return None
        return self.flat[bounds[0] : bounds[-1]].reshape(stop - start, -1).copy()


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an episode.

    Attributes:
        count: How many.
        numbers: (T, D) by column, in the source's own dtype.
        texts: Different texts by column, in order of appearance.
        odd: What is wrong with columns that are left out.
        first: Number of the first row in its file.
    """

    count: int
    numbers: Mapping[str, NDArray[Any]]
    texts: Mapping[str, tuple[str, ...]]
    odd: tuple[str, ...] = ()
    first: int = 0


def decoded(table: pa.Table) -> dict[str, Values]:
    """Every column of a table."""
    import pyarrow as pa

    made = {}
    for name in table.column_names:
        column = table.column(name)
        array = (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.chunks
            else pa.array([], column.type)
        )
        made[name] = _values(array)
    return made


def _values(array: Any) -> Values:
    """A column as numbers: nested lists of one size are flattened, missing numbers become NaN."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    array = getattr(array, "storage", array)
    if types.is_string(array.type) or types.is_large_string(array.type):
        coded = array.fill_null("").dictionary_encode()
        texts = tuple(str(text) for text in coded.dictionary.to_pylist())
        return Values(coded.indices.to_numpy(zero_copy_only=False), 1, None, texts)
    width, offsets = 1, None
    while (
        types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)
    ):
        if types.is_fixed_size_list(array.type) and not array.null_count:
            size, array = array.type.list_size, array.flatten()
        else:
            lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
            array = array.flatten()
            size = int(lengths[0]) if len(lengths) else 0
            if (lengths != size).any() or size == 0:
                if offsets is not None or width != 1:
                    return Values(np.empty(0), 1, np.zeros(1, np.int64))
                offsets, size = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), 1
        if offsets is not None and size != 1:
            offsets = offsets * size
        width *= size
        array = getattr(array, "storage", array)
    if array.null_count and types.is_boolean(array.type):
        array = array.cast(pa.float32())
    flat = array.to_numpy(zero_copy_only=False)
    return Values(flat, width, offsets)


def cut(block: Mapping[str, Values], columns: tuple[str, ...], start: int, stop: int) -> Rows:
    """Rows of a block, half open."""
    numbers: dict[str, NDArray[Any]] = {}
    texts: dict[str, tuple[str, ...]] = {}
    odd = []
    for name in columns:
        if name not in block:
            if name != "frame_index":
                odd.append(f"column {name} is missing")
            continue
        values = block[name]
        if values.texts is not None:
            codes = dict.fromkeys(values.flat[start:stop].tolist())
            texts[name] = tuple(values.texts[code] for code in codes)
            continue
        rows = values.rows(start, stop)
        if rows is None:
            odd.append(f"column {name} is not equally wide in every step")
        else:
            numbers[name] = rows
    return Rows(stop - start, numbers, texts, tuple(odd))


def joined(parts: list[Rows]) -> Rows:
    """An episode whose rows lie in several blocks."""
    import numpy as np

    odd = dict.fromkeys(word for part in parts for word in part.odd)
    numbers: dict[str, NDArray[Any]] = {}
    for name in parts[0].numbers:
        pieces = [part.numbers[name] for part in parts if name in part.numbers]
        if len({piece.shape[1] for piece in pieces}) == 1 and len(pieces) == len(parts):
            numbers[name] = np.concatenate(pieces)
        else:
            odd[f"column {name} is not equally wide in every step"] = None
    texts = {
        name: tuple(dict.fromkeys(text for part in parts for text in part.texts[name]))
        for name in parts[0].texts
    }
    return Rows(sum(part.count for part in parts), numbers, texts, tuple(odd))
