"""Values of columns that people add to episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ares.curation.removal import record_and_apply_action
from ares.episode import Json
from ares.errors import RequestError
from ares.store import (
    CONFLICT,
    DISAGREEMENT,
    NOTES,
    REVIEWED,
    REVIEWER,
    TAGS,
    VALUE_KINDS,
    Action,
    arrow_type,
    check_ids_once,
    declared_columns,
    is_column_name,
    read_history,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores


# Values of a column as people say them, and values per document of the log: a text may take six bytes a character.
_VALUE_WORDS = {"bool": "true or false", "int64": "whole numbers", "float64": "numbers", "string": "texts"}
_BLOCK_VALUES, _BLOCK_TEXTS, _MAX_VALUE_CHARACTERS = 10_000, 2_000, 1_000
_MAX_COLUMN_NAME = 60
_PEOPLE_COLUMNS = frozenset((TAGS, NOTES, REVIEWED, REVIEWER, CONFLICT, DISAGREEMENT))


class _ValuePairs(Iterable["Json"]):
    """The rows of a table as pairs of an id and a value, made some thousands at a time."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Json]:
        for batch in self._rows.to_batches(_BLOCK_VALUES):
            yield from map(list[Json], zip(*(values.to_pylist() for values in batch.columns), strict=True))


def set_values(
    stores: Stores, column: str, episode_ids: pa.Array, values: pa.Array, *, person: str = ""
) -> Action:
    """Set values of a user column, a new one or one that was set before.

    Args:
        stores: Stores of the workspace.
        column: Small letters, digits and "_", no name of any other column.
        episode_ids: (N,) strings, each once.
        values: (N,) flags, numbers or texts; a missing one, NaN too, takes away what is there.
        person: Who sets them; the user by default.

    Raises:
        RequestError: The name is in use or no name, an id is no episode, or the values have another type.
        StoreError: The log cannot be written.
    """
    import pyarrow as pa

    typed = _typed_values(column, values, _user_column_type(stores, column))
    rows = pa.table({"episode_id": episode_ids, "value": typed}).sort_by("episode_id")
    check_ids_once(stores, rows["episode_id"])
    type_name = {pa.float64(): "float64", pa.int64(): "int64", pa.bool_(): "bool"}.get(typed.type, "string")
    details: dict[str, Json] = {"column": column, "type": type_name}
    block = _BLOCK_TEXTS if type_name == "string" else _BLOCK_VALUES
    return record_and_apply_action(stores, "set_values", _ValuePairs(rows), details, person, block)


def _user_column_type(stores: Stores, column: str) -> str:
    """Type of a column of people, "" for a new one. Raises RequestError for a name in use, or that cannot be one."""
    history = read_history(stores.annotations)
    actions = [action.details for action in history.effective(VALUE_KINDS)]
    if types := [str(details["type"]) for details in actions if details["column"] == column]:
        return types[-1]
    if not isinstance(column, str) or not is_column_name(column) or len(column) > _MAX_COLUMN_NAME:
        raise RequestError(
            "that cannot be the name of a column",
            f"{column!r}; use a word of up to {_MAX_COLUMN_NAME} small letters, digits and '_'",
        )
    declared = {declared.name for declared in declared_columns(stores.annotations.producers().values())}
    existing = set(stores.tables.episodes.snapshot().arrow_schema.names) - history.user_columns().keys()
    if column in existing | declared | _PEOPLE_COLUMNS:
        raise RequestError(f"there is a column {column!r} already", "give your values another name")
    return ""


def _typed_values(column: str, values: pa.Array, type_name: str) -> pa.Array:
    """The values with the type of their column, "" for that of the values. Raises RequestError for others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    value_type = next((name for name, is_kind in _kind_checks().items() if is_kind(kind)), "")
    if pa.types.is_null(kind):
        value_type = type_name
    target = type_name or value_type
    fits = value_type == target or {value_type, target} == {"int64", "float64"}
    if not value_type or not fits or not len(values):
        expected = _VALUE_WORDS.get(target, "true or false, numbers or texts")
        example = next((repr(value) for value in values.drop_null()[:1].to_pylist()), "no value")
        raise RequestError(f"the column {column!r} takes {expected}", f"got {kind}, such as {example[:100]}")
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
    try:
        typed = values.cast(arrow_type(target))
    except pa.ArrowInvalid as error:
        line = str(error).splitlines()[0]
        raise RequestError(f"the column {column!r} takes {_VALUE_WORDS[target]}", line) from None
    too_large = pc.is_inf(typed) if target == "float64" else pa.scalar(False)
    if target == "string":
        too_large = pc.greater(pc.utf8_length(typed), _MAX_VALUE_CHARACTERS)
    if pc.any(too_large).as_py() if isinstance(too_large, pa.Array | pa.ChunkedArray) else False:
        limit = (
            f"texts of at most {_MAX_VALUE_CHARACTERS:,} characters"
            if target == "string"
            else "finite numbers"
        )
        raise RequestError(
            f"the column {column!r} takes {limit}", f"got {typed.filter(too_large)[0].as_py()!r:.100}"
        )
    return typed


def _kind_checks() -> dict[str, Callable[[pa.DataType], bool]]:
    """By type of a column whether an Arrow type is one of its values."""
    import pyarrow.types as types

    def is_text(kind: pa.DataType) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    return {
        "bool": types.is_boolean,
        "int64": types.is_integer,
        "float64": types.is_floating,
        "string": is_text,
    }
