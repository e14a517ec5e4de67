"""Checks of a filter before Lance reads it: allowed syntax, known columns and functions, operands that fit.

Some functions of the engine fill the memory (`repeat`), some change their answer from one run to the next (`random`),
and its planner overflows the stack, which ends the process, at a few hundred nested operators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from ares.store.filters.diagnostics import filter_error, suggestion, unknown_column
from ares.store.filters.grammar import FUNCTIONS, parse_condition

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

# Levels of the tree; a chain of AND and OR is one.
MAX_DEPTH = 60
# Characters of a text that a function may copy into every row or compile as a pattern.
MAX_PATTERN = 200
# Counted repetitions in a regular expression, multiplied; its engine unrolls them.
MAX_REPETITIONS = 1_000
# Lists of values for one column: each further one makes the filter longer than the one before.
MAX_LISTS = 100
_CAST_KINDS = {"INT": "number", "BIGINT": "number", "FLOAT": "number", "DOUBLE": "number", "TEXT": "text"}
_CAST_KINDS |= {"BOOLEAN": "bool", "DATE": "time", "TIMESTAMP": "time"}
_KIND_NAMES = {"number": "a number", "text": "text", "bool": "true or false", "list": "a list of text"}
_KIND_NAMES |= {"time": "a time such as TIMESTAMP '2026-11-21'", "other": "of another type"}


def check_filter(where: str, columns: Mapping[str, str]) -> str:
    """Check a filter; the last results are kept.

    Args:
        where: SQL condition.
        columns: Type of every column: "int64", "float64", "string", "bool", "timestamp", "list<string>" ...

    Returns:
        The filter as Lance has to read it.

    Raises:
        FilterError: It is not a condition, or has something in it that is not allowed.
    """
    return _check_filter(where, tuple(columns.items()))


@lru_cache(maxsize=32)
def _check_filter(where: str, columns: tuple[tuple[str, str], ...]) -> str:
    checker = FilterChecker(where, dict(columns))
    checker.check(parse_condition(where))
    return checker.separate_lists()


class FilterChecker:
    """Checks the tree of one filter.

    Args:
        where: The filter.
        columns: Type of every column.
    """

    def __init__(self, where: str, columns: Mapping[str, str]) -> None:
        self._where = where
        self._columns = columns
        self._kinds: dict[int, str] = {}
        # Start, stop and name of each column before a list of values.
        self._lists: list[tuple[int, int, str]] = []

    def check(self, tree: Expr) -> None:
        """Raise FilterError for a node that is not allowed, or an operand of the wrong kind."""
        for node, depth in _walk(tree):
            if depth > MAX_DEPTH:
                self._fail(node, f"nested more than {MAX_DEPTH} deep")
            if node.key not in _RULES and node.key not in ("identifier", "datatype"):
                self._fail(node, "this syntax is not allowed in a filter")
        self._require("bool", tree)

    def separate_lists(self) -> str:
        """The filter with an expression of its own before the second list of values of a column, and each further one.

        DataFusion takes two lists of one column that share no value for a constant, also where the column has no
        value: `a NOT IN (1) OR a NOT IN (2)` would return every row.
        """
        counts: dict[str, int] = {}
        parts, end = list[str](), 0
        for start, stop, name in sorted(self._lists):
            counts[name] = count = counts.get(name, 0) + 1
            if count > MAX_LISTS:
                raise filter_error(self._where, f"more than {MAX_LISTS} lists of values for {name}", start)
            if count > 1:
                parts += [self._where[end:start], f"coalesce({', '.join([f'`{name}`'] * count)})"]
                end = stop
        return "".join([*parts, self._where[end:]])

    def _fail(self, node: Expr, message: str) -> NoReturn:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        raise filter_error(self._where, message, min(starts, default=0))

    def _kind(self, node: Expr) -> str:
        """What a node evaluates to: "bool", "number", "text", "time", "list" or "other"."""
        # Computed once, because nested operands would be evaluated twice at every level.
        if id(node) not in self._kinds:
            self._kinds[id(node)] = _RULES[node.key](self, node)
        return self._kinds[id(node)]

    def _require(self, kind: str, *nodes: Expr) -> str:
        for node in nodes:
            if (actual := self._kind(node)) != kind:
                self._fail(node, f"{self._source(node)} is {_KIND_NAMES[actual]}, not {_KIND_NAMES[kind]}")
        return kind

    def _source(self, node: Expr) -> str:
        """How a column or a literal is written."""
        if node.key not in ("column", "literal", "boolean"):
            return "this expression"
        meta = (node.this if node.key == "column" else node).meta
        return self._where[meta["start"] : meta["end"] + 1] if "end" in meta else node.name

    def _logic(self, node: Expr) -> str:
        return self._require("bool", *_operands(node))

    def _paren(self, node: Expr) -> str:
        return self._kind(node.this)

    def _arithmetic(self, node: Expr) -> str:
        return self._require("number", *node.iter_expressions())

    def _like(self, node: Expr) -> str:
        self._require("text", node.this, node.expression)
        return "bool"

    def _comparison(self, node: Expr) -> str:
        return self._compare(*node.iter_expressions())

    def _compare(self, first: Expr, *others: Expr) -> str:
        for other in others:
            swapped = first.key == "literal" or (other.key == "column" and first.key != "column")
            column, value = (other, first) if swapped else (first, other)
            kinds = self._kind(column), self._kind(value)
            type_name = self._columns[_column_name(column)] if column.key == "column" else ""
            is_fitting = "int" not in type_name or _is_integer(value)
            if kinds[0] != kinds[1] or not is_fitting:
                subject = f"{_column_name(column)} is {type_name}, to be" if type_name else "it is"
                advice = "a whole number" if "int" in type_name else _KIND_NAMES[kinds[0]]
                self._fail(value, f"{self._source(value)} does not fit: {subject} compared with {advice}")
        return "bool"

    def _is(self, node: Expr) -> str:
        if node.expression.key not in ("null", "boolean"):
            self._fail(node, "IS needs NULL, TRUE or FALSE")
        if self._kind(node.this) != "bool" and node.expression.key == "boolean":
            self._require("bool", node.this)
        return "bool"

    def _in(self, node: Expr) -> str:
        if not node.expressions:
            self._fail(node, "IN needs a list of values")
        if node.this.key == "column":
            meta = node.this.this.meta
            self._lists.append((meta["start"], meta["end"] + 1, _column_name(node.this)))
        return self._compare(node.this, *node.expressions)

    def _null(self, node: Expr) -> str:
        self._fail(node, "NULL equals nothing: it stands only in IS NULL and IS NOT NULL")

    def _boolean(self, node: Expr) -> str:
        return "bool"

    def _column(self, node: Expr) -> str:
        name = _column_name(node)
        if self._source(node).startswith('"'):
            advice = "a column without quotes" if name in self._columns else "a text in single quotes"
            self._fail(node, f"{self._source(node)} is in double quotes; write {advice}")
        if name not in self._columns:
            self._fail(node, unknown_column(name, self._columns))
        return _column_kind(self._columns[name])

    def _literal(self, node: Expr) -> str:
        return "text" if node.is_string else "number"

    def _cast(self, node: Expr) -> str:
        self._kind(node.this)
        target = node.args["to"]
        if target.key != "datatype" or target.expressions or target.this.name not in _CAST_KINDS:
            self._fail(node, "a cast is to INT, BIGINT, FLOAT, DOUBLE, STRING, BOOLEAN, DATE or TIMESTAMP")
        return _CAST_KINDS[target.this.name]

    def _array(self, node: Expr) -> str:
        self._require("text", *node.expressions)
        return "list"

    def _bracket(self, node: Expr) -> str:
        self._require("list", node.this)
        self._require("number", *node.expressions)
        return "text"

    def _function(self, node: Expr) -> str:
        name, arguments = node.name.lower(), node.expressions
        if name not in FUNCTIONS:
            self._fail(
                node, f"no function named {node.name[:100]!r} for filters{suggestion(name, FUNCTIONS)}"
            )
        kinds, result = FUNCTIONS[name]
        if kinds[-1].endswith("..."):
            kinds = ["same"] * max(2, len(arguments))
        if not sum("?" not in kind for kind in kinds) <= len(arguments) <= len(kinds):
            self._fail(node, f"{name} takes {' and '.join(kinds)}, but got {len(arguments)} arguments")
        first_kind = self._kind(arguments[0])
        for kind, argument in zip(kinds, arguments, strict=False):
            is_pattern = kind.startswith("pattern")
            kind = "text" if is_pattern else first_kind if kind == "same" else kind.rstrip("?")
            self._require(kind, argument)
            if is_pattern or result in ("text", "same"):
                self._check_size(argument, is_pattern)
        return first_kind if result == "same" else result

    def _check_size(self, argument: Expr, is_pattern: bool) -> None:
        counts = re.findall(r"\{(\d*),?(\d*)\}", argument.name) if is_pattern else []
        repetitions = math.prod(max(1, *(int(digits or 0) for digits in count)) for count in counts)
        if is_pattern and argument.key != "literal":
            self._fail(argument, "a pattern is a text in quotes, the same for all rows")
        if argument.key == "literal" and len(argument.name) > MAX_PATTERN:
            self._fail(argument, f"a text in a function has at most {MAX_PATTERN} characters")
        if repetitions > MAX_REPETITIONS:
            self._fail(argument, f"a pattern has at most {MAX_REPETITIONS} counted repetitions")


_RULES: Mapping[str, Callable[[FilterChecker, Expr], str]] = {
    **dict.fromkeys(("and", "or", "not"), FilterChecker._logic),
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte", "between"), FilterChecker._comparison),
    **dict.fromkeys(("nullsafeeq", "nullsafeneq"), FilterChecker._comparison),
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "neg"), FilterChecker._arithmetic),
    **dict.fromkeys(("like", "ilike"), FilterChecker._like),
    **dict.fromkeys(("cast", "trycast"), FilterChecker._cast),
    "paren": FilterChecker._paren,
    "is": FilterChecker._is,
    "in": FilterChecker._in,
    "null": FilterChecker._null,
    "boolean": FilterChecker._boolean,
    "column": FilterChecker._column,
    "literal": FilterChecker._literal,
    "array": FilterChecker._array,
    "bracket": FilterChecker._bracket,
    "anonymous": FilterChecker._function,
}


def _walk(tree: Expr) -> Iterator[tuple[Expr, int]]:
    """Every node with its depth; a chain of AND and OR is one level, as the engine takes it without recursion."""
    nodes = [(tree, 0)]
    while nodes:
        node, depth = nodes.pop()
        yield node, depth
        for child in node.iter_expressions():
            is_chain = node.key in ("and", "or") and child.key in ("and", "or")
            nodes.append((child, depth if is_chain else depth + 1))


def _operands(node: Expr) -> list[Expr]:
    """The operands of a chain of AND, OR and NOT, from left to right."""
    operands: list[Expr] = []
    nodes = [node]
    while nodes:
        operand = nodes.pop()
        if operand.key in ("and", "or", "not"):
            nodes += reversed(list(operand.iter_expressions()))
        else:
            operands.append(operand)
    return operands


def _column_name(column: Expr) -> str:
    """Name of a column as the table has it: an unquoted name may be written in capitals."""
    parts = reversed(list(column.iter_expressions()))
    return ".".join(part.name if part.args.get("quoted") else part.name.lower() for part in parts)


def _column_kind(type_name: str) -> str:
    kinds = {"string": "text", "bool": "bool", "list<string>": "list"}
    number = re.fullmatch(r"u?int\d+|float\d+|double|halffloat|float", type_name)
    return kinds.get(type_name) or ("number" if number else "time" if "timestamp" in type_name else "other")


def _is_integer(value: Expr) -> bool:
    """Whether a literal is a whole number of 64 bits; true for what is not a literal."""
    literal = value.this if value.key == "neg" else value
    digits = literal.name if literal.key == "literal" else "0"
    return len(digits) < 20 and digits.isdigit() and int(digits) < 2**63
