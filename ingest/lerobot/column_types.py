"""Tells from Arrow types what the columns of LeRobot data files hold: numbers, texts or images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def row_width(column_type: pa.DataType, feature: Mapping[str, Any]) -> int:
    """Numbers per step: by the type where it fixes them, else by the shape in info.json; 1 when neither does."""
    import pyarrow.types as types

    width, inner = 1, _storage_type(column_type)
    while types.is_fixed_size_list(inner):
        width, inner = width * inner.list_size, _storage_type(inner.value_type)
    if not is_list(inner):
        return width
    shape = feature.get("shape")
    sizes = shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else ()
    return math.prod(sizes)


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
