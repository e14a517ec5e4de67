"""How ARES imports: names on first use, with advice on missing extras, moved packages and modules that hide ARES."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ares.errors import MissingExtra, RequestError

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
    return MissingExtra(reason, f"pip install 'ares-curation[{extra}]'")


def import_optional(name: str, instead: str = "") -> ModuleType:
    """Import a library of the user's choice that no extra installs, such as pandas.

    Args:
        name: The module.
        instead: What can be done without it, or "".

    Raises:
        RequestError: It is not installed; the detail is the command that installs it.
    """
    if find_spec(name) is None:
        raise RequestError(f"{name} is not installed", f"pip install {name}{instead and f', or {instead}'}")
    return import_module(name)


# Where the names of packages that 0.1 had are since 0.2; what lies below a package went with it.
MOVED = {
    "annotators.attack": "annotators.grade",
    "annotators.budget": "annotators.base",
    "annotators.frames": "annotators.base",
    "annotators.json_reply": "annotators.prompting",
    "annotators.models.calls": "annotators.models",
    "annotators.models.families": "annotators.models",
    "annotators.models.huggingface": "annotators.models",
    "annotators.models.server": "annotators.models",
    "annotators.parallel": "annotators.prompting",
    "annotators.projection": "annotators.embedding_map",
    "annotators.prompts": "annotators.prompting",
    "ares.arguments": "ares.registry",
    "ares.config_file": "ares.settings",
    "ares.export.lerobot": "ares.export",
    "ares.extras": "ares.imports",
    "ares.jobs.ray": "ares.jobs",
    "ares.kinematics": "ares.contract",
    "ares.lazy_exports": "ares.imports",
    "ares.media.mcap": "ares.media",
    "ares.media.readers": "ares.media",
    "ares.media.video": "ares.media",
    "ares.quality": "ares.signals, ares.checks and ares.reports",
    "ares.quality.audit": "ares.checks and ares.reports",
    "ares.quality.ci": "ares.reports",
    "ares.quality.contract": "ares.contract",
    "ares.quality.evidence": "ares.reports",
    "ares.quality.kinds": "ares.signals",
    "ares.quality.record": "ares.checks",
    "ares.quality.repair": "ares.signals, ares.repair and ares.reports",
    "ares.quality.video": "ares.checks",
    "ares.rubric.attacks": "annotators.grade",
    "ares.shadowing": "ares.imports",
    "ares.status": "ares.workspace",
    "ares.store.annotations": "ares.store",
    "ares.store.lance": "ares.store",
    "ares.store.sync": "ares.store",
    "ares.store.vectors": "ares.store and ares.search",
    "ares.summary": "ares.workspace",
    "ares.torch": "ares.loader",
    "ares.valuation": "annotators.valuation",
    "ares.workspace.display": "ares.workspace",
    "ingest.csv_episodes": "ingest.image_folders",
    "ingest.dataset_spec": "ingest.spec",
    "ingest.guard": "ingest.base",
    "ingest.json_files": "ingest.files",
    "ingest.mcap": "ingest.recordings",
    "ingest.media_files": "ingest.files",
    "ingest.outcome_in_path": "ingest.base",
    "ingest.quality": "ingest.check",
    "ingest.rosbag": "ingest.recordings",
    "ingest.stamps": "ingest.signals",
    "ingest.stated_contract": "ingest.spec",
}


def find_moved_package(error: BaseException) -> str:
    """Where the names of a package of 0.1 are that an import did not find; "" for any other exception."""
    name = _imported_module(error) if isinstance(error, ImportError) else ""
    while name and name not in MOVED:
        name = name.rpartition(".")[0]
    return MOVED[name] if name else ""


def _imported_module(error: ImportError) -> str:
    """The module as the import statement names it, where Python tells only which of its parents is missing."""
    from traceback import extract_tb

    missing = error.name or ""
    lines = " ".join(frame.line or "" for frame in extract_tb(error.__traceback__)[-1:])
    named = re.search(rf"\b{re.escape(missing)}[\w.]*", lines) if missing else None
    return named[0] if named else missing


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
    if package in sys.modules:
        origin = str(getattr(sys.modules[package], "__file__", None) or "")
    else:
        spec = PathFinder.find_spec(package)
        locations = list((spec and spec.submodule_search_locations) or ())
        origin = (spec and spec.origin) or (f"{locations[0]}/__init__.py" if locations else "")
    if origin and Path(origin).resolve().parent != ours.resolve():
        raise RequestError(
            f"the module {package!r} is not the one of ARES",
            f"{origin} hides {ours / '__init__.py'}; rename it, or start Python in another folder",
        )
