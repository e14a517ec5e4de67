"""Of episodes with the same content the one that was stored first is the original, whatever its name."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest

from ares.curation import purge_episodes
from ares.doctor import run_checks
from ares.jobs import ComputePlan
from ares.settings import Settings
from ares.store import StagedIds
from ares.store.lance.episodes import EpisodeTable
from ares.workspace import Workspace, open_workspace
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

NAMES = ("a", "m", "z")


@pytest.fixture
def copies(tmp_path: Path, demo_samples: Path) -> Path:
    """Three datasets of the same two videos."""
    videos = sorted((demo_samples / "video").rglob("*_front.mp4"))[:2]
    for name in NAMES:
        (tmp_path / "copies" / name).mkdir(parents=True)
        for video in videos:
            shutil.copy(video, tmp_path / "copies" / name)
    return tmp_path / "copies"


def originals(workspace: Workspace) -> dict[str, set[str | None]]:
    """By dataset, the datasets that its episodes are duplicates of; None for an original."""
    rows = workspace.stores.tables.episodes.read_columns(
        ["episode_id", "dataset", "duplicate_of"]
    ).to_pylist()
    datasets = {row["episode_id"]: row["dataset"] for row in rows}
    found = dict[str, set[str | None]]()
    for row in rows:
        original = row["duplicate_of"]
        found.setdefault(row["dataset"], set()).add(datasets[original] if original else None)
    return found


def expected(first: str, *others: str) -> dict[str, set[str | None]]:
    """What `originals` gives where the first dataset has them."""
    return {first: {None}, **{name: {first} for name in others}}


@pytest.mark.slow
@pytest.mark.parametrize("order", some_by_day([("z", "m", "a"), ("m", "a", "z")]))
def test_the_first_stored_stays_the_original_until_it_is_gone(
    ws: Workspace, copies: Path, order: tuple[str, ...]
) -> None:
    first, second, third = order
    for number, name in enumerate(order):
        report = ingest_paths(ws.stores, [str(copies / name)], quiet=True)
        assert report.duplicates == (2 if number else 0)
        assert originals(ws) == expected(*order[: number + 1])
    removal = ws.remove(where=f"dataset = '{first}'")
    assert originals(ws) == expected(second, third)
    ws.undo(removal.number)
    assert originals(ws) == expected(first, second, third)
    ws.remove(where=f"dataset = '{third}'")
    with StagedIds(ws.stores.tables.episodes.ids(f"dataset = '{first}'")) as ids:
        purge_episodes(ws.stores, ids)
    assert originals(ws) == expected(second)
    assert run_checks(ws.stores) == []


def test_within_one_ingestion_the_first_name_is_the_original(ws: Workspace, copies: Path) -> None:
    """However many readers there are, and in whatever order the folders are given."""
    paths = [str(copies / name) for name in random.sample(NAMES, len(NAMES))]
    ingest_paths(ws.stores, paths, quiet=True, compute=ComputePlan(workers=4))
    assert originals(ws) == expected(*NAMES)
    assert len(set(ws.stores.tables.episodes.read_columns(["ingested"])["ingested"].to_pylist())) == 1


@pytest.mark.slow
def test_of_two_ingestions_at_once_the_one_that_writes_first_has_the_originals(
    ws: Workspace, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, begun, real = list[str](), threading.Barrier(2, timeout=300), EpisodeTable.write

    def write(table: EpisodeTable, batches: list[object], *arguments: object) -> None:
        writes.append(batches[0].episodes["dataset"][0].as_py())  # type: ignore[attr-defined]
        real(table, batches, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(EpisodeTable, "write", write)

    def ingest(name: str) -> None:
        begun.wait()
        with open_workspace(ws.path, Settings()) as workspace:
            ingest_paths(workspace.stores, [str(copies / name)], quiet=True)

    threads = [threading.Thread(target=ingest, args=(name,)) for name in ("a", "z")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(writes) == ["a", "z"] and originals(ws) == expected(*writes)
    assert run_checks(ws.stores) == []


@pytest.mark.slow
def test_doctor_finds_and_repairs_a_wrong_original(ws: Workspace, copies: Path) -> None:
    import pyarrow as pa

    for name in ("z", "a"):
        ingest_paths(ws.stores, [str(copies / name)], quiet=True)
    rows = ws.stores.tables.episodes.read_columns(["episode_id", "dataset"]).to_pylist()
    ids = {row["dataset"]: row["episode_id"] for row in rows}
    turned = {"episode_id": list(ids.values()), "duplicate_of": [ids["a"], None]}
    if list(ids) != ["z", "a"]:
        turned["duplicate_of"].reverse()
    ws.stores.tables.episodes.set_values(pa.table(turned))
    (finding,) = run_checks(ws.stores)
    assert (finding.count, finding.repaired) == (2, False) and "duplicate_of" in finding.check
    assert [finding.repaired for finding in run_checks(ws.stores, repair=True)] == [True]
    assert run_checks(ws.stores) == [] and originals(ws) == expected("z", "a")
