"""Notes which functions of the copy a test enters, in its own process and in those that it starts.

Tracing every call takes three times as long as the tests; a probe in the functions of the rooms costs nothing.
"""

from __future__ import annotations

import ast
import os
from contextlib import suppress

FOLDER_VARIABLE, TEST_VARIABLE = "RECORDED_TESTS", "RECORDED_TEST"
Function = ast.FunctionDef | ast.AsyncFunctionDef

entered: set[str] = set()
# Other processes than that of pytest write each function down at once: nobody knows how they end.
_tester: list[int] = []


def begin_test(test: str) -> None:
    """From here on functions are entered by this test; called in the process of pytest."""
    _tester[:] = [os.getpid()]
    os.environ[TEST_VARIABLE] = test
    entered.clear()


def enter(function: str) -> None:
    """Called by a probe at each call of a function, named "FILE:FIRST LINE"."""
    if function in entered:
        return
    entered.add(function)
    if [os.getpid()] != _tester and FOLDER_VARIABLE in os.environ:
        with suppress(Exception):  # where a test takes the disk away, for one
            path = f"{os.environ[FOLDER_VARIABLE]}/{os.getpid()}.entered"
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{os.environ.get(TEST_VARIABLE, '')}\t{function}\n".encode())
            os.close(file)


def first_line(node: Function) -> int:
    """Line in which a function begins, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def add_probes(path: str, text: str) -> str:
    """A module whose functions each tell `enter` of their calls.

    Args:
        path: The file, relative to the repository.
        text: What stands in it.
    """
    lines = text.encode().splitlines(keepends=True)
    places = [
        (*_first_statement(node), first_line(node))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function)
    ]
    for line, column, function in sorted(places, reverse=True):
        before, after = lines[line - 1][:column], lines[line - 1][column:]
        probe = f'__import__("tests.mutants.probe", None, None, ("enter",)).enter("{path}:{function}")'
        joint = "; " if before.strip() else "\n" + before.decode()
        lines[line - 1] = before + (probe + joint).encode() + after
    return b"".join(lines).decode()


def _first_statement(node: Function) -> tuple[int, int]:
    """Line and column in bytes of what is done first, or of the docstring where nothing else is there."""
    has_more = len(node.body) > 1 and ast.get_docstring(node) is not None
    first = node.body[1 if has_more else 0]
    decorators = getattr(first, "decorator_list", [])
    if decorators:
        return decorators[0].lineno, first.col_offset
    return first.lineno, first.col_offset
