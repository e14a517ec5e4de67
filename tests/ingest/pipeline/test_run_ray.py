"""Ingestion on a ray cluster has the same result as on one machine; dying workers are in tests/ares/jobs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ares.jobs import Engine
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from tests.ingesting import ingest_paths

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")
pytestmark = pytest.mark.slow

# The command line with a separate small cluster, and a format whose only record kills its reader.
SMALL_CLUSTER = """
import functools, os, signal, sys, ray
from ares_app.cli.main import main
from ares.registry import ingesters
from ares_ingest.base import Item, Source
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


@pytest.fixture
def engine(ray_cluster: None) -> Engine:
    from ares.jobs.ray_engine import RayEngine

    return RayEngine(max_workers=1)


def open_at(path: Path) -> Workspace:
    return open_workspace(str(path), settings_from_environment({}))


def workspace_state(ws: Workspace) -> dict[str, Any]:
    """Everything in which two workspaces can differ, except times."""
    tables, log = ws.stores.tables, ws.stores.annotations
    ids = sorted(tables.episodes.ids())
    columns = sorted(set(tables.episodes.columns()) - {"ingested"})
    rows = tables.episodes.read_columns(columns).to_pylist()
    signals = {
        episode_id: (read.timestamps.tolist(), *map(_values, (read.state, read.action, read.reward)))
        for episode_id, read in tables.trajectories.read(ids)
    }
    documents: list[tuple[str, Any]] = list(log.find_documents("failures"))
    annotations = [
        (annotation.annotation_id, annotation.subject, json.dumps(annotation.value, sort_keys=True))
        for annotation in log.find_annotations(ids)
    ]
    return {
        "rows": sorted(rows, key=lambda row: str(row["episode_id"])),
        "signals": signals,
        "failures": [(key, value["reason"], value["detail"]) for key, value in documents],
        "annotations": sorted(annotations),
    }


def _values(signal: Any) -> Any:
    values = getattr(signal, "values", signal)
    return None if values is None else values.tolist()


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
