"""How a run uses other processes: workers of an engine, and copies of a model on this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import count_of, print_message
from ares.errors import ModelError, RequestError
from ares.jobs import (
    BatchFunction,
    Engine,
    InlinePool,
    LocalEngine,
    PoolRequest,
    WorkerNeeds,
    WorkerPool,
    available_cores,
    machine_memory,
    make_concurrency_getter,
)
from ares_annotators.base import Factory, Options, Outcome, Work
from ares_annotators.runner.annotator_run import read_signals
from ares_annotators.runner.fault_isolation import GuardedAnnotator, make_guarded_annotator

if TYPE_CHECKING:
    from ares.store import Stores


def process_on_worker(
    annotator: GuardedAnnotator, stores: Stores, works: Sequence[Work]
) -> Sequence[Outcome]:
    """What a worker of a cluster does: annotate works, whose signals it reads itself.

    Args:
        annotator: The annotator of the worker.
        stores: Stores of the workspace, opened there.
        works: Works without signals.
    """
    if annotator.needs_signals:
        signals = read_signals(stores, [work.episode.episode_id for work in works])
        works = [replace(work, trajectory=signals.get(work.episode.episode_id)) for work in works]
    return annotator.process(works)


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


def connect_annotator(
    engine: Engine, label: str, factory: Factory, options: Options, stores: Stores, num_annotators: int
) -> GuardedAnnotator:
    """An annotator whose `process` sends works to an engine; its frames, costs and producer are determined here.

    See `GuardedAnnotator` for what is called there.

    Args:
        engine: Runs the calls.
        label: How messages name the annotator.
        factory: Makes the annotator, here and again on every worker.
        options: Models, device, and values of the annotator's options; they travel to the workers.
        stores: Stores of the workspace.
        num_annotators: How many share the machines, beside the decoding of frames.

    Raises:
        PluginError: The factory raised an exception, or returned something that cannot be run.
        AresError: What the factory raised to be read.
    """
    guarded = make_guarded_annotator(label, factory, options, stores)
    if guarded.workers > 1:  # its calls only wait for a server: no other process makes them faster
        return guarded
    needs = options.compute.overrule(guarded.needs)
    build = partial(
        _build_annotator, label, factory, stores.location, socket.gethostname(), guarded.producer.maker_id
    )
    pool: WorkerPool[Any, Any] = engine.pool(
        PoolRequest(
            guarded.process,
            max_workers=1,
            on_worker_death=ModelError,
            build=partial(_build_cluster_process, build, options),
            needs=replace(needs, gpus=0.0) if options.device == "cpu" else needs,
            share=1 / (num_annotators + 1),
            gpu_share=1 / num_annotators,
            most_workers=options.compute.workers,
            replicas=partial(_replica_builds, build, guarded.producer.annotator, options, needs),
        )
    )
    # Another process has copies of the budget and of the model: its calls are charged here, work by work.
    return replace(
        guarded,
        process=pool.map,
        needs_signals=guarded.needs_signals and isinstance(engine, LocalEngine),
        workers=pool.most_workers,
        call_limit=make_concurrency_getter(pool),
        charges_budget=guarded.charges_budget and isinstance(pool, InlinePool),
    )


def _replica_builds(
    build: BuildAnnotator, name: str, options: Options, needs: WorkerNeeds
) -> list[Callable[[], BatchFunction[Any, Any]]]:
    """Builders of an annotator for further processes of this machine, with which this one shares its cores."""
    others = make_replica_options(name, options, needs)
    if others:
        limit_torch_threads(len(others) + 1)
    return [partial(_build_replica_process, build, other, len(others) + 1) for other in others]


def _build_cluster_process(build: BuildAnnotator, options: Options) -> BatchFunction[Any, Any]:
    """What a worker of a cluster does; see `process_on_worker`."""
    annotator, stores = build(options)
    return partial(process_on_worker, annotator, stores)


def _build_replica_process(build: BuildAnnotator, options: Options, workers: int) -> BatchFunction[Any, Any]:
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
    if annotator.producer.maker_id != maker_id:
        raise RequestError(
            "a worker loads another model than this machine",
            f"{annotator.producer.model!r} on {worker_host}; the same device and files must be on both (--device)",
        )
    return annotator, stores
