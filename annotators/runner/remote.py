"""How a run uses other processes: workers of an engine that keep vectors, and local replicas."""

from __future__ import annotations

import copy
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.base import (
    CameraSeconds,
    Factory,
    Frames,
    FrameVectors,
    Options,
    Outcome,
    PaidFailure,
    Result,
    Work,
    find_outcome_cost,
)
from annotators.runner.annotator_run import read_signals
from annotators.runner.fault_isolation import GuardedAnnotator, make_guarded_annotator
from ares.console import count_of, print_message
from ares.errors import AresError, MediaError, ModelError, RequestError, StoreError
from ares.jobs import (
    BatchFunction,
    Engine,
    InlinePool,
    KeptValue,
    PoolRequest,
    ReplicaPool,
    ValueHolder,
    WorkerNeeds,
    WorkerPool,
    available_cores,
    machine_memory,
    make_concurrency_getter,
)
from ares.process_tuning import fast_slots_pickling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores, UncommittedVectors


# Vectors that are lost so often with the machines that hold them are made no more.
_MOST_LOSSES = 10


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteResult(Result):
    """A result whose vectors stay on a worker until they are written.

    Attributes:
        kept: The vectors, on the worker.
        vector_count: How many vectors it has.
        work: The work that it is of, with frames that are not decoded.
        workers: The workers that can write its vectors.
    """

    kept: KeptValue
    vector_count: int
    work: Work | None = None
    workers: AnnotatorWorkers | None = None


@dataclass(frozen=True, slots=True)
class VectorWriteRequest:
    """Vectors of results, for a worker to write."""

    kept: Sequence[KeptValue]


@dataclass(frozen=True, slots=True)
class VectorWriteReply:
    """What a worker has written.

    Attributes:
        fragments: The files, by space.
        lost: Positions in the request of results whose vectors are lost.
    """

    fragments: Mapping[str, UncommittedVectors]
    lost: Sequence[int]


@dataclass(frozen=True, slots=True)
class UncommittedResultVectors:
    """Vectors of results, in files that belong to no version yet.

    Attributes:
        results: The results, with the cost of what had to be made again.
        failures: Errors of those whose vectors were lost and could not be made again, by number of the result.
        fragments: The files, by space.
    """

    results: Sequence[Result]
    failures: Mapping[int, AresError]
    fragments: Mapping[str, Sequence[UncommittedVectors]]


def process_on_worker(
    annotator: GuardedAnnotator, stores: Stores, keeper: ValueHolder, batch: Sequence[Any]
) -> Sequence[Any]:
    """What a worker does: annotate works, whose signals it reads itself, or write vectors that workers have kept.

    Args:
        annotator: The annotator of the worker.
        stores: Stores of the workspace, opened there.
        keeper: Keeps vectors until a worker writes them.
        batch: Works, or requests.

    Returns:
        An outcome per work, without vectors, or a reply per request.
    """
    if isinstance(batch[0], VectorWriteRequest):
        return [_write_vectors(stores, keeper, request) for request in batch]
    works = _with_signals(stores, batch) if annotator.needs_signals else batch
    return _keep_vectors(annotator.process(works), annotator.space, keeper)


