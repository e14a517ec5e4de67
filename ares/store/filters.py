"""Filters: SQL conditions over a Lance table, with errors that a person can act on and ids that cannot break out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ares.errors import StoreError
from ares.store import faults
from ares.store.pointing import bare

if TYPE_CHECKING:
    import lance

# A column before a list of values; text in quotes, so that it is passed over.
_LISTED = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|(?P<name>`[^`]+`|\b[a-z_]\w*)(?=\s+(?:NOT\s+)?IN\s*\()""", re.IGNORECASE
)


T = TypeVar("T")


def literal(text: str) -> str:
    """A string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def among(column: str, values: Collection[str]) -> str:
    """The condition that a column is one of the values; never true for none."""
    return f"{column} IN ({','.join(map(literal, values))})" if values else "false"


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values in their order, `size` at a time."""
    left = iter(values)
    return iter(lambda: list(islice(left, size)), [])


def alone(where: str) -> str:
    """A condition in parentheses, to be joined with others. Raises FilterError for one that would reach beyond them."""
    if wrong := faults.forbidden(where):
        raise wrong
    return f"({where})"


def conjuncts(where: str) -> list[str]:
    """The conditions of "(...) AND (...)", which leaves the rows that each of them leaves; any other is one alone."""
    parts, end, depth = list[str](), 0, 0
    for at, sign in enumerate(bare(where)):
        if sign == "(" and not depth:
            if where[end:at].strip().upper() != ("AND" if parts else ""):
                return [where]
            start = at
        depth += (sign == "(") - (sign == ")")
        if sign == ")" and not depth:
            end = at + 1
            parts.append(where[start:end])
    return [where] if where[end:].strip() or not parts else parts


def check(dataset: lance.LanceDataset, where: str, columns: Collection[str]) -> str | None:
    """Plan a filter without running it.

    Args:
        dataset: The table.
        where: SQL condition; "" is none.
        columns: Columns to name in the message.

    Returns:
        The filter as Lance has to be given it, or None for none.

    Raises:
        FilterError: The filter has an unknown column, bad syntax or a comparison of unlike things.
    """
    if not where.strip():
        return None
    if wrong := faults.forbidden(where) or faults.mistaken(where, columns):
        raise wrong

    def plan(condition: str) -> None:
        # In parentheses, so that nothing can follow the condition; a line end, so that nothing can hide their end.
        dataset.scanner(columns=[], filter=f"({condition}\n)", with_row_id=True).explain_plan()

    try:
        plan(where)
    except (ValueError, RuntimeError, OSError) as error:
        raise faults.explain(where, error, columns, plan) from error
    return _unlike(where)


def _unlike(where: str) -> str:
    """The filter with the column of its second list of values, and of each further one, said in another way.

    DataFusion takes two lists of one column that share no value for a constant, also where the column has no value:
    `a NOT IN (1) OR a NOT IN (2)` would leave every row.
    """
    lists: dict[str, int] = {}

    def said(found: re.Match[str]) -> str:
        if found["name"] is None or found["name"].upper() == "NOT":
            return found[0]
        # A condition may say a column in capitals, a function may not.
        name = found["name"].strip("`").lower()
        lists[name] = times = lists.get(name, 0) + 1
        return found[0] if times == 1 else f"coalesce({', '.join([f'`{name}`'] * times)})"

    return _LISTED.sub(said, where)


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
