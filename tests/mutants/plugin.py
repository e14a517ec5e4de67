"""A pytest plug-in of `make mutants`: records which test enters which function, and ends tests that fail soon."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutants import probe

_tests: dict[str, tuple[float, set[str]]] = {}
_failed: set[str] = set()


def pytest_configure() -> None:
    """That an example fails is enough: no smaller one is looked for."""
    settings.register_profile("mutants", settings.default, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what a test enters, its fixtures included; cases of one test count as one."""
    if probe.FOLDER_VARIABLE not in os.environ:
        return (yield)
    name, started = _name_of(item.nodeid), time.monotonic()
    probe.begin_test(name)
    try:
        return (yield)
    finally:
        seconds, functions = _tests.setdefault(name, (0.0, set()))
        functions.update(tuple(probe.entered))
        _tests[name] = (seconds + time.monotonic() - started, functions)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails without any change notices none."""
    if report.failed:
        _failed.add(_name_of(report.nodeid))


def pytest_sessionfinish() -> None:
    """Write the record of this process."""
    if folder := os.environ.get(probe.FOLDER_VARIABLE):
        kept = {name: value for name, value in _tests.items() if name not in _failed}
        value = {name: [seconds, sorted(functions)] for name, (seconds, functions) in kept.items()}
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(value))


def _name_of(test: str) -> str:
    return test.partition("[")[0]