@dataclass(frozen=True, slots=True)
class AnnotatorWorkers:
    """The workers of one annotator.

    Attributes:
        pool: Runs `process_on_worker`.
        batch_size: Most works in one call.
    """

    pool: WorkerPool[Any, Any]
    batch_size: int

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One outcome per work, in order; vectors stay on the worker."""
        outcomes = self.pool.map(works)
        return [self._attach(outcome, work) for outcome, work in zip(outcomes, works, strict=True)]

    def _attach(self, outcome: Outcome, work: Work) -> Outcome:
        if not isinstance(outcome, RemoteResult):
            return outcome
        return replace(outcome, workers=self, work=replace(work, frames=work.frames.undecoded()))

    def write(self, results: Sequence[RemoteResult]) -> UncommittedResultVectors:
        """Have vectors written by a worker; those that are lost with a machine are made again.

        Raises:
            StoreError: They cannot be written.
        """
        current: dict[int, RemoteResult] = dict(enumerate(results))
        failures: dict[int, AresError] = {}
        fragments: dict[str, list[UncommittedVectors]] = {}
        waiting = list(current)
        for _ in range(_MOST_LOSSES):
            reply = self._request([current[number].kept for number in waiting])
            for space, written in reply.fragments.items():
                fragments.setdefault(space, []).append(written)
            lost = [waiting[position] for position in reply.lost]
            waiting = self._make_again(lost, current, failures)
            if not waiting:
                return UncommittedResultVectors(list(current.values()), failures, fragments)
        raise StoreError(f"vectors were lost {_MOST_LOSSES} times with the machines that held them")

    def _request(self, kept: Sequence[KeptValue]) -> VectorWriteReply:
        (reply,) = self.pool.map([VectorWriteRequest(kept)])
        if isinstance(reply, AresError):
            raise StoreError(f"vectors cannot be written by a worker: {reply.reason}", reply.detail)
        answer: VectorWriteReply = reply
        return answer

    def _make_again(
        self, lost: Sequence[int], current: dict[int, RemoteResult], failures: dict[int, AresError]
    ) -> list[int]:
        """Work again on results that have lost their vectors; returns those that have vectors to write now."""
        works = [(number, work) for number in lost if (work := current[number].work)]
        for start in range(0, len(works), self.batch_size):
            chunk = works[start : start + self.batch_size]
            for (number, _), outcome in zip(chunk, self.process([work for _, work in chunk]), strict=True):
                current[number] = _after_attempt(current[number], outcome)
                if not isinstance(outcome, RemoteResult):
                    failures[number] = _second_attempt_error(outcome)
        return [number for number in lost if number not in failures]


def _after_attempt(result: RemoteResult, outcome: Outcome) -> RemoteResult:
    """The result with the vectors of another attempt, if it has any, and what both have cost."""
    result = replace(result, paid=result.cost + find_outcome_cost(outcome))
    if not isinstance(outcome, RemoteResult):
        return result
    return replace(result, kept=outcome.kept)


def _second_attempt_error(outcome: Outcome) -> AresError:
    if isinstance(outcome, Result):
        return ModelError("vectors were lost with a worker, and another attempt gave none")
    return outcome.error if isinstance(outcome, PaidFailure) else outcome


def _with_signals(stores: Stores, works: Sequence[Work]) -> list[Work]:
    signals = read_signals(stores, [work.episode.episode_id for work in works])
    return [replace(work, trajectory=signals.get(work.episode.episode_id)) for work in works]


def _keep_vectors(outcomes: Sequence[Outcome], space: str, keeper: ValueHolder) -> list[Outcome]:
    """The outcomes without their vectors, each with its space, which are kept here until a worker fetches them."""
    results = {
        index: outcome
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, Result) and outcome.vectors
    }
    if not results:
        return list(outcomes)
    vectors = [
        [replace(rows, space=rows.space or space) for rows in result.vectors] for result in results.values()
    ]
    kept = dict(zip(results, keeper.keep(vectors), strict=True))
    return [
        _without_vectors(results[index], kept[index]) if index in kept else outcome
        for index, outcome in enumerate(outcomes)
    ]


def _without_vectors(result: Result, kept: KeptValue) -> RemoteResult:
    return RemoteResult(
        annotations=result.annotations,
        paid=result.paid,
        kept=kept,
        vector_count=sum(len(rows.seconds) for rows in result.vectors),
    )


def _write_vectors(stores: Stores, keeper: ValueHolder, request: VectorWriteRequest) -> VectorWriteReply:
    spaces: dict[str, list[FrameVectors]] = {}
    vectors = keeper.fetch(request.kept)
    for rows in (rows for result in vectors if result is not None for rows in result):
        spaces.setdefault(rows.space, []).append(rows)
    fragments = {space: stores.tables.vectors(space).write_fragments(rows) for space, rows in spaces.items()}
    # Only now: a worker that dies before has its work done by another, which fetches them again.
    keeper.forget(request.kept)
    return VectorWriteReply(
        fragments, [position for position, result in enumerate(vectors) if result is None]
    )


def make_replica_options(name: str, options: Options, needs: WorkerNeeds) -> list[Options]:
    """The options of each process beside this one; GPUs are taken in turn, and results do not depend on their number.

    Args:
        name: The annotator, for messages.
        options: Options of the run. Without a device all GPUs are used, by as many workers as have room in them.
        needs: What one worker takes.
    """
    gpus = 0 if options.device else _count_gpus(needs)
    per_gpu = max(1, int(1 / needs.gpus)) if needs.gpus else 1
    requested = options.compute.workers or gpus * per_gpu or 1
    count = min(requested, _count_room(needs, gpus * per_gpu))
    if count < requested:
        print_message(
            f"annotate {name}: {count} of {count_of(requested, 'worker')}, as no more have room on this machine"
        )
    devices = [f"cuda:{number // per_gpu}" if gpus else options.device for number in range(1, count)]
    return [replace(options, device=device) for device in devices]


# Threads of torch before the first `limit_torch_threads` of a run.
_threads_before: list[int] = []


def limit_torch_threads(workers: int) -> None:
    """Give the arithmetic of torch, where a model has loaded it, the share of the cores of one of so many workers.

    It never gets more threads than it had: a person may have set OMP_NUM_THREADS.
    """
    threads = max(1, available_cores() // workers)
    if torch := sys.modules.get("torch"):
        _threads_before.append(torch.get_num_threads())
        torch.set_num_threads(min(threads, _threads_before[0]))


@contextmanager
def restore_torch_threads() -> Iterator[None]:
    """Give the calling process its threads of torch back after the block, whatever `limit_torch_threads` took."""
    try:
        yield
    finally:
        if _threads_before:
            sys.modules["torch"].set_num_threads(_threads_before[0])
            _threads_before.clear()


def _count_gpus(needs: WorkerNeeds) -> int:
    """GPUs for a model; where torch is not loaded, nothing has loaded a model that could use them."""
    torch = sys.modules.get("torch")
    return torch.cuda.device_count() if needs.gpus and torch and torch.cuda.is_available() else 0


def _count_room(needs: WorkerNeeds, room_on_gpus: int) -> int:
    """Workers that this machine has room for, at least 1; the first has taken its memory already."""
    rooms = [room_on_gpus] if room_on_gpus else []
    if needs.cpus:
        rooms.append(int(available_cores() / needs.cpus))
    if needs.memory_bytes and machine_memory().total_bytes:
        rooms.append(1 + machine_memory().free_bytes // needs.memory_bytes)
    return max(1, min(rooms, default=1))


BuildAnnotator = Callable[[Options], "tuple[GuardedAnnotator, Stores]"]
PutFrames = Callable[[Frames], Callable[[], Frames | None]]


def run_annotator_on_engine(
    engine: Engine, label: str, factory: Factory, options: Options, stores: Stores, num_annotators: int
) -> GuardedAnnotator:
    """An annotator whose `process` runs on an engine; its frames, costs and maker are determined here.

    Args:
        engine: Runs the calls.
        label: How messages name the annotator.
        factory: Makes the annotator, here and again on every worker.
        options: Models, device, and values of the annotator's own options; they travel to the workers.
        stores: Stores of the workspace.
        num_annotators: How many share the machines, beside the decoding of frames.

    Raises:
        PluginError: The factory raised an exception, or returned something that cannot be run.
        AresError: What the factory raised to be read.
    """
    annotator = make_guarded_annotator(label, factory, options, stores)
    is_shared = annotator.workers > 1
    needs = options.compute.overrule(annotator.needs)
    build = partial(
        _build_annotator, label, factory, stores.location, socket.gethostname(), annotator.maker.maker_id
    )
    replicas = partial(_replica_builds, build, annotator.maker.annotator, options, needs)
    pool: WorkerPool[Any, Any] = engine.pool(
        PoolRequest(
            annotator.process,
            max_workers=annotator.workers,
            on_worker_death=ModelError,
            build=partial(_build_process, build, engine.keeper, options),
            shared_worker=is_shared,
            needs=replace(needs, gpus=0.0) if options.device == "cpu" else needs,
            share=1 / (num_annotators + 1),
            gpu_share=1 / num_annotators,
            most_workers=options.compute.workers,
            replicas=None if is_shared else replicas,
        )
    )
    # Another process has copies of the budget and of the model: its calls are charged here, work by work, and what its
    # server can do is known only there.
    is_inline = isinstance(pool, InlinePool)
    is_here = isinstance(pool, InlinePool | ReplicaPool)
    workers = AnnotatorWorkers(pool, annotator.batch_size)
    return replace(
        annotator,
        process=pool.map if is_here else workers.process,
        needs_signals=annotator.needs_signals and is_here,
        workers=pool.most_workers,
        call_limit=annotator.call_limit if is_inline else make_concurrency_getter(pool),
        charges_budget=annotator.charges_budget and is_inline,
    )


def _replica_builds(
    build: BuildAnnotator, name: str, options: Options, needs: WorkerNeeds
) -> list[Callable[[], BatchFunction[Any, Any]]]:
    """Builders of an annotator for further processes of this machine, with which this one shares its cores."""
    others = make_replica_options(name, options, needs)
    if others:
        limit_torch_threads(len(others) + 1)
    return [partial(_build_replica, build, other, len(others) + 1) for other in others]


def _build_process(build: BuildAnnotator, keeper: ValueHolder, options: Options) -> BatchFunction[Any, Any]:
    """What a worker of a cluster does; see `process_on_worker`."""
    annotator, stores = build(options)
    return partial(process_on_worker, annotator, stores, keeper)


def _build_replica(build: BuildAnnotator, options: Options, workers: int) -> BatchFunction[Any, Any]:
    """The `process` of an annotator in a process of this machine, of which so many share the cores."""
    annotator, _ = build(options)
    limit_torch_threads(workers)
    return annotator.process


def _build_annotator(
    label: str, factory: Factory, folder: str, host: str, maker_id: str, options: Options
) -> tuple[GuardedAnnotator, Stores]:
    from ares.store import open_stores, workspace_exists

    worker_host = socket.gethostname()
    if not workspace_exists(folder):
        raise RequestError(
            "a worker does not see the workspace", f"no {folder} on {worker_host}; share the folder"
        )
    if worker_host != host and (Path(folder) / "annotations.sqlite").exists():
        # SQLite's log is shared memory: through a network file system it is damaged.
        raise RequestError(
            "a cluster of several machines needs annotations in MongoDB",
            f"{folder} keeps them in SQLite, and {worker_host} is not {host}; make a workspace with ARES_MONGO_URI",
        )
    stores = open_stores(folder, options.settings, compare=False)
    annotator = make_guarded_annotator(label, factory, options, stores)
    if annotator.maker.maker_id != maker_id:
        raise RequestError(
            "a worker loads another model than this machine",
            f"{annotator.maker.model!r} on {worker_host}; the same device and files must be on both (--device)",
        )
    return annotator, stores


def open_decoder_pool(engine: Engine, readers: int, num_annotators: int) -> WorkerPool[Frames, Frames]:
    """A pool of workers that decode frames for so many annotators."""
    return engine.pool(
        PoolRequest(
            _decode_batch,
            max_workers=readers,
            on_worker_death=MediaError,
            build=partial(_build_decoder, engine.put),
            share=1 / (num_annotators + 1),
        )
    )


def make_failing_frames(frames: Frames, error: AresError) -> Frames:
    """Frames that raise the error of their decoding when they are read."""
    return RemoteFrames(frames, partial(_raise_error, error))


def _decode_batch(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
    for frames in batch:
        frames.decode()
    return batch


def _build_decoder(put: PutFrames) -> BatchFunction[Frames, Frames]:
    """A function that decodes on a worker and leaves the pixels there: only a reference goes back to the driver."""

    def decode(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
        references: list[Frames | AresError] = []
        for frames in batch:
            undecoded = copy.deepcopy(frames)
            frames.decode()
            references.append(RemoteFrames(undecoded, put(frames)))
        return references

    return decode


def _raise_error(error: AresError) -> Frames | None:
    raise error


class RemoteFrames(Frames):
    """Frames whose pixels stay on a worker until an annotator reads them.

    Args:
        frames: The same frames, not decoded.
        fetch: Returns them decoded, or None when they are lost; then they are decoded again.
    """

    def __init__(self, frames: Frames, fetch: Callable[[], Frames | None]) -> None:
        self._frames, self._fetch = frames, fetch
        self._local: Frames | None = None

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    def undecoded(self) -> Frames:
        """The same frames, not decoded."""
        return self._frames.undecoded()

    def elsewhere(self, request: CameraSeconds) -> Frames:
        """As `Frames.elsewhere`."""
        return self._frames.elsewhere(request)

    def decode(self) -> None:
        """Fetch the pixels. Raises MediaError."""
        self._local = self._fetch()
        if self._local is None:
            self._frames.decode()
            self._local = self._frames

    def release(self) -> None:
        """Forget the pixels; frames that are read again are fetched again."""
        self._local = None
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`."""
        if self._local is None:
            self.decode()
        assert self._local is not None
        return self._local.at(camera, seconds)
