"""Work on this machine: the same results here and in worker processes, deaths that cost one item, no orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError, SourceError
from ares.jobs import LocalEngine, PoolRequest, WorkerLimits, WorkerPool, engine_or_local, open_engine

# A parent whose worker has begun an endless batch; the worker writes its process id to a file.
PARENT = """
import signal, sys
from ares.errors import SourceError
from ares.jobs import LocalEngine, PoolRequest
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what they run in the background
sys.path.insert(0, sys.argv[1])
from test_local import writes_and_sleeps
work = PoolRequest(writes_and_sleeps, max_workers=1, on_worker_death=SourceError, start_after_seconds=0.0)
pool = LocalEngine().pool(work)
pool.map([sys.argv[2]])
"""

# A thread goes on once the main script has ended.
LATE = """
import sys, threading
from ares.errors import SourceError
from ares.jobs import LocalEngine, PoolRequest
sys.path.insert(0, sys.argv[1])
from test_local import double
def work():
    threading.main_thread().join()
    pool = LocalEngine().pool(
        PoolRequest(double, max_workers=1, on_worker_death=SourceError, start_after_seconds=0.0)
    )
    print(pool.map([1, 2]), flush=True)
threading.Thread(target=work).start()
"""


@pytest.fixture
def make_pool() -> Iterator[Callable[..., WorkerPool[Any, Any]]]:
    """Makes a pool of one worker process, which starts with the first batch and ends with the test."""
    with engine_or_local(LocalEngine()) as engine:

        def make(function: Any, **options: Any) -> WorkerPool[Any, Any]:
            defaults: dict[str, Any] = {
                "max_workers": 1,
                "on_worker_death": SourceError,
                "start_after_seconds": 0.0,
            }
            return engine.pool(PoolRequest(function, **(defaults | options)))

        yield make


MakePool = Callable[..., WorkerPool[Any, Any]]


def double(batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def process_ids(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def paths(batch: Sequence[int]) -> list[list[str]]:
    return [list(sys.path) for _ in batch]


def breaks(batch: Sequence[int]) -> list[int]:
    return [1 // number for number in batch]


def five_kills(batch: Sequence[int]) -> list[int]:
    if 5 in batch:
        os.kill(os.getpid(), signal.SIGSEGV)
    return list(batch)


def killed_three_times(folder: Path, batch: Sequence[int]) -> list[int]:
    for number in batch:
        marks = [folder / f"{number}.{death}" for death in range(3)]
        mark = next((mark for mark in marks if not mark.exists()), None)
        if mark:
            mark.touch()
        if mark or number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return double(batch)


def takes_memory_or_time(batch: Sequence[int]) -> list[int]:
    """Doubles numbers; 13 fills 600 MB, 14 sleeps for ten minutes."""
    if 13 in batch:
        data = bytearray(600 * 2**20)
        time.sleep(600)
        del data
    if 14 in batch:
        time.sleep(600)
    return double(batch)


def killed_at_start(folder: Path) -> Callable[[Sequence[int]], list[int]]:
    number = len(list(folder.iterdir()))
    (folder / str(number)).touch()
    if number < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return double


def no_start() -> Callable[[Sequence[int]], list[int]]:
    os._exit(3)


def no_work() -> Callable[[Sequence[int]], list[int]]:
    raise ValueError("nothing to work with")


def writes_and_sleeps(batch: Sequence[str]) -> list[str]:
    """Nothing else of Python runs in its process then."""
    Path(batch[0]).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)
    return []


def test_an_unknown_engine_is_an_error_that_lists_the_engines() -> None:
    with pytest.raises(RequestError, match="no engine 'slurm': there are: local, ray"), open_engine("slurm"):
        pass


def test_the_local_engine_runs_in_the_calling_thread() -> None:
    with open_engine("local") as engine:
        pool = engine.pool(PoolRequest(process_ids, max_workers=2, on_worker_death=SourceError))
        pool.start()
        assert pool.map([1, 2]) == [os.getpid()] * 2


def test_what_takes_a_moment_only_is_done_in_place(make_pool: MakePool) -> None:
    assert make_pool(process_ids, start_after_seconds=60.0).map([1, 2]) == [os.getpid()] * 2


def test_what_only_the_caller_knows_is_done_in_place(make_pool: MakePool) -> None:
    assert make_pool(lambda batch: process_ids(batch)).map([1]) == [os.getpid()]


def test_an_engine_makes_the_same_results_elsewhere_also_after_a_job() -> None:
    local = LocalEngine()
    for _ in range(2):
        with engine_or_local(local) as engine:
            request = PoolRequest(
                process_ids, max_workers=1, on_worker_death=SourceError, start_after_seconds=0.0
            )
            (worker,) = engine.pool(request).map([1])
            assert isinstance(worker, int) and worker != os.getpid()


def test_an_item_that_kills_its_worker_costs_only_itself(make_pool: MakePool) -> None:
    results = make_pool(five_kills).map([3, 4, 5, 6])
    assert [result for result in results if not isinstance(result, SourceError)] == [3, 4, 6]
    assert str(results[2]) == "its worker died every time: signal SIGSEGV, 2 times"


@pytest.mark.slow
def test_workers_that_others_kill_cost_no_item(make_pool: MakePool, tmp_path: Path) -> None:
    """Each of these items is being worked on at three deaths of a worker, and none is the cause."""
    pool = make_pool(partial(killed_three_times, tmp_path), max_workers=2)
    assert pool.map([1, 2, 3]) == [2, 4, 6]
    assert str(pool.map([-1])[0]) == "its worker died every time: signal SIGKILL, 5 times"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read from /proc")
@pytest.mark.parametrize(
    ("item", "seconds", "reason"),
    [
        (13, 600.0, "reading takes more memory than allowed"),
        (14, 3.0, "the record took too long to read"),
    ],
)
def test_an_item_beyond_the_limits_fails_and_the_others_do_not(
    make_pool: MakePool, item: int, seconds: float, reason: str
) -> None:
    limits = WorkerLimits(seconds=seconds, memory_bytes=200 * 2**20)
    pool = make_pool(takes_memory_or_time, limits=limits)
    first, failed, last = pool.map([1, item, 2])
    assert (first, last) == (2, 4)
    assert isinstance(failed, SourceError) and failed.reason == reason
    assert pool.map([3]) == [6]


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_is_replaced(make_pool: MakePool, tmp_path: Path) -> None:
    assert make_pool(double, build=partial(killed_at_start, tmp_path)).map([1, 2]) == [2, 4]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_a_bug_is_raised_as_itself_with_the_traceback_of_the_worker(make_pool: MakePool) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        make_pool(breaks).map([0])
    assert "in breaks" in "".join(caught.value.__notes__)
    with pytest.raises(ValueError, match="nothing to work with"):
        make_pool(double, build=no_work).map([0])


@pytest.mark.slow
def test_a_worker_that_cannot_start_is_one_error_not_one_for_each_item(make_pool: MakePool) -> None:
    with pytest.raises(RequestError, match="cannot start: exit status 3"):
        make_pool(double, build=no_start).map([1, 2, 3])


@pytest.mark.slow
def test_a_worker_that_cannot_start_at_first_is_started_again(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.jobs.worker_pool._START_PAUSE_SECONDS", 0.0)
    python, tries = tmp_path / "python", tmp_path / "tries"
    python.write_text(
        f'#!/bin/sh\necho >> {tries}\n[ $(wc -l < {tries}) -gt 2 ] || exit 1\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert make_pool(double).map([1, 2]) == [2, 4]
    assert len(tries.read_text().splitlines()) == 3


@pytest.mark.slow
def test_the_path_of_a_worker_is_neither_of_the_current_folder_nor_of_an_import_that_goes_on(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, package, added = tmp_path / "here", tmp_path / "cv2", tmp_path / "added"
    for folder in (here, package, added):
        folder.mkdir()
        if folder != added:  # as cv2 has a `typing` of its own, and stands on the path while it is imported
            (folder / "__init__.py").touch()
            for module in ("typing", "json", "sitecustomize", "numpy"):
                (folder / f"{module}.py").write_text("raise SystemExit('a file that is not of Python')")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", str(package), *sys.path, str(added), "."])
    (path,) = make_pool(paths).map([1])
    assert isinstance(path, list) and str(added) in path
    assert not {"", ".", str(here), str(package)} & set(path)


@pytest.mark.slow
def test_what_keeps_a_worker_from_starting_is_in_the_error(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.jobs.worker_pool._START_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("ares.jobs.worker_process.inherited_path", lambda: ["/nowhere"])
    message = r"^a worker process cannot start: ModuleNotFoundError: No module"
    with pytest.raises(RequestError, match=message):
        make_pool(double).map([1])


@pytest.mark.parametrize(
    ("interpreter", "message"),
    [("/nowhere/python", "No such file or directory"), ("/bin/false", "exit status 1")],
)
def test_an_interpreter_that_cannot_be_run_is_one_error_too(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, interpreter: str, message: str
) -> None:
    monkeypatch.setattr("ares.jobs.worker_pool._START_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "executable", interpreter)
    pool = make_pool(double, max_workers=2)
    with pytest.raises(RequestError, match=f"a worker process cannot start: .*{message}"):
        pool.start()
        pool.map([1, 2, 3])


@pytest.mark.slow
def test_workers_that_are_started_early_do_the_work(make_pool: MakePool) -> None:
    pool = make_pool(process_ids, start_after_seconds=60.0)
    pool.start()
    _wait_for(lambda: pool.map([1]) != [os.getpid()])


@pytest.mark.slow
@pytest.mark.parametrize("parent_signal", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_with_its_parent_in_the_middle_of_its_work(
    tmp_path: Path, parent_signal: signal.Signals
) -> None:
    pid_file = tmp_path / "pid"
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(pid_file)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        worker = int(_wait_for(lambda: pid_file.exists() and pid_file.read_text()))
        parent.send_signal(parent_signal)
        parent.wait(300)
    _wait_for(lambda: not Path(f"/proc/{worker}").exists() or _is_dead(worker))


@pytest.mark.slow
def test_a_thread_that_outlives_the_main_script_can_start_workers() -> None:
    command = [sys.executable, "-c", LATE, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("[2, 4]\n", "")


def _is_dead(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _wait_for(condition: Callable[[], str | bool]) -> str:
    deadline = time.monotonic() + 300
    while not (answer := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return str(answer)
