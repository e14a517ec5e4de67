"""Odd filters: columns of odd values, and a grammar of filters over them that carry their own answer."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ares.store.filters import literal

# Kleene's logic: AND is the minimum, OR the maximum, NOT the difference from TRUE.
FALSE, UNKNOWN, TRUE = 0, 1, 2
TEXTS = (
    "", "mug", "Mug", "mug%", "m_g", "it's a mug", "''", 'a "mug"', "a\\b", "\\", "100%", "à café", "ÉTÉ", "été",
    "カップ", "💡 lamp", "two\nlines", "tab\there", "; DROP TABLE episodes", "-- mug", "open the drawer", "null",
)  # fmt: skip
_START = datetime(2026, 1, 1, tzinfo=UTC)
_FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -1e-300, 0.1, 1.0)
_INTS = (-(2**63), 2**63 - 1, 0, -1, 1)


Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A filter and what it says of a row.

    Attributes:
        sql: Its text.
        says: Gives (N,) int8 of FALSE, UNKNOWN and TRUE for columns of N values.
    """

    sql: str
    says: Callable[[Columns], NDArray[np.int8]]

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """(N,) of what it leaves."""
        return np.equal(self.says(columns), TRUE)

    def __repr__(self) -> str:
        return f"Filter({self.sql!r})"


def odd_columns(many: int, seed: int) -> dict[str, list[Any]]:
    """Values of every type that a column can have, a good part of them missing or odd."""
    chance = random.Random(seed)

    def some(make: Callable[[], Any], missing: float = 0.15) -> list[Any]:
        return [None if chance.random() < missing else make() for _ in range(many)]

    return {
        "note": some(lambda: chance.choice(TEXTS)),
        "grade": some(lambda: chance.choice(("acceptable", "not_acceptable", "unsure", "error"))),
        "score": some(lambda: chance.choice(_FLOATS) if chance.random() < 0.3 else chance.gauss(0, 1)),
        "events": some(lambda: chance.choice(_INTS) if chance.random() < 0.2 else chance.randrange(9)),
        "acceptable": some(lambda: chance.random() < 0.5),
        "seen": some(lambda: _START + timedelta(microseconds=chance.randrange(10**13))),
        "objects": some(lambda: chance.choices(TEXTS, k=chance.randrange(4))),
        "order": some(lambda: chance.randrange(9)),
    }


def filters(examples: Columns, leaves: int = 8) -> st.SearchStrategy[Filter]:
    """Filters over columns, with values as in these examples: of every type its own conditions, joined and tested."""
    conditions = st.one_of([_conditions(name, list(values)) for name, values in examples.items()])
    return st.recursive(conditions, _joined, max_leaves=leaves)


def _joined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    def both(one: Filter, other: Filter) -> Filter:
        sql = f"({one.sql}) AND ({other.sql})"
        return Filter(sql, lambda columns: np.minimum(one.says(columns), other.says(columns)))

    def either(one: Filter, other: Filter) -> Filter:
        sql = f"({one.sql} OR {other.sql})"
        return Filter(sql, lambda columns: np.maximum(one.says(columns), other.says(columns)))

    def none(one: Filter) -> Filter:
        return Filter(f"NOT ({one.sql})", lambda columns: (TRUE - one.says(columns)).astype(np.int8))

    def tested(one: Filter, test: str) -> Filter:
        wanted = {"TRUE": TRUE, "FALSE": FALSE, "NULL": UNKNOWN}[test.split()[-1]]
        sql = f"({one.sql}) IS {test}"
        return Filter(sql, lambda columns: _known((one.says(columns) == wanted) != ("NOT" in test)))

    tests = st.sampled_from(["TRUE", "FALSE", "NULL", "NOT TRUE", "NOT FALSE", "NOT NULL"])
    return st.one_of(
        st.builds(both, inner, inner),
        st.builds(either, inner, inner),
        st.builds(none, inner),
        st.builds(tested, inner, tests),
    )


