"""Installs the guest packages into a separate folder, and runs the `ares` command with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command_server import CommandServer
from tests.conftest import ROOT
from tests.workspaces import CommandResult

GUESTS = Path(__file__).resolve().parent

# Runs `ares ARGUMENTS --json` in a process that has the guests.
Ares = Callable[..., CommandResult]

# Faults of plug-ins, each for some records of the same dataset; as a stranger would write them, without the helpers.
FAULTY = """
import csv, json, time
from functools import partial
from pathlib import Path
from dataclasses import replace
from ares.errors import SourceError
from ares.export import ExportReport, ExportedMember, export_members
from ares.export.staging import staging_folder
from ares_annotators.base import Result, new_annotation
from ares.annotation import Column, Producer
from ares_ingest.base import Item, Source, SourceFile
from ares_ingest.file_ingester import FileEpisode, FileIngester, _FileEntry, load_file_episode
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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guests, built as wheels and installed without a network, and a package of faults; on no path yet."""
    folder = tmp_path_factory.mktemp("guests")
    # A build leaves files beside its sources.
    built = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    sources = [shutil.copytree(GUESTS / name, folder / name, ignore=built) for name in ("segments", "mine")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *options, *map(str, sources)], check=True)
    (folder / "site" / "faulty.py").write_text(FAULTY)
    info = folder / "site" / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder / "site"


@pytest.fixture(scope="session")
def run_ares(site: Path) -> Iterator[Ares]:
    """Runs `ares` as a user does who has installed the guests; one process runs all commands, one after another."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    environ["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT)])
    server = CommandServer(sys.executable, site, environ=environ)

    def run(*arguments: object) -> CommandResult:
        done = server.run(*map(str, arguments), "--json")
        assert "Traceback" not in done.stderr
        return CommandResult(done.returncode, done.stdout, done.stderr)

    yield run
    server.close()
