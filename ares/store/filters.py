"""Filters: SQL conditions over a Lance table, with errors that a person can act on and ids that cannot break out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from ares.errors import StoreError
from ares.store import faults

if TYPE_CHECKING:
    import lance


def literal(text: str) -> str:
    """A string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def among(column: str, values: Collection[str]) -> str:
    """The condition that a column is one of the values; never true for none."""
    return f"{column} IN ({','.join(map(literal, values))})" if values else "false"


def chunks(values: Iterable[str], size: int) -> Iterator[list[str]]:
    """The values in their order, `size` at a time."""
    left = iter(values)
    return iter(lambda: list(islice(left, size)), [])


def check(dataset: lance.LanceDataset, where: str, columns: Collection[str]) -> None:
    """Plan a filter without running it.

    Args:
        dataset: The table.
        where: SQL condition; "" is none.
        columns: Columns to name in the message.

    Raises:
        FilterError: The filter has an unknown column, bad syntax or a comparison of unlike things.
    """
    if not where.strip():
        return
    if wrong := faults.forbidden(where):
        raise wrong
    try:
        # In parentheses, so that nothing can follow the condition; a line end, so that nothing can hide their end.
        dataset.scanner(columns=[], filter=f"({where}\n)", with_row_id=True).explain_plan()
    except (ValueError, RuntimeError, OSError) as error:
        raise faults.explain(where, error, columns) from error


@contextmanager
def failures(what: str, where: str = "", columns: Collection[str] = ()) -> Iterator[None]:
    """Turn what Lance raises while it reads or writes into AresErrors.

    Args:
        what: The table, for the message.
        where: Filter of the user that runs inside, or "".
        columns: Columns to name when that filter is at fault.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if where and _fault_of_filter(str(error)):
            raise faults.explain(where, error, columns) from error
        raise StoreError(f"the table {what} cannot be used", str(error).splitlines()[0][:500]) from error


def _fault_of_filter(message: str) -> bool:
    """Whether a value met while running made the filter fail ("divide by zero", a cast), not the store."""
    return any(word in message for word in ("Arrow error", "Invalid user input", "Not supported"))
