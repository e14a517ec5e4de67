"""A pipeline of stages, each with its own threads and batch size, connected by bounded queues.

Reading, a model and writing overlap; memory is bounded by the queues; an unexpected exception in any
stage stops all of them and is raised to the caller.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures._base import DoneAndNotDoneFutures

    from ares.jobs.engine import WorkerPool


T = TypeVar("T")

_POLL_SECONDS = 0.1
# A batch that does not fill is sent on after this long, so that a slow stage behind it does not starve.
_LINGER_SECONDS = 0.5
# Longer before calls of a server, some of which a full batch saves.
_DISPATCH_LINGER_SECONDS = 2.0
_SINK_BATCH_SIZE = 64
_DISPATCH_QUEUE = 32
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
        active_limit: Calls at the same time now, where that changes; threads are then started as they are needed.
    """

    name: str
    run: Callable[[list[T]], None]
    batch_size: int = 1
    workers: int = 1
    active_limit: Callable[[], int] | None = None


class _EndOfItems:
    """The last element of a queue."""


class _PipelineStopped(Exception):
    """Another stage has failed; the thread ends without an error of its own."""


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
    on_end: Callable[[], None] | None = None,
) -> None:
    """Send every item through all stages in turn, then to `sink`, which runs in the caller's thread.

    The order of items is not kept; `sink` gets up to `sink_batch_size` items at once. `on_end` is called when all items
    are done or something has failed, before the calls that still run are waited for; after KeyboardInterrupt they are
    waited for a few seconds only. Raises whatever `items`, a stage or `sink` raised.
    """
    patience: float | None = None
    sink_batch_size = sink_batch_size or _SINK_BATCH_SIZE
    threads = _StageThreads()
    sizes = [_queue_size(stage) for stage in stages]
    queues = [_StageQueue[T](size, threads.stop) for size in [*sizes, sink_batch_size]]
    threads.start("items", lambda: _feed_items(items, queues[0]))
    for stage, inputs, outputs in zip(stages, queues, queues[1:], strict=False):
        if stage.active_limit:
            threads.start(stage.name, partial(_dispatch_batches, stage, stage.active_limit, inputs, outputs))
            continue
        countdown = _WorkerCountdown(stage.workers)
        for number in range(stage.workers):
            threads.start(f"{stage.name}-{number}", _stage_loop(stage, inputs, outputs, countdown))
    try:
        _drain_to_sink(queues[-1], sink, sink_batch_size)
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
    """Items that wait for a stage; where its threads are started as needed, only enough that none of them waits."""
    return _DISPATCH_QUEUE if stage.active_limit else max(4, 2 * stage.batch_size * stage.workers)


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
        self._threads.append(thread)
        thread.start()

    def stop_and_join(self, patience: float | None) -> None:
        """Stop all threads, and wait for them; with patience only for so many seconds."""
        self.stop.set()
        deadline = None if patience is None else time.monotonic() + patience
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


class _WorkerCountdown:
    """Counts the workers of a stage that finish; the last one ends the next queue."""

    def __init__(self, workers: int) -> None:
        self._running = workers
        self._lock = threading.Lock()

    def is_last(self) -> bool:
        with self._lock:
            self._running -= 1
            return self._running == 0


def _feed_items(items: Iterable[T], outputs: _StageQueue[T]) -> None:
    for item in items:
        outputs.put(item)
    outputs.put(_EndOfItems())


def _stage_loop(
    stage: PipelineStage[T], inputs: _StageQueue[T], outputs: _StageQueue[T], countdown: _WorkerCountdown
) -> Callable[[], None]:
    def loop() -> None:
        ended = False
        while not ended:
            batch, ended = inputs.get_batch(stage.batch_size)
            if batch:
                stage.run(batch)
            for item in batch:
                outputs.put(item)
        if countdown.is_last():
            outputs.put(_EndOfItems())

    return loop


def _dispatch_batches(
    stage: PipelineStage[T],
    active_limit: Callable[[], int],
    inputs: _StageQueue[T],
    outputs: _StageQueue[T],
) -> None:
    """Run a stage in as many threads as its limit allows at every moment."""
    calls: set[Future[None]] = set()

    def call(batch: list[T]) -> None:
        stage.run(batch)
        for item in batch:
            outputs.put(item)

    with ThreadPoolExecutor(stage.workers, thread_name_prefix=f"pipeline-{stage.name}") as executor:
        ended = False
        while not ended:
            batch, ended = inputs.get_batch(stage.batch_size, _DISPATCH_LINGER_SECONDS)
            while len(calls) >= max(1, min(active_limit(), stage.workers)):
                calls = _raise_first_error(wait(calls, _POLL_SECONDS, FIRST_COMPLETED))
            if batch:
                calls.add(executor.submit(call, batch))
        _raise_first_error(wait(calls))
    outputs.put(_EndOfItems())


def _raise_first_error(calls: DoneAndNotDoneFutures[None]) -> set[Future[None]]:
    """The calls that still run. Raises what one that has ended raised."""
    for call in calls.done:
        call.result()
    return calls.not_done


def _drain_to_sink(inputs: _StageQueue[T], sink: Callable[[list[T]], None], size: int) -> None:
    ended = False
    while not ended:
        batch, ended = inputs.get_batch(size)
        if batch:
            sink(batch)


def make_concurrency_getter(pool: WorkerPool[Any, Any]) -> Callable[[], int] | None:
    """Calls of `map` that can run at the same time now; None where that never changes."""
    return None if pool.most_workers == pool.max_workers else lambda: pool.max_workers
