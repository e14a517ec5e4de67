"""The exit status of `ares ingest`, and the file of options by dataset that a dry run writes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.episode import Episode
from ares.settings import Settings
from ares.workspace import open_workspace
from ares_app.cli.main import main

Ingest = Callable[..., tuple[int, Any]]


@pytest.fixture
def ingest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ingest:
    """Run `ares ingest --json`: its exit status and what it printed."""

    def run(workspace: str, *arguments: object) -> tuple[int, Any]:
        words = [str(argument) for argument in arguments]
        status = main(["ingest", *words, "-w", str(tmp_path / workspace), "--json"])
        return status, json.loads(capfd.readouterr().out)

    return run


@pytest.fixture
def lab(tmp_path: Path, demo_samples: Path, make_rlds: Any) -> Path:
    """A folder with an RLDS dataset of no known rate and three videos."""
    (tmp_path / "lab" / "clips").mkdir(parents=True)
    shutil.move(make_rlds("arm", {"steps/action": "float32 7"}, 5, 2).path, tmp_path / "lab" / "arm")
    for number, video in enumerate(sorted((demo_samples / "video" / "videos").glob("*_front.mp4"))[:3]):
        shutil.copy(video, tmp_path / "lab" / "clips" / f"clip{number}x.mp4")
    return tmp_path / "lab"


def episodes(tmp_path: Path, workspace: str) -> dict[str, Episode]:
    opened = open_workspace(str(tmp_path / workspace), Settings())
    found = {episode.episode_id: episode for episode in opened.stores.tables.episodes.read()}
    opened.close()
    return found


def test_a_plan_with_a_limit_says_how_many_are_read(
    demo_samples: Path, tmp_path: Path, ingest: Ingest, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [str(demo_samples / "video"), "--dry-run"]
    assert main(["ingest", *words, "--limit", "5", "-w", str(tmp_path / "w")]) == 0
    assert "1 dataset, 5 of 12 episodes; files: " in capfd.readouterr().out
    assert ingest("w", *words, "--limit", "5")[1]["episodes"] == 5
    assert ingest("w", *words, "--limit", "50")[1]["episodes"] == 12


def test_the_exit_status_says_whether_all_was_read(lab: Path, tmp_path: Path, ingest: Ingest) -> None:
    assert ingest("good", lab)[0] == 0
    shutil.copytree(lab, tmp_path / "unused")
    (tmp_path / "unused" / "weights.bin").write_bytes(b"data of no dataset")
    status, document = ingest("unused_ws", tmp_path / "unused")
    assert (status, document["failed"], document["files"]["unused"]) == (1, 0, 1)
    shutil.copytree(lab, tmp_path / "damaged")
    (tmp_path / "damaged" / "clips" / "clip0x.mp4").write_bytes(b"no video at all")
    status, document = ingest("damaged_ws", tmp_path / "damaged")
    assert (status, document["failed"], document["kept"]) == (1, 1, 4)
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "clip.mp4").write_bytes(b"no video at all")
    status, document = ingest("lost_ws", tmp_path / "lost")
    assert (status, document["kept"], document["failed"]) == (2, 0, 1)


@pytest.mark.slow
def test_the_written_options_change_nothing_until_they_are_edited(
    lab: Path, tmp_path: Path, ingest: Ingest
) -> None:
    ingest("plain", lab)
    file = tmp_path / "lab.yaml"
    assert ingest("plan", lab, "--dry-run", "--write-options", file)[0] == 0
    assert ingest("by_file", lab, "--options", file)[0] == 0
    plain = episodes(tmp_path, "plain")
    assert plain == episodes(tmp_path, "by_file") and len(plain) == 5

    assert "# rate: 10\n" in file.read_text()
    file.write_text(file.read_text().replace("# rate: 10\n", "rate: 5\n"))
    ingest("edited", lab, "--options", file)
    rates = {(episode.rate_hz, episode.rate_source) for episode in episodes(tmp_path, "edited").values()}
    assert rates == {(5.0, "user"), (20.0, "source")}


def test_what_the_user_said_is_in_the_written_options(lab: Path, tmp_path: Path, ingest: Ingest) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    arm, clips = str(lab / "arm"), str(lab / "clips")
    first.write_text(yaml.safe_dump({"datasets": {arm: {"rate": 7.0}, clips: {"skip": True}}}))
    ingest("plan", lab, "--options", first, "--dry-run", "--write-options", second)
    written = yaml.safe_load(second.read_text())["datasets"]
    assert written == {arm: {"format": "rlds", "dataset": "arm", "rate": 7.0}, clips: {"skip": True}}

    third = tmp_path / "third.yaml"
    options = ["--rate", "12.5", "--dataset", "kitchen"]
    ingest("plan", clips, *options, "--dry-run", "--write-options", third)
    written = yaml.safe_load(third.read_text())["datasets"][clips]
    assert written == {"format": "video", "dataset": "kitchen", "rate": 12.5}


@pytest.mark.slow
def test_a_failure_that_is_accepted_by_name_does_not_fail_every_run(
    tmp_path: Path, demo_samples: Path, ingest: Ingest, capfd: pytest.CaptureFixture[str]
) -> None:
    """A row of a table without its file, and a dataset that cannot be opened; what else fails is new."""
    lab, words = tmp_path / "lab", ["-w", str(tmp_path / "w")]
    shutil.copytree(demo_samples / "video", lab / "clips")
    for lost in sorted((lab / "clips" / "videos").glob("*"))[:2]:
        lost.unlink()
    shutil.copytree(demo_samples / "rlds", lab / "arm")
    (features,) = (lab / "arm").rglob("features.json")
    features.write_text("{")
    status, document = ingest("w", lab)
    assert (status, document["failed"], document["accepted"]) == (1, 2, 0)
    assert main(["failures", "list", *words, "--json"]) == 0
    failures = json.loads(capfd.readouterr().out)
    assert len(failures) == 2 and not any(failure["accepted"] for failure in failures)
    assert main(["failures", "accept", "no such name", "--yes", *words]) == 2
    capfd.readouterr()
    assert main(["failures", "accept", failures[0]["subject"], "--yes", *words]) == 0
    assert "accepted 1 failure; `ares undo 1` takes that back" in capfd.readouterr().out
    assert ingest("w", lab)[0] == 1, "the other one is not accepted"
    text = failures[1]["detail"].split()[0]
    assert main(["failures", "accept", text, "--yes", *words]) == 0
    capfd.readouterr()
    status, document = ingest("w", lab)
    assert (status, document["failed"], document["accepted"], document["already"]) == (0, 2, 2, 11)
    assert main(["failures", "list", *words]) == 0
    assert capfd.readouterr().out.count(" yes") == 2
    new = sorted((lab / "clips" / "videos").glob("*"))[0]
    new.write_bytes(b"no video at all")
    os.utime(new, (0, 0))
    main(["undo", *words])
    capfd.readouterr()
    assert ingest("w", lab)[0] == 1, "it is taken back"
