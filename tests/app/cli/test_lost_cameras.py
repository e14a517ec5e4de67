"""Pictures that a dataset names and lacks fail ingest and check, counted by episode, unless it was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from tests.workspaces import CommandResult, copy_workspace

Run = Callable[..., CommandResult]
EPISODES = 3


@pytest.fixture(scope="module", params=["lerobot", "lerobot-v2.1"])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, video_folder: Path
) -> Path:
    """Three episodes of two cameras as a LeRobot folder."""
    folder = tmp_path_factory.mktemp("exported")
    with open_workspace(copy_workspace(video_folder, folder / "ws")) as workspace:
        ids = sorted(workspace.stores.tables.episodes.ids())[:EPISODES]
        some = workspace.sets.create("some", ids, {})
        workspace.export(some, folder / "out", format=request.param, quiet=True)
    return folder / "out"


def without_videos(exported: Path, target: Path, part: str) -> Path:
    """A copy of the folder without the videos that have a part in their path."""
    shutil.copytree(exported, target)
    for video in sorted(target.rglob("*.mp4")):
        if part in str(video.relative_to(target)):
            video.unlink()
    return target


def lost(document: Any) -> dict[str, int]:
    """Episodes by the reason of each warning about lost pictures."""
    return {
        warning["reason"]: warning["count"] for warning in document["warnings"] if "A056" in warning["reason"]
    }


def test_all_videos_gone_is_a_failure_of_ingest_and_check(
    exported: Path, tmp_path: Path, run_ares: Run
) -> None:
    folder = without_videos(exported, tmp_path / "gone", ".mp4")
    done = run_ares("ingest", folder, "-w", tmp_path / "ws", "--json")
    assert (done.status, done.json["kept"], done.json["incomplete"]) == (1, EPISODES, EPISODES)
    assert sorted(lost(done.json).values()) == [EPISODES, EPISODES]
    done = run_ares("check", folder, "--json")
    assert done.status == 1 and "A056" in done.out
    assert run_ares("ingest", folder, "-w", tmp_path / "dry", "--dry-run").status == 1


def test_one_camera_gone_is_a_failure(exported: Path, tmp_path: Path, run_ares: Run) -> None:
    folder = without_videos(exported, tmp_path / "gone", "wrist")
    done = run_ares("ingest", folder, "-w", tmp_path / "ws", "--json")
    assert done.status == 1 and list(lost(done.json).values()) == [EPISODES]


def test_states_alone_are_copied_where_that_is_said(exported: Path, tmp_path: Path, run_ares: Run) -> None:
    gone = without_videos(exported, tmp_path / "gone", ".mp4")
    for folder in (gone, exported):
        arguments = ("ingest", folder, "-w", tmp_path / f"of-{folder.name}", "--media", "none", "--json")
        assert run_ares(*arguments, "--dry-run").status == 0
        done = run_ares(*arguments)
        assert (done.status, done.json["kept"], lost(done.json), done.json["incomplete"]) == (
            0,
            EPISODES,
            {},
            0,
        )
    with open_workspace(tmp_path / f"of-{exported.name}") as whole:
        assert all(episode.cameras == () for episode in whole.stores.tables.episodes.read())


def test_a_whole_folder_is_no_failure(exported: Path, tmp_path: Path, run_ares: Run) -> None:
    done = run_ares("ingest", exported, "-w", tmp_path / "ws", "--json")
    assert (done.status, done.json["incomplete"]) == (0, 0)


def test_a_dry_run_answers_as_the_run_would_where_nothing_can_be_read(tmp_path: Path, run_ares: Run) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.npz").write_bytes(b"no zip")
    arguments = ("ingest", tmp_path / "data", "-w", tmp_path / "ws")
    assert run_ares(*arguments, "--dry-run").status == run_ares(*arguments).status == 2


@pytest.mark.parametrize("words", [("ingest", "-w", "ws"), ("check",)], ids=lambda words: words[0])
def test_a_refusal_is_json_where_json_was_asked_for(
    tmp_path: Path, run_ares: Run, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = run_ares(*words, "empty", "--json")
    assert done.status == done.json["status"] == 2 and "is not a recognised dataset" in done.err
    assert "is not a recognised dataset" in done.json["error"]["reason"] and done.json["error"]["detail"]
