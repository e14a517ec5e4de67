"""Numbers of Arrow arrays as NumPy arrays, without the import of pandas that the conversions of pyarrow begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def arrow_numbers(array: pa.Array) -> NDArray[Any]:
    """The values (N,) of an array of integers, floating point numbers or booleans; not copied where none is missing.

    With missing values integers become float64, and NaN stands for what is missing; booleans become float32. Arrays of
    other types are converted by pyarrow.
    """
    import numpy as np
    import pyarrow.types as types

    kind = array.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        converted: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return converted
    values = _stored_values(array)
    if not array.null_count:
        return values
    wide = np.float32 if types.is_boolean(kind) else values.dtype if types.is_floating(kind) else np.float64
    return np.where(_stored_values(array.is_valid()), values.astype(wide), np.array(np.nan, wide))


def _stored_values(array: pa.Array) -> NDArray[Any]:
    """The values as they are stored, whatever stands where one is missing."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_boolean(array.type):
        return _stored_values(array.cast(pa.uint8())).view(np.bool_)
    if array.null_count:
        array = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    return np.asarray(np.from_dlpack(array))
