"""Installs the guest package into a separate folder, and runs the `ares` command with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_server import CommandServer

GUEST = Path(__file__).resolve().parent / "segments"

# Runs `ares` with arguments in a process that has the guest; returns the document that it prints with --json.
Ares = Callable[..., Any]


@pytest.fixture(scope="session")
def guest_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest, built as a wheel and installed without a network; it is on the path of no process yet."""
    folder = tmp_path_factory.mktemp("guest")
    # A build leaves files beside its sources.
    shutil.copytree(
        GUEST, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *options, str(folder / "source")], check=True)
    return folder / "site"


@pytest.fixture(scope="session")
def run_ares(guest_folder: Path) -> Iterator[Ares]:
    """Runs `ares` as a user does who has installed the guest; one process runs all commands, one after another."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(guest_folder), environ.get("PYTHONPATH")]))
    server = CommandServer(sys.executable, guest_folder, environ=environ)

    def run(*arguments: str, workspace: Path, status: int = 0) -> Any:
        done = server.run(*arguments, "-w", str(workspace), "--json")
        assert done.returncode == status, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    yield run
    server.close()


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory, run_ares: Ares, demo_samples: Path) -> Path:
    """A workspace with both samples, 24 episodes; not to be written to."""
    path = tmp_path_factory.mktemp("ingested") / "ws"
    for sample in ("rlds", "video"):
        run_ares("ingest", str(demo_samples / sample), "--rate", "10", workspace=path)
    return path


@pytest.fixture(scope="session")
def annotated(tmp_path_factory: pytest.TempPathFactory, run_ares: Ares, ingested: Path) -> Path:
    """The same with segments, and a judgement of each, both of one run; not to be written to."""
    path = shutil.copytree(ingested, tmp_path_factory.mktemp("annotated") / "ws")
    run_ares("annotate", "phases", "brightness", workspace=path)
    return path