def _known(flags: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(flags, TRUE, FALSE).astype(np.int8)


def _conditions(name: str, examples: list[Any]) -> st.SearchStrategy[Filter]:
    there = [value for value in examples if value is not None]
    makers: Mapping[type, Callable[[str, list[Any]], list[st.SearchStrategy[Filter]]]]
    makers = {bool: _flags, list: _lists, str: _texts}
    nulls = [_test(name, f"{name} IS NULL", lambda value: value is None, missing=True)]
    nulls += [_test(name, f"{name} IS NOT NULL", lambda value: value is not None, missing=True)]
    return st.one_of([*makers.get(type(there[0]), _ordered)(name, there), st.sampled_from(nulls)])


def _test(name: str, sql: str, test: Callable[[Any], bool | None], missing: bool = False) -> Filter:
    """A condition on one column by a test of its values: what that says of a missing one counts only where told."""

    def says(columns: Columns) -> NDArray[np.int8]:
        said = (None if value is None and not missing else test(value) for value in columns[name])
        return np.array([UNKNOWN if one is None else TRUE if one else FALSE for one in said], np.int8)

    return Filter(sql, says)


def order_key(value: Any) -> Any:
    """The order of a column: NaN is above all other numbers and equal to itself, -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value) if isinstance(value, int) else value


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    return repr(value)


def _sayable(value: Any) -> bool:
    """Whether SQL has a way to say a value: it has none for NaN, infinity and the least whole number."""
    return bool(value != -(2**63)) and not (isinstance(value, float) and not math.isfinite(value))


def _few(values: Sequence[Any]) -> list[Any]:
    """Some thirty different ones of many, the least and the greatest among them."""
    different = sorted(set(values))
    return [*different[:: max(1, len(different) // 30)], different[-1]]


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _ordered(name: str, examples: list[Any]) -> list[st.SearchStrategy[Filter]]:
    """Conditions on what can be compared: numbers, times and text."""
    one = st.sampled_from(_few([value for value in examples if _sayable(value)]))

    def compare(sign: str, value: Any) -> Filter:
        test = _SIGNS[sign]
        return _test(
            name, f"{name} {sign} {_literal(value)}", lambda each: test(order_key(each), order_key(value))
        )

    def turned(sign: str, value: Any) -> Filter:
        test = _SIGNS[sign]
        return _test(
            name, f"{_literal(value)} {sign} {name}", lambda each: test(order_key(value), order_key(each))
        )

    def among(wanted: list[Any], not_: str) -> Filter:
        keys = {order_key(each) for each in wanted}
        listed = ", ".join(map(_literal, wanted))

        def test(each: Any) -> bool:
            return (order_key(each) in keys) != bool(not_)

        return _test(name, f"{name} {not_}IN ({listed})", test)

    def between(low: Any, high: Any, not_: str) -> Filter:
        def test(each: Any) -> bool:
            return bool(order_key(low) <= order_key(each) <= order_key(high)) != bool(not_)

        return _test(name, f"{name} {not_}BETWEEN {_literal(low)} AND {_literal(high)}", test)

    maybe_not, signs = st.sampled_from(["", "NOT "]), st.sampled_from(sorted(_SIGNS))
    return [
        st.builds(compare, signs, one),
        st.builds(turned, signs, one),
        st.builds(among, st.lists(one, min_size=1, max_size=5), maybe_not),
        st.builds(between, one, one, maybe_not),
    ]


def _texts(name: str, examples: list[Any]) -> list[st.SearchStrategy[Filter]]:
    def like(pattern: str, not_: str, word: str) -> Filter:
        flags = re.DOTALL | (re.IGNORECASE if word == "ILIKE" else 0)
        whole = re.compile(_pattern(pattern), flags)
        sql = f"{name} {not_}{word} {literal(pattern)}"
        return _test(name, sql, lambda each: bool(whole.fullmatch(each)) != bool(not_))

    def starts(text: str) -> Filter:
        return _test(name, f"starts_with({name}, {literal(text)})", lambda each: each.startswith(text))

    part = st.sampled_from(_few(examples)).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda at: text[:at])
    )
    pieces = st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "m", "u", "g", "'", "%%", "é", "É"])
    patterns = st.one_of(
        st.lists(pieces, max_size=5).map("".join),
        part.map(lambda text: re.sub(r"([\\%_])", r"\\\1", text) + "%"),
        part.map(lambda text: re.sub(r"([\\])", r"\\\1", text) + "%"),
    )
    words = st.sampled_from(["LIKE", "ILIKE"])
    return [
        *_ordered(name, examples),
        st.builds(like, patterns, st.sampled_from(["", "NOT "]), words),
        st.builds(starts, part),
    ]


def _pattern(like: str) -> str:
    def piece(found: re.Match[str]) -> str:
        sign = found[0]
        return {"%": ".*", "_": "."}.get(sign) or re.escape(sign[-1])

    return re.sub(r"\\[\\%_]|.", piece, like, flags=re.DOTALL)


def _flags(name: str, examples: list[Any]) -> list[st.SearchStrategy[Filter]]:
    said = {
        name: lambda each: each,
        f"NOT {name}": lambda each: not each,
        f"{name} = true": lambda each: each,
        f"{name} <> true": lambda each: not each,
        f"{name} IN (false)": lambda each: not each,
    }
    plain = [_test(name, sql, test) for sql, test in said.items()]
    known: dict[str, list[Any]] = {
        "IS TRUE": [True],
        "IS FALSE": [False],
        "IS NOT TRUE": [False, None],
        "IS NOT FALSE": [True, None],
    }
    tests = [
        _test(name, f"{name} {test}", wanted.__contains__, missing=True) for test, wanted in known.items()
    ]
    return [st.sampled_from([*plain, *tests])]


def _lists(name: str, examples: list[Any]) -> list[st.SearchStrategy[Filter]]:
    item = st.sampled_from(TEXTS)

    def has(text: str) -> Filter:
        return _test(name, f"array_has({name}, {literal(text)})", lambda each: text in each)

    def has_of(texts: list[str], which: str) -> Filter:
        test = any if which == "any" else all
        listed = ", ".join(map(literal, texts))
        sql = f"array_has_{which}({name}, [{listed}])"
        return _test(name, sql, lambda each: test(text in each for text in texts))

    def length(sign: str, number: int) -> Filter:
        test = _SIGNS[sign]
        return _test(name, f"cardinality({name}) {sign} {number}", lambda each: test(len(each), number))

    some = st.lists(item, min_size=1, max_size=3)
    return [
        st.builds(has, item),
        st.builds(has_of, some, st.sampled_from(["any", "all"])),
        st.builds(length, st.sampled_from(sorted(_SIGNS)), st.integers(0, 4)),
    ]
