"""The package of the pages on plug-ins: shown whole, installed beside ARES, and run from files to an export."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import PluginError
from ares_ingest.file_ingester import FileEpisode, FileIngester
from tests.conftest import ROOT
from tests.guests.conftest import GUESTS, Ares

PACKAGE = GUESTS / "mine"
FILES = ("steps", "stillness", "csv_files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files, workspace and exports are; `data` has seven files, two of them in a folder below."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "data" / "more").mkdir(parents=True)
    for number in range(7):
        state = np.repeat(np.arange(6 + number) // 2, 2).reshape(-1, 2)
        document = {"instruction": f"task {number}", "rate_hz": 10, "state": state.tolist()}
        path = folder / "data" / ("more" if number > 4 else "") / f"{number}.steps.json"
        path.write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def ws(run_ares: Ares, folder: Path) -> Path:
    """A workspace with the seven files, and the set `all`."""
    report = run_ares("ingest", folder / "data", "-w", folder / "ws").json
    assert (report["kept"], report["failed"], report["planned"]) == (7, 0, 7)
    assert run_ares("set", "create", "all", "-w", folder / "ws").status == 0
    return folder / "ws"


def outcome(report: dict[str, Any]) -> tuple[int, int]:
    """How many were kept or exported, and how many failed."""
    return report["kept" if "kept" in report else "episodes"], report["failed"]


def test_the_page_shows_the_package_whole() -> None:
    page = (ROOT / "docs" / "plug-ins.md").read_text()
    shown = re.findall(r"^```(?:python|toml)\n(.*?)^```", page, flags=re.M | re.S)
    files = [PACKAGE / "pyproject.toml", *(PACKAGE / "src" / "mine" / f"{name}.py" for name in FILES)]
    assert shown == [file.read_text() for file in files]


@pytest.mark.slow
def test_the_files_of_a_tree_become_episodes_once(ws: Path, run_ares: Ares, folder: Path) -> None:
    rows = run_ares("search", "--where", "format = 'steps'", "--limit", "20", "-w", ws).json
    assert len({row["episode_id"] for row in rows}) == 7
    again = run_ares("ingest", folder / "data", "--format", "steps", "-w", ws).json
    assert (again["kept"], again["already"]) == (0, 7)


@pytest.mark.slow
def test_the_annotator_fills_its_column(ws: Path, run_ares: Ares) -> None:
    assert outcome(run_ares("annotate", "stillness", "-w", ws).json) == (7, 0)
    rows = run_ares("search", "--where", "still_share > 0.3", "--limit", "20", "-w", ws).json
    assert len(rows) == 7


@pytest.mark.slow
def test_the_exporter_writes_every_episode(ws: Path, run_ares: Ares, folder: Path) -> None:
    report = run_ares("export", "all", folder / "csv", "--format", "csv", "-w", ws).json
    assert (*outcome(report), report["tasks"]) == (7, 0, 7)
    assert report["left_out"] == ["cameras", "actions"]
    for path in (folder / "csv").glob("*.csv"):
        rows = list(csv.reader(path.read_text().splitlines()))
        values = np.array(rows[1:], float)
        assert rows[0] == ["seconds", "joint_0", "joint_1"]
        assert np.allclose(values[:, 0], np.arange(len(values)) / 10)
        assert values[:, 1].tolist() == [n // 2 for n in range(len(values))]
    manifest = json.loads((folder / "csv" / "manifest.json").read_text())
    assert manifest["episodes"]["count"] == 7 and manifest["format"] == "csv"
    slow = run_ares("export", "all", folder / "slow", "--format", "csv", "--fps", "5", "-w", ws).json
    assert slow["frames"] < sum(range(6, 13)) and slow["changed"]


@pytest.mark.slow
def test_a_fault_of_an_ingester_costs_one_record(run_ares: Ares, folder: Path) -> None:
    flat = folder / "flat"
    flat.mkdir()
    for path in (folder / "data").rglob("*.steps.json"):
        shutil.copy(path, flat / path.name)
    line = ("ingest", flat, "--format", "hand", "-w", folder / "faulty")
    done = run_ares(*line)
    assert (done.status, *outcome(done.json), done.json["planned"]) == (1, 2, 5, 7)
    failures = {failure["reason"]: failure for failure in done.json["failures"]}
    label = "ingester 'hand' of faulty"
    assert {reason: failure["count"] for reason, failure in failures.items()} == {
        f"{label} listed an Item without an id": 2,
        "this identity stands twice in the source": 1,
        f"{label} raised KeyError": 1,
        f"{label} returned a record of another episode": 1,
    }
    assert "use make_episode_id" in failures[f"{label} listed an Item without an id"]["example"]
    assert "3.steps.json" in failures["this identity stands twice in the source"]["example"]
    again = run_ares(*line).json
    assert (again["already"], again["failed"]) == (2, 5)


@pytest.mark.slow
def test_a_file_that_cannot_be_read_costs_one_episode(run_ares: Ares, folder: Path) -> None:
    bad = folder / "bad"
    bad.mkdir()
    good = {"instruction": "", "rate_hz": 5, "state": [[0.0], [1.0]]}
    documents = {"a": good, "b": {"rate_hz": 5}, "c": {"state": [[0.0], [1.0]], "rate_hz": 5}}
    for name, document in documents.items():
        (bad / f"{name}.steps.json").write_text(json.dumps(document))
    (bad / "d.steps.json").write_text("{")
    done = run_ares("ingest", bad, "-w", folder / "bad-ws")
    reasons = {failure["reason"] for failure in done.json["failures"]}
    assert (done.status, *outcome(done.json)) == (1, 1, 3)
    assert {"steps have no state", "ingester 'steps' of mine raised KeyError"} < reasons


@pytest.mark.slow
def test_a_fault_of_an_annotator_costs_one_episode(ws: Path, run_ares: Ares) -> None:
    done = run_ares("annotate", "wrong", "-w", ws)
    assert (done.status, *outcome(done.json)) == (1, 4, 3)
    label = "annotator 'wrong' of faulty"
    assert {failure["reason"] for failure in done.json["failures"]} == {
        f"{label} raised KeyError",
        f"{label} returned an annotation of another episode",
        f"{label} returned a value that does not fit its column",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("no-report", "returned no ExportReport: got a dict"),
        ("miscounted", "reports what it has not written: 1 written, 0 failed, of 7"),
    ],
)
def test_a_wrong_report_of_an_exporter_is_one_line(
    format: str, line: str, ws: Path, run_ares: Ares, tmp_path: Path
) -> None:
    done = run_ares("export", "all", tmp_path / "out", "--format", format, "-w", ws)
    (told,) = (text for text in done.err.splitlines() if text.startswith("ares export: "))
    assert done.status == 2 and told.startswith(f"ares export: exporter {format!r} of faulty {line}")


@pytest.mark.slow
def test_an_exporter_that_raises_for_an_episode_loses_it_alone(
    ws: Path, run_ares: Ares, tmp_path: Path
) -> None:
    line = ("--format", "raising", "-w", ws)
    done = run_ares("export", "all", tmp_path / "some", *line)
    assert (done.status, *outcome(done.json)) == (1, 5, 2)
    reasons = {failure["reason"] for failure in done.json["failures"]}
    assert reasons == {"csv needs a state", "exporter 'raising' of faulty raised KeyError"}
    assert len(list((tmp_path / "some").glob("*.csv"))) == 5
    strict = run_ares("export", "all", tmp_path / "strict", "--options", "{strict: true}", *line)
    assert strict.status == 2 and "not every episode of the set can be exported" in strict.err
    assert not (tmp_path / "strict").exists()


def read_nothing(path: str) -> FileEpisode:
    """A reader of the next test."""
    raise AssertionError(f"nothing is read, but {path}")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("Steps", ".json", read_nothing), "lower case: got 'Steps'; give one such as 'steps'"),
        (("steps", "json", read_nothing), "begins with a dot: got 'json'; give one such as '.npz'"),
        (("steps", ".json", lambda path: read_nothing(path)), "no function of a module: got <function"),
    ],
)
def test_wrong_arguments_of_a_file_ingester_are_refused(arguments: tuple[Any, ...], line: str) -> None:
    with pytest.raises(PluginError, match=re.escape(line)):
        FileIngester(*arguments)
