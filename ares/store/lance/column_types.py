"""Types of the columns of annotators: which JSON values fit them, and their values in Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.store.lance import schema as arrow

if TYPE_CHECKING:
    import pyarrow as pa

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int64": (int,),
    "float64": (int, float),
    "string": (str,),
    "list<string>": (list, tuple),
    "timestamp": (str,),
}


# Types of which every value fits: a whole number may be too large, a time may not be one.
_PLAIN_TYPES: Mapping[str, type] = {"bool": bool, "float64": float, "string": str}


def type_mismatch(value: Json, column_type: str, column: str, choices: Sequence[str] = ()) -> str:
    """Why a value does not fit a column, or "".

    Args:
        value: A JSON value; None fits every column.
        column_type: Type of the column, see `ares.annotation.ColumnType`.
        column: Name of the column, for the message.
        choices: The allowed texts; empty allows any.
    """
    if value is None or (not choices and type(value) is _PLAIN_TYPES.get(column_type)):
        return ""
    fits = isinstance(value, _PYTHON_TYPES[column_type]) and isinstance(value, bool) == (
        column_type == "bool"
    )
    if fits and isinstance(value, int):
        fits = -(2**63) <= value < 2**63
    if fits and isinstance(value, list | tuple):
        fits = all(isinstance(item, str) for item in value)
    if fits and column_type == "timestamp":
        fits = _parse_time(value) is not None
    if not fits:
        return f"column {column!r} is {column_type}, but got {value!r}"
    unknown = choices and any(item not in choices for item in _items(value))
    return f"column {column!r} is one of {', '.join(choices)}, but got {value!r}" if unknown else ""


def to_arrow_value(value: Json, column_type: str) -> Any:
    """A fitting value as Arrow takes it: a time as a datetime in UTC, text as valid UTF-8."""
    if column_type == "timestamp" and value is not None:
        return _parse_time(value)
    return float(value) if column_type == "float64" and isinstance(value, int) else arrow.valid_utf8(value)


def arrow_type(column_type: str) -> pa.DataType:
    """Arrow type of a column of an annotator."""
    import pyarrow as pa

    return {
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[column_type]


def _parse_time(value: Json) -> datetime | None:
    """ISO 8601 text as a time; without an offset it is UTC."""
    try:
        time = datetime.fromisoformat(str(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else (value,)
