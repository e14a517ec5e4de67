"""Reads the sources without importing them: what each module needs, and how many lines its functions have."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ares", "ingest", "annotators", "app")
Function = ast.FunctionDef | ast.AsyncFunctionDef
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def file_name(path: Path) -> str:
    """Path below the repository, for messages."""
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    """Dotted name of a file; a package's `__init__.py` has the name of the package, which its folder shortens."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return f"ares_{name}" if name.partition(".")[0] in PACKAGES[1:] else name


MODULES = {module_name(path): path for path in SOURCES}
FOLDERS = {name for name, path in MODULES.items() if path.name == "__init__.py" and "." in name}
# A room is a folder directly under a package: it has a door. Deeper folders have none.
ROOMS = {name for name in FOLDERS if name.count(".") == 1}


def room_of(module: str) -> str:
    """The room of a module, such as "ares.store"; a file directly under a package is a separate room."""
    return ".".join(module.split(".")[:2])


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of every import; the name is "" where a module is imported as a whole.

    Lazy imports, those for the type checker and `import_module` count: none of them is a way round a rule.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func) and node.args:
            yield ast.unparse(node.args[0]).lstrip("f").strip("'\""), ""


@cache
def imports_of(path: Path) -> tuple[tuple[str, str], ...]:
    """Module and name of every import of a file."""
    return tuple(imported_names(ast.parse(path.read_text())))


@cache
def exports(package: str) -> dict[str, str]:
    """Names that a package exports, with the module that each comes from; read from `__init__.py`."""
    tree = ast.parse(MODULES[package].read_text())
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def needed_modules(path: Path) -> Iterator[str]:
    """Our modules that a file imports from; a name of a door counts as the module that defines it."""
    for module, name in imports_of(path):
        full = f"{module}.{name}"
        if full in MODULES:
            yield full
        elif module in FOLDERS and name in exports(module):
            yield exports(module)[name]
        elif module in MODULES:
            yield module


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that hold code, from 1; comments, blank lines and docstrings do not."""
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def function_sizes(path: Path) -> Iterator[tuple[str, int]]:
    """Functions of a file with their number of code lines, docstrings left out."""
    text = path.read_text()
    code = code_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            lines = range(node.lineno, (node.end_lineno or 0) + 1)
            yield f"{file_name(path)}: {node.name}", len(code.intersection(lines))
