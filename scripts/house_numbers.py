#!/usr/bin/env python3
"""Prints the numbers of the house: sizes of files and functions, headers and doors, circles, names, and unused names.

`--list` also names what is counted, one a line. The four packages are read and not imported.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.house.imports import (  # noqa: E402 - the root is put on the path above
    MODULES,
    PACKAGES,
    SOURCES,
    Function,
    file_name,
    function_sizes,
    imports_of,
)

Graph = dict[str, set[str]]
FUNCTION_LINES, PARAMETERS, BASENAMES = 40, 7, 3
FILES = [path for path in SOURCES if path.name != "__init__.py"]
DOORS = [path for path in SOURCES if path.name == "__init__.py"]


def main() -> None:
    """Print a line for each number, and with `--list` the names behind it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="name what is counted")
    args = parser.parse_args()
    total = sum(map(count_lines, SOURCES))
    print(f"{'modules, doors, together':<50}{len(FILES)}, {len(DOORS)}, {len(SOURCES)}")
    for package in PACKAGES:
        lines = sum(count_lines(path) for path in SOURCES if path.is_relative_to(ROOT / package))
        print(f"{f'lines of {package}':<50}{lines}")
    headers, doors = sum(map(header_lines, FILES)), sum(map(count_lines, DOORS))
    print(f"{'lines':<50}{total}")
    print(f"{'lines of headers, of doors':<50}{headers}, {doors}: {(headers + doors) / total:.1%} of all")
    sizes = sorted(map(count_lines, FILES))
    median, tenth = sizes[len(sizes) // 2], sizes[len(sizes) * 9 // 10]
    print(f"{'lines of a file: median, 90 %, most':<50}{median}, {tenth}, {sizes[-1]}")
    for label, names in measured_lists().items():
        print(f"{label:<50}{len(names)}")
        if args.list:
            print("".join(f"    {name}\n" for name in names), end="")


def measured_lists() -> dict[str, list[str]]:
    """What is counted by name, by the label of its number."""
    sizes = {file_name(path): count_lines(path) for path in FILES}
    return {
        "files below 80 lines": [f"{name} {size}" for name, size in sizes.items() if size < 80],
        "files below 150 lines": [f"{name} {size}" for name, size in sizes.items() if size < 150],
        "files above 600 lines": [f"{name} {size}" for name, size in sizes.items() if size > 600],
        f"functions above {FUNCTION_LINES} lines": large_functions(),
        f"functions with more than {PARAMETERS} parameters": long_signatures(),
        f"basenames used more than {BASENAMES} times": frequent_basenames(),
        "circles of files, doors and lazy imports counted": describe_circles(file_graph()),
        "circles of rooms": describe_circles(room_graph()),
        "private functions of one word": one_word_functions(),
        "definitions without a caller or entry point": uncalled_definitions(),
    }


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def count_lines(path: Path) -> int:
    """Lines of a file, blank ones included."""
    return len(path.read_text().splitlines())


def header_lines(path: Path) -> int:
    """Lines from the top of a file to the end of its docstring and imports, with the blank ones below."""
    last, lines = 0, path.read_text().splitlines()
    for node in parse(path).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if not (is_docstring or is_typing or isinstance(node, ast.Import | ast.ImportFrom)):
            break
        last = node.end_lineno or 0
    return last + next((number for number, line in enumerate(lines[last:]) if line), 0)


def large_functions() -> list[str]:
    """Functions with more code lines than allowed, with their number."""
    sizes = chain.from_iterable(map(function_sizes, SOURCES))
    return [f"{name} {size}" for name, size in sizes if size > FUNCTION_LINES]


def long_signatures() -> list[str]:
    """Functions with more parameters than allowed, `self` and `cls` left out."""
    return [
        f"{file_name(path)}: {node.name} {count}"
        for path in SOURCES
        for node in ast.walk(parse(path))
        if isinstance(node, Function) and (count := _count_parameters(node.args)) > PARAMETERS
    ]


def _count_parameters(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = (arguments.vararg, arguments.kwarg)
    return sum(argument.arg not in ("self", "cls") for argument in named) + sum(map(bool, rest))


def frequent_basenames() -> list[str]:
    """Names of files that stand in more folders than allowed."""
    counts = Counter(path.stem for path in FILES)
    return [f"{name} {count}" for name, count in counts.most_common() if count > BASENAMES]


def file_graph() -> Graph:
    """What each module imports; a name of a package is imported from its door, and a door imports what it lists."""
    graph: Graph = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        for module, imported in imports_of(path):
            full = f"{module}.{imported}"
            needed = full if full in MODULES else module
            if needed in MODULES and needed != name:
                graph[name].add(needed)
    return graph


def room_graph() -> Graph:
    """What each room imports: a folder directly under a package, or a file there."""
    graph: Graph = {_room(name): set() for name in MODULES if "." in name}
    for name, needed in file_graph().items():
        if "." in name:
            graph[_room(name)] |= {_room(other) for other in needed if "." in other} - {_room(name)}
    return graph


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def describe_circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The sets of nodes that reach each other, the largest first, with their number and names."""
    circles = sorted(find_circles(graph), key=lambda circle: (-len(circle), min(circle)))
    return [f"{len(circle)}: {' '.join(sorted(circle))}" for circle in circles]


def find_circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Strongly connected sets of two nodes or more (Kosaraju, in two passes)."""
    order: list[str] = []
    seen: set[str] = set()
    for node in graph:
        order += _finished(node, graph, seen)
    backward: Graph = {node: set() for node in graph}
    for node, needed in graph.items():
        for other in needed & graph.keys():
            backward[other].add(node)
    seen = set()
    groups = [set(_finished(node, backward, seen)) for node in reversed(order)]
    return [group for group in groups if len(group) > 1]


def _finished(start: str, graph: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
    """Nodes that are reached for the first time, in the order in which their search ends."""
    if start in seen:
        return []
    seen.add(start)
    stack, done = [(start, iter(graph[start]))], []
    while stack:
        new = next((other for other in stack[-1][1] if other in graph and other not in seen), None)
        if new is None:
            done.append(stack.pop()[0])
        else:
            seen.add(new)
            stack.append((new, iter(graph[new])))
    return done


def one_word_functions() -> list[str]:
    """Private functions at the top of a module whose name is one word."""
    return [
        f"{file_name(path)}: {node.name}"
        for path in SOURCES
        for node in parse(path).body
        if isinstance(node, Function) and re.fullmatch(r"_[a-z0-9]+", node.name)
    ]


def uncalled_definitions() -> list[str]:
    """Functions, methods and classes whose name no code uses, nor pyproject.toml; that a door lists it is no use.

    Python's own names are left out, and validators, which pydantic calls.
    """
    used = set(chain.from_iterable(map(_used_names, SOURCES)))
    used |= set(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text()))
    built = re.compile("|".join(sorted(set(chain.from_iterable(map(_built_names, SOURCES))))))
    return [
        f"{file_name(path)}: {node.name}"
        for path in SOURCES
        for node in ast.walk(parse(path))
        if isinstance(node, Function | ast.ClassDef)
        and node.name not in used
        and not built.fullmatch(node.name)
        and not node.name.startswith("__")
        and not any("validator" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def _used_names(path: Path) -> Iterator[str]:
    """Names and attributes that are read, and texts that are a name: `getattr` and registers take those."""
    is_door = path.name == "__init__.py"
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_door:
            yield node.value.rpartition(":")[2]  # "module:Name" names an object


def _built_names(path: Path) -> Iterator[str]:
    """Patterns of names that code builds, such as f"run_{command}"."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            name = node.args[1]
            if isinstance(name, ast.JoinedStr):
                yield "".join(
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
                    for part in name.values
                )


if __name__ == "__main__":
    main()
