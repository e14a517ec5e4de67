"""Loading counts every record once, is free to repeat, and keeps apart what only shares a name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ares.errors import RequestError, SourceError
from ares.settings import from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Options
from ingest.load import load


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(str(tmp_path / "workspace"), from_environment({}))


def test_twice_is_free(ws: Workspace, demo_samples: Path) -> None:
    first = load(ws, [str(demo_samples / "rlds")], Options(rate_hz=10.0), quiet=True).report
    again = load(ws, [str(demo_samples / "rlds")], Options(rate_hz=10.0), quiet=True).report
    assert (first.planned, first.kept, first.already, first.failed) == (12, 12, 0, 0)
    assert (again.planned, again.kept, again.already, again.failed) == (12, 0, 12, 0)
    assert ws.tables.episodes.count() == ws.tables.trajectories.count() == 12


def test_a_limit_is_a_plan_and_the_next_run_goes_on(ws: Workspace, demo_samples: Path) -> None:
    part = load(ws, [str(demo_samples / "video")], limit=5, quiet=True).report
    whole = load(ws, [str(demo_samples / "video")], quiet=True).report
    assert (part.planned, part.kept) == (5, 5)
    assert (whole.planned, whole.kept, whole.already) == (12, 7, 5)


def test_two_datasets_of_one_name_are_not_mixed(ws: Workspace, demo_samples: Path, tmp_path: Path) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    first, second = sorted((video / "videos").glob("*_front.mp4"))[:2]
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    load(ws, [str(demo_samples / "video")], quiet=True)
    same = load(ws, [str(video)], quiet=True).report
    assert (same.already, same.failed) == (12, 0)
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)
    other = load(ws, [str(video)], quiet=True).report
    assert (other.already, other.failed) == (10, 2)
    assert "--dataset" in next(iter(other.failures.values())).example
    named = load(ws, [str(video)], Options(dataset="other"), quiet=True).report
    assert (named.kept, named.failed) == (12, 0)


def test_content_that_stands_there_twice_is_counted(ws: Workspace, demo_samples: Path) -> None:
    load(ws, [str(demo_samples / "video")], quiet=True)
    again = load(ws, [str(demo_samples / "video")], Options(dataset="copy"), quiet=True)
    assert again.duplicates == 12
    assert ws.tables.episodes.count("duplicate_of IS NOT NULL") == 12


def test_one_bad_video_costs_only_itself_and_is_taken_off_the_ledger_when_mended(
    ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    victim = min((video / "videos").glob("*_front.mp4"))
    good = victim.read_bytes()
    victim.write_bytes(b"")
    report = load(ws, [str(video)], quiet=True).report
    assert (report.kept, report.failed) == (11, 1)
    assert len(list(ws.annotations.find("failures"))) == 1
    victim.write_bytes(good)
    report = load(ws, [str(video)], quiet=True).report
    assert (report.kept, report.already, report.failed) == (1, 11, 0)
    assert list(ws.annotations.find("failures")) == []


def test_strict_stops_and_keeps_what_was_read(ws: Workspace, demo_samples: Path, tmp_path: Path) -> None:
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    max((video / "videos").glob("*_front.mp4")).write_bytes(b"no video")
    with pytest.raises(SourceError):
        load(ws, [str(video)], strict=True, workers=1, quiet=True)
    assert 0 < ws.tables.episodes.count() < 12


def test_what_is_no_dataset_is_refused_in_one_line(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(
        RequestError, match="no dataset that can be read: tried: hdf5, lerobot, mcap, rlds, video"
    ):
        load(ws, [str(tmp_path / "notes.txt")], quiet=True)
    with pytest.raises(RequestError, match="no such file"):
        load(ws, [str(tmp_path / "nowhere")], quiet=True)
    with pytest.raises(RequestError, match="no ingester 'rdls': there are: hdf5, lerobot, mcap, rlds, video"):
        load(ws, [str(tmp_path)], format="rdls", quiet=True)


def test_what_lies_beside_the_format_that_is_read_is_told(ws: Workspace, demo_samples: Path) -> None:
    report = load(ws, [str(demo_samples)], Options(rate_hz=10.0), quiet=True).report
    assert report.kept == 12
    assert "video lies beside rlds and is not read: ingest it by itself" in report.warnings
