"""Random columns with unusual values, and random filters over them that evaluate themselves."""

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

from ares.store import quote_literal

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
class RandomFilter:
    """A filter and its truth value for every row."""

    sql: str
    evaluate: Callable[[Columns], NDArray[np.int8]]

    def matches(self, columns: Columns) -> NDArray[np.bool_]:
        """(N,) whether each row matches."""
        return np.equal(self.evaluate(columns), TRUE)

    def __repr__(self) -> str:
        return f"Filter({self.sql!r})"


def random_columns(count: int, seed: int) -> dict[str, list[Any]]:
    """Values of every type that a column can have, many of them missing or unusual."""
    rng = random.Random(seed)

    def column(make: Callable[[], Any], missing: float = 0.15) -> list[Any]:
        return [None if rng.random() < missing else make() for _ in range(count)]

    return {
        "note": column(lambda: rng.choice(TEXTS)),
        "grade": column(lambda: rng.choice(("acceptable", "not_acceptable", "unsure", "error"))),
        "score": column(lambda: rng.choice(_FLOATS) if rng.random() < 0.3 else rng.gauss(0, 1)),
        "events": column(lambda: rng.choice(_INTS) if rng.random() < 0.2 else rng.randrange(9)),
        "acceptable": column(lambda: rng.random() < 0.5),
        "seen": column(lambda: _START + timedelta(microseconds=rng.randrange(10**13))),
        "objects": column(lambda: rng.choices(TEXTS, k=rng.randrange(4))),
        "order": column(lambda: rng.randrange(9)),
    }


def filters(examples: Columns, leaves: int = 8) -> st.SearchStrategy[RandomFilter]:
    """Filters over columns with values as in the examples: conditions of every type, joined and negated."""
    conditions = st.one_of([_conditions(name, list(values)) for name, values in examples.items()])
    return st.recursive(conditions, _connectives, max_leaves=leaves)


def _connectives(inner: st.SearchStrategy[RandomFilter]) -> st.SearchStrategy[RandomFilter]:
    def conjunction(first: RandomFilter, other: RandomFilter) -> RandomFilter:
        sql = f"({first.sql}) AND ({other.sql})"
        return RandomFilter(sql, lambda columns: np.minimum(first.evaluate(columns), other.evaluate(columns)))

    def disjunction(first: RandomFilter, other: RandomFilter) -> RandomFilter:
        sql = f"({first.sql} OR {other.sql})"
        return RandomFilter(sql, lambda columns: np.maximum(first.evaluate(columns), other.evaluate(columns)))

    def negation(inner_filter: RandomFilter) -> RandomFilter:
        return RandomFilter(
            f"NOT ({inner_filter.sql})",
            lambda columns: (TRUE - inner_filter.evaluate(columns)).astype(np.int8),
        )

    def truth_test(inner_filter: RandomFilter, test: str) -> RandomFilter:
        expected = {"TRUE": TRUE, "FALSE": FALSE, "NULL": UNKNOWN}[test.split()[-1]]
        sql = f"({inner_filter.sql}) IS {test}"
        return RandomFilter(
            sql, lambda columns: _to_truth((inner_filter.evaluate(columns) == expected) != ("NOT" in test))
        )

    tests = st.sampled_from(["TRUE", "FALSE", "NULL", "NOT TRUE", "NOT FALSE", "NOT NULL"])
    return st.one_of(
        st.builds(conjunction, inner, inner),
        st.builds(disjunction, inner, inner),
        st.builds(negation, inner),
        st.builds(truth_test, inner, tests),
    )


