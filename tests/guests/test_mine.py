"""The package of the pages on plug-ins: shown whole, installed beside ARES, and run from files to an export."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import PluginError
from ingest.file_ingester import FileEpisode, FileIngester
from tests.command_server import CommandServer

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "guests" / "mine"
PAGES = {name: ROOT / "docs" / f"plug-in-{name}.md" for name in ("ingester", "annotator", "exporter")}
FILES = {"ingester": "steps", "annotator": "stillness", "exporter": "csv_files"}
# Status, document and standard error of `ares ARGUMENTS`.
Ares = Callable[..., tuple[int, Any, str]]

# Faults of plug-ins, each for some records of the same dataset; as a stranger would write them, without the helpers.
FAULTY = """
import csv, json, time
from functools import partial
from pathlib import Path
from dataclasses import replace
from ares.errors import SourceError
from ares.export import ExportReport, ExportedMember, export_members
from ares.export.resume import staging_folder
from annotators.base import Result, new_annotation
from ares.annotation import Column, Producer
from ingest.base import Item, Source, SourceFile
from ingest.file_ingester import FileEpisode, FileIngester, _FileEntry, load_file_episode
from mine.steps import read_steps


def entry(path, name):
    return _FileEntry(format="hand", dataset="by-hand", key=name, path=str(path), read=read_steps)


def fail(path):
    return {}["state"]


class Hand:
    name = "hand"

    def recognises(self, path):
        return Path(path).name == "flat"

    def open(self, path, options):
        entries = [entry(file, file.name) for file in sorted(Path(path).glob("*.steps.json"))]
        items = [Item(episode_id=e.episode_id, location=e.path, load=partial(load_file_episode, e)) for e in entries]
        items[1] = replace(items[1], episode_id="")
        items[2] = replace(items[2], episode_id=None)
        items[3] = replace(items[3], episode_id=items[0].episode_id)
        items[4] = replace(items[4], load=partial(fail, entries[4].path))
        items[5] = replace(items[5], load=items[6].load)
        return [Source(format="hand", dataset="by-hand", total=len(items), items=iter(items), folder=str(path))]


hand = Hand()


class Wrong:
    def __init__(self, options, stores):
        self.producer = Producer(annotator="wrong", version="1", columns=(COLUMN,))

    def process(self, works):
        return [self.measure(work) for work in works]

    def measure(self, work):
        value = {"task 0": 1.0, "task 1": "much"}.get(work.episode.instruction, 2.0)
        annotation = new_annotation(work, self.producer, {"wrong_share": value})
        if work.episode.instruction == "task 2":
            annotation = replace(annotation, episode_id="0" * 16)
        return {}["none"] if work.episode.instruction == "task 3" else Result(annotations=[annotation])


COLUMN = Column(name="wrong_share", type="float64", meaning="A share.")


def no_report(request, reader, progress):
    return {"episodes": 3}


def miscounted(request, reader, progress):
    report = export_members(request, reader, progress, lambda folder, member: None)
    return replace(report, episodes=1)


def raising(request, reader, progress):
    def write(folder, member):
        (folder / f"{member.name}.csv").write_text("half")
        if member.episode.instruction == "task 1":
            return {}["state"]
        if member.episode.instruction == "task 2":
            raise SourceError("csv needs a state", member.episode.key)

    return export_members(request, reader, progress, write)
