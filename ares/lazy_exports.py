"""Packages export names that are imported when they are first used, so that a package costs nothing to import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def lazy_exports(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose `__init__.py` imports its exports under `if TYPE_CHECKING:`.

    A name is imported from the module that the type checker sees, when it is first used (PEP 562).

    Args:
        package: `__name__` of the package.

    Returns:
        A function from a name to the object; it raises AttributeError for a name that is not exported.
    """
    modules: dict[str, str] = {}

    def __getattr__(name: str) -> Any:
        if not modules:
            modules.update(exported_modules(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


def exported_modules(package: str) -> dict[str, str]:
    """Module of every name that a package imports under `if TYPE_CHECKING:`; nothing is imported for this."""
    spec = find_spec(package)
    source = Path(str(spec and spec.origin)).read_text(encoding="utf-8")
    return {
        alias.name: str(statement.module)
        for statement in _type_checking_imports(ast.parse(source))
        for alias in statement.names
    }


def _type_checking_imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (statement for statement in node.body if isinstance(statement, ast.ImportFrom))
