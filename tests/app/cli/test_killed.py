"""Killed with SIGKILL anywhere in a job, the same command again reaches the state of a run that was never killed."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ares_app.cli.main import main
from tests.ingest.lerobot.test_language import every_frame, make_dataset, row
from tests.thinning import some_by_day
from tests.torture.workspaces import WorkspaceState, read_state

pytestmark = pytest.mark.slow
# Wraps a function so that the process kills itself just before or after its Nth call; then runs the command line.
KILLER = """
import importlib, os, signal, sys
import ares_annotators.runner.writer, ares.jobs.pipeline, ares_ingest.pipeline.run, ares_ingest.pipeline.write
def shrink(module, name, value):
    assert hasattr(module, name)
    setattr(module, name, value)
shrink(ares.jobs.pipeline, "_SINK_BATCH_SIZE", 3)
shrink(ares_annotators.runner.writer, "_ANNOTATIONS_PER_WRITE", 5)
shrink(ares_ingest.pipeline.write, "_EPISODES_PER_WRITE", 3)
module, name, after, calls_until_death = sys.argv[1], sys.argv[2], sys.argv[3] == "after", int(sys.argv[4])
owner = importlib.import_module(module)
*path, leaf = name.split(".")
for part in path:
    owner = getattr(owner, part)
real, calls = getattr(owner, leaf), [0]
def dying(*args, **kwargs):
    calls[0] += 1
    if calls[0] == calls_until_death and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*args, **kwargs)
    if calls[0] == calls_until_death:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, leaf, dying)
from ares_app.cli.main import main
sys.exit(main(sys.argv[5:]))
"""


def run_and_kill(kill_point: tuple[str, str, str, int], *arguments: str) -> None:
    command = [sys.executable, "-c", KILLER, *map(str, kill_point), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == -signal.SIGKILL, process.stderr


def run(*arguments: str) -> dict[str, Any]:
    """What a command answers; it needs no process of its own, only the one that is killed does."""
    with redirect_stdout(io.StringIO()) as answer:
        assert main([*arguments, "--json", "-q"]) == 0
    document: dict[str, Any] = json.loads(answer.getvalue())
    return document


EPISODES = "ares.store.lance.episodes"
# The first of each by day, and the others by night, when `make torture` kills these commands anywhere too.
INGEST_POINTS = [
    # Annotations whose values the rows have already.
    ("ares_ingest.pipeline.write", "CheckAnnotationLog.append", "after", 1),
    (EPISODES, "EpisodeTable.write", "before", 2),
    ("ares.store.lance.trajectories", "TrajectoryTable.write", "after", 2),
    (EPISODES, "EpisodeTable.write", "after", 1),
    (EPISODES, "EpisodeTable.mark_duplicates", "before", 1),
    ("ares_ingest.pipeline.write", "skip_applied", "before", 1),
]


@pytest.fixture(scope="module")
def ingested(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose ingestion was never killed; it is only read and copied."""
    path = tmp_path_factory.mktemp("complete") / "w"
    run("ingest", "-w", str(path), "--rate", "10", str(demo_samples / "rlds"))
    return path


@pytest.mark.parametrize("kill_point", some_by_day(INGEST_POINTS, 9))
def test_ingest(
    kill_point: tuple[str, str, str, int], ingested: Path, demo_samples: Path, tmp_path: Path
) -> None:
    words = ("ingest", "-w", str(tmp_path / "w"), "--rate", "10", str(demo_samples / "rlds"))
    run_and_kill(kill_point, *words)
    document = run(*words)
    assert document["kept"] + document["already"] == document["planned"] == 12
    assert read_state(str(tmp_path / "w")).difference(read_state(str(ingested))) == ""


def kill_and_repeat(kill_point: tuple[str, str, str, int], folder: Path, *words: str) -> WorkspaceState:
    """The state after an ingestion was killed and repeated, the same as of one that was never killed."""
    run("ingest", "-w", str(folder / "complete"), *words)
    run_and_kill(kill_point, "ingest", "-w", str(folder / "w"), *words)
    run("ingest", "-w", str(folder / "w"), *words)
    state = read_state(str(folder / "w"))
    assert state.difference(read_state(str(folder / "complete"))) == ""
    return state


