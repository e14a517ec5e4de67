"""A pytest plug-in of `make mutants`: records which test enters which function, and ends tests that fail soon."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import Phase, settings

FOLDER_VARIABLE = "RECORDED_TESTS"
_ROOT = f"{Path(__file__).resolve().parents[2]}{os.sep}"
_PRODUCT = tuple(f"{_ROOT}{package}{os.sep}" for package in ("ares", "annotators"))

_entered: dict[int, CodeType] = {}
_tests: dict[str, tuple[float, set[str]]] = {}
_failed: set[str] = set()


def pytest_configure() -> None:
    """That an example fails is enough: no smaller one is looked for."""
    settings.register_profile("mutants", settings.default, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")


def _note_call(frame: FrameType, event: str, argument: Any) -> None:
    """Called for every function; without a result, its lines are not traced."""
    _entered[id(frame.f_code)] = frame.f_code


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what a test enters, its fixtures included; cases of one test count as one."""
    if FOLDER_VARIABLE not in os.environ:
        return (yield)
    _entered.clear()
    started = time.monotonic()
    threading.settrace(_note_call)
    sys.settrace(_note_call)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        seconds, functions = _tests.setdefault(_name_of(item.nodeid), (0.0, set()))
        functions.update(
            f"{code.co_filename.removeprefix(_ROOT)}:{code.co_firstlineno}"
            for code in list(_entered.values())
            if code.co_filename.startswith(_PRODUCT)
        )
        _tests[_name_of(item.nodeid)] = (seconds + time.monotonic() - started, functions)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails without any change notices none."""
    if report.failed:
        _failed.add(_name_of(report.nodeid))


def pytest_sessionfinish() -> None:
    """Write the record of this process."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        kept = {name: value for name, value in _tests.items() if name not in _failed}
        value = {name: [seconds, sorted(functions)] for name, (seconds, functions) in kept.items()}
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(value))


def _name_of(test: str) -> str:
    return test.partition("[")[0]
