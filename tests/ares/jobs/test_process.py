"""Work in processes of this machine: the same results, errors as themselves, deaths that cost one item, no orphans."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ares.errors import RequestError, SourceError
from ares.jobs.engine import Hired, Local, at_work
from ares.jobs.pace import Pace

# A parent whose worker has begun an endless batch; it says who they are.
PARENT = """
import signal, sys
from ares.errors import SourceError
from ares.jobs.engine import Local
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what they run in the background
sys.path.insert(0, sys.argv[1])
from test_process import says_and_sleeps
hired = Local().hire(says_and_sleeps, workers=1, lost=SourceError, patience_seconds=0.0)
hired.run([sys.argv[2]])
"""


def double(batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def whose(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def breaks(batch: Sequence[int]) -> list[int]:
    return [1 // number for number in batch]


def five_kills(batch: Sequence[int]) -> list[int]:
    if 5 in batch:
        os.kill(os.getpid(), signal.SIGSEGV)
    return list(batch)


def no_start() -> Callable[[Sequence[int]], list[int]]:
    os._exit(3)


def no_work() -> Callable[[Sequence[int]], list[int]]:
    raise ValueError("nothing to work with")


def says_and_sleeps(batch: Sequence[str]) -> list[str]:
    Path(batch[0]).write_text(str(os.getpid()))
    time.sleep(600)
    return []


def test_the_results_are_the_same_and_made_elsewhere() -> None:
    with at_work(Local()) as engine:
        assert engine.hire(double, workers=2, lost=SourceError, patience_seconds=0.0).run([1, 2]) == [2, 4]
        (there,) = engine.hire(whose, workers=2, lost=SourceError, patience_seconds=0.0).run([1])
        assert there != os.getpid()


def test_what_takes_a_moment_only_is_done_in_place() -> None:
    with at_work(Local()) as engine:
        hired = engine.hire(whose, workers=2, lost=SourceError, patience_seconds=60.0)
        assert hired.run([1, 2]) == [os.getpid()] * 2


def test_what_only_the_caller_knows_is_done_in_place() -> None:
    with at_work(Local()) as engine:
        hired: Hired[int, int] = engine.hire(
            lambda batch: whose(batch), workers=1, lost=SourceError, patience_seconds=0.0
        )
        assert hired.run([1]) == [os.getpid()]


def test_an_item_that_kills_its_worker_costs_only_itself() -> None:
    with at_work(Local()) as engine:
        found = engine.hire(five_kills, workers=1, lost=SourceError, patience_seconds=0.0).run([3, 4, 5, 6])
    assert [each for each in found if not isinstance(each, SourceError)] == [3, 4, 6]
    assert str(found[2]) == "the worker died twice: signal SIGSEGV"


def test_a_bug_is_raised_as_itself_with_the_traceback_of_the_worker() -> None:
    with at_work(Local()) as engine:
        with pytest.raises(ZeroDivisionError) as caught:
            engine.hire(breaks, workers=1, lost=SourceError, patience_seconds=0.0).run([0])
        assert "in breaks" in "".join(caught.value.__notes__)
        with pytest.raises(ValueError, match="nothing to work with"):
            engine.hire(double, workers=1, lost=SourceError, build=no_work, patience_seconds=0.0).run([0])


def test_a_worker_that_cannot_start_is_one_error_not_one_for_each_item() -> None:
    with at_work(Local()) as engine:
        hired = engine.hire(double, workers=1, lost=SourceError, build=no_start, patience_seconds=0.0)
        with pytest.raises(RequestError, match="cannot start: exit status 3"):
            hired.run([1, 2, 3])


@pytest.mark.parametrize(
    ("interpreter", "told"),
    [("/nowhere/python", "No such file or directory"), ("/bin/false", "exit status 1")],
)
def test_an_interpreter_that_cannot_be_run_is_one_error_too(
    monkeypatch: pytest.MonkeyPatch, interpreter: str, told: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    with at_work(Local()) as engine:
        hired = engine.hire(double, workers=2, lost=SourceError, patience_seconds=0.0)
        with pytest.raises(RequestError, match=f"a worker process cannot start: .*{told}"):
            hired.begin()
            hired.run([1, 2, 3])


def test_workers_that_are_started_early_do_the_work() -> None:
    with at_work(Local()) as engine:
        hired = engine.hire(whose, workers=2, lost=SourceError, patience_seconds=60.0)
        hired.begin()
        deadline = time.monotonic() + 20
        while hired.run([1]) == [os.getpid()]:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_with_its_parent_in_the_middle_of_its_work(
    tmp_path: Path, ended: signal.Signals
) -> None:
    told = tmp_path / "pid"
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(told)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        worker = int(_soon(lambda: told.exists() and told.read_text()))
        parent.send_signal(ended)
        parent.wait(20)
    _soon(lambda: not Path(f"/proc/{worker}").exists() or _is_dead(worker))


def _is_dead(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _soon(told: Callable[[], str | bool]) -> str:
    deadline = time.monotonic() + 20
    while not (answer := told()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return str(answer)


def test_batches_grow_to_what_can_be_done_in_the_time() -> None:
    pace = Pace(1.0, most=8)
    sizes = []
    for batch in pace.batches(range(100)):
        sizes.append(len(batch))
        pace.took(len(batch), 0.3 * len(batch))
    assert sizes[:4] == [1, 2, 3, 3] and sum(sizes) == 100
    quick = Pace(1.0, most=8)
    taken = functools.partial(quick.took, seconds=0.001)
    assert max(len(batch) for batch in quick.batches(range(100)) if taken(len(batch)) is None) == 8