def _to_truth(flags: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(flags, TRUE, FALSE).astype(np.int8)


def _conditions(name: str, examples: list[Any]) -> st.SearchStrategy[RandomFilter]:
    values = [value for value in examples if value is not None]
    strategies: Mapping[type, Callable[[str, list[Any]], list[st.SearchStrategy[RandomFilter]]]]
    strategies = {bool: _bool_conditions, list: _list_conditions, str: _text_conditions}
    nulls = [_column_test(name, f"{name} IS NULL", lambda value: value is None, missing=True)]
    nulls += [_column_test(name, f"{name} IS NOT NULL", lambda value: value is not None, missing=True)]
    return st.one_of([*strategies.get(type(values[0]), _comparisons)(name, values), st.sampled_from(nulls)])


def _column_test(
    name: str, sql: str, test: Callable[[Any], bool | None], missing: bool = False
) -> RandomFilter:
    """A condition on one column by a test of its values; a missing value is tested only if `missing` is true."""

    def evaluate(columns: Columns) -> NDArray[np.int8]:
        results = (None if value is None and not missing else test(value) for value in columns[name])
        return np.array(
            [UNKNOWN if result is None else TRUE if result else FALSE for result in results], np.int8
        )

    return RandomFilter(sql, evaluate)


def order_key(value: Any) -> Any:
    """The order of a column: NaN is above all other numbers and equal to itself, -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value) if isinstance(value, int) else value


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return quote_literal(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    return repr(value)


def _has_literal(value: Any) -> bool:
    """Whether SQL has a literal for a value; it has none for NaN, infinity and the least integer."""
    return bool(value != -(2**63)) and not (isinstance(value, float) and not math.isfinite(value))


def _sample(values: Sequence[Any]) -> list[Any]:
    """Some thirty distinct values, the smallest and the largest of them included."""
    distinct = sorted(set(values))
    return [*distinct[:: max(1, len(distinct) // 30)], distinct[-1]]


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda first, other: first == other,
    "<>": lambda first, other: first != other,
    "!=": lambda first, other: first != other,
    "<": lambda first, other: first < other,
    "<=": lambda first, other: first <= other,
    ">": lambda first, other: first > other,
    ">=": lambda first, other: first >= other,
}


def _comparisons(name: str, examples: list[Any]) -> list[st.SearchStrategy[RandomFilter]]:
    """Conditions on what can be compared: numbers, times and text."""
    value_strategy = st.sampled_from(_sample([value for value in examples if _has_literal(value)]))

    def compare(sign: str, value: Any) -> RandomFilter:
        test = _COMPARISONS[sign]
        return _column_test(
            name, f"{name} {sign} {_literal(value)}", lambda item: test(order_key(item), order_key(value))
        )

    def compare_reversed(sign: str, value: Any) -> RandomFilter:
        test = _COMPARISONS[sign]
        return _column_test(
            name, f"{_literal(value)} {sign} {name}", lambda item: test(order_key(value), order_key(item))
        )

    def in_values(values: list[Any], not_: str) -> RandomFilter:
        keys = {order_key(value) for value in values}
        listed = ", ".join(map(_literal, values))

        def test(value: Any) -> bool:
            return (order_key(value) in keys) != bool(not_)

        return _column_test(name, f"{name} {not_}IN ({listed})", test)

    def between(low: Any, high: Any, not_: str) -> RandomFilter:
        def test(value: Any) -> bool:
            return bool(order_key(low) <= order_key(value) <= order_key(high)) != bool(not_)

        return _column_test(name, f"{name} {not_}BETWEEN {_literal(low)} AND {_literal(high)}", test)

    maybe_not, signs = st.sampled_from(["", "NOT "]), st.sampled_from(sorted(_COMPARISONS))
    return [
        st.builds(compare, signs, value_strategy),
        st.builds(compare_reversed, signs, value_strategy),
        st.builds(in_values, st.lists(value_strategy, min_size=1, max_size=5), maybe_not),
        st.builds(between, value_strategy, value_strategy, maybe_not),
    ]


def _text_conditions(name: str, examples: list[Any]) -> list[st.SearchStrategy[RandomFilter]]:
    def like(pattern: str, not_: str, word: str) -> RandomFilter:
        flags = re.DOTALL | (re.IGNORECASE if word == "ILIKE" else 0)
        regex = re.compile(_pattern(pattern), flags)
        sql = f"{name} {not_}{word} {quote_literal(pattern)}"
        return _column_test(name, sql, lambda text: bool(regex.fullmatch(text)) != bool(not_))

    def starts(text: str) -> RandomFilter:
        return _column_test(
            name, f"starts_with({name}, {quote_literal(text)})", lambda value: value.startswith(text)
        )

    part = st.sampled_from(_sample(examples)).flatmap(
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
        *_comparisons(name, examples),
        st.builds(like, patterns, st.sampled_from(["", "NOT "]), words),
        st.builds(starts, part),
    ]


def _pattern(like: str) -> str:
    def piece(match: re.Match[str]) -> str:
        sign = match[0]
        return {"%": ".*", "_": "."}.get(sign) or re.escape(sign[-1])

    return re.sub(r"\\[\\%_]|.", piece, like, flags=re.DOTALL)


def _bool_conditions(name: str, examples: list[Any]) -> list[st.SearchStrategy[RandomFilter]]:
    tests_by_sql = {
        name: lambda value: value,
        f"NOT {name}": lambda value: not value,
        f"{name} = true": lambda value: value,
        f"{name} <> true": lambda value: not value,
        f"{name} IN (false)": lambda value: not value,
    }
    plain = [_column_test(name, sql, test) for sql, test in tests_by_sql.items()]
    accepted: dict[str, list[Any]] = {
        "IS TRUE": [True],
        "IS FALSE": [False],
        "IS NOT TRUE": [False, None],
        "IS NOT FALSE": [True, None],
    }
    truth_tests = [
        _column_test(name, f"{name} {test}", values.__contains__, missing=True)
        for test, values in accepted.items()
    ]
    return [st.sampled_from([*plain, *truth_tests])]


def _list_conditions(name: str, examples: list[Any]) -> list[st.SearchStrategy[RandomFilter]]:
    item = st.sampled_from(TEXTS)

    def has(text: str) -> RandomFilter:
        return _column_test(name, f"array_has({name}, {quote_literal(text)})", lambda items: text in items)

    def has_of(texts: list[str], which: str) -> RandomFilter:
        test = any if which == "any" else all
        listed = ", ".join(map(quote_literal, texts))
        sql = f"array_has_{which}({name}, [{listed}])"
        return _column_test(name, sql, lambda items: test(text in items for text in texts))

    def length(sign: str, number: int) -> RandomFilter:
        test = _COMPARISONS[sign]
        return _column_test(
            name, f"cardinality({name}) {sign} {number}", lambda items: test(len(items), number)
        )

    several = st.lists(item, min_size=1, max_size=3)
    return [
        st.builds(has, item),
        st.builds(has_of, several, st.sampled_from(["any", "all"])),
        st.builds(length, st.sampled_from(sorted(_COMPARISONS)), st.integers(0, 4)),
    ]
