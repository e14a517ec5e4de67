"""A pytest plug-in of `make mutants`: records which test enters which function, and ends tests that never do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.mutants import probe

# Seconds of a processor and of a clock that a test may take, by test, and by "" what comes before and after the tests.
limits: dict[str, tuple[float, float]] = {}
# Programs that wait for each processor, up to which a clock's limit is large enough.
_PLANNED_LOAD = 10.0
_tests: dict[str, tuple[float, set[str]]] = {}
# What fixtures of several tests entered: only the first of the tests sees it done.
_fixtures: dict[pytest.FixtureDef[Any], set[str]] = {}
_failed: set[str] = set()


def pytest_configure() -> None:
    """That an example fails is enough: no smaller one is looked for."""
    settings.register_profile("mutants", settings.default, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")
    _limit("")


def _limit(test: str) -> None:
    """From now on this process ends by SIGPROF or SIGALRM when it takes more time than this test may; no child does."""
    if limits:
        processor, clock = limits.get(test, limits[""])
        signal.setitimer(signal.ITIMER_PROF, processor)
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        signal.setitimer(signal.ITIMER_REAL, clock * max(1.0, load / _PLANNED_LOAD))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what a test enters, with its fixtures, also those set up for an earlier one; cases of one test are one."""
    name, started = _name_of(item.nodeid), time.monotonic()
    _limit(name)
    if probe.FOLDER_VARIABLE not in os.environ:
        return (yield)
    probe.begin_test(name)
    try:
        return (yield)
    finally:
        seconds, functions = _tests.setdefault(name, (0.0, set()))
        functions.update(tuple(probe.entered), *(_fixtures.get(key, ()) for key in _fixtures_of(item)))
        _tests[name] = (seconds + time.monotonic() - started, functions)


def _fixtures_of(item: pytest.Item) -> list[pytest.FixtureDef[Any]]:
    """The fixtures of a test, and those that they take."""
    if not isinstance(item, pytest.Function):
        return []
    return [found for several in item._fixtureinfo.name2fixturedefs.values() for found in several]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """Note what a fixture of several tests enters."""
    if fixturedef.scope == "function" or probe.FOLDER_VARIABLE not in os.environ:
        return (yield)
    entered = set(probe.entered)
    probe.entered.clear()
    try:
        return (yield)
    finally:
        _fixtures.setdefault(fixturedef, set()).update(tuple(probe.entered))
        probe.entered |= entered


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails without any change notices none."""
    if report.failed:
        _failed.add(_name_of(report.nodeid))


def pytest_sessionfinish() -> None:
    """Write the record of this process."""
    _limit("")
    if folder := os.environ.get(probe.FOLDER_VARIABLE):
        kept = {name: value for name, value in _tests.items() if name not in _failed}
        value = {name: [seconds, sorted(functions)] for name, (seconds, functions) in kept.items()}
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(value))


def _name_of(test: str) -> str:
    return test.partition("[")[0]
