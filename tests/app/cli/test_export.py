"""`ares export --task`: the task of every episode, what the report says of it, and exporters of other packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import ares
from app.cli.main import main
from ares.curation import CurationSet, Sets
from ares.export import ExportReader, ExportReport, ExportRequest
from ares.media import encode_mp4
from ares.registry import exporters
from ares.workspace import Workspace
from tests.thinning import some_by_day

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def graded_set(workspace: Workspace) -> CurationSet:
    """Twelve episodes with captions, of which four are graded acceptable, four not acceptable, four unsure."""
    return workspace.sets.create(
        "graded", sorted(workspace.stores.tables.episodes.ids("grade IS NOT NULL")), {}
    )


@pytest.fixture
def plain_exporter() -> Iterator[list[ExportRequest]]:
    """An exporter "plain" of another package; the sets that it was called with."""
    calls: list[ExportRequest] = []

    def export_plain(
        request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
    ) -> ExportReport:
        calls.append(request)
        request.destination.mkdir()
        return ExportReport(
            set=request.set.label,
            episodes=request.set.num_members,
            frames=0,
            tasks=0,
            path=request.destination,
            seconds=0.0,
        )

    exporters.add("plain", export_plain)
    yield calls
    exporters.remove("plain")


def export(workspace: Workspace, dest: Path, *options: str) -> int:
    return main(["export", "graded", str(dest), "-w", workspace.path, *options])


def tasks(folder: Path) -> dict[str, str]:
    """Task of each episode by its id, as a LeRobot dataset says."""
    rows = pq.read_table(folder / "meta" / "episodes").to_pylist()
    return {row["ares/episode_id"]: row["tasks"][0] for row in rows}


@pytest.mark.parametrize(
    ("options", "sources"),
    some_by_day(
        [
            (("--task", "caption"), {"instruction": 8, "caption": 4, "none": 0}),
            (("--task", "instruction"), {"instruction": 12, "caption": 0, "none": 0}),
            ((), {"instruction": 12, "caption": 0, "none": 0}),
            (("--task", "caption_unproven"), {"instruction": 8, "caption": 4, "none": 0}),
        ],
        2,
        rows=True,
    ),
)
def test_the_report_says_what_the_tasks_are(
    options: tuple[str, ...],
    sources: dict[str, int],
    workspace: Workspace,
    graded_set: CurationSet,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    assert export(workspace, tmp_path / "json", "--format", "lerobot", "--json", *options) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["task_source"] == (options[-1] if options else "instruction")
    assert document["task_sources"] == sources
    assert export(workspace, tmp_path / "text", "--format", "parquet", *options) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = ", ".join(f"{name} {count}" for name, count in sources.items())
    assert f"task source: {document['task_source']}" in lines and f"tasks of episodes: {counts}" in lines


def _export_much(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    request.destination.mkdir()
    return ExportReport(
        set=request.set.label,
        episodes=request.set.num_members,
        frames=30,
        tasks=2,
        path=request.destination,
        seconds=0.0,
        left_out=("camera image_3 of bridge: black", "metadata"),
        changed=({"reason": "steps were selected at 5 Hz", "episodes": 2, "steps_before": 40},),
        unknown=("action.arm: unknown in bridge",),
        datasets=({"path": "a", "episodes": 1}, {"path": "b", "episodes": 2}),
        reencoded={"another rate": 4},
    )


def test_the_report_is_text_and_lists_what_is_not_empty(
    workspace: Workspace, graded_set: CurationSet, tmp_path: Path, capsys: Capture
) -> None:
    exporters.add("much", _export_much)
    try:
        assert export(workspace, tmp_path / "much", "--format", "much") == 0
        much = capsys.readouterr().out
        assert export(workspace, tmp_path / "out", "--format", "parquet") == 0
    finally:
        exporters.remove("much")
    for text in (much, capsys.readouterr().out):
        assert not set("[]{}'").intersection(text.replace(str(tmp_path), ""))
        assert not [line for line in text.splitlines() if line.endswith(": ")]
    assert (
        """
left out:
  camera image_3 of bridge: black
  metadata
changed:
  steps were selected at 5 Hz: episodes 2, steps before 40
unknown:
  action.arm: unknown in bridge
datasets:
  a: episodes 1
  b: episodes 2
  a folder is of one source, rate, size of pictures, and set of cameras and dimensions; \
`--write-plan` merges them: docs/merge.md
encoded again:
  4 videos: another rate
