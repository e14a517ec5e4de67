"""How ARES imports: names on first use, with advice on missing extras."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ares.errors import MissingExtra, RequestError

# The names under which the folders `ares`, `ingest`, `annotators` and `app` are imported.
PACKAGES = ("ares", "ares_ingest", "ares_annotators", "ares_app")
_IMPORTED_NAMES = re.compile(r"^ +from ([\w.]+) import (?:\(([^)]*)\)|([^(\n]+))", re.M)


def lazy_exports(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose `__init__.py` imports its exports under `if TYPE_CHECKING:`.

    A name is imported from the module that the type checker sees, when it is first used (PEP 562).

    Args:
        package: `__name__` of the package.

    Returns:
        A function from a name to the object; `__all__` is the sorted names. It raises AttributeError for a name that
        is not exported.
    """
    modules: dict[str, str] = {}

    def __getattr__(name: str) -> Any:
        if not modules:
            modules.update(exported_modules(package))
        if name == "__all__":
            return sorted(modules)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


def exported_modules(package: str) -> dict[str, str]:
    """Module of every name that a package imports under `if TYPE_CHECKING:`; nothing is imported for this.

    The text is read without `ast.parse`, which fails in Python 3.11 where threads use it at once (cpython#106905).
    """
    spec = find_spec(package)
    source = re.sub(r"#.*", "", Path(str(spec and spec.origin)).read_text(encoding="utf-8"))
    block = re.split(r"^(?=\S)", source.partition("\nif TYPE_CHECKING:\n")[2], maxsplit=1, flags=re.M)[0]
    return {
        part.split()[0]: module
        for module, several, few in _IMPORTED_NAMES.findall(block)
        for part in (several or few).split(",")
        if part.strip()
    }


# The modules that ARES imports from the libraries of each extra of pyproject.toml.
EXTRA_MODULES = {
    "models": ("torch", "open_clip", "transformers", "huggingface_hub", "accelerate", "llguidance"),
    "smolvlm": ("num2words",),
    "openai": ("httpx2",),
    "app": ("streamlit", "starlette", "uvicorn", "altair", "anyio", "itsdangerous"),
    "login": ("authlib", "httpx2", "itsdangerous", "joserfc"),
    "notebook": ("altair", "pandas"),
    "mongo": ("pymongo",),
    "ray": ("ray",),
    "map": ("umap",),
    "mcap": ("mcap", "mcap_protobuf", "mcap_ros2", "zstandard"),
    "rosbag": ("rosbags", "lz4"),
    "tfds": ("array_record",),
    "zarr": ("zarr", "numcodecs"),
    "jpegxl": ("imagecodecs",),
    "s3": ("s3fs",),
    "gs": ("gcsfs",),
    "hf": ("huggingface_hub",),
    "http": ("aiohttp",),
}


@contextmanager
def needs_extra(extra: str, needed_by: str = "") -> Iterator[None]:
    """Wrap the import of a library that an extra installs.

    A library that is installed but cannot be imported keeps its error.

    Example:
        with needs_extra("models"):
            import torch

    Args:
        extra: Name of the extra in pyproject.toml.
        needed_by: What asks for it, where the user may not know.

    Raises:
        RequestError: The library is not installed; the detail is the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_MODULES[extra]:
            raise
        raise missing_extra(error.name, extra, needed_by) from None


def missing_extra(library: str, extra: str, needed_by: str = "") -> RequestError:
    """The error for a library that is not installed, with the command that installs its extra."""
    reason = f"{library} is not installed{needed_by and f', and {needed_by} needs it'}"
    return MissingExtra(reason, install_command(f"ares-curation[{extra}]"))


def install_command(requirement: str) -> str:
    """The command that installs a library, or an extra of ARES, for the Python that runs.

    It names that Python where `pip` may be the program of another one. An extra of "ares-curation" needs no index for
    ARES itself: pip and uv read what it adds from the installed metadata, also of a clone.
    """
    from shlex import quote
    from shutil import which

    python = Path(sys.executable)
    if find_spec("pip") is None:
        program = f"uv pip install --python {quote(str(python))}"
    elif Path(which("pip") or "").parent == python.parent:
        program = "pip install"
    else:
        program = f"{quote(str(python))} -m pip install"
    return f"{program} {quote(requirement)}"


def import_optional(name: str, instead: str = "") -> ModuleType:
    """Import a library of the user's choice that no extra installs, such as pandas.

    Args:
        name: The module.
        instead: What can be done without it, or "".

    Raises:
        RequestError: It is not installed; the detail is the command that installs it.
    """
    if find_spec(name) is None:
        advice = f"{install_command(name)}{instead and f', or {instead}'}"
        raise RequestError(f"{name} is not installed", advice)
    return import_module(name)