"""
ENTRY_POINTS = """[ares.ingesters]
hand = faulty:hand
[ares.annotators]
wrong = faulty:Wrong
[ares.exporters]
no-report = faulty:no_report
miscounted = faulty:miscounted
raising = faulty:raising
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed without a network as a user installs it, and a package of faults."""
    folder = tmp_path_factory.mktemp("mine")
    shutil.copytree(
        PACKAGE, folder / "mine", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *options, str(folder / "mine")], check=True)
    (folder / "site" / "faulty.py").write_text(FAULTY)
    info = folder / "site" / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder / "site"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files, workspace and exports are; `data` has seven files, two of them in a folder below."""
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "data" / "more").mkdir(parents=True)
    for number in range(7):
        state = np.repeat(np.arange(6 + number) // 2, 2).reshape(-1, 2)
        document = {"instruction": f"task {number}", "rate_hz": 10, "state": state.tolist()}
        path = folder / "data" / ("more" if number > 4 else "") / f"{number}.steps.json"
        path.write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def run_ares(site: Path, folder: Path) -> Iterator[Ares]:
    """Runs `ares` as a user does who has installed the packages; one process runs all commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    environ = inherited | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    server = CommandServer(sys.executable, folder, environ=environ)

    def run(*arguments: str) -> tuple[int, Any, str]:
        done = server.run(*arguments, "--json")
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    yield run
    server.close()


@pytest.fixture(scope="module")
def ingested(run_ares: Ares) -> Any:
    """The report of the ingestion of the seven files, which are in the workspace `ws`."""
    status, report, _ = run_ares("ingest", "data", "-w", "ws")
    assert status == 0
    return report


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_shows_its_file_whole(kind: str) -> None:
    page = PAGES[kind].read_text()
    assert page.count("\n") <= 80
    (shown,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    assert shown == (PACKAGE / "src" / "mine" / f"{FILES[kind]}.py").read_text()
    (table,) = re.findall(r"^```toml\n(.*?)^```", page, flags=re.M | re.S)
    assert table in (PACKAGE / "pyproject.toml").read_text()
    assert kind != "ingester" or table == (PACKAGE / "pyproject.toml").read_text()


def test_the_files_of_a_tree_become_episodes(ingested: Any, run_ares: Ares) -> None:
    assert (ingested["kept"], ingested["failed"], ingested["planned"]) == (7, 0, 7)
    _, rows, _ = run_ares("search", "--where", "format = 'steps'", "--limit", "20", "-w", "ws")
    assert len({row["episode_id"] for row in rows}) == 7
    _, again, _ = run_ares("ingest", "data", "--format", "steps", "-w", "ws")
    assert (again["kept"], again["already"]) == (0, 7)


def test_the_annotator_fills_its_column(ingested: Any, run_ares: Ares) -> None:
    status, report, _ = run_ares("annotate", "stillness", "-w", "ws")
    assert (status, report["kept"], report["failed"]) == (0, 7, 0)
    _, rows, _ = run_ares("search", "--where", "still_share > 0.3", "--limit", "20", "-w", "ws")
    assert len(rows) == 7


def test_the_exporter_writes_every_episode(ingested: Any, run_ares: Ares, folder: Path) -> None:
    run_ares("set", "create", "all", "--where", "format = 'steps'", "-w", "ws")
    status, report, _ = run_ares("export", "all", "csv-out", "--format", "csv", "-w", "ws")
    assert (status, report["episodes"], report["failed"], report["tasks"]) == (0, 7, 0, 7)
    assert report["left_out"] == ["cameras", "actions"]
    for path in (folder / "csv-out").glob("*.csv"):
        rows = list(csv.reader(path.read_text().splitlines()))
        values = np.array(rows[1:], float)
        assert rows[0] == ["seconds", "joint_0", "joint_1"]
        assert np.allclose(values[:, 0], np.arange(len(values)) / 10)
        assert values[:, 1].tolist() == [n // 2 for n in range(len(values))]
    manifest = json.loads((folder / "csv-out" / "manifest.json").read_text())
    assert manifest["episodes"]["count"] == 7 and manifest["format"] == "csv"
    _, report, _ = run_ares("export", "all", "slow", "--format", "csv", "--fps", "5", "-w", "ws")
    assert report["frames"] < sum(range(6, 13)) and report["changed"]


def test_a_fault_of_an_ingester_costs_one_record(run_ares: Ares, site: Path, folder: Path) -> None:
    flat = folder / "flat"
    flat.mkdir()
    for path in (folder / "data").rglob("*.steps.json"):
        shutil.copy(path, flat / path.name)
    status, report, stderr = run_ares("ingest", "flat", "--format", "hand", "-w", "faulty")
    assert "kept" in report, (report, stderr)
    assert (status, report["kept"], report["failed"], report["planned"]) == (1, 2, 5, 7)
    failures = {failure["reason"]: failure for failure in report["failures"]}
    label = "ingester 'hand' of faulty"
    assert failures[f"{label} listed an Item without an id"]["count"] == 2
    assert "use make_episode_id" in failures[f"{label} listed an Item without an id"]["example"]
    assert "3.steps.json" in failures["this identity stands twice in the source"]["example"]
    assert failures[f"{label} raised KeyError"]["count"] == 1
    assert failures[f"{label} returned a record of another episode"]["count"] == 1
    assert len(failures) == 4
    _, again, _ = run_ares("ingest", "flat", "--format", "hand", "-w", "faulty")
    assert (again["already"], again["failed"]) == (2, 5)


def test_a_file_that_cannot_be_read_costs_one_episode(run_ares: Ares, folder: Path) -> None:
    bad = folder / "bad"
    bad.mkdir()
    good = {"instruction": "", "rate_hz": 5, "state": [[0.0], [1.0]]}
    documents = {"a": good, "b": {"rate_hz": 5}, "c": {"state": [[0.0], [1.0]], "rate_hz": 5}, "d": {}}
    for name, document in documents.items():
        (bad / f"{name}.steps.json").write_text(json.dumps(document))
    (bad / "e.steps.json").write_text("{")
    status, report, _ = run_ares("ingest", "bad", "-w", "bad-ws")
    reasons = {failure["reason"]: failure["count"] for failure in report["failures"]}
    assert (status, report["kept"], report["failed"]) == (1, 1, 4)
    assert reasons["steps have no state"] == 2 and reasons["ingester 'steps' of mine raised KeyError"] == 1


def test_a_fault_of_an_annotator_costs_one_episode(ingested: Any, run_ares: Ares) -> None:
    status, report, _ = run_ares("annotate", "wrong", "--where", "format = 'steps'", "-w", "ws")
    assert (status, report["kept"], report["failed"]) == (1, 4, 3)
    label = "annotator 'wrong' of faulty"
    assert {failure["reason"] for failure in report["failures"]} == {
        f"{label} raised KeyError",
        f"{label} returned an annotation of another episode",
        f"{label} returned a value that does not fit its column",
    }


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("no-report", "returned no ExportReport: got a dict"),
        ("miscounted", "reports what it has not written: 1 written, 0 failed, of 7"),
    ],
)
def test_a_wrong_report_of_an_exporter_is_one_line(
    format: str, line: str, ingested: Any, run_ares: Ares
) -> None:
    run_ares("set", "create", "all", "--where", "format = 'steps'", "-w", "ws")
    status, _, stderr = run_ares("export", "all", f"{format}-out", "--format", format, "-w", "ws")
    (told,) = (text for text in stderr.splitlines() if text.startswith("ares export: "))
    assert status == 2 and told.startswith(f"ares export: exporter {format!r} of faulty {line}")


def test_an_exporter_that_raises_for_an_episode_loses_it_alone(
    ingested: Any, run_ares: Ares, folder: Path
) -> None:
    run_ares("set", "create", "all", "--where", "format = 'steps'", "-w", "ws")
    status, report, _ = run_ares("export", "all", "raising", "--format", "raising", "-w", "ws")
    assert (status, report["episodes"], report["failed"]) == (1, 5, 2)
    reasons = {failure["reason"] for failure in report["failures"]}
    assert reasons == {"csv needs a state", "exporter 'raising' of faulty raised KeyError"}
    assert len(list((folder / "raising").glob("*.csv"))) == 5
    status, _, stderr = run_ares("export", "all", "strict", "--format", "raising", "--strict", "-w", "ws")
    assert status == 2 and "not every episode of the set can be exported" in stderr
    assert not (folder / "strict").exists()


def read_nothing(path: str) -> FileEpisode:
    """A reader of the next test."""
    raise NotImplementedError(path)


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
