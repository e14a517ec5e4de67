"""Changes of a program that some test should notice: some of cosmic-ray, and one that leaves a statement out."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

# Not those of `|`, which is in annotations, nor `<=` in place of `==`, which is often the same.
_OPERATORS = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Div")),
    "AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer",
)  # fmt: skip
# One more or less of a large number, as of rows in a batch, changes nothing that could be noticed.
_LARGE = 100


class _Omit(Operator):  # type: ignore[misc]
    """No call, no error, nothing added, and None in place of what is returned."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        statement = node.children[0] if node.type == "simple_stmt" else None
        adds = (
            statement
            and statement.type == "expr_stmt"
            and getattr(statement.children[1], "value", "=") != "="
        )
        if statement and (adds or statement.type in ("atom_expr", "raise_stmt", "return_stmt")):
            yield statement.start_pos, statement.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        statement = node.children[0]
        words = "return None" if statement.type == "return_stmt" else "pass"
        node.children[0] = parso.parse(statement.get_first_leaf().prefix + words)  # type: ignore[no-untyped-call]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


OPERATORS: dict[str, Operator] = {
    "Omit": _Omit(),
    **{name: get_operator(f"core/{name}")() for name in _OPERATORS},
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file.

    Attributes:
        path: The file, relative to the repository.
        operator: Which of `OPERATORS`.
        occurrence: Its number in the file.
        line: Line of the change.
        function: First and last line of the body of the function around it, or of the whole file.
    """

    path: str
    operator: str
    occurrence: int
    line: int
    function: tuple[int, int]


def find_changes(root: Path, path: str) -> list[Change]:
    """Every change of a file; decorators and large numbers stay as they are."""
    nodes = list(ast_nodes(get_ast_from_path(root / path)))
    changes = []
    for name, operator in OPERATORS.items():
        places = [(node, start[0]) for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (node, line) in enumerate(places):
            large = node.type == "number" and abs(ast.literal_eval(node.value)) >= _LARGE
            if large or node.search_ancestor("decorator") or "TYPE_CHECKING" in node.get_code()[:40]:
                continue
            changes.append(Change(path, name, occurrence, line, _body_lines(node)))
    return changes


def _body_lines(node: Any) -> tuple[int, int]:
    """Lines of the function around, without that of its name, which is run where it is imported; else of the file."""
    function = node.search_ancestor("funcdef")
    if not function:
        return 0, node.get_root_node().end_pos[0]
    body = function.children[-1]
    return (body.children[1] if body.type == "suite" else body).start_pos[0], body.get_last_leaf().start_pos[
        0
    ]


def sample(root: Path, rooms: tuple[str, ...], seed: str, count: int, match: str) -> list[Change]:
    """Random changes, as many of each room; files count by their number of possible changes."""
    rng, chosen = random.Random(seed), list[Change]()
    rooms = tuple(room for room in rooms if match.startswith(room) or room.startswith(match)) or rooms
    for number, room in enumerate(rooms):
        paths = sorted(path.relative_to(root).as_posix() for path in (root / room).rglob("*.py"))
        found = [change for path in paths if path.startswith(match) for change in find_changes(root, path)]
        share = count // len(rooms) + (number < count % len(rooms))
        chosen += rng.sample(found, min(share, len(found)))
    rng.shuffle(chosen)
    return chosen
