"""Memory use does not grow with the workspace: four times the episodes take an operation no more memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from ares.doctor import run_checks
from ares.registry import annotators
from ares.settings import Settings
from ares.store import Stores, reset_applied_sequence
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Annotator, Options
from ares_app.cli.main import main
from ares_ingest.pipeline.write import check_unchecked_episodes
from benchmarks.synthetic_annotations import append_synthetic_annotations
from benchmarks.synthetic_episodes import add_synthetic_episodes
from tests.annotators.runs import annotate, estimate_cost

pytestmark = pytest.mark.slow

# Both sizes are several times the batch size of every operation.
_SIZES = (800, 4_000)
_BATCH_SIZE = 100
# A list of the additional ids of the larger workspace takes 235 kB, a set of them 330 kB.
_NOISE_BYTES = 140_000


@pytest.fixture(scope="module")
def small_batches() -> Iterator[None]:
    """Small batches everywhere, so that a few thousand episodes behave as millions would."""
    with pytest.MonkeyPatch.context() as patched:
        for constant in (
            "ares.store.lance.episodes._ID_ROWS",
            "ares.store.lance.episode_snapshot._SCAN_ROWS",
            "ares.store.lance.episodes._DUPLICATE_ROWS",
            "ares.store.temp_db._BATCH_ROWS",
            "ares.curation.sets._DOCUMENT_IDS",
            "ares.curation.sets._PIECE_TOKENS",
            "ares.doctor.checks._CHUNK",
            "ares.doctor.sources._CHUNK",
            "ares_annotators.runner.run._PLAN_BATCH_SIZE",
        ):
            patched.setattr(constant, _BATCH_SIZE)
        patched.setattr("ares.doctor.log_checks._SAMPLE_EPISODES", _BATCH_SIZE)
        patched.setattr("ares.doctor.vectors._ENTRIES_PER_READ", _BATCH_SIZE)
        patched.setattr("ares.store.sync.apply._READ_BATCH", 4 * _BATCH_SIZE)
        patched.setattr("ares.store.sync.apply._WRITE_BATCH", 16 * _BATCH_SIZE)
        patched.setattr("ares.store.log.protocol._PAGE_BYTES", 16 * _BATCH_SIZE)
        yield


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, small_batches: None) -> Iterator[list[Workspace]]:
    """Two workspaces of generated episodes with annotations, one four times the size of the other."""
    workspaces = [open_workspace(str(tmp_path_factory.mktemp("growth") / "w"), Settings()) for _ in _SIZES]
    for ws, size in zip(workspaces, _SIZES, strict=True):
        add_synthetic_episodes(ws, size)
        append_synthetic_annotations(ws)
        ws.sync()
        ws.sets.create("every", where="true")
    yield workspaces
    for ws in workspaces:
        ws.close()


def _freeze(ws: Workspace) -> None:
    ws.sets.create("good", where="success")


def _annotator(name: str) -> Callable[[Options, Stores], Annotator]:
    def factory(options: Options, stores: Stores) -> Annotator:
        (producer,) = (
            producer for producer in stores.annotations.producers().values() if producer.annotator == name
        )
        return SimpleNamespace(producer=producer, process=lambda works: [])

    return factory


def _quote(name: str) -> Callable[[Workspace], None]:
    def quote_and_run(ws: Workspace) -> None:
        annotators.add("growth", _annotator(name))
        try:
            (estimate,) = estimate_cost(ws.stores, ["growth"], Options(settings=Settings()))
            assert estimate.planned == estimate.already == ws.stores.tables.episodes.count()
            (report,) = annotate(ws.stores, ["growth"], Options(settings=Settings()), quiet=True)
            assert report.already == estimate.planned
        finally:
            annotators.remove("growth")

    return quote_and_run


def _command(*arguments: str) -> Callable[[Workspace], None]:
    def run(ws: Workspace) -> None:
        with Path(os.devnull).open("w") as null_file, redirect_stdout(null_file):
            assert main([*arguments, "--workspace", ws.path]) == 0

    return run


def _apply(ws: Workspace) -> None:
    reset_applied_sequence(ws.stores.tables)
    assert ws.sync() == 4 * ws.stores.tables.episodes.count()


def _finish_ingestion(ws: Workspace) -> None:
    episodes = ws.stores.tables.episodes
    assert check_unchecked_episodes(ws.stores) == episodes.drop_orphans() == episodes.mark_duplicates() == 0


OPERATIONS: dict[str, Callable[[Workspace], object]] = {
    "freeze a set": _freeze,
    "lock a set": lambda ws: ws.sets["every"].write_lock(Path(ws.path) / "every.json"),
    "show a set": _command("set", "show", "every", "--json"),
    "quote and run over episodes": _quote("motion"),
    "quote and run over captions": _quote("grade"),
    "apply the log": _apply,
    "start and end of an ingestion": _finish_ingestion,
    "doctor": lambda ws: run_checks(ws.stores),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_memory_does_not_grow_with_the_workspace(
    grown: list[Workspace], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ids are read and written in blocks of a constant size; here both workspaces fill one.
    for block in (
        "workspace.carried_labels._PAGE",
        "workspace.label_lines._PAGE",
        "curation.sets._DOCUMENT_IDS",
        "store.temp_db._BATCH",
        "store.lance.episode_snapshot._SCAN_ROWS",
        "workspace.rebuild._PAGE",
        "workspace.recipe_cards._PAGE",
    ):
        monkeypatch.setattr(f"ares.{block}", 400)
    operation = OPERATIONS[name]
    operation(grown[0])  # fills caches that stay
    small, large = (_peak_bytes(operation, ws) for ws in grown)
    assert large < small + _NOISE_BYTES, (small, large)


def _peak_bytes(operation: Callable[[Workspace], object], ws: Workspace) -> int:
    """Peak size of the Python objects and NumPy arrays of an operation, in bytes."""
    tracemalloc.start()
    try:
        operation(ws)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
