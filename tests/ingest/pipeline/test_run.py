"""Ingestion counts every item once, can be repeated, and separates datasets of the same name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from ares_ingest.pipeline.read import NOT_FINITE
from tests.ingesting import ingest_paths


def test_twice_is_free(ws: Workspace, demo_samples: Path) -> None:
    first = ingest_paths(
        ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True
    ).counts
    again = ingest_paths(
        ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True
    ).counts
    assert (first.planned, first.kept, first.already, first.failed) == (12, 12, 0, 0)
    assert (again.planned, again.kept, again.already, again.failed) == (12, 0, 12, 0)
    assert ws.stores.tables.episodes.count() == ws.stores.tables.trajectories.count() == 12


def test_a_limit_is_a_plan_and_the_next_run_goes_on(ws: Workspace, demo_samples: Path) -> None:
    first = ingest_paths(ws.stores, [str(demo_samples / "video")], limit=5, quiet=True).counts
    second = ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True).counts
    assert (first.planned, first.kept) == (5, 5)
    assert (second.planned, second.kept, second.already) == (12, 7, 5)


@pytest.mark.slow
def test_two_datasets_of_one_name_are_not_mixed(ws: Workspace, demo_samples: Path, tmp_path: Path) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    first, second = sorted((video / "videos").glob("*_front.mp4"))[:2]
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    same = ingest_paths(ws.stores, [str(video)], quiet=True).counts
    assert (same.already, same.failed) == (12, 0)
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)
    other = ingest_paths(ws.stores, [str(video)], quiet=True).counts
    assert (other.already, other.failed) == (10, 2)
    assert "--dataset" in next(iter(other.failures.values())).example
    named = ingest_paths(ws.stores, [str(video)], SourceOptions(dataset="other"), quiet=True).counts
    assert (named.kept, named.failed) == (12, 0)


def test_one_bad_video_costs_only_itself_and_is_taken_off_the_ledger_when_mended(
    ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    victim = min((video / "videos").glob("*_front.mp4"))
    good = victim.read_bytes()
    victim.write_bytes(b"")
    report = ingest_paths(ws.stores, [str(video)], quiet=True).counts
    assert (report.kept, report.failed) == (11, 1)
    assert len(list(ws.stores.annotations.find_documents("failures"))) == 1
    victim.write_bytes(good)
    report = ingest_paths(ws.stores, [str(video)], quiet=True).counts
    assert (report.kept, report.already, report.failed) == (1, 11, 0)
    assert list(ws.stores.annotations.find_documents("failures")) == []


@pytest.mark.slow
def test_nan_and_infinity_in_metadata_are_stored_as_null_and_told(ws: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    np.savez(folder / "a.npz", state=np.random.default_rng(0).normal(size=(20, 3)))
    (folder / "a.json").write_text('{"instruction": "push", "force": NaN, "limits": [1.5, 1e999], "mass": 2}')
    report = ws.ingest(str(folder), rate_hz=10.0)
    assert (report.kept, report.failed) == (1, 0)
    assert NOT_FINITE in [warning.reason for warning in report.warnings]
    (episode,) = ws.stores.tables.episodes.read()
    assert dict(episode.metadata) == {"force": None, "limits": [1.5, None], "mass": 2}
