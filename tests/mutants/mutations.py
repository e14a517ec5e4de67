"""Small changes of a program, each of which some test should notice: other operators, values, conditions, no call."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutants.probe import Function, first_line

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "*",
    ast.BitOr: "&", ast.BitAnd: "|",
}  # fmt: skip
_LARGE = 100
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file.

    Attributes:
        path: The file, relative to the repository.
        line: Line of the change.
        function: First line of the function around it, its decorators included; 0 outside of functions.
        start: Offset in UTF-8 bytes of the part that is replaced.
        end: Offset of its end.
        before: That part.
        after: What stands there in its place.
        within: The line that it begins in.
    """

    path: str
    line: int
    function: int
    start: int
    end: int
    before: str
    after: str
    within: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """The change in words, which stay the same where it moves with its line."""
        before, after = (" ".join(text.split())[:70] for text in (self.before, self.after))
        return f"{before}  ->  {after}  in: {self.within}"

    def apply(self, text: str) -> str:
        """The text of the file with the change."""
        data = text.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def find_mutants(path: str, text: str) -> list[Mutant]:
    """Every change of a file, in order; names, texts, annotations and imports stay as they are."""
    source = _Source(text.encode())
    mutants = []
    for node, function in _visit(ast.parse(text), 0):
        for place, after in _changes(node, source):
            start, end = source.span(place)
            mutants.append(
                Mutant(
                    path=path,
                    line=place.lineno,
                    function=function,
                    start=start,
                    end=end,
                    before=source.text(place),
                    after=after,
                    within=source.lines[place.lineno - 1].decode().strip(),
                )
            )
    return sorted(mutants, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


class _Source:
    """Text by node; `ast.get_source_segment` splits the whole file at every call.

    Args:
        data: The file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.lines = data.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, self.lines))]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Offsets of the first byte and of the end."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr | ast.stmt) -> str:
        """What the program says there."""
        start, end = self.span(node)
        return self._data[start:end].decode()


def _visit(node: ast.AST, function: int) -> Iterator[tuple[ast.AST, int]]:
    """Every node whose change could matter, with the first line of the function around it."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    if isinstance(node, Function):
        function = first_line(node)
    yield node, function
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _visit(child, function)


def _changes(node: ast.AST, source: _Source) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What is replaced, and by what."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARISONS:
            yield (
                node,
                f"{_closed(source.text(left))} {_COMPARISONS[type(operator)]} {_closed(source.text(right))}",
            )
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
            yield (
                node,
                f"({_closed(source.text(left))} {_OPERATORS[type(operation)]} {_closed(source.text(right))})",
            )
        case ast.BoolOp(op=joint, values=values):
            word = " or " if isinstance(joint, ast.And) else " and "
            yield node, f"({word.join(_closed(source.text(value)) for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({source.text(operand)})"
        case ast.Constant(value=bool() | int() | float() as value):
            # One more or less of a large number, as of rows in a batch, changes nothing that could be noticed.
            changed = value + 1 if abs(value) < _LARGE else 0
            yield node, repr(not value if isinstance(value, bool) else changed)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"(not {_closed(source.text(test))})"
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield test, "True"
        case _:
            yield from _more_changes(node)


def _more_changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Call(func=ast.Name(id=name) as called) if name in _CALLS:
            yield called, _CALLS[name]
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"


def _closed(text: str) -> str:
    return f"({text})"
