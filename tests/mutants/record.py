"""Which test runs which line, told by coverage, and for how long; a plug-in of pytest that tells coverage the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from coverage import Coverage, CoverageData

from tests.mutants.changes import Change

# Programs that tests start read it, too: what they run is run by the test of that moment.
_SETTINGS = """[run]
data_file = {folder}/lines
parallel = true
context = ${{PYTEST_CURRENT_TEST-}}
include = {files}
"""
# Pytest sets it to the test of the moment.
_NOW = "PYTEST_CURRENT_TEST"
# A test of another folder than that of the change comes as late as one of this folder that takes so much longer.
_FARTHER = 3


def write_settings(folder: Path, rooms: list[Path]) -> tuple[dict[str, str], list[str]]:
    """Make the folder of a record; what to add to the environment and to the arguments of pytest to fill it."""
    folder.mkdir(parents=True)
    settings = folder / "coveragerc"
    settings.write_text(_SETTINGS.format(folder=folder, files="\n    ".join(f"{room}/*" for room in rooms)))
    options = ["-p", "tests.mutants.record", "-o", "junit_family=xunit1", f"--junitxml={folder}/tests.xml"]
    return {"COVERAGE_PROCESS_START": str(settings), _NOW: ""}, options


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """From here on lines are run by this test; its fixtures are written into the XML."""
    if recording := Coverage.current():
        recording.switch_context(item.nodeid)
        item.user_properties.append(("fixtures", " ".join(getattr(item, "fixturenames", ()))))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """What a fixture of several tests runs is run by all that have it, not by the first of them."""
    recording = Coverage.current() if fixturedef.scope != "function" else None
    if not recording:
        return (yield)
    test, os.environ[_NOW] = os.environ[_NOW], f"fixture {fixturedef.argname}"
    recording.switch_context(os.environ[_NOW])
    try:
        return (yield)
    finally:
        recording.switch_context(test)
        os.environ[_NOW] = test


class Record:
    """The tests that passed.

    Args:
        folder: Where they were recorded.

    Attributes:
        seconds: How long each takes, with all its cases.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "lines").exists():
            Coverage(config_file=str(folder / "coveragerc")).combine()
        self._lines = CoverageData(str(folder / "lines"))
        self._lines.read()
        self.seconds: dict[str, float] = {}
        self._users: dict[str, set[str]] = {}
        failed = set[str]()
        for case in ElementTree.parse(folder / "tests.xml").iter("testcase"):
            test = _test_of(f"{case.get('file')}::{case.get('name')}")
            self.seconds[test] = self.seconds.get(test, 0.0) + float(case.get("time", 0.0))
            if any(case.findall(kind) for kind in ("failure", "error", "skipped")):
                failed.add(test)
            for fixture in " ".join(str(found.get("value")) for found in case.iter("property")).split():
                self._users.setdefault(f"fixture {fixture}", set()).add(test)
        self.seconds = {test: seconds for test, seconds in self.seconds.items() if test not in failed}
        if not self.seconds:
            raise SystemExit("no test has passed without any change")

    def tests_of(self, change: Change) -> list[str]:
        """The tests that enter the function of a change: the shortest ones first, those of its folder before others."""
        first, last = change.function
        contexts = {
            context
            for file in self._lines.measured_files()
            if file.endswith(f"/{change.path}")
            for line, found in self._lines.contexts_by_lineno(file).items()
            if first <= line <= last
            for context in found
        }
        tests = {_test_of(context) for context in contexts}.union(
            *(self._users.get(name, ()) for name in contexts)
        )
        near = f"tests/{Path(change.path).parent}"
        return sorted(
            tests & self.seconds.keys(),
            key=lambda test: (self.seconds[test] * (1 if test.startswith(near) else _FARTHER), test),
        )


def _test_of(context: str) -> str:
    """The test of a case, or of what pytest says of the moment."""
    return context.partition("[")[0].partition(" (")[0]
