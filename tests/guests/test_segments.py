"""A package outside ARES brings segments and a judge of segments: they filter, search, show and export as ours do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ares import registry
from ares.annotation import Annotation
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares.workspace.summary import describe_episode
from ares_app.dashboard import cached_reads
from tests.conftest import ROOT
from tests.guests.conftest import Ares

pytestmark = pytest.mark.slow
COLUMNS = {"brightness_change", "num_phases", "segment_labels", "segment_success"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_ares: Ares, demo_samples: Path) -> Path:
    """A workspace with 24 episodes, segments and a judgement of each, and sets of all and of failures."""
    path = tmp_path_factory.mktemp("segments") / "ws"
    for words in (
        ("ingest", demo_samples / "rlds", "--rate", "10"),
        ("ingest", demo_samples / "video", "--rate", "10"),
        ("annotate", "phases", "brightness"),
        ("set", "create", "failures", "--where", "NOT segment_success"),
        ("set", "create", "arms", "--where", "dataset = 'metaworld_sawyer'"),
    ):
        done = run_ares(*words, "-w", path)
        assert done.status == 0, done.err
    return path


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    """The workspace; this process does not have the guest."""
    assert not {"phases", "brightness"} & set(registry.annotators.names())
    with open_workspace(str(folder), Settings()) as opened:
        yield opened


def annotations_of(opened: Workspace, name: str) -> list[Annotation]:
    ids = sorted(opened.stores.tables.episodes.ids())
    return list(opened.stores.annotations.find_annotations(ids, [name]))


def test_columns_of_segments_roll_up_to_columns_of_episodes(workspace: Workspace) -> None:
    rulings = annotations_of(workspace, "brightness")
    failures = {row.episode_id for row in rulings if not row.value["segment_success"]}
    assert workspace.stores.tables.episodes.ids("NOT segment_success") == failures
    assert 0 < len(failures) < 24
    labels = {
        row["episode_id"]: row["segment_labels"]
        for row in workspace.stores.tables.episodes.read_columns(
            ["episode_id", "segment_labels"], "num_phases = 3"
        ).to_pylist()
    }
    assert ["part 1", "part 2", "part 3"] in labels.values()
    segments = annotations_of(workspace, "phases")
    assert {key: len(value) for key, value in labels.items()} == {
        key: count for key, count in Counter(row.episode_id for row in segments).items() if count == 3
    }


def test_a_contradiction_with_the_source_is_a_conflict(workspace: Workspace) -> None:
    rows = workspace.stores.tables.episodes.read_columns(
        ["success", "segment_success", "conflict"]
    ).to_pylist()
    contradictions = [row for row in rows if row["success"] is not row["segment_success"]]
    assert {row["conflict"] for row in rows if row not in contradictions} == {None}
    assert {row["conflict"] for row in contradictions} == {
        "source: success, brightness: failure",
        "source: failure, brightness: success",
    }


def test_the_page_gets_a_facet_of_every_column(workspace: Workspace) -> None:
    cached_reads.use_workspace(workspace)
    facets = {facet.column: facet for facet in cached_reads.read_facets("")}
    assert facets.keys() >= COLUMNS
    failures = len(workspace.stores.tables.episodes.ids("NOT segment_success"))
    assert dict(facets["segment_success"].counts) == {True: 24 - failures, False: failures}
    assert {"open", "shut", "part 1"} <= {value for value, _ in facets["segment_labels"].counts}
    assert facets["segment_labels"].meaning == "Label of every segment, in order."
    assert sum(facets["num_phases"].histogram) == 24


def test_words_find_the_start_of_a_segment(folder: Path, workspace: Workspace, run_ares: Ares) -> None:
    hits = run_ares("search", "shut", "--by", "captions", "--limit", "24", "-w", folder).json
    starts: dict[str, list[float]] = {}
    for segment in annotations_of(workspace, "phases"):
        if segment.value["text"] == "gripper shut":
            starts.setdefault(segment.episode_id, []).append(segment.start_seconds)
    assert {hit["episode_id"] for hit in hits} == starts.keys()
    assert all(hit["seconds"] in starts[hit["episode_id"]] for hit in hits)
    assert any(hit["seconds"] > 0 for hit in hits)


def test_show_status_and_doctor_know_the_guest(folder: Path, workspace: Workspace, run_ares: Ares) -> None:
    segment = annotations_of(workspace, "phases")[0]
    shown = run_ares("show", segment.episode_id, "-w", folder).json
    assert shown == json.loads(json.dumps(describe_episode(workspace.stores, segment.episode_id)))
    rows = [row for row in shown["annotations"] if row["annotation_id"] == segment.annotation_id]
    assert [(row["annotator"], row["value"]["text"]) for row in rows] == [("phases", segment.value["text"])]
    done = run_ares("status", "-w", folder).json["annotations"]
    assert {(done[name]["done"], done[name]["failed"]) for name in ("phases", "brightness")} == {(24, 0)}
    assert run_ares("doctor", "-w", folder).json == []


def test_a_set_of_failures_is_exported_with_its_segments(
    folder: Path, workspace: Workspace, run_ares: Ares, tmp_path: Path
) -> None:
    failures = workspace.stores.tables.episodes.ids("NOT segment_success")
    run_ares("export", "failures", tmp_path / "out", "--format", "parquet", "-w", folder)
    rows = pq.read_table(tmp_path / "out" / "segments.parquet").to_pylist()
    expected = {
        row.annotation_id: row.value
        for row in annotations_of(workspace, "phases")
        if row.episode_id in failures
    }
    assert {row["annotation_id"] for row in rows} == expected.keys()
    for row in rows:
        assert row["segment_labels"] == expected[row["annotation_id"]]["segment_labels"]
        assert row["segment_success"] is (row["brightness_change"] <= 1)
    kinds = Counter(pq.read_table(tmp_path / "out" / "annotations.parquet")["subject_kind"].to_pylist())
    assert kinds["segment"] == len(rows)


def test_columns_of_a_guest_arrive_in_lerobot(
    folder: Path, workspace: Workspace, run_ares: Ares, tmp_path: Path
) -> None:
    run_ares("export", "arms", tmp_path / "out", "--format", "lerobot", "-w", folder)
    names = ["episode_id", *sorted(COLUMNS)]
    listed = workspace.stores.tables.episodes.read_columns(names).to_pylist()
    expected = {row["episode_id"]: row for row in listed}
    (file,) = (tmp_path / "out").glob("meta/episodes/*/*.parquet")
    table = pq.read_table(file, columns=[f"ares/{name}" for name in names])
    rows = table.rename_columns(names).to_pylist()
    assert len(rows) == 12 and all(row == expected[row["episode_id"]] for row in rows)


def test_the_contract_suite_tries_the_guest(site: Path) -> None:
    suite = ["tests/contracts/test_annotators.py", "-k", "phases or brightness"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not nightly"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *suite],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and re.search(r"[1-9]\d* passed", done.stdout), done.stdout
