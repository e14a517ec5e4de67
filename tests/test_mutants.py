"""`make mutants` changes files of a repository at random, and tells what its tests notice from what they do not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mutants.changes import sample

MODULE = """
def double(x):
    return x * 2
def lost(x):
    return x - 1
def spin(x):
    while x:
        x = None
"""
TESTS = """
import subprocess, sys
import pytest
from ares.store.module import spin
@pytest.fixture(scope="module")
def six():
    return int(subprocess.check_output([sys.executable, "-c", "import ares.store.module as m; print(m.double(3))"]))
def test_first(six): assert six < 10
def test_second(six): assert six == 6
def test_spin(): spin(0)
def test_wrong(): assert False
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A room of one module; its tests start a program, share a fixture, never call `lost`, and one fails."""
    root = tmp_path / "repository"
    shutil.copytree(
        ROOT / "tests/mutants", root / "tests/mutants", ignore=shutil.ignore_patterns("__pycache__")
    )
    (root / "ares/store").mkdir(parents=True)
    (root / "ares/__init__.py").touch()
    (root / "ares/store/module.py").write_text(MODULE)
    (root / "tests/test_module.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\nmarkers = nightly\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.mark.slow
def test_what_tests_notice_is_told_from_what_they_do_not(repository: Path) -> None:
    """Noticed are also a change in a program that a shared fixture starts, and one without an end."""
    program = repository / "tests/mutants/__main__.py"
    program.write_text(program.read_text().replace("240.0, 120.0", "240.0, 30.0"))
    (repository / "tests/mutants/equivalent.txt").write_text(
        "ares/store/module.py: return x - 1  ->  return x + 1\n"
    )
    command = [sys.executable, "-P", "-m", "tests.mutants", "--count", "99", "--tests", "tests"]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(repository)}, capture_output=True, text=True
    )
    tried = re.findall(r"^\d/9 +\d+ s noticed by (.+): \S+py:\d+: (.+)$", ended.stdout, re.MULTILINE)
    said = {change: test.removeprefix("tests/test_module.py::") for test, change in tried}
    assert said.keys() == {
        "return x * 2  ->  return None",
        "return x * 2  ->  return x / 2",
        "return x * 2  ->  return x * 3",
        "return x * 2  ->  return x * 1",
        "while x:  ->  while not x:",
    }, ended.stdout + ended.stderr
    assert said["return x * 2  ->  return x * 1"] == "test_second"
    assert said["while x:  ->  while not x:"] == "what ran out of time"
    assert "\n5 of 8 noticed (62.5%); goal 85%" in ended.stdout and ended.returncode == 1
    assert (repository / "ares/store/module.py").read_text() == MODULE


def test_a_sample_follows_from_its_seed() -> None:
    """The same seed, the same changes; another one, others."""
    rooms = ("ares/rubric", "ares/curation")
    first = sample(ROOT, rooms, "a", 8, "")
    assert first == sample(ROOT, rooms, "a", 8, "") != sample(ROOT, rooms, "b", 8, "")
    assert [sum(change.path.startswith(room) for change in first) for room in rooms] == [4, 4]
    assert {change.path for change in sample(ROOT, rooms, "a", 9, "ares/rubric/tripwire.py")} == {
        "ares/rubric/tripwire.py"
    }
