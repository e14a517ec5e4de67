"""Episodes that fail are left out and listed; with `strict`, or by a faulty exporter, the export fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.episode import Record
from ares.errors import MediaError, PluginError
from ares.export import ExportRequest, export_set
from ares.export.base import ExportReport
from ares.registry import exporters
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_info, read_json, read_rows


def export(ws: Workspace, name: str, dest: Path, strict: bool = False) -> ExportReport:
    return ws.export(ws.sets[name], dest, quiet=True, strict=strict)


def without_video(record: Record, uri: str) -> Record:
    front = record.episode.cameras[0]
    camera = replace(front, media=replace(front.media, uri=uri))
    return replace(record, episode=replace(record.episode, cameras=(camera,)))


def test_with_strict_missing_sources_are_counted_and_nothing_is_written(
    ws: Workspace, tmp_path: Path
) -> None:
    missing = [without_video(make_record(number), f"/gone/{number}.mp4") for number in (1, 2)]
    make_set(ws, [make_record(0), *missing])
    with pytest.raises(MediaError, match=r"2 of 3 episodes fail.*/gone/1\.mp4.*/gone/2\.mp4"):
        export(ws, "made", tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.tmp").exists()


def test_episodes_that_fail_are_left_out_counted_and_listed(ws: Workspace, tmp_path: Path) -> None:
    """The first has no video, the third is the only one of its layout, the last is not in the workspace."""
    single = without_video(make_record(2, names=("x", "y", "z")), "/gone/b.mp4")
    records = [without_video(make_record(0), "/gone/a.mp4"), make_record(1), single, make_record(3)]
    make_set(ws, records)
    ws.sets.create("more", [*(f"{number:016x}" for number in range(4)), "feed" * 4], {})
    progress_counts: list[int] = []
    report = export_set(
        ExportRequest(set=ws.sets["more"], destination=tmp_path / "out", format="lerobot"),
        ws.stores,
        progress_counts.append,
    )
    assert (report.episodes, report.failed, sum(progress_counts)) == (2, 3, 4 + 1)
    assert [(entry["reason"], entry["count"]) for entry in report.to_json()["failures"]] == [  # type: ignore[union-attr, index, call-overload]
        ("file is missing", 2),
        ("the workspace does not have the episode any more", 1),
    ]
    manifest = read_json(tmp_path / "out" / "manifest.json")
    assert manifest["failed"] == {"file": "manifest.failed.jsonl", "count": 3}
    assert manifest["episodes"]["count"] == 2 and manifest["counts"]["failed"] == 3
    failed_lines = [
        json.loads(line) for line in (tmp_path / "out" / "manifest.failed.jsonl").read_text().splitlines()
    ]
    assert {entry["episode_id"] for entry in failed_lines} == {f"{0:016x}", f"{2:016x}", "feed" * 4}
    info = read_info(tmp_path / "out")
    assert (info["total_episodes"], info["total_frames"]) == (2, report.frames)
    assert [row["ares/episode_id"] for row in read_rows(tmp_path / "out", "meta/episodes")] == [
        f"{1:016x}",
        f"{3:016x}",
    ]
    assert sorted({row["episode_index"] for row in read_rows(tmp_path / "out")}) == [0, 1]


def with_longer_reference(record: Record) -> Record:
    """The record with a video reference that is longer than the video."""
    front = record.episode.cameras[0]
    longer = replace(front, media=replace(front.media, num_frames=200, stop_seconds=10.0))
    return replace(record, episode=replace(record.episode, cameras=(longer,)))


def test_a_source_that_has_become_shorter_fails(ws: Workspace, tmp_path: Path) -> None:
    make_set(ws, [make_record(0), with_longer_reference(make_record(1, steps=200))])
    with pytest.raises(MediaError, match="1 of 2 episodes fail: 0000000000000001"):
        export(ws, "made", tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()
    report = export(ws, "made", tmp_path / "out")
    assert (report.episodes, report.failed) == (1, 1)
    assert read_info(tmp_path / "out")["total_frames"] == report.frames


def test_a_kind_of_which_all_fail_while_they_are_written_leaves_no_folder(
    ws: Workspace, tmp_path: Path
) -> None:
    make_set(
        ws,
        [make_record(0), with_longer_reference(make_record(1, steps=200, names=("x", "y", "z")))],
    )
    report = export(ws, "made", tmp_path / "out")
    assert [entry["path"] for entry in report.datasets] == ["made"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["made"]


def test_a_set_of_which_all_fail_is_refused(ws: Workspace, tmp_path: Path) -> None:
    make_set(ws, [without_video(make_record(0), "/gone/a.mp4")])
    with pytest.raises(MediaError, match="no episode can be exported: 1 of 1 episode fail"):
        export(ws, "made", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        (lambda *arguments: _raise(KeyError("task")), "exporter 'faulty' raised KeyError: 'task'"),
        (lambda *arguments: _raise(SystemExit(1)), "exporter 'faulty' raised SystemExit: 1"),
        (lambda stores: None, "exporter 'faulty' raised TypeError"),
        (lambda *arguments: {"episodes": 4}, "exporter 'faulty' returned no ExportReport: got a dict"),
    ],
)
def test_a_fault_names_the_exporter(
    exporter: Any, message: str, sample_workspace: Workspace, tmp_path: Path
) -> None:
    exporters.add("faulty", exporter)
    try:
        with pytest.raises(PluginError, match=message):
            sample_workspace.export("few", tmp_path / "out", format="faulty", quiet=True)
    finally:
        exporters.remove("faulty")
    assert not (tmp_path / "out").exists()


def test_an_episode_whose_video_fails_in_a_library_is_left_out(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.export.lerobot import exporter
    from ares.export.lerobot.writer import prepare_video

    bad_id = min(sample_workspace.sets["few"].ids())

    def prepare_most(camera: Any, retimed: Any, rate_hz: float, scratch: Path, can_point: bool) -> Any:
        if scratch.name.startswith(bad_id):
            raise ValueError("a codec raised something of its own")
        return prepare_video(camera, retimed, rate_hz, scratch, can_point)

    monkeypatch.setattr(exporter, "prepare_video", prepare_most)
    report = sample_workspace.export("few", tmp_path / "out", format="lerobot", quiet=True)
    assert (report.episodes, report.failed) == (3, 1)
    assert "raised ValueError" in str(report.failures)
