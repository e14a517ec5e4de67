"""An engine does the work that it is given, in place or elsewhere, and brings back what came of it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ares.errors import MediaError, RequestError, SourceError
from ares.jobs.engine import Engine, Hired, Local, at_work, open_engine

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


@pytest.fixture(scope="module", autouse=True)
def travelling(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions travel whole."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Iterator[Engine]:
    from ares.jobs.ray import Ray

    with at_work(Ray(workers=2)) as engine:
        yield engine


def double(batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def whose(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def errors(batch: Sequence[int]) -> list[SourceError]:
    return [SourceError("number is odd", str(number)) for number in batch]


def breaks(batch: Sequence[int]) -> list[int]:
    return [1 // number for number in batch]


def test_both_engines_give_the_same_in_order(engine: Engine) -> None:
    numbers = list(range(50))
    local = Local().hire(double, workers=3, lost=SourceError)
    hired = engine.hire(double, workers=3, lost=SourceError)
    assert hired.run(numbers) == local.run(numbers) == [2 * number for number in numbers]
    assert (local.workers, hired.workers) == (3, 2)


def test_the_work_is_built_where_it_is_done(engine: Engine) -> None:
    lock = threading.Lock()  # holds what cannot be sent

    def here(batch: Sequence[int]) -> list[int]:
        with lock:
            return whose(batch)

    def build() -> Any:
        return whose

    (there,) = engine.hire(here, workers=1, lost=SourceError, build=build).run([1])
    assert there != os.getpid() == Local().hire(here, workers=1, lost=SourceError, build=build).run([1])[0]


def test_an_error_that_is_a_result_comes_back_whole(engine: Engine) -> None:
    hired: Hired[int, SourceError] = engine.hire(errors, workers=1, lost=MediaError)
    (error,) = hired.run([3])
    assert type(error) is SourceError
    assert (error.reason, error.detail, str(error)) == ("number is odd", "3", "number is odd: 3")


def test_a_bug_is_raised_as_itself_with_the_traceback_of_the_worker(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        engine.hire(breaks, workers=1, lost=SourceError).run([0])
    assert type(caught.value) is ZeroDivisionError
    assert "in breaks" in "".join(caught.value.__notes__)


def test_calls_that_wait_for_a_server_share_one_process(engine: Engine) -> None:
    def waits(batch: Sequence[int]) -> list[int]:
        time.sleep(0.3)
        return whose(batch)

    hired = engine.hire(waits, workers=8, lost=SourceError, together=True)
    assert hired.workers == 8
    (first,) = hired.run([0])
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.extend(hired.run([0]))) for _ in range(8)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first] * 8
    assert time.monotonic() - started < 2.0


def test_what_is_kept_is_there_for_all_until_its_keeper_dies(engine: Engine) -> None:
    keep = engine.keep

    def keeps(batch: Sequence[int]) -> list[Any]:
        return [keep([number] * 200_000) for number in batch]

    def reads(batch: Sequence[Any]) -> list[Any]:
        return [(fetch() or [None])[0] for fetch in batch]

    keepers: Hired[int, Any] = engine.hire(keeps, workers=1, lost=SourceError)
    hands: list[Any] = list(keepers.run([7]))
    assert engine.hire(reads, workers=1, lost=SourceError).run(hands) == [7]
    engine.dismiss()
    deadline = time.monotonic() + 20
    while hands[0]() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert Local().keep(7)() == 7


def test_a_relative_path_means_the_same_on_a_worker(engine: Engine) -> None:
    def folder(batch: Sequence[int]) -> list[Path]:
        return [Path.cwd()]

    assert engine.hire(folder, workers=1, lost=SourceError).run([0]) == [Path.cwd()]


def test_what_cannot_be_had_is_said_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="no engine 'slurm': there are: local, ray"), open_engine("slurm"):
        pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r"pip install 'ares-curation\[ray\]'"), open_engine("ray"):
        pass


def test_a_cluster_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", closed)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(RequestError, match=f"reached: RAY_ADDRESS '{closed}'"), open_engine("ray"):
        pass


def test_a_cluster_without_room_is_no_endless_wait(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.jobs.ray._START_SECONDS", 0.5)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 4.0, "GPU": 1.0})
    with pytest.raises(RequestError, match="gave no worker within 0 s"):
        engine.hire(double, workers=1, lost=SourceError, gpu=1.0).run([1])
