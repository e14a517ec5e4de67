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
_SINK_BATCH = 64


@dataclass(frozen=True)
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


def flow(
    items: Iterable[T],
    stages: Sequence[Stage[T]],
    sink: Callable[[list[T]], None],
    sink_batch: int | None = None,
) -> None:
    """Send every item through all stages in turn, then to `sink`, which runs in the caller's thread.

    The order of items is not kept, `sink` is given up to `sink_batch` at once. Raises whatever `items`, a stage or
    `sink` raised.
    """
    sink_batch = sink_batch or _SINK_BATCH
    crew = _Crew()
    sizes = [max(4, 2 * stage.batch * stage.workers) for stage in stages]
    lines = [_Line[T](size, crew.stop) for size in [*sizes, sink_batch]]
    crew.start("items", lambda: _feed(items, lines[0]))
    for stage, line, following in zip(stages, lines, lines[1:], strict=False):
        left = _Countdown(stage.workers)
        for number in range(stage.workers):
            crew.start(f"{stage.name}-{number}", _station(stage, line, following, left))
    try:
        _drain(lines[-1], sink, sink_batch)
    except _Stopped:
        pass
    finally:
        crew.dismiss()
    if crew.errors:
        raise crew.errors[0]


class _Crew:
    """The threads of a flow; the first to fail stops them all."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except _Stopped:
                pass
            except BaseException as error:
                self.errors.append(error)
                self.stop.set()

        thread = threading.Thread(target=guarded, name=f"flow-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def dismiss(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()


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


def _drain(line: _Line[T], sink: Callable[[list[T]], None], size: int) -> None:
    ended = False
    while not ended:
        batch, ended = line.batch(size)
        if batch:
            sink(batch)
