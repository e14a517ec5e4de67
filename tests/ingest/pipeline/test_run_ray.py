"""Ingestion on a ray cluster has the same result as on one machine, also when workers die."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.episode import Episode, Record, Trajectory
from ares.errors import SourceError
from ares.jobs import Engine
from ares.registry import ingesters
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Item, Source, SourceOptions
from tests.ingesting import StubIngester, ingest_paths

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")

# The command line with a separate small cluster, and a format whose only record kills its reader.
SMALL_CLUSTER = """
import functools, os, signal, sys, ray
from app.cli.main import main
from ares.registry import ingesters
from ingest.base import Item, Source
from types import SimpleNamespace
def dies():
    os.kill(os.getpid(), signal.SIGKILL)
def opens(path, options):
    item = Item(episode_id="0" * 16, location=path, load=functools.partial(dies))
    return [Source(format="deadly", dataset="deadly", version="", total=1, items=iter([item]))]
deadly = SimpleNamespace(name="deadly", recognises=lambda path: True, open=opens)
ingesters.add("deadly", deadly)
ray.init = functools.partial(ray.init, num_cpus=4, object_store_memory=200 * 2**20)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module", autouse=True)
def pickle_by_value(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions travel whole."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Engine:
    from ares.jobs.ray_engine import RayEngine

    return RayEngine(max_workers=1)


def open_at(path: Path) -> Workspace:
    return open_workspace(str(path), settings_from_environment({}))


def workspace_state(ws: Workspace) -> dict[str, Any]:
    """Everything in which two workspaces can differ, except times."""
    ids = sorted(ws.stores.tables.episodes.ids())
    columns = sorted(set(ws.stores.tables.episodes.columns()) - {"ingested"})
    signals_by_id = {
        episode_id: (
            signals.timestamps.tolist(),
            *map(_values, (signals.state, signals.action, signals.reward)),
        )
        for episode_id, signals in ws.stores.tables.trajectories.read(ids)
    }
    failures = [(key, value["reason"], value["detail"]) for key, value in _documents(ws)]
    rows = sorted(
        ws.stores.tables.episodes.read_columns(columns).to_pylist(), key=lambda row: str(row["episode_id"])
    )
    annotations = sorted(
        (annotation.annotation_id, annotation.subject, json.dumps(annotation.value, sort_keys=True))
        for annotation in ws.stores.annotations.find_annotations(ids)
    )
    return {"rows": rows, "signals": signals_by_id, "failures": failures, "annotations": annotations}


def _values(signal: Any) -> Any:
    values = getattr(signal, "values", signal)
    return None if values is None else values.tolist()


def _documents(ws: Workspace) -> list[tuple[str, Any]]:
    return list(ws.stores.annotations.find_documents("failures"))


def read_or_die(marker: Path | None, number: int) -> Record:
    """A record; number 5 kills its process, the first time or (without a marker) every time."""
    import numpy as np

    if number == 5 and (marker is None or not marker.exists()):
        if marker:
            marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    episode = Episode(
        episode_id=f"{number:016x}",
        format="fragile",
        dataset="fragile",
        version="",
        split="",
        key=str(number),
        source=f"record {number}",
        content_hash=f"{number:032x}",
        instruction=f"push number {number}",
        instructions=(f"push number {number}",),
        robot="",
        num_steps=2,
        rate_hz=10.0,
        rate_source="source",
        cameras=(),
        success=None,
    )
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.array([0.0, 0.1])))


def open_fragile(marker: Path | None, path: str, options: SourceOptions) -> list[Source]:
    items = (
        Item(
            episode_id=f"{number:016x}",
            location=f"{path}, record {number}",
            load=functools.partial(read_or_die, marker, number),
        )
        for number in range(20)
    )
    return [Source(format="fragile", dataset="fragile", version="", total=20, items=items)]


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Path]:
    """Enters a format whose record 5 kills its reader once."""
    marker = tmp_path / "died"
    opens = functools.partial(open_fragile, marker)
    ingesters.add("fragile", StubIngester("fragile", opens))  # type: ignore[arg-type]
    yield marker
    ingesters.remove("fragile")


