"""Killed with SIGKILL anywhere in a job, the same command again reaches the state of a run that was never killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ares.settings import from_environment
from ares.workspace import open_workspace

# Wraps a function so that the process kills itself just before or after its Nth call; then runs the command line.
KILLER = """
import importlib, os, signal, sys
import annotators.write, ares.jobs.flow, ingest.load, ingest.write
ares.jobs.flow._SINK_BATCH = 3
annotators.write._FACTS_PER_WRITE = 5
ingest.write._EPISODES_PER_WRITE = 3
where, name, after, times = sys.argv[1], sys.argv[2], sys.argv[3] == "after", int(sys.argv[4])
owner = importlib.import_module(where)
*path, leaf = name.split(".")
for part in path:
    owner = getattr(owner, part)
real, calls = getattr(owner, leaf), [0]
def dying(*args, **kwargs):
    calls[0] += 1
    if calls[0] == times and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*args, **kwargs)
    if calls[0] == times:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, leaf, dying)
from app.cli.main import main
sys.exit(main(sys.argv[5:]))
"""


def run_killed(point: tuple[str, str, str, int], *words: str) -> None:
    command = [sys.executable, "-c", KILLER, *map(str, point), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def run(*words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *words, "--json"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def state(path: Path) -> dict[str, Any]:
    """Everything that a user could tell two workspaces apart by, but for times of day."""
    ws = open_workspace(str(path), from_environment({}))
    ids = sorted(ws.tables.episodes.ids())
    columns = sorted(set(ws.tables.episodes.columns()) - {"ingested"})
    rows = sorted(ws.frame(columns).to_pylist(), key=lambda row: str(row["episode_id"]))
    found = {
        "rows": rows,
        "trajectories": [
            (id, len(trajectory.timestamps)) for id, trajectory in ws.tables.trajectories.read(ids)
        ],
        "trajectory_count": ws.tables.trajectories.count(),
        "facts": sorted(fact.annotation_id for fact in ws.annotations.about(ids)),
        "vectors": {space: ws.tables.vectors(space).count() for space in ws.tables.spaces()},
        "segments": ws.tables.segments.count(),
        "failures": list(ws.annotations.find("failures")),
        "unfinished": list(ws.annotations.find("unfinished_spaces")),
    }
    ws.close()
    return found


EPISODES = "ares.store.episodes"
INGEST_POINTS = [
    (EPISODES, "EpisodeTable.write", "before", 2),
    (EPISODES, "EpisodeTable.write", "after", 1),
    (EPISODES, "EpisodeTable.mark_duplicates", "before", 1),
    ("ares.store.trajectories", "TrajectoryTable.write", "after", 2),
    ("ingest.checked", "Checks.enter", "after", 1),  # facts whose values stand in the rows already
    ("ares.store.index", "skip_log", "before", 1),
]


@pytest.fixture(scope="module")
def ingested(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("whole") / "w"
    run("ingest", "-w", str(path), "--rate", "10", str(demo_samples / "rlds"))
    return state(path)


@pytest.mark.parametrize("point", INGEST_POINTS)
def test_ingest(
    point: tuple[str, str, str, int], ingested: dict[str, Any], demo_samples: Path, tmp_path: Path
) -> None:
    words = ("ingest", "-w", str(tmp_path / "w"), "--rate", "10", str(demo_samples / "rlds"))
    run_killed(point, *words)
    document = run(*words)
    assert document["kept"] + document["already"] == document["planned"] == 12
    assert state(tmp_path / "w") == ingested


ANNOTATE_POINTS = [
    ("ares.store.vectors", "VectorTable.add", "after", 2),  # vectors without their facts
    ("ares.store.sqlite", "SqliteStore.append", "after", 2),  # facts that the index has not seen
    ("ares.store.sqlite", "SqliteStore.append", "before", 2),
    ("ares.store.index", "apply_log", "after", 2),
]


@pytest.fixture(scope="module")
def annotated(
    demo_samples: Path, reference_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("whole") / "w"
    run("ingest", "-w", str(path), "--rate", "10", str(demo_samples / "rlds"))
    run(*_annotate(path, reference_models))
    return state(path)


@pytest.mark.parametrize("point", ANNOTATE_POINTS)
def test_annotate(
    point: tuple[str, str, str, int],
    annotated: dict[str, Any],
    demo_samples: Path,
    reference_models: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / "w"
    run("ingest", "-w", str(path), "--rate", "10", str(demo_samples / "rlds"))
    run_killed(point, *_annotate(path, reference_models))
    run(*_annotate(path, reference_models))
    assert state(path) == annotated
    again = run(*_annotate(path, reference_models))
    assert again["already"] == again["planned"] == 12 and again["kept"] == 0


def _annotate(path: Path, models: Path) -> tuple[str, ...]:
    return ("annotate", "embed", "-w", str(path), "--model", f"local-dir:{models / 'reference-clip'}")
