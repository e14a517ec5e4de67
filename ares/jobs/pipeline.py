"""A pipeline of stages, each with threads and a batch size, connected by bounded queues.

Reading, a model and writing overlap; memory is bounded by the queues; an unexpected exception in any
stage stops all of them and is raised to the caller.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ares.jobs.engine import WorkerPool


T = TypeVar("T")

_POLL_SECONDS = 0.1
# A batch that does not fill is sent on after this long, so that a slow stage behind it does not starve.
_LINGER_SECONDS = 0.5
# Longer before calls of a server, some of which a full batch saves.
_LIMITED_LINGER_SECONDS = 2.0
_SINK_BATCH_SIZE = 64
_LIMITED_QUEUE = 32
# How long a person who has stopped a job waits for the calls that run; what they would return is made again.
_STOP_SECONDS = 4.0


@dataclass(frozen=True)
class PipelineStage(Generic[T]):
    """One stage of a pipeline.

    Attributes:
        name: For thread names and messages.
        run: Works on a batch in place; expected failures are recorded on the items, never raised.
        batch_size: Most items of one call.
        workers: Threads that call `run` at the same time.
        active_limit: Calls at the same time now, where that changes.
    """

    name: str
    run: Callable[[list[T]], None]
    batch_size: int = 1
    workers: int = 1
    active_limit: Callable[[], int] | None = None


class _EndOfItems:
    """The last element of a queue."""


class _PipelineStopped(Exception):
    """Another stage has failed; the thread ends without another error."""


class _StageQueue(Generic[T]):
    """A bounded queue whose blocking calls end when the pipeline is stopped."""

    def __init__(self, size: int, stop: threading.Event) -> None:
        self._queue: queue.Queue[T | _EndOfItems] = queue.Queue(size)
        self._stop = stop

    def put(self, item: T | _EndOfItems) -> None:
        while not self._stop.is_set():
            try:
                return self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        raise _PipelineStopped

    def get(self) -> T | _EndOfItems:
        while not self._stop.is_set():
            try:
                return self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        raise _PipelineStopped

    def get_batch(self, size: int, linger_seconds: float = _LINGER_SECONDS) -> tuple[list[T], bool]:
        """Up to `size` items, and whether the end was reached (its element stays for the other threads)."""
        item = self.get()
        items: list[T] = []
        while True:
            if isinstance(item, _EndOfItems):
                self.put(item)
                return items, True
            items.append(item)
            if len(items) == size:
                return items, False
            try:
                item = self._queue.get(timeout=linger_seconds)
            except queue.Empty:
                return items, False


def run_pipeline(
    items: Iterable[T],
    stages: Sequence[PipelineStage[T]],
    sink: Callable[[list[T]], None],
    sink_batch_size: int | None = None,
    on_done: Callable[[], None] | None = None,
    on_end: Callable[[], None] | None = None,
) -> None:
    """Send every item through all stages in turn, then to `sink`, which runs in the caller's thread.

    The order of items is not kept; `sink` gets up to `sink_batch_size` items at once. `on_done` is called when all
    items are done and nothing has failed. `on_end` is called in any case, before the calls that still run are waited
    for; after KeyboardInterrupt they are waited for a few seconds only.

    Raises whatever `items`, a stage or `sink` raised.
    """
    patience: float | None = None
    sink_batch_size = sink_batch_size or _SINK_BATCH_SIZE
    threads = _StageThreads()
    sizes = [_queue_size(stage) for stage in stages]
    queues = [_StageQueue[T](size, threads.stop) for size in [*sizes, sink_batch_size]]
    try:
        threads.start("items", lambda: _feed_items(items, queues[0]))
        for stage, inputs, outputs in zip(stages, queues, queues[1:], strict=False):
            _StageLoop(stage, inputs, outputs, threads).start_thread()
        _drain_to_sink(queues[-1], sink, sink_batch_size)
        if on_done:
            on_done()
    except _PipelineStopped:
        pass
    except KeyboardInterrupt:
        patience = _STOP_SECONDS
        raise
    finally:
        if on_end:
            on_end()
        threads.stop_and_join(patience)
    if threads.errors:
        raise threads.errors[0]


def _queue_size(stage: PipelineStage[T]) -> int:
    """Items that wait for a stage; of one with very many threads only enough that none of them waits."""
    return _LIMITED_QUEUE if stage.active_limit else max(4, 2 * stage.batch_size * stage.workers)


class _StageThreads:
    """The threads of a pipeline; the first to fail stops them all."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, name: str, target: Callable[[], None]) -> None:
        def run_guarded() -> None:
            try:
                target()
            except _PipelineStopped:
                pass
            except BaseException as error:
                self.errors.append(error)
                self.stop.set()

        thread = threading.Thread(target=run_guarded, name=f"pipeline-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop_and_join(self, patience: float | None) -> None:
        """Stop all threads, and wait for them; with patience only for so many seconds."""
        self.stop.set()
        deadline = None if patience is None else time.monotonic() + patience
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


def _feed_items(items: Iterable[T], outputs: _StageQueue[T]) -> None:
    for item in items:
        outputs.put(item)
    outputs.put(_EndOfItems())


class _StageLoop(Generic[T]):
    """What every thread of a stage does until the items end; one thread at a time collects, so that batches fill.

    A thread that has a batch starts another one where all work: a stage of very many threads seldom needs them.
    """

    def __init__(
        self,
        stage: PipelineStage[T],
        inputs: _StageQueue[T],
        outputs: _StageQueue[T],
        threads: _StageThreads,
    ) -> None:
        self._stage, self._inputs, self._outputs, self._threads = stage, inputs, outputs, threads
        self._linger_seconds = _LIMITED_LINGER_SECONDS if stage.active_limit else _LINGER_SECONDS
        self._collecting, self._changed = threading.Lock(), threading.Condition()
        self._started = self._running = self._calls = 0

    def start_thread(self) -> None:
        """Start one more thread."""
        with self._changed:
            self._started += 1
            self._running += 1
        self._threads.start(f"{self._stage.name}-{self._started}", self._run)

    def _run(self) -> None:
        ended = False
        while not ended:
            with self._collecting:
                self._wait_for_turn()
                batch, ended = self._inputs.get_batch(self._stage.batch_size, self._linger_seconds)
                if not ended and self._calls == self._started < self._stage.workers:
                    self.start_thread()
            if batch:
                self._stage.run(batch)
            self._end_turn()
            for item in batch:
                self._outputs.put(item)
        with self._changed:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self._outputs.put(_EndOfItems())

    def _wait_for_turn(self) -> None:
        """Wait until one more call may run."""
        with self._changed:
            while self._stage.active_limit and self._calls >= max(1, self._stage.active_limit()):
                if self._threads.stop.is_set():
                    raise _PipelineStopped
                self._changed.wait(_POLL_SECONDS)
            self._calls += 1

    def _end_turn(self) -> None:
        with self._changed:
            self._calls -= 1
            self._changed.notify()


def _drain_to_sink(inputs: _StageQueue[T], sink: Callable[[list[T]], None], size: int) -> None:
    ended = False
    while not ended:
        batch, ended = inputs.get_batch(size)
        if batch:
            sink(batch)


def make_concurrency_getter(pool: WorkerPool[Any, Any]) -> Callable[[], int] | None:
    """Calls of `map` that can run at the same time now; None where that never changes."""
    return None if pool.most_workers == pool.max_workers else lambda: pool.max_workers
