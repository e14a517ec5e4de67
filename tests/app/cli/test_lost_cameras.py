"""Pictures that a dataset names and lacks fail ingest and check, counted by episode, unless it was asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from ares import open as open_workspace
from tests.ingesting import ingest_paths

EPISODES = 3


@pytest.fixture(scope="module", params=["lerobot", "lerobot-v2.1"])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, demo_samples: Path
) -> Path:
    """Three episodes of two cameras as a LeRobot folder."""
    folder = tmp_path_factory.mktemp("exported")
    workspace = open_workspace(folder / "ws", create=True)
    ingest_paths(workspace.stores, [str(demo_samples / "video")], quiet=True)
    ids = sorted(workspace.stores.tables.episodes.ids())[:EPISODES]
    workspace.export(workspace.sets.create("some", ids, {}), folder / "out", format=request.param, quiet=True)
    return folder / "out"


def without_videos(exported: Path, target: Path, part: str) -> Path:
    """A copy of the folder without the videos that have a part in their path."""
    shutil.copytree(exported, target)
    for video in sorted(target.rglob("*.mp4")):
        if part in str(video.relative_to(target)):
            video.unlink()
    return target


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def lost(document: Any) -> dict[str, int]:
    """Episodes by the reason of each warning about lost pictures."""
    return {
        warning["reason"]: warning["count"] for warning in document["warnings"] if "A056" in warning["reason"]
    }


def test_all_videos_gone_is_a_failure_of_ingest_and_check(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = without_videos(exported, tmp_path / "gone", ".mp4")
    status, document = run(capsys, "ingest", str(folder), "-w", str(tmp_path / "ws"))
    assert (status, document["kept"]) == (1, EPISODES)
    assert sorted(lost(document).values()) == [EPISODES, EPISODES]
    assert document["lost"] == 2 * EPISODES
    status, document = run(capsys, "check", str(folder))
    assert status == 1
    assert "A056" in json.dumps(document)
    status, _ = run(capsys, "ingest", str(folder), "-w", str(tmp_path / "dry"), "--dry-run")
    assert status == 1


def test_one_camera_gone_is_a_failure(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = without_videos(exported, tmp_path / "gone", "wrist")
    status, document = run(capsys, "ingest", str(folder), "-w", str(tmp_path / "ws"))
    assert status == 1 and list(lost(document).values()) == [EPISODES]


def test_states_alone_are_copied_where_that_is_said(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = without_videos(exported, tmp_path / "gone", ".mp4")
    arguments = ("ingest", str(folder), "-w", str(tmp_path / "ws"), "--media", "none")
    assert run(capsys, *arguments, "--dry-run")[0] == 0
    status, document = run(capsys, *arguments)
    assert (status, document["kept"], lost(document), document["lost"]) == (0, EPISODES, {}, 0)
    whole = ("ingest", str(exported), "-w", str(tmp_path / "whole"), "--media", "none")
    assert run(capsys, *whole)[0] == 0
    episodes = open_workspace(tmp_path / "whole").stores.tables.episodes.read()
    assert all(episode.cameras == () for episode in episodes)


def test_a_whole_folder_is_no_failure(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = run(capsys, "ingest", str(exported), "-w", str(tmp_path / "ws"))
    assert (status, document["lost"]) == (0, 0)
    assert run(capsys, "ingest", str(exported), "-w", str(tmp_path / "dry"), "--dry-run")[0] == 0


def test_the_reported_folder_without_videos(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(shared_data / "reported" / "videos_gone" / "all_v3")
    status, document = run(capsys, "ingest", folder, "-w", str(tmp_path / "ws"))
    assert status == 1 and sorted(lost(document).values()) == [2, 2]
    assert run(capsys, "check", folder)[0] == 1


def test_a_dry_run_answers_as_the_run_would_where_nothing_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.npz").write_bytes(b"no zip")
    arguments = ("ingest", str(tmp_path / "data"), "-w", str(tmp_path / "ws"))
    assert run(capsys, *arguments, "--dry-run")[0] == 2
    assert run(capsys, *arguments)[0] == 2


@pytest.mark.parametrize("where", ["ingest", "check"])
def test_a_refusal_is_json_where_json_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    (tmp_path / "empty").mkdir()
    workspace = ["-w", str(tmp_path / "ws")] if where == "ingest" else []
    assert main([where, str(tmp_path / "empty"), *workspace, "--json"]) == 2
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["status"] == 2 and "is not a recognised dataset" in document["error"]["reason"]
    assert document["error"]["detail"] and "is not a recognised dataset" in captured.err
    assert main([where, str(tmp_path / "empty"), *workspace]) == 2
    assert capsys.readouterr().out == ""
