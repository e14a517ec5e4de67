"""The demo runs every step, reports the outcome as one JSON document, and its export is complete."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ares.settings import Settings
from ares.workspace import open_workspace
from ares_app.cli.app import _demo_report_blocks
from ares_app.cli.main import main
from ares_app.demo import DEMO_FOLDER, TEST_NOTE, DemoReport, make_demo_settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "ares_app.cli.main", "demo", "--no-serve", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert process.returncode == 0, process.stderr
    document: dict[str, Any] = json.loads(process.stdout)
    return document


def test_the_outcome_is_the_recorded_one(demo: dict[str, Any]) -> None:
    """Paths and times aside; the models, the samples and torch are pinned, so the counts are too."""
    recorded = Path(__file__).resolve().parents[2] / "fixtures" / "recorded" / "demo.json"
    expected: dict[str, Any] = json.loads(recorded.read_text())
    assert {name: demo[name] for name in expected} == expected


def test_the_set_has_no_failure_in_it(demo: dict[str, Any]) -> None:
    rows = exported_rows(Path(demo["export_path"]))
    assert len(rows) == demo["successes"]
    assert {(row["ares/success"], row["ares/grade"]) for row in rows} == {(True, "acceptable")}
    assert not [row["ares/caption"] for row in rows if "fail" in row["ares/caption"]]
    assert [row["tasks"] for row in rows] == [[row["ares/instruction"]] for row in rows]
    assert demo["task_source"] == "instruction"
    assert demo["task_sources"] == {"instruction": len(rows), "caption": 0, "none": 0}


def test_the_report_for_people_tells_them_apart_too(demo: dict[str, Any]) -> None:
    names = {field.name for field in fields(DemoReport)}
    report = DemoReport(**{name: value for name, value in demo.items() if name in names})
    text = "\n".join(str(block) for block in _demo_report_blocks(report))
    assert "12 of episodes that succeeded, 11 of episodes that failed" in text
    assert "12 episodes (acceptable AND success)" in text
    assert "12 instruction, 0 caption, 0 none  (--task instruction)" in text
    assert f"the judge {TEST_NOTE}" in text and text.count("demo judge of a simulation") == 4


def exported_rows(folder: Path) -> list[dict[str, Any]]:
    """Episodes of every LeRobot dataset of an export."""
    files = sorted(folder.rglob("meta/episodes/*/*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_the_export_is_complete(demo: dict[str, Any]) -> None:
    infos = list(Path(demo["export_path"]).rglob("meta/info.json"))
    documents = [json.loads(info.read_text()) for info in infos]
    assert sum(document["total_episodes"] for document in documents) == demo["exported_episodes"]
    assert {document["codebase_version"] for document in documents} == {"v3.0"}
    for info, document in zip(infos, documents, strict=True):
        files = (info.parent.parent / "data").rglob("*.parquet")
        assert sum(pq.read_metadata(file).num_rows for file in files) == document["total_frames"]


def test_the_judge_passes_its_battery_and_the_simulation_says_what_is_true(demo: dict[str, Any]) -> None:
    for tripwire in demo["judge_tripwire"].values():
        assert (tripwire["state"], tripwire["controls"]) == ("not refuted", 48)
    assert all("answers of simulation (no person)" in line for line in demo["measured"].values())


def test_the_lines_of_the_readme_work_on_the_demo(
    demo: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order; of the annotators the one that needs no model, and the page is opened by other tests."""
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text()
    shell, python = (readme.split(f"```{language}\n")[1].split("```")[0] for language in ("sh", "python"))
    lines = [shlex.split(line, comments=True)[1:] for line in shell.splitlines() if line.startswith("ares ")]
    names = ["ingest", "annotate", "review", "search", "set", "export", "app"]
    assert [words[0] for words in lines] == names and lines.pop() == ["app"]
    own: dict[str, tuple[str, ...]] = {
        "~/data/bridge_dataset": (str(DEMO_FOLDER / "samples" / "rlds"),),
        "bridge_dataset": ("metaworld_sawyer",),
        "~/exports/drawers": (str(tmp_path / "out"),),
        **dict.fromkeys(("embed", "caption", "success", "grade"), ()),
    }
    monkeypatch.setenv("ARES_WORKSPACE", demo["workspace"])
    for words in lines:
        assert main([part for word in words for part in own.get(word, (word,))] + ["--json"]) == 0, words
        document = json.loads(capsys.readouterr().out)
        assert document and (words[0] not in ("set", "export") or document["episodes"] > 0)
    with open_workspace(demo["workspace"], make_demo_settings(Settings())) as workspace:
        monkeypatch.setattr("ares.open", lambda path: workspace)
        exec(python, {})
    assert "open" in capsys.readouterr().out
