"""The parts of a run that an engine may run on another machine, rebuilt there from picklable values."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.base import Annotator, Factory, Options
from annotators.frames import CameraSeconds, Frames
from annotators.runner.guard import make_guarded
from annotators.runner.remote_vectors import AnnotatorWorkers, process_on_worker
from annotators.runner.replicas import replica_options, share_threads
from ares.errors import AresError, MediaError, ModelError, RequestError
from ares.jobs import (
    BatchFunction,
    Engine,
    InlinePool,
    ReplicaPool,
    ValueKeeper,
    WorkerNeeds,
    WorkerPool,
    changing_limit,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

BuildAnnotator = Callable[[Options], "tuple[Annotator, Stores]"]
PutFrames = Callable[[Frames], Callable[[], Frames | None]]


def annotator_on_engine(
    engine: Engine, label: str, factory: Factory, options: Options, stores: Stores, num_annotators: int
) -> Annotator:
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
    annotator = make_guarded(label, factory, options, stores)
    is_shared = annotator.workers > 1
    needs = options.workers.overrule(annotator.needs)
    build = partial(
        _build_annotator, label, factory, stores.location, socket.gethostname(), annotator.maker.maker_id
    )
    replicas = partial(_replica_builds, build, annotator.maker.annotator, options, needs)
    pool: WorkerPool[Any, Any] = engine.pool(
        annotator.process,
        max_workers=annotator.workers,
        on_worker_death=ModelError,
        build=partial(_build_process, build, engine.keeper, options),
        shared_worker=is_shared,
        needs=replace(needs, gpus=0.0) if options.device == "cpu" else needs,
        share=1 / (num_annotators + 1),
        gpu_share=1 / num_annotators,
        most_workers=options.workers.count,
        replicas=None if is_shared else replicas,
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
        call_limit=annotator.call_limit if is_inline else changing_limit(pool),
        charges_budget=annotator.charges_budget and is_inline,
    )


def _replica_builds(
    build: BuildAnnotator, name: str, options: Options, needs: WorkerNeeds
) -> list[Callable[[], BatchFunction[Any, Any]]]:
    """Builders of an annotator for further processes of this machine, with which this one shares its cores."""
    others = replica_options(name, options, needs)
    if others:
        share_threads(len(others) + 1)
    return [partial(_build_replica, build, other, len(others) + 1) for other in others]


def _build_process(build: BuildAnnotator, keeper: ValueKeeper, options: Options) -> BatchFunction[Any, Any]:
    """What a worker of a cluster does; see `process_on_worker`."""
    annotator, stores = build(options)
    return partial(process_on_worker, annotator, stores, keeper)


def _build_replica(build: BuildAnnotator, options: Options, workers: int) -> BatchFunction[Any, Any]:
    """The `process` of an annotator in a process of this machine, of which so many share the cores."""
    annotator, _ = build(options)
    share_threads(workers)
    return annotator.process


def _build_annotator(
    label: str, factory: Factory, folder: str, host: str, maker_id: str, options: Options
) -> tuple[Annotator, Stores]:
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
    stores = open_stores(folder, options.settings)
    annotator = make_guarded(label, factory, options, stores)
    if annotator.maker.maker_id != maker_id:
        raise RequestError(
            "a worker loads another model than this machine",
            f"{annotator.maker.model!r} on {worker_host}; the same device and files must be on both (--device)",
        )
    return annotator, stores


def decoder_pool(engine: Engine, readers: int, num_annotators: int) -> WorkerPool[Frames, Frames]:
    """A pool of workers that decode frames for so many annotators."""
    return engine.pool(
        _decode,
        max_workers=readers,
        on_worker_death=MediaError,
        build=partial(_build_decoder, engine.put),
        share=1 / (num_annotators + 1),
    )


def failed_frames(frames: Frames, error: AresError) -> Frames:
    """Frames that raise the error of their decoding when they are read."""
    return RemoteFrames(frames, partial(_raise, error))


def _decode(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
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


def _raise(error: AresError) -> Frames | None:
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
