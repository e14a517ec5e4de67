"""Conditions in SQL that ARES writes itself, and how they are joined with those of users."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from ares.store.filters import mask_quotes, parse_condition

T = TypeVar("T")


class TrustedFilter(str):
    """A condition that ARES built itself and does not check: it may list a hundred thousand ids.

    Attributes:
        trusted: The condition of ARES.
        user_filter: The condition of a user that is joined with it and still has to be checked, or "".
    """

    trusted: str
    user_filter: str

    def __new__(cls, trusted: str, user_filter: str = "") -> TrustedFilter:
        """Both conditions joined by AND."""
        joined = super().__new__(cls, f"({user_filter}) AND ({trusted})" if user_filter else trusted)
        joined.trusted, joined.user_filter = trusted, user_filter
        return joined


def quote_literal(text: str) -> str:
    """A string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def in_condition(column: str, values: Collection[str]) -> str:
    """The condition that a column is one of the values; never true for none."""
    return f"{column} IN ({','.join(map(quote_literal, values))})" if values else "false"


# Calls that Lance does not know: what sets, tags and people say of an episode.
_MEMBERSHIP = re.compile(r"\b(in_set|tagged|reviewed)\s*\(([^()]*)\)", re.IGNORECASE)
# Looks for `in_set`, also in quotes: it takes no time where there is none.
find_set_call = re.compile(r"\bin_set\s*\(", re.IGNORECASE).search


def names_sets(where: str) -> bool:
    """Whether `in_set` stands in a filter, and not in quotes."""
    text = where.user_filter if isinstance(where, TrustedFilter) else where
    return find_set_call(mask_quotes(text)) is not None


def replace_membership(where: str, replace: Callable[[str, str], str | None]) -> str:
    """The filter, or the query, with other SQL for calls of `in_set`, `tagged` and `reviewed`.

    Args:
        where: The filter.
        replace: The SQL for the name of the function and its argument, or None to leave the call as it is.
    """
    parts, end = list[str](), 0
    for call in _MEMBERSHIP.finditer(mask_quotes(where)):
        argument = where[call.start(2) : call.end(2)].strip()[1:-1].replace("''", "'")
        new = replace(call[1].lower(), argument)
        parts += [where[end : call.start()], where[call.start() : call.end()] if new is None else new]
        end = call.end()
    return "".join([*parts, where[end:]])


def list_named_sets(where: str) -> list[str]:
    """The arguments of `in_set` in a filter."""
    return [
        where[call.start(2) : call.end(2)].strip()[1:-1].replace("''", "'")
        for call in _MEMBERSHIP.finditer(mask_quotes(where))
        if call[1].lower() == "in_set"
    ]


def column_membership(name: str, argument: str, columns: Collection[str]) -> str | None:
    """The SQL of `tagged` and `reviewed` over the columns of a table of episodes; None for `in_set`."""
    column = {"tagged": "tags", "reviewed": "reviewed"}.get(name)
    if column is None:
        return None
    if column not in columns:
        return "false"
    return f"coalesce({f'array_has(tags, {quote_literal(argument)})' if name == 'tagged' else column}, false)"


def ids_filter(episode_ids: Collection[str]) -> TrustedFilter:
    """The condition that an episode is one of these, however many they are."""
    return TrustedFilter(in_condition("episode_id", episode_ids))


def parenthesize(where: str) -> str:
    """A condition in parentheses. Raises FilterError for one that would reach beyond them."""
    parse_condition(where)
    return f"({where})"


def conjunction(conditions: Iterable[str]) -> str:
    """The condition that all of some conditions hold; blank ones are left out. Raises FilterError."""
    trusted, untrusted = list[str](), list[str]()
    for condition in conditions:
        if isinstance(condition, TrustedFilter):
            trusted.append(condition.trusted)
            condition = condition.user_filter
        if condition.strip():
            untrusted.append(parenthesize(condition))
    joined = " AND ".join(untrusted)
    return (
        TrustedFilter(" AND ".join(f"({condition})" for condition in trusted), joined) if trusted else joined
    )


def split_chain(where: str, word: str) -> list[str]:
    """The conditions of "(...) AND (...)", or with another word, also in further parentheses; else the filter."""
    conditions, end, depth = list[str](), 0, 0
    for offset, sign in enumerate(mask_quotes(where)):
        if sign == "(" and not depth:
            if where[end:offset].strip().upper() != (word if conditions else ""):
                return [where]
            start = offset
        depth += (sign == "(") - (sign == ")")
        if sign == ")" and not depth:
            end = offset + 1
            conditions.append(where[start:end])
    if not conditions or where[end:].strip() or isinstance(where, TrustedFilter):
        return [where]
    inner = split_chain(conditions[0][1:-1], word) if len(conditions) == 1 else conditions
    return inner if len(inner) > 1 else [where]


def batched(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values in their order, `size` at a time."""
    remaining = iter(values)
    return iter(lambda: list(islice(remaining, size)), [])
