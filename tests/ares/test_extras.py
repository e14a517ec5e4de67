"""A library that only an extra installs: a missing one is one line with what to type, a broken one keeps its error."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, install_command, needs_extra
from ares.settings import Settings
from ares_annotators.base import Options

ROOT = Path(__file__).resolve().parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Blocks the import of a library, as if it were not installed."""

    def block(library: str) -> None:
        for name in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
            monkeypatch.setitem(sys.modules, name, None)  # in its place: see `pytest_runtest_teardown`
        monkeypatch.setitem(sys.modules, library, None)

    return block


# What needs each library: the extra that installs it, and a use.
USES: dict[str, tuple[str, Callable[[], object]]] = {
    "torch": ("models", lambda: import_module("ares_annotators.models").load_clip("ViT-B-32/openai")),
    "open_clip": ("models", lambda: import_module("ares_annotators.models").load_clip("ViT-B-32/openai")),
    "transformers": (
        "models",
        lambda: import_module("ares_annotators.models").load_vlm(
            "hf:org/name", Options(settings=Settings()), 10
        ),
    ),
    "httpx2": (
        "openai",
        lambda: import_module("ares_annotators.models.server.connection").ServerConnection(
            "http://127.0.0.1:9", ""
        ),
    ),
    "pymongo": (
        "mongo",
        lambda: import_module("ares.store.log.mongo_connection").MongoConnection("mongodb://127.0.0.1:9"),
    ),
    "ray": ("ray", lambda: import_module("ares.jobs").open_engine("ray").__enter__()),
    "s3fs": ("s3", lambda: import_module("ares.io").parse_path("s3://bucket/name")),
}


@pytest.mark.parametrize("library", USES)
def test_a_missing_library_is_named_with_its_extra(library: str, without: Callable[[str], None]) -> None:
    from fsspec.registry import _registry

    _registry.pop("s3", None)
    without(library)
    extra, use = USES[library]
    with pytest.raises(RequestError) as caught:
        use()
    assert str(caught.value) == f"{library} is not installed: {install_command(f'ares-curation[{extra}]')}"


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'sympy'", name="sympy"),
        ModuleNotFoundError("No module named 'torch._C'", name="torch._C"),
        ImportError("libcudart.so.13: cannot open shared object file", name="torch"),
    ],
)
def test_a_library_that_is_installed_but_broken_keeps_its_error(error: ImportError) -> None:
    with pytest.raises(type(error)) as caught, needs_extra("models"):
        raise error
    assert caught.value is error


def test_an_extra_declares_every_library_that_it_is_named_for() -> None:
    distributions = packages_distributions()
    for extra, modules in EXTRA_MODULES.items():
        declared = {_canonical(requirement) for requirement in _requirements(extra)}
        for module in modules:
            assert {_canonical(name) for name in distributions.get(module, [])} & declared, module


def test_every_extra_for_users_is_part_of_all() -> None:
    users = EXTRAS.keys() - {"all", "dev", "mongo-test"}
    assert users == EXTRA_MODULES.keys()
    assert {_canonical(part) for name in users for part in _requirements(name)} == {
        _canonical(part) for part in _requirements("all")
    }


def _requirements(extra: str) -> list[str]:
    """The requirements of an extra, with those of the extras that it names."""
    parts = []
    for requirement in EXTRAS[extra]:
        inner = re.fullmatch(r"ares-curation\[(.*)\]", requirement)
        parts += (
            [part for name in inner[1].split(",") for part in _requirements(name)] if inner else [requirement]
        )
    return parts


def _canonical(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")
