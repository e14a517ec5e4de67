"""Reads the imports of the sources without importing them: what each module needs, wherever the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ares", "ingest", "annotators", "app")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def file_name(path: Path) -> str:
    """Path below the repository, for messages."""
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    """Dotted name of a file; a package's `__init__.py` has the name of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in SOURCES}
SUBPACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py" and "." in name}


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
    """Our modules that a file imports from; a name of a package counts as the module that defines it."""
    for module, name in imports_of(path):
        full = f"{module}.{name}"
        if full in MODULES:
            yield full
        elif module in SUBPACKAGES and name in exports(module):
            yield exports(module)[name]
        elif module in MODULES:
            yield module
