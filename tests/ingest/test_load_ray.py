"""Ingesting on a ray cluster ends where ingesting in place ends, whatever happens to the workers."""

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
from ares.jobs.engine import Engine
from ares.registry import ingesters
from ares.settings import from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Ingester, Item, Options, Source
from ingest.load import load

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")

# The command line with a small cluster of its own, and a format whose only record kills its reader.
SMALL = """
import functools, os, signal, sys, ray
from app.cli.main import main
from ares.registry import ingesters
from ingest.base import Ingester, Item, Source
def dies():
    os.kill(os.getpid(), signal.SIGKILL)
def opens(path, options):
    item = Item(episode_id="0" * 16, where=path, load=functools.partial(dies))
    return [Source(format="deadly", dataset="deadly", version="", total=1, items=iter([item]))]
ingesters.add("deadly", Ingester(name="deadly", recognises=lambda path: True, open=opens))
ray.init = functools.partial(ray.init, num_cpus=4, object_store_memory=200 * 2**20)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module", autouse=True)
def travelling(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions travel whole."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Engine:
    from ares.jobs.ray import Ray

    return Ray(workers=1)


def open_at(path: Path) -> Workspace:
    return open_workspace(str(path), from_environment({}))


def state(ws: Workspace) -> dict[str, Any]:
    """Everything that two workspaces could be told apart by, but for times of day."""
    ids = sorted(ws.tables.episodes.ids())
    columns = sorted(set(ws.tables.episodes.columns()) - {"ingested"})
    signals = {
        episode_id: (one.timestamps.tolist(), *map(_values, (one.state, one.action, one.reward)))
        for episode_id, one in ws.tables.trajectories.read(ids)
    }
    failures = [(key, value["reason"], value["detail"]) for key, value in _documents(ws)]
    rows = sorted(ws.frame(columns).to_pylist(), key=lambda row: str(row["episode_id"]))
    facts = sorted(
        (fact.annotation_id, fact.subject, json.dumps(fact.value, sort_keys=True))
        for fact in ws.annotations.about(ids)
    )
    return {"rows": rows, "signals": signals, "failures": failures, "facts": facts}


def _values(signal: Any) -> Any:
    values = getattr(signal, "values", signal)
    return None if values is None else values.tolist()


def _documents(ws: Workspace) -> list[tuple[str, Any]]:
    return list(ws.annotations.find("failures"))


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


def open_fragile(marker: Path | None, path: str, options: Options) -> list[Source]:
    items = (
        Item(
            episode_id=f"{number:016x}",
            where=f"{path}, record {number}",
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
    ingesters.add("fragile", Ingester(name="fragile", recognises=lambda path: True, open=opens))  # type: ignore[arg-type]
    yield marker
    ingesters.remove("fragile")


@pytest.fixture
def deadly() -> Iterator[None]:
    """Enters a format whose record 5 kills every reader."""
    opens = functools.partial(open_fragile, None)
    ingesters.add("deadly", Ingester(name="deadly", recognises=lambda path: True, open=opens))  # type: ignore[arg-type]
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
    here = load(local, sources, quiet=True).to_json()
    there = load(remote, sources, quiet=True, engine=engine).to_json()
    assert {**here, "seconds": 0} == {**there, "seconds": 0}
    assert (there["planned"], there["kept"], there["failed"]) == (24, 23, 1)
    assert state(local) == state(remote)
    again = load(remote, sources, quiet=True, engine=engine).report
    assert (again.kept, again.already, again.failed) == (0, 23, 1)


def test_strict_stops_there_too(tmp_path: Path, demo_samples: Path, engine: Engine) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    max((video / "videos").glob("*_front.mp4")).write_bytes(b"no video")
    with pytest.raises(SourceError):
        load(open_at(tmp_path / "ws"), [str(video)], strict=True, quiet=True, engine=engine)


def test_a_reader_that_is_killed_is_replaced_and_nothing_is_lost(
    tmp_path: Path, fragile: Path, engine: Engine
) -> None:
    ws = open_at(tmp_path / "ws")
    report = load(ws, [str(tmp_path)], format="fragile", quiet=True, engine=engine).report
    assert fragile.exists()
    assert (report.planned, report.kept, report.failed) == (20, 20, 0)
    assert ws.tables.episodes.count() == ws.tables.trajectories.count() == 20


def test_a_record_that_kills_every_reader_costs_only_itself(
    tmp_path: Path, deadly: None, engine: Engine
) -> None:
    ws = open_at(tmp_path / "ws")
    report = load(ws, [str(tmp_path)], format="deadly", quiet=True, engine=engine).report
    assert (report.planned, report.kept, report.failed) == (20, 19, 1)
    assert list(report.failures) == ["the worker died twice"]
    assert "record 5" in report.failures["the worker died twice"].example


def test_the_command_prints_one_document_and_nothing_else_even_when_workers_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    words = ["--format", "deadly", "-w", str(tmp_path / "ws"), "--engine", "ray", "--json"]
    command = [sys.executable, "-c", SMALL, "ingest", str(tmp_path), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr
    document = json.loads(ended.stdout)
    assert (document["planned"], document["failed"]) == (1, 1)
    assert document["failures"][0]["reason"] == "the worker died twice"
