"""An export, and a check of its folder, say in one list what is lacking for imitation learning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares import check, open as open_workspace
from ares.episode import MISSING_CAMERAS, Record, Signal
from ares.errors import RequestError
from ares.imitation import ACTION_MASK, ImitationNeeds, find_needs
from tests.ares.export.made_episodes import FRONT, make_record, make_set
from tests.torture.datasets import write_video

WRIST = replace(FRONT, name="wrist")


def test_an_export_of_videos_alone_names_what_lerobot_train_fails_for(tmp_path: Path) -> None:
    write_video(tmp_path / "videos", 2)
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ws.ingest(tmp_path / "videos", quiet=True)
        report = ws.export(ws.episodes, tmp_path / "out", quiet=True)
        assert {"no action: 2 of 2 episodes", "no state: 2 of 2 episodes"} <= {*report.lacks}
        (checked,) = check(tmp_path / "out").datasets
        assert checked.lacks == report.lacks
        card = (tmp_path / "out" / "README.md").read_text()
        assert all(f"- lacks: {line}" in card for line in report.lacks)
        with pytest.raises(RequestError, match="no action: 2 of 2 episodes"):
            ws.export(ws.episodes, tmp_path / "strict", strict=True, quiet=True)
    assert not (tmp_path / "strict").exists()


def test_each_lack_is_counted() -> None:
    whole = make_record(0, cameras=(FRONT, WRIST))
    signals = {**whole.trajectory.extra, ACTION_MASK: Signal(np.zeros((107, 1), np.float32), ("own",))}
    black = replace(WRIST, flags=("black",))
    several = [
        whole,
        make_record(1, cameras=(FRONT, black), instruction="unspecified task", rate_source="assumed"),
        make_record(
            2, cameras=(replace(FRONT, width=64),), metadata={MISSING_CAMERAS: ["top"]}, state_names=()
        ),
        Record(
            episode=replace(whole.episode, action_names=()),
            trajectory=replace(whole.trajectory, extra=signals),
        ),
    ]
    needs = ImitationNeeds()
    for number, record in enumerate(several):
        needs.add(find_needs(record.episode, record.trajectory, record.episode.instruction))
        assert bool(needs.lines()) == bool(number), needs.lines()
    height = FRONT.height
    assert needs.lines() == (
        "black camera wrist: 1 of 4 episodes",
        "fewer than two cameras of a source with more: 2 of 4 episodes",
        "missing camera top: 4 of 4 episodes",
        "missing camera wrist: 1 of 4 episodes",
        "no action: 1 of 4 episodes",
        "no language: 1 of 4 episodes",
        "no state: 1 of 4 episodes",
        "padded action: 1 of 4 episodes",
        f"several sizes of camera front: {FRONT.width}x{height}, 64x{height}",
        "unknown rate: 1 of 4 episodes",
    )


def test_a_black_camera_that_is_not_written_is_lacking_in_the_folder(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, [make_record(0, cameras=(FRONT, replace(WRIST, flags=("black",))))])
        report = ws.export("made", tmp_path / "out", quiet=True)
        whole = make_set(ws, [make_record(1)], "whole")
        assert ws.export(whole, tmp_path / "whole", strict=True, quiet=True).lacks == ()
    assert "black camera wrist: 1 of 1 episode" in report.lacks
    (checked,) = check(tmp_path / "out").datasets
    assert checked.lacks == report.lacks


def test_the_folder_as_it_is_decides_and_a_damaged_manifest_is_a_failure(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ws.export(make_set(ws, [make_record(0, cameras=(FRONT, WRIST))]), tmp_path / "out", quiet=True)
    manifest = tmp_path / "out" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["counts"]["lacks"] = ["no action: 9 of 9 episodes", "unknown rate: 9 of 9 episodes"]
    document["counts"]["lacks"].append("black camera front: 9 of 9 episodes")
    manifest.write_text(json.dumps(document))
    (checked,) = check(tmp_path / "out").datasets
    assert (checked.lacks, checked.num_failed) == (("unknown rate: 9 of 9 episodes",), 0)
    manifest.write_text(manifest.read_text()[:50])
    (checked,) = check(tmp_path / "out").datasets
    assert checked.num_failed == 1 and "manifest of the export cannot be read" in checked.first_failure


def test_datasets_with_other_cameras_and_sizes_lack_nothing(tmp_path: Path) -> None:
    """Cameras of one episode may differ in size, and a robot may have fewer; an export has a folder for each."""
    small = replace(FRONT, width=96, height=96)
    records = [
        make_record(0, cameras=(FRONT, replace(WRIST, width=96, height=96))),
        make_record(1, cameras=(small,), dataset="other"),
    ]
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, records)
        assert ws.export("made", tmp_path / "out", format="parquet", strict=True, quiet=True).lacks == ()
        make_set(ws, [*records, make_record(2, cameras=(small,))], "mixed")
        report = ws.export("mixed", tmp_path / "mixed", format="parquet", quiet=True)
    assert report.lacks == (
        "missing camera wrist: 1 of 3 episodes",
        "several sizes of camera front: 192x192, 96x96",
    )


@pytest.mark.parametrize("format", ["lerobot", "rlds", "parquet"])
def test_an_instruction_that_is_lacking_is_said_before_anything_is_written(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, [make_record(0), make_record(1, instruction="", instructions=())])
        assert ws.export("made", tmp_path / "out", format=format, quiet=True).lacks == (
            "no language: 1 of 2 episodes",
        )
        monkeypatch.setattr("ares.export.layout_groups.GroupedExport.items", None)
        with pytest.raises(RequestError, match="no language: 1 of 2 episodes"):
            ws.export("made", tmp_path / "strict", format=format, strict=True, quiet=True)
    assert [path.name for path in tmp_path.iterdir() if "strict" in path.name] == []


def test_lines_of_text_lack_no_signals(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "ws", create=True) as ws:
        make_set(ws, [make_record(0, cameras=())])
        assert ws.export("made", tmp_path / "out", format="jsonl", strict=True, quiet=True).lacks == ()
