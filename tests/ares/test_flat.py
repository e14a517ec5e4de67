"""Nothing is loaded whole: four times the episodes take an operation no more memory than the smaller workspace."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from annotators.base import Annotator, Options
from annotators.run import annotate, quote
from app.cli.main import main
from ares.curate.choose import choose
from ares.doctor import examine
from ares.registry import annotators
from ares.settings import Settings
from ares.store.index import forget_log
from ares.workspace import Workspace, open_workspace
from benchmarks.grow import grow
from benchmarks.tell import tell
from ingest.checked import mend_checks

# Both are several times what any operation takes at once, here 250.
_SIZES = (2_000, 8_000)
_AT_ONCE = 250
# A list of the ids that the larger has more takes 440 kB alone, a set of them 700.
_NOISE_BYTES = 250_000


@pytest.fixture(scope="module")
def small_steps() -> Iterator[None]:
    """Let everything that works by steps take small ones, so that few episodes show what many would."""
    with pytest.MonkeyPatch.context() as patched:
        for place in (
            "ares.store.episodes._STRETCH",
            "ares.store.episodes._SCAN_ROWS",
            "ares.store.episodes._MARKS",
            "ares.store.scratch._ROWS",
            "ares.curate.sets._BLOCK",
            "ares.checks.documents._CHUNK",
            "ares.checks.log._CHUNK",
            "ares.sources._ON_THEIR_WAY",
        ):
            patched.setattr(place, _AT_ONCE)
        patched.setattr("ares.store.index._BATCH", 4 * _AT_ONCE)
        patched.setattr("ares.store.index._PER_WRITE", 16 * _AT_ONCE)
        patched.setattr("ares.store.codec._PAGE_BYTES", 16 * _AT_ONCE)
        yield


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, small_steps: None) -> Iterator[list[Workspace]]:
    """Two workspaces of made-up episodes with their facts, one four times the other."""
    made = [open_workspace(str(tmp_path_factory.mktemp("flat") / "w"), Settings()) for _ in _SIZES]
    for ws, size in zip(made, _SIZES, strict=True):
        grow(ws, size)
        tell(ws)
        ws.sync()
        ws.sets.create("every", *choose(ws))
    yield made
    for ws in made:
        ws.close()


def _freeze(ws: Workspace) -> None:
    ws.sets.create("good", *choose(ws, where="success"))


def _annotator(about: Any) -> Callable[[Options, Workspace], Annotator]:
    def factory(options: Options, ws: Workspace) -> Annotator:
        name = "grade" if about == "caption" else "motion"
        (maker,) = (one for one in ws.annotations.makers().values() if one.annotator == name)
        return Annotator(maker=maker, process=lambda works: [], about=about)

    return factory


def _quote(about: str) -> Callable[[Workspace], None]:
    def ask(ws: Workspace) -> None:
        annotators.add("flat", _annotator(about))
        try:
            (found,) = quote(ws, ["flat"], Options(settings=Settings()))
            assert found.planned == found.already == ws.tables.episodes.count()
            (done,) = annotate(ws, ["flat"], Options(settings=Settings()), quiet=True)
            assert done["already"] == found.planned
        finally:
            annotators.remove("flat")

    return ask


def _command(*words: str) -> Callable[[Workspace], None]:
    def run(ws: Workspace) -> None:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            assert main([*words, "--workspace", ws.path]) == 0

    return run


def _apply(ws: Workspace) -> None:
    forget_log(ws.tables)
    assert ws.sync() == 4 * ws.tables.episodes.count()


def _mend(ws: Workspace) -> None:
    assert mend_checks(ws) == ws.tables.episodes.drop_orphans() == ws.tables.episodes.mark_duplicates() == 0


OPERATIONS: dict[str, Callable[[Workspace], object]] = {
    "freeze a set": _freeze,
    "lock a set": lambda ws: ws.sets.lock(ws.sets["every"], Path(ws.path) / "every.json"),
    "show a set": _command("set", "show", "every", "--json"),
    "quote and run over episodes": _quote("episode"),
    "quote and run over captions": _quote("caption"),
    "apply the log": _apply,
    "start and end of an ingestion": _mend,
    "doctor": examine,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_held_does_not_grow_with_the_workspace(grown: list[Workspace], name: str) -> None:
    work = OPERATIONS[name]
    work(grown[0])  # what is kept from the first time on
    small, large = (_peak(work, ws) for ws in grown)
    assert large < small + _NOISE_BYTES, (small, large)


def _peak(work: Callable[[Workspace], object], ws: Workspace) -> int:
    """Bytes of Python objects and NumPy arrays that an operation held at most."""
    tracemalloc.start()
    try:
        work(ws)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
