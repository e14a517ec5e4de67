"""Filters: SQL conditions over a Lance table, with errors that a person can act on and ids that cannot break out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ares.errors import RequestError, StoreError

if TYPE_CHECKING:
    import lance

# What Lance adds around the cause: kinds of error, the statement it made up, places in its source.
_NOISE = (
    re.compile(r"(Invalid user input|Invalid input|LanceError\(\w+\)|Error during planning|Schema error): ?"),
    re.compile(r",? ?\S*\.(rs|cargo)\S*:\d+:\d+"),
    re.compile(r"SELECT 1 FROM t WHERE "),
    re.compile(r"\. Valid fields are .*"),
    re.compile(r"Error (parsing|tokenizing) statement: "),
)

# Lance reads a condition up to its first ';' and forgets the rest, and panics at a placeholder.
_FORBIDDEN = re.compile(r"[;?$]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def literal(text: str) -> str:
    """A string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def among(column: str, values: Collection[str]) -> str:
    """The condition that a column is one of the values; never true for none."""
    return f"{column} IN ({','.join(map(literal, values))})" if values else "false"


def chunks(values: Collection[str], size: int) -> Iterator[list[str]]:
    """The values in their order, `size` at a time."""
    ordered = list(values)
    return (ordered[at : at + size] for at in range(0, len(ordered), size))


def check(dataset: lance.LanceDataset, where: str, columns: Collection[str]) -> None:
    """Plan a filter without running it.

    Args:
        dataset: The table.
        where: SQL condition; "" is none.
        columns: Columns to name in the message.

    Raises:
        RequestError: The filter has an unknown column or bad syntax.
    """
    if not where.strip():
        return
    try:
        if _FORBIDDEN.search(_QUOTED.sub("", where)):
            raise ValueError("a filter is one condition without ';', '?' and '$'")
        dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan()
    except (ValueError, RuntimeError) as error:
        raise unreadable(where, error, columns) from error


def unreadable(where: str, error: Exception, columns: Collection[str]) -> RequestError:
    """The error for a filter that cannot be planned or run."""
    cause = str(error).splitlines()[0]
    for noise in _NOISE:
        cause = noise.sub("", cause)
    detail = f"{where!r}: {cause.strip(' .,')[:200]}; there are the columns {', '.join(sorted(columns))}"
    return RequestError("the filter cannot be read", detail)


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
            raise unreadable(where, error, columns) from error
        raise StoreError(f"the table {what} cannot be used", str(error).splitlines()[0][:500]) from error


def _fault_of_filter(message: str) -> bool:
    """Whether a value met while running made the filter fail ("divide by zero", a cast), not the store."""
    return any(word in message for word in ("Arrow error", "Invalid user input", "Not supported"))