@pytest.mark.parametrize(
    "kill_point",
    [
        # Segments without an episode; episodes whose segments are only in the log.
        ("ares_ingest.pipeline.write", "CheckAnnotationLog.append_segments", "after", 1),
        ("ares.store.lance.segments", "SegmentTable.upsert", "before", 1),
    ],
)
def test_ingest_of_segments(kill_point: tuple[str, str, str, int], tmp_path: Path) -> None:
    spans = every_frame([row("subtask", "reach", 0.0), row("subtask", "put", 0.5)])
    made = make_dataset(tmp_path / "made", *[{"language_persistent": spans}] * 4)
    assert len(kill_and_repeat(kill_point, tmp_path, str(made)).segments) == 8


def test_ingest_with_copies_of_media(demo_samples: Path, tmp_path: Path) -> None:
    # Copies of videos without their episodes.
    point = (EPISODES, "EpisodeTable.write", "before", 2)
    kill_and_repeat(point, tmp_path, "--media", "copy", str(demo_samples / "video"))
    copies, complete = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.mp4")}
        for folder in (tmp_path / "w", tmp_path / "complete")
    )
    assert copies and copies == complete


def test_a_job_beside_one_that_is_killed_ends_and_doctor_mends(demo_samples: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "w")
    doomed = ("ingest", "-w", path, "--rate", "10", str(demo_samples / "rlds"))
    other = [
        sys.executable,
        "-m",
        "ares_app.cli.main",
        "ingest",
        "-w",
        path,
        str(demo_samples / "video"),
        "-q",
    ]
    with subprocess.Popen(other, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as living:
        run_and_kill(("ares.store.lance.trajectories", "TrajectoryTable.write", "after", 2), *doomed)
        errors = living.communicate(timeout=300)[1]
    assert living.returncode == 0, errors
    assert read_state(path, repair=True).findings == []
    run(*doomed)
    state = read_state(path)
    assert (state.episodes, state.trajectories, state.findings) == (24, 24, [])


CLIP, HASH = "clip", "hash:64"
VECTORS = ("ares.store.vectors.tables", "VectorTable.add")
LOG = ("ares.store.log.sqlite", "SqliteAnnotationStore.append")
ANNOTATE_POINTS = [
    # Vectors without their annotations; a real model writes them by the same functions.
    (HASH, (*VECTORS, "after", 2)),
    (CLIP, (*VECTORS, "after", 2)),
    # Annotations that the index has not applied.
    (HASH, (*LOG, "after", 2)),
    (HASH, (*LOG, "before", 2)),
    (HASH, ("ares.store.sync.apply", "apply_log", "after", 2)),
]


@pytest.fixture(scope="module")
def annotated(
    ingested: Path, reference_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], WorkspaceState]:
    """The state of a workspace whose annotation by a model was never killed."""

    @cache
    def annotate(model: str) -> WorkspaceState:
        path = tmp_path_factory.mktemp("complete") / "w"
        shutil.copytree(ingested, path)
        run(*_annotate(path, model, reference_models))
        return read_state(str(path))

    return annotate


@pytest.mark.parametrize(("model", "kill_point"), some_by_day(ANNOTATE_POINTS, 9, rows=True))
def test_annotate(
    model: str,
    kill_point: tuple[str, str, str, int],
    annotated: Callable[[str], WorkspaceState],
    ingested: Path,
    reference_models: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / "w"
    shutil.copytree(ingested, path)
    words = _annotate(path, model, reference_models)
    run_and_kill(kill_point, *words)
    run(*words)
    assert read_state(str(path)).difference(annotated(model)) == ""
    again = run(*words)
    assert again["already"] == again["planned"] == 12 and again["kept"] == 0


def _annotate(path: Path, model: str, models: Path) -> tuple[str, ...]:
    spec = f"local-dir:{models / 'reference-clip'}" if model == CLIP else model
    return ("annotate", "embed", "-w", str(path), "--model", spec)