@pytest.fixture
def deadly() -> Iterator[None]:
    """Enters a format whose record 5 kills every reader."""
    opens = functools.partial(open_fragile, None)
    ingesters.add("deadly", StubIngester("deadly", opens))  # type: ignore[arg-type]
    yield
    ingesters.remove("deadly")


def test_both_engines_reach_the_same_state_and_count_a_bad_video_alike(
    tmp_path: Path, demo_samples: Path, engine: Engine
) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    min((video / "videos").glob("*_front.mp4")).write_bytes(b"")
    sources = [str(demo_samples / "rlds"), str(video)]
    local, remote = open_at(tmp_path / "local"), open_at(tmp_path / "ray")
    local_report = ingest_paths(local.stores, sources, quiet=True).to_json()
    remote_report = ingest_paths(remote.stores, sources, quiet=True, engine=engine).to_json()
    assert {**local_report, "seconds": 0} == {**remote_report, "seconds": 0}
    assert (remote_report["planned"], remote_report["kept"], remote_report["failed"]) == (24, 23, 1)
    assert workspace_state(local) == workspace_state(remote)
    again = ingest_paths(remote.stores, sources, quiet=True, engine=engine).counts
    assert (again.kept, again.already, again.failed) == (0, 23, 1)


@pytest.mark.nightly
def test_strict_stops_there_too(tmp_path: Path, demo_samples: Path, engine: Engine) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    max((video / "videos").glob("*_front.mp4")).write_bytes(b"no video")
    with pytest.raises(SourceError):
        ingest_paths(open_at(tmp_path / "ws").stores, [str(video)], strict=True, quiet=True, engine=engine)


@pytest.mark.nightly
def test_a_reader_that_is_killed_is_replaced_and_nothing_is_lost(
    tmp_path: Path, fragile: Path, engine: Engine
) -> None:
    ws = open_at(tmp_path / "ws")
    report = ingest_paths(ws.stores, [str(tmp_path)], format="fragile", quiet=True, engine=engine).counts
    assert fragile.exists()
    assert (report.planned, report.kept, report.failed) == (20, 20, 0)
    assert ws.stores.tables.episodes.count() == ws.stores.tables.trajectories.count() == 20


@pytest.mark.nightly
def test_a_record_that_kills_every_reader_costs_only_itself(
    tmp_path: Path, deadly: None, engine: Engine
) -> None:
    ws = open_at(tmp_path / "ws")
    report = ingest_paths(ws.stores, [str(tmp_path)], format="deadly", quiet=True, engine=engine).counts
    assert (report.planned, report.kept, report.failed) == (20, 19, 1)
    assert list(report.failures) == ["its worker died every time"]
    assert "record 5" in report.failures["its worker died every time"].example


@pytest.mark.nightly
def test_the_command_prints_one_document_and_nothing_else_even_when_workers_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "data" / "numpy").mkdir(parents=True)
    for module in ("numpy/__init__.py", "h5py.py", "yaml.py", "pydantic.py"):
        (tmp_path / "data" / module).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__)")
    arguments = ["--format", "deadly", "-w", str(tmp_path / "ws"), "--engine", "ray", "--json"]
    command = [sys.executable, "-P", "-c", SMALL_CLUSTER, "ingest", ".", *arguments]
    process = subprocess.run(command, cwd=tmp_path / "data", capture_output=True, text=True, timeout=300)
    assert not (tmp_path / "ran").exists(), "a worker imported a file of the folder that was ingested"
    assert process.returncode == 2, process.stderr  # nothing was stored
    document = json.loads(process.stdout)
    assert (document["planned"], document["failed"]) == (1, 1)
    assert document["failures"][0]["reason"] == "its worker died every time"
