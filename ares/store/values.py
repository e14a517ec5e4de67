"""Values: the types that a column of an annotator can have, which JSON values fit them, and how they stand in Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.store import arrow

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


def misfit(value: Json, kind: str, what: str, choices: Sequence[str] = ()) -> str:
    """Why a value cannot stand in a column, or "".

    Args:
        value: A JSON value; None fits every column.
        kind: Type of the column, see `ares.annotation.ColumnType`.
        what: The column, for the message.
        choices: The values that a text can have; none is any.
    """
    if value is None:
        return ""
    fits = isinstance(value, _PYTHON_TYPES[kind]) and isinstance(value, bool) == (kind == "bool")
    if fits and isinstance(value, int):
        fits = -(2**63) <= value < 2**63
    if fits and isinstance(value, list | tuple):
        fits = all(isinstance(item, str) for item in value)
    if fits and kind == "timestamp":
        fits = _instant(value) is not None
    if not fits:
        return f"{what} is {kind}, but got {value!r}"
    stranger = choices and any(item not in choices for item in _items(value))
    return f"{what} is one of {', '.join(choices)}, but got {value!r}" if stranger else ""


def sendable(value: Json, kind: str) -> Any:
    """A value that fits, as Arrow takes it: a time as a datetime in UTC, text that UTF-8 can hold."""
    if kind == "timestamp" and value is not None:
        return _instant(value)
    return float(value) if kind == "float64" and isinstance(value, int) else arrow.utf8(value)


def arrow_type(kind: str) -> pa.DataType:
    """Arrow type of a column of an annotator."""
    import pyarrow as pa

    return {
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[kind]


def _instant(value: Json) -> datetime | None:
    """ISO 8601 text as a time; without an offset it is UTC."""
    try:
        read = datetime.fromisoformat(str(value))
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else (value,)
