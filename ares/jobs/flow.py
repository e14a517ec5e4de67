"""Flow: items pass through stages, each with its own threads and batch size, over bounded queues.

Reading, a model and writing overlap; memory is bounded by the queues; an unexpected exception in any
stage stops all of them and is raised to the caller.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1
# A batch that does not fill is sent on after this long, so that a slow stage behind it does not starve.
_LINGER_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Stage(Generic[T]):
    """One station of a flow.

    Attributes:
        name: For thread names and messages.
        run: Works on a batch in place; expected failures are recorded on the items, never raised.
        batch: Most items handed to one call.
        workers: Threads that call `run` at the same time.
    """

    name: str
    run: Callable[[list[T]], None]
    batch: int = 1
    workers: int = 1


class _End:
    """Marks the end of a queue."""


class _Stopped(Exception):
    """Another stage has failed; leave quietly."""


class _Line(Generic[T]):
    """A bounded queue that gives way when the flow is stopped."""

    def __init__(self, size: int, stop: threading.Event) -> None:
        self._queue: queue.Queue[T | _End] = queue.Queue(size)
        self._stop = stop

    def put(self, item: T | _End) -> None:
        while not self._stop.is_set():
            try:
                return self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        raise _Stopped

    def get(self) -> T | _End:
        while not self._stop.is_set():
            try:
                return self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        raise _Stopped

    def batch(self, size: int) -> tuple[list[T], bool]:
        """Up to `size` items, and whether the end was reached (the end mark stays for the sibling threads)."""
        first = self.get()
        items: list[T] = []
        while True:
            if isinstance(first, _End):
                self.put(first)
                return items, True
            items.append(first)
            if len(items) == size:
                return items, False
            try:
                first = self._queue.get(timeout=_LINGER_SECONDS)
            except queue.Empty:
                return items, False


def flow(items: Iterable[T], stages: Sequence[Stage[T]], sink: Callable[[list[T]], None]) -> None:
    """Send every item through all stages in turn, then to `sink`, which runs in the caller's thread.

    The order of items is not kept. Raises whatever `items`, a stage or `sink` raised.
    """
    stop = threading.Event()
    errors: list[BaseException] = []
    lines = [_Line[T](max(4, 2 * stage.batch * stage.workers), stop) for stage in stages] + [_Line[T](64, stop)]

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except _Stopped:
                pass
            except BaseException as error:
                errors.append(error)
                stop.set()

        return run

    threads = [threading.Thread(target=guarded(lambda: _feed(items, lines[0])), name="flow-items", daemon=True)]
    for stage, line, following in zip(stages, lines, lines[1:], strict=False):
        left = _Countdown(stage.workers)
        for number in range(stage.workers):
            work = _station(stage, line, following, left)
            threads.append(threading.Thread(target=guarded(work), name=f"flow-{stage.name}-{number}", daemon=True))
    for thread in threads:
        thread.start()
    try:
        _drain(lines[-1], sink)
    except _Stopped:
        pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


class _Countdown:
    """The last worker of a stage to finish closes the next line."""

    def __init__(self, workers: int) -> None:
        self._left = workers
        self._lock = threading.Lock()

    def last(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left == 0


def _feed(items: Iterable[T], line: _Line[T]) -> None:
    for item in items:
        line.put(item)
    line.put(_End())


def _station(stage: Stage[T], line: _Line[T], following: _Line[T], left: _Countdown) -> Callable[[], None]:
    def work() -> None:
        ended = False
        while not ended:
            batch, ended = line.batch(stage.batch)
            if batch:
                stage.run(batch)
            for item in batch:
                following.put(item)
        if left.last():
            following.put(_End())

    return work


def _drain(line: _Line[T], sink: Callable[[list[T]], None]) -> None:
    ended = False
    while not ended:
        batch, ended = line.batch(64)
        if batch:
            sink(batch)
