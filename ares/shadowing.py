"""Modules of the user that hide a package of ARES because they have its name, such as an `app.py`."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from ares.errors import RequestError

# The packages of ARES above `ares`; plain names that a file of the user may have, too.
PACKAGES = ("ingest", "annotators", "app")


def refuse_shadowing(package: str) -> None:
    """Check that a name leads to the package of ARES.

    Args:
        package: One of PACKAGES; any other name is not checked.

    Raises:
        RequestError: A module of that name comes earlier in sys.path; the error names both files.
    """
    ours = Path(__file__).parents[1] / package
    if package not in PACKAGES or not (ours / "__init__.py").is_file():
        return
    origin = _origin(package)
    if origin and Path(origin).resolve().parent != ours.resolve():
        raise RequestError(
            f"the module {package!r} is not the one of ARES",
            f"{origin} hides {ours / '__init__.py'}; rename it, or start Python in another folder",
        )


def _origin(package: str) -> str:
    """The file, or the folder, that an import of this name gives; "" when there is none."""
    if package in sys.modules:
        module = sys.modules[package]
        return str(getattr(module, "__file__", None) or "")
    spec = PathFinder.find_spec(package)
    if spec is None:
        return ""
    locations = list(spec.submodule_search_locations or ())
    return spec.origin or (f"{locations[0]}/__init__.py" if locations else "")
