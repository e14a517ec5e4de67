"""Values for workers are pickled as Python does it, and what no table needs is not imported."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field
from pathlib import Path

import pytest

from ares.annotation import Annotation, Cost
from ares.episode import Episode
from ares.process_tuning import fast_slots_pickling

_UNUSED = "lance_namespace_urllib3_client.api"


def _run(folder: Path, code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.slow
def test_writing_tables_does_not_import_the_client_of_a_web_service(
    tmp_path: Path, demo_samples: Path
) -> None:
    """It takes more than a CPU-second, for each `ares ingest`; the client is complete where someone uses it."""
    code = (
        f"import ares, sys; ares.open('w', create=True).ingest({str(demo_samples / 'video')!r}, limit=1);"
        f" print({_UNUSED!r} in sys.modules);"
        " import lance_namespace_urllib3_client as client; print(client.TableApi.__name__)"
    )
    assert _run(tmp_path, code).split() == ["False", "TableApi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    name: str
    sizes: tuple[int, ...] = ()


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Parent):
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainChild(Parent):
    tags: list[str] = field(default_factory=list)


def test_a_value_survives_pickling_and_deep_copies() -> None:
    child = Child(name="a", sizes=(1, 2), tags=["x"])
    for again in (pickle.loads(pickle.dumps(child)), copy.deepcopy(child)):
        assert again == child
        assert again.tags is not child.tags
        with pytest.raises(FrozenInstanceError):
            again.name = "b"  # type: ignore[misc]


def test_the_form_is_that_of_python() -> None:
    child, plain = Child(name="a", tags=["x"]), PlainChild(name="a", tags=["x"])
    assert child.__getstate__() == plain.__getstate__()


@pytest.mark.parametrize("travelling", [Episode, Annotation, Cost])
def test_the_values_of_a_run_are_pickled_by_slots(travelling: type) -> None:
    assert travelling.__getstate__.__module__ == "ares.process_tuning"
