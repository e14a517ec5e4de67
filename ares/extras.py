"""Libraries that only an extra installs; where one is missing, the error names the `pip install` to type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ares.errors import RequestError

# The modules that ARES imports from the libraries of each extra of pyproject.toml.
EXTRA_MODULES = {
    "models": ("torch", "open_clip", "transformers", "huggingface_hub", "accelerate", "llguidance"),
    "smolvlm": ("num2words",),
    "openai": ("httpx2",),
    "app": ("streamlit", "starlette", "uvicorn", "altair", "anyio"),
    "mongo": ("pymongo",),
    "ray": ("ray",),
    "map": ("umap",),
    "rosbag": ("rosbags", "lz4"),
    "tfds": ("array_record", "tensorflow_datasets"),
    "zarr": ("zarr", "numcodecs"),
    "jpegxl": ("imagecodecs",),
    "s3": ("s3fs",),
    "gs": ("gcsfs",),
    "hf": ("huggingface_hub",),
    "http": ("aiohttp",),
}


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Wrap the import of a library that an extra installs.

    A library that is installed but cannot be imported keeps its own error.

    Example:
        with needs_extra("models"):
            import torch

    Args:
        extra: Name of the extra in pyproject.toml.

    Raises:
        RequestError: The library is not installed; the detail is the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_MODULES[extra]:
            raise
        raise missing_extra(error.name, extra) from None


def missing_extra(library: str, extra: str) -> RequestError:
    """The error for a library that is not installed, with the command that installs its extra."""
    return RequestError(f"{library} is not installed", f"pip install 'ares-curation[{extra}]'")


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
