"""`ares export --task`: the task of every episode, what the report says of it, and exporters of other packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import ares
from ares.curation import CurationSet, Sets
from ares.export import ExportReader, ExportReport, ExportRequest
from ares.media import encode_mp4
from ares.registry import exporters
from ares.workspace import Workspace
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


@pytest.fixture
def graded_set(workspace: Workspace) -> CurationSet:
    """Twelve episodes with captions, of which four are graded acceptable, four not acceptable, four unsure."""
    return workspace.sets.create(
        "graded", sorted(workspace.stores.tables.episodes.ids("grade IS NOT NULL")), {}
    )


@pytest.fixture
def export(workspace: Workspace, graded_set: CurationSet, run_ares: Run) -> Run:
    """Exports the graded episodes into a folder."""
    return lambda dest, *options: run_ares("export", graded_set.label, dest, "-w", workspace.path, *options)


@pytest.mark.parametrize(
    ("options", "source", "counts"),
    [
        (("--task", "caption"), "caption", {"instruction": 8, "caption": 4, "none": 0}),
        ((), "instruction", {"instruction": 12, "caption": 0, "none": 0}),
    ],
)
def test_the_report_says_what_the_tasks_are(
    options: tuple[str, ...], source: str, counts: dict[str, int], export: Run, tmp_path: Path
) -> None:
    document = export(tmp_path / "json", "--format", "parquet", "--json", *options).json
    assert (document["task_source"], document["task_sources"]) == (source, counts)
    lines = export(tmp_path / "text", "--format", "parquet", *options).out.splitlines()
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    assert f"task source: {source}" in lines and f"tasks of episodes: {said}" in lines


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


def test_the_report_is_text_and_lists_what_is_not_empty(export: Run, tmp_path: Path) -> None:
    exporters.add("much", _export_much)
    much = export(tmp_path / "much", "--format", "much").out
    for text in (much, export(tmp_path / "out", "--format", "parquet").out):
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


def test_an_exporter_of_another_package_gets_the_whole_request(
    workspace: Workspace, graded_set: CurationSet, export: Run, tmp_path: Path
) -> None:
    calls: list[ExportRequest] = []

    def export_plain(
        request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
    ) -> ExportReport:
        calls.append(request)
        return _export_much(request, reader, progress)

    exporters.add("plain", export_plain)
    options = ("--task", "caption", "--fps", "5", "--options", "{retime: hold, strict: true}")
    assert export(tmp_path / "out", "--format", "plain", *options).status == 0
    expected = ExportRequest(
        set=Sets(workspace.stores.annotations)[graded_set.label],
        destination=tmp_path / "out",
        format="plain",
        task="caption",
        fps=5.0,
        retime="hold",
        strict=True,
    )
    assert calls == [expected]


def test_options_of_a_trim_and_of_weights_reach_the_export_and_are_said(
    workspace: Workspace, graded_set: CurationSet, export: Run, tmp_path: Path
) -> None:
    file = tmp_path / "options.yaml"
    assert export(tmp_path / "out", "--write-options", file).status == 0
    assert "#trim_idle: null\n" in file.read_text() and "# cut still starts and ends" in file.read_text()
    file.write_text("trim_idel: 0\n")
    wrong = export(tmp_path / "out", "--format", "parquet", "--options", file)
    assert wrong.status == 2 and "unknown key 'trim_idel'" in wrong.err and "mean 'trim_idle'" in wrong.err
    file.write_text("weights: num_steps\ntrim_idle: 0\n")
    said = export(tmp_path / "out", "--format", "parquet", "--options", file, "-q").out
    assert "sample_weight was added: num_steps: episodes 12" in said
    assert "steps were cut: starts and ends that stand still longer than 0 s: episodes " in said
    steps = pq.read_table(tmp_path / "out" / "steps.parquet")
    assert steps.num_rows < sum(workspace.episodes[id].num_steps for id in workspace.sets.ids(graded_set))
    assert max(steps["sample_weight"].to_pylist()) > 1


def test_the_order_and_the_folders_of_an_export_are_said_and_do_not_depend_on_the_set(
    tmp_path: Path, run_ares: Run
) -> None:
    """Episodes are in the order of their ids, and a numbered folder says what it has otherwise."""
    for name, rate, height in (("a", 10.0, 32), ("b", 10.0, 32), ("c", 25.0, 32), ("d", 10.0, 64)):
        (tmp_path / "clips").mkdir(exist_ok=True)
        frames = (np.full((height, 48, 3), 5 * ord(name) % 200 + n, np.uint8) for n in range(12))
        encode_mp4(frames, tmp_path / "clips" / f"{name}.mp4", rate)
    with ares.open(tmp_path / "w", create=True) as opened:
        opened.ingest(tmp_path / "clips", quiet=True)
        ids = list(opened.episodes.ids())
        opened.sets.create("forward", ids)
        opened.sets.create("back", ids[::-1])
    tables = []
    for name in ("forward", "back"):
        said = run_ares("export", name, tmp_path / name, "--format", "lerobot", "-w", tmp_path / "w").out
        tables.append((tmp_path / name / "manifest.episodes.jsonl").read_text())
    assert tables[0] == tables[1]
    rows = [json.loads(line) for line in tables[0].splitlines()]
    assert [row["episode_id"] for row in rows if row["path"] == "clips"] == sorted(
        row["episode_id"] for row in rows if row["path"] == "clips"
    )
    assert "order: by episode id in a folder" in said
    by_path = {line.strip().split(":")[0]: line for line in said.splitlines() if line.startswith("  clips")}
    assert len(by_path) == 3 and by_path["clips"].endswith("tasks 1")
    # Whichever of the three comes first by its id has the plain name.
    whys = [by_path[name].partition("; ")[2] for name in ("clips-2", "clips-3")]
    assert all(why.endswith(" as in clips") for why in whys)
    assert any("25 Hz" in why for why in whys) and any("48x64" in why for why in whys)
