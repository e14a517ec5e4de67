"""Benchmark 17 and the local engine: episodes a second with 1, 2 and more workers, and the CPU time of each process.

.venv/bin/python -m benchmarks.workers ray --workers 1 2 4 --episodes 1600
.venv/bin/python -m benchmarks.workers driver --episodes 20000 --runs 3
.venv/bin/python -m benchmarks.workers motion --workers 1 2 --episodes 20000
.venv/bin/python -m benchmarks.workers embed --workers 1 2 --episodes 48
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ares import registry
from ares.annotation import Producer
from ares.jobs import AnnotateRequest, open_engine
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_annotators.base import Annotator, FrameVectors, Options, Result, Work, new_annotation
from ares_annotators.runner import annotate
from benchmarks.synthetic_episodes import add_synthetic_episodes
from benchmarks.synthetic_lerobot import write_lerobot_dataset
from benchmarks.synthetic_media import write_random_vit, write_videos
from benchmarks.timing import processor_seconds

if TYPE_CHECKING:
    from ares.jobs import AnnotateReport, Engine
    from ares.store import Stores
    from ares.workspace import Workspace

_BATCH_SIZE = 8
_VECTORS, _DIMENSION = 10, 512
_SETTINGS = settings_from_environment({})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRun:
    """What one run took.

    Attributes:
        workers: Workers of the annotator.
        seconds: By the clock; of local workers their start included, of ray the time in which all of them worked.
        episodes: Episodes in that time.
        driver_seconds: CPU time of this process over the whole run.
        worker_seconds: CPU time of processes that it has started; ray starts its own elsewhere.
    """

    workers: int
    seconds: float
    episodes: int
    driver_seconds: float
    worker_seconds: float


def main() -> None:
    """Print a line for each number of workers, with the speed against one; for `driver`, one with the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=["ray", "driver", "motion", "embed"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--episodes", type=int, default=1600, help="ray: times the workers")
    parser.add_argument(
        "--milliseconds", type=float, default=20.0, help="what the stub takes for an episode, ray only"
    )
    parser.add_argument("--runs", type=int, default=3, help="with and without vectors in turn, driver only")
    arguments = parser.parse_args()
    if arguments.kind == "driver":
        with _ray_of(cores=2):
            _compare_driver(arguments.episodes, arguments.runs)
        return
    run = {"ray": _runs_of_ray, "motion": _runs_of_motion, "embed": _runs_of_embed}[arguments.kind]
    runs: list[WorkerRun] = []
    for timed in run(arguments):
        runs.append(timed)
        rate = timed.episodes / timed.seconds
        speed = rate * runs[0].seconds / runs[0].episodes
        print(
            f"{arguments.kind}, {timed.workers} workers: {timed.episodes} in {timed.seconds:.1f} s, {rate:.1f}/s, "
            f"{speed:.2f} of the first run; CPU {timed.driver_seconds:.1f} s here, {timed.worker_seconds:.1f} s there",
            flush=True,
        )


@contextmanager
def _ray_of(cores: int) -> Iterator[None]:
    """Ray on this machine, with so many cores; where this process has one, it is used and left as it is."""
    ray: Any = import_module("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    if ray.is_initialized():
        yield
        return
    ray.init(address="local", num_cpus=cores, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@contextmanager
def _new_workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder, open_workspace(folder, _SETTINGS) as ws:
        yield ws


def _timed(workers: int, run: Callable[[], Sequence[AnnotateReport]]) -> WorkerRun:
    """Time a call; its worker processes must have ended when it returns."""
    started_at, used, children = time.monotonic(), time.process_time(), processor_seconds(only_children=True)
    (report,) = run()
    seconds, used = time.monotonic() - started_at, time.process_time() - used
    if report.failed:
        raise SystemExit(f"{report.failed} episodes failed: {report.failures}")
    return WorkerRun(
        workers=workers,
        seconds=seconds,
        episodes=report.kept,
        driver_seconds=used,
        worker_seconds=processor_seconds(only_children=True) - children,
    )


def _runs_of_ray(arguments: argparse.Namespace) -> Iterator[WorkerRun]:
    """A stub that waits for a fixed time, as if each worker and the driver had a separate core.

    Starting actors takes many seconds on a busy machine: only the time in which all workers work is counted.
    """
    registry.annotators.add("stub", partial(make_waiting_annotator, arguments.milliseconds / 1000))
    # Half of the cores of a cluster are for decoding.
    with _ray_of(cores=2 * max(arguments.workers)):
        for workers in arguments.workers:
            yield _run_of_ray(arguments.episodes * workers, workers)
    registry.annotators.remove("stub")


def _run_of_ray(count: int, workers: int) -> WorkerRun:
    request = AnnotateRequest(names=("stub",), workers=workers)
    with open_engine("ray") as engine, _new_workspace() as ws:
        add_synthetic_episodes(ws, count)
        used = time.process_time()
        (report,) = annotate(ws.stores, request, quiet=True, engine=engine)
        used = time.process_time() - used
        seconds, episodes = _time_of_all(ws, workers)
    if report.kept != count:
        raise SystemExit(f"{report.kept} episodes were kept: {report.failures}")
    return WorkerRun(
        workers=workers, seconds=seconds, episodes=episodes, driver_seconds=used, worker_seconds=0.0
    )


def _time_of_all(ws: Workspace, workers: int) -> tuple[float, int]:
    """Seconds from the moment when all workers have ended a batch to the last of the first to stop; episodes then."""
    ends: dict[int, list[float]] = {}
    for entry in ws.stores.annotations.read():
        value: Any = entry.annotation.value
        ends.setdefault(value["process"], []).append(value["ended_at"])
    if len(ends) != workers:
        raise SystemExit(f"{len(ends)} of {workers} workers had work; give more episodes")
    start, stop = max(map(min, ends.values())), min(map(max, ends.values()))
    return stop - start, sum(start < end <= stop for times in ends.values() for end in times)


def make_waiting_annotator(seconds: float, options: Options, stores: Stores) -> Annotator:
    """An annotator that waits for each episode, and says when and in which process."""
    producer = Producer(annotator="stub", version="1")

    def process(works: Sequence[Work]) -> list[Result]:
        time.sleep(seconds * len(works))
        # The clock of the machine, which all of its processes share.
        value = {"process": os.getpid(), "ended_at": time.monotonic()}
        return [Result(annotations=[new_annotation(work, producer, value)]) for work in works]

    return SimpleNamespace(producer=producer, process=process, batch_size=_BATCH_SIZE)


def _compare_driver(episodes: int, runs: int) -> None:
    """Print the CPU time of the driver of a cluster for each episode, the least of some runs in turn, and the ratio."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with open_engine("ray") as engine:
        _driver_seconds(engine, min(episodes, 500), True)  # what is imported and started once
        for _ in range(runs):
            for has_vectors, times in seconds.items():
                times.append(_driver_seconds(engine, episodes, has_vectors))
    without, with_vectors = (1000 * min(times) / episodes for times in seconds.values())
    print(
        f"driver, milliseconds of CPU for each of {episodes} episodes: {without:.3f} without vectors, "
        f"{with_vectors:.3f} with {_VECTORS} of {_DIMENSION}, ratio {with_vectors / without:.2f}"
    )


def _driver_seconds(engine: Engine, episodes: int, has_vectors: bool) -> float:
    """CPU seconds of this process, the start and the end of the run included."""
    registry.annotators.add("stub", partial(make_vector_annotator, has_vectors))
    with _new_workspace() as ws:
        add_synthetic_episodes(ws, episodes)
        start = time.process_time()
        (report,) = annotate(ws.stores, AnnotateRequest(names=("stub",)), quiet=True, engine=engine)
        used = time.process_time() - start
        rows = ws.stores.tables.vectors("stub").count()
    registry.annotators.remove("stub")
    if report.kept != episodes or rows != (episodes * _VECTORS if has_vectors else 0):
        raise SystemExit(f"{report.kept} episodes and {rows} vectors of {episodes} episodes")
    return used


def make_vector_annotator(has_vectors: bool, options: Options, stores: Stores) -> Annotator:
    """An annotator that makes ten vectors of 512 numbers of each episode, or none, from nothing."""
    import numpy as np

    vectors = np.random.default_rng(0).normal(size=(_VECTORS, _DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    producer = Producer(annotator="stub", version="1", model="vectors" if has_vectors else "none")

    def make_result(work: Work) -> Result:
        rows = FrameVectors(
            episode_id=work.episode.episode_id,
            camera="front",
            seconds=np.arange(_VECTORS, dtype=np.float64),
            vectors=vectors,
        )
        annotation = new_annotation(work, producer, {"frames": _VECTORS})
        return Result(annotations=[annotation], vectors=[rows] if has_vectors else ())

    return SimpleNamespace(
        producer=producer,
        process=lambda works: [*map(make_result, works)],
        space="stub",
        batch_size=_BATCH_SIZE,
    )


def _runs_of_motion(arguments: argparse.Namespace) -> Iterator[WorkerRun]:
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_lerobot_dataset(Path(folder) / "generated", arguments.episodes)
        yield from _runs_on_this_machine("motion", dataset, arguments.workers, "")


def _runs_of_embed(arguments: argparse.Namespace) -> Iterator[WorkerRun]:
    """Videos of 256 pixels and 16 s, one frame a second, by a ViT-B/32 of random weights."""
    with tempfile.TemporaryDirectory() as folder:
        model = write_random_vit(Path(folder) / "model")
        videos = write_videos(Path(folder) / "videos", arguments.episodes, 256, frames=320, rate_hz=20.0)
        yield from _runs_on_this_machine("embed", videos, arguments.workers, f"local-dir:{model}")


def _runs_on_this_machine(name: str, dataset: Path, counts: Sequence[int], model: str) -> Iterator[WorkerRun]:
    for workers in counts:
        with _new_workspace() as ws:
            ws.ingest(dataset, quiet=True)
            yield _timed(workers, partial(ws.annotate, name, model=model, workers=workers, quiet=True))


if __name__ == "__main__":
    main()