"""
        in much
    )


def test_task_caption_writes_accepted_captions_and_instructions_elsewhere(
    workspace: Workspace, graded_set: CurationSet, tmp_path: Path
) -> None:
    for task in ("caption", "caption_unproven"):
        assert export(workspace, tmp_path / task, "--format", "lerobot", "--task", task) == 0
    rows = workspace.stores.tables.episodes.read_columns(
        ["episode_id", "instruction", "caption", "grade"]
    ).to_pylist()
    expected = {
        row["episode_id"]: row["caption"] if row["grade"] == "acceptable" else row["instruction"]
        for row in rows
        if row["grade"]
    }
    assert tasks(tmp_path / "caption") == expected, "rules of code need no controls"
    assert tasks(tmp_path / "caption_unproven") == expected, "what is proven is accepted there, too"
    assert any(row["caption"] != row["instruction"] for row in rows if row["grade"] == "acceptable")


def test_another_task_is_refused(
    workspace: Workspace, graded_set: CurationSet, tmp_path: Path, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        export(workspace, tmp_path / "out", "--format", "lerobot", "--task", "title")
    assert exit_info.value.code == 2 and "instruction" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_exporter_of_another_package_gets_the_whole_request(
    workspace: Workspace, graded_set: CurationSet, plain_exporter: list[ExportRequest], tmp_path: Path
) -> None:
    options = ("--task", "caption", "--fps", "5", "--retime", "hold", "--strict")
    assert export(workspace, tmp_path / "out", "--format", "plain", *options) == 0
    expected = ExportRequest(
        set=Sets(workspace.stores.annotations)[graded_set.label],
        destination=tmp_path / "out",
        format="plain",
        task="caption",
        fps=5.0,
        retime="hold",
        strict=True,
    )
    assert plain_exporter == [expected]


def test_options_of_a_trim_and_of_weights_reach_the_export_and_are_said(
    workspace: Workspace, graded_set: CurationSet, tmp_path: Path, capsys: Capture
) -> None:
    two = ("--weights", "num_steps", "--weights", "acceptable", "--format", "parquet")
    assert export(workspace, tmp_path / "x", *two) == 2
    assert "weights are one column or one table: got num_steps, acceptable" in capsys.readouterr().err
    for gone in ("--write-weights=w.csv", "--drop-segments=true"):
        with pytest.raises(SystemExit):
            export(workspace, tmp_path / "x", gone, "--format", "parquet")
        assert gone.partition("=")[0] in capsys.readouterr().err
    options = ("--format", "parquet", "--weights", "num_steps", "--trim-idle", "0", "-q")
    assert export(workspace, tmp_path / "out", *options) == 0
    said = capsys.readouterr().out
    assert "sample_weight was added: num_steps: episodes 12" in said
    assert "steps were cut: starts and ends that stand still longer than 0 s: episodes " in said
    steps = pq.read_table(tmp_path / "out" / "steps.parquet")
    assert steps.num_rows < sum(workspace.episodes[id].num_steps for id in workspace.sets.ids(graded_set))
    assert max(steps["sample_weight"].to_pylist()) > 1


def test_the_order_and_the_folders_of_an_export_are_said_and_do_not_depend_on_the_set(
    tmp_path: Path, capsys: Capture
) -> None:
    """Episodes are in the order of their ids, and a numbered folder says what it has otherwise."""
    for name, rate, height in (("a", 10.0, 32), ("b", 10.0, 32), ("c", 25.0, 32), ("d", 10.0, 64)):
        (tmp_path / "clips").mkdir(exist_ok=True)
        frames = (np.full((height, 48, 3), 5 * ord(name) % 200 + n, np.uint8) for n in range(12))
        encode_mp4(frames, tmp_path / "clips" / f"{name}.mp4", rate)
    own = ["-w", str(tmp_path / "w"), "-q"]
    assert main(["ingest", str(tmp_path / "clips"), *own]) == 0
    with ares.open(tmp_path / "w") as opened:
        ids = list(opened.episodes.ids())
        opened.sets.create("forward", ids)
        opened.sets.create("back", ids[::-1])
    tables = []
    for name in ("forward", "back"):
        capsys.readouterr()
        assert main(["export", name, str(tmp_path / name), "--format", "lerobot", *own]) == 0
        tables.append((tmp_path / name / "manifest.episodes.jsonl").read_text())
    assert tables[0] == tables[1]
    rows = [json.loads(line) for line in tables[0].splitlines()]
    assert [row["episode_id"] for row in rows if row["path"] == "clips"] == sorted(
        row["episode_id"] for row in rows if row["path"] == "clips"
    )
    said = capsys.readouterr().out
    assert "order: by episode id in a folder" in said
    by_path = {line.strip().split(":")[0]: line for line in said.splitlines() if line.startswith("  clips")}
    assert len(by_path) == 3 and by_path["clips"].endswith("tasks 1")
    # Whichever of the three comes first by its id has the plain name.
    whys = [by_path[name].partition("; ")[2] for name in ("clips-2", "clips-3")]
    assert all(why.endswith(" as in clips") for why in whys)
    assert any("25 Hz" in why for why in whys) and any("48x64" in why for why in whys)
