"""`make mutants` changes a file in ways that can be noticed, says whether tests do, and leaves everything as it was."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.mutants import __main__ as mutants, probe
from tests.mutants.__main__ import Lab, Record, sample, try_mutants
from tests.mutants.mutations import Mutant, find_mutants
from tests.mutants.probe import add_probes

PROGRAM = '''
def count(values: list[int], limit: int = 3) -> int:
    """Not changed: 5."""
    total = 0
    for value in values:
        if value > 0 and value not in (7, 8):
            total += value
    return min(total, limit) if limit else total
'''


def test_every_kind_of_change_is_found_and_is_a_program() -> None:
    found = find_mutants("x.py", PROGRAM)
    changes = {(mutant.before, mutant.after) for mutant in found}
    assert {
        ("min", "max"),
        ("total += value", "pass"),
        ("3", "4"),
        ("value > 0", "(value) >= (0)"),
    } <= changes
    assert {("limit", "(not (limit))"), ("value not in (7, 8)", "(value) in ((7, 8))")} <= changes
    assert not any("5" in mutant.before and "Not" in mutant.before for mutant in found)
    for mutant in found:
        changed = mutant.apply(PROGRAM)
        assert changed != PROGRAM and ast.parse(changed) and mutant.function == 2


@pytest.mark.nightly
def test_a_sample_follows_from_its_seed_and_has_every_room() -> None:
    first = sample(random.Random("a"), 20, "")
    assert first == sample(random.Random("a"), 20, "") != sample(random.Random("b"), 20, "")
    assert len({mutant.path.split("/")[1] for mutant in first}) == 5
    assert {mutant.path for mutant in sample(random.Random("a"), 9, "ares/rubric/trust.py")} == {
        "ares/rubric/trust.py"
    }


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A repository of one module, with a test that looks at one of its two branches."""
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "module.py").write_text("def double(x):\n    return x * 2 if x > 0 else 0 - 1\n")
    (tmp_path / "test_module.py").write_text(
        "from module import double\ndef test_it():\n    assert double(3) == 6\n"
    )
    plugin = tmp_path / "tests" / "mutants"
    plugin.mkdir(parents=True)
    for name in ("plugin.py", "probe.py", "starter.py"):
        (plugin / name).write_text((ROOT / "tests" / "mutants" / name).read_text())
    with Lab(tmp_path) as made:
        yield made


def test_what_tests_notice_is_told_from_what_they_do_not(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = Record({"test_module.py::test_it": 0.1}, {"module.py:1": {"test_module.py::test_it"}})
    path = lab.root / "module.py"
    lab.check(find_mutants("module.py", path.read_text()), record)
    before, stamp = path.read_text(), path.stat().st_mtime_ns
    chosen = {mutant.before: mutant for mutant in find_mutants("module.py", before) if mutant.before != "0"}
    equivalent = tmp_path / "equivalent.txt"
    equivalent.write_text("module.py: 1  ->  2  in: return x * 2 if x > 0 else 0 - 1\n")
    monkeypatch.setattr(mutants, "_EQUIVALENT", equivalent)
    outcome = try_mutants(lab, record, [chosen["x * 2"], chosen["0 - 1"], chosen["1"]], 600)
    assert outcome.noticed == 1 and outcome.share == 0.5
    (survived,) = outcome.survived
    assert "0 - 1  ->  ((0) + (1))  in: return x * 2" in survived
    assert len(outcome.equivalent) == 1
    assert (path.read_text(), path.stat().st_mtime_ns) == (before, stamp)


PROBED = '''
def outer(x):
    """Said, not done."""
    @staticmethod
    def inner(y): return y + x
    if x:
        return inner.__func__(1)
    return 0
'''


def test_a_probe_tells_each_function_that_is_entered_and_changes_nothing() -> None:
    probe.begin_test("t")
    module: dict[str, Any] = {}
    exec(add_probes("x.py", PROBED), module)
    assert module["outer"](0) == 0 and probe.entered == {"x.py:2"}
    assert module["outer"](4) == 5 and probe.entered == {"x.py:2", "x.py:4"}
    assert module["outer"].__doc__ == "Said, not done."


SHARED = """
import pytest
from module import double
@pytest.fixture(scope="module")
def four(): return double(2)
@pytest.fixture
def five(four): return four + 1
def test_first(four): assert four == 4
def test_second(five): assert five == 5
def test_other(): assert True
"""


def test_a_test_enters_what_a_fixture_entered_that_an_earlier_test_set_up(lab: Lab) -> None:
    (lab.root / "module.py").write_text(add_probes("module.py", (lab.root / "module.py").read_text()))
    (lab.root / "test_module.py").write_text(SHARED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = {**os.environ, probe.FOLDER_VARIABLE: str(lab.root), "PYTHONPATH": str(lab.root)}
    subprocess.run([*command, "-p", "tests.mutants.plugin"], cwd=lab.root, env=environment, check=True)
    (file,) = lab.root.glob("*.json")
    entering = {name: functions for name, (_, functions) in json.loads(file.read_text()).items() if functions}
    users = ("test_module.py::test_first", "test_module.py::test_second")
    assert entering == {name: ["module.py:1"] for name in users}


ENDLESS = """
import subprocess, time
def wait(x):
    while x > 5:
        pass
    if x > 1:
        return False
    time.sleep(10_000)
def leave(file):
    left = subprocess.Popen(["sleep", "10000"], start_new_session=True)
    file.write_text(str(left.pid))
"""


@pytest.mark.nightly
def test_a_test_that_never_ends_counts_as_one_that_notices_and_leaves_no_process(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab.root / "module.py").write_text(ENDLESS)
    left = lab.root / "left"
    (lab.root / "test_module.py").write_text(
        f"from module import *\ndef test_it():\n    leave(__import__('pathlib').Path({str(left)!r}))\n"
        "    assert wait(2) is False\n"
    )
    record = Record({"test_module.py::test_it": 0.1}, {"module.py:3": {"test_module.py::test_it"}})
    changes = {mutant.before: mutant for mutant in find_mutants("module.py", ENDLESS)}
    lab.check([changes["x > 1"]], record)
    for name, kind in (("_PROCESSOR_SECONDS", "x > 5"), ("_CLOCK_SECONDS", "x > 1")):
        with monkeypatch.context() as patched:
            patched.setattr(mutants, name, 3.0)
            mutant = changes[kind]
            change = Mutant(**{**asdict(mutant), "after": f"(not ({kind}))"})
            outcome = try_mutants(lab, record, [change], 600)
        assert (outcome.noticed, outcome.survived) == (1, []) and outcome.out_of_time == [str(change)]
        assert "noticed by what ran out of time" in capsys.readouterr().out
        with pytest.raises(ProcessLookupError):
            os.kill(int(left.read_text()), 0)
