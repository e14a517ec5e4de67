"""CPU time that the driver of a ray cluster needs for each episode, with and without vectors; alternating runs.

.venv/bin/python -m benchmarks.cluster --episodes 20000 --runs 3
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from annotators.base import Annotator, FrameVectors, Options, Result, Work, new_annotation
from annotators.runner import annotate
from ares import registry
from ares.annotation import Maker
from ares.jobs import Engine, open_engine
from ares.settings import settings_from_environment
from ares.store import Stores
from ares.workspace import open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_VECTORS, _DIMENSION, _BATCH_SIZE = 10, 512, 8


def make_annotator(has_vectors: bool, options: Options, stores: Stores) -> Annotator:
    """An annotator that makes ten vectors of 512 numbers of each episode, or none, from nothing."""
    import numpy as np

    vectors = np.random.default_rng(0).normal(size=(_VECTORS, _DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    maker = Maker(annotator="stub", version="1", model="vectors" if has_vectors else "none")

    def process(works: Sequence[Work]) -> list[Result]:
        return [_result(work, maker, vectors if has_vectors else vectors[:0]) for work in works]

    return Annotator(maker=maker, process=process, space="stub", batch_size=_BATCH_SIZE)


def _result(work: Work, maker: Maker, vectors: NDArray[np.float32]) -> Result:
    import numpy as np

    rows = FrameVectors(
        episode_id=work.episode.episode_id,
        camera="front",
        seconds=np.arange(len(vectors), dtype=np.float64),
        vectors=vectors,
    )
    annotation = new_annotation(work, maker, {"frames": _VECTORS})
    return Result(annotations=[annotation], vectors=[rows] if len(vectors) else ())


def _driver_seconds(engine: Engine, episodes: int, has_vectors: bool) -> float:
    """CPU seconds of this process, the start and the end of the run included."""
    registry.annotators.add("stub", partial(make_annotator, has_vectors))
    settings = settings_from_environment({})
    with tempfile.TemporaryDirectory() as folder, closing(open_workspace(folder, settings)) as ws:
        add_synthetic_episodes(ws, episodes)
        start = time.process_time()
        (report,) = annotate(ws.stores, ["stub"], Options(settings=settings), quiet=True, engine=engine)
        used = time.process_time() - start
        rows = ws.stores.tables.vectors("stub").count()
    registry.annotators.remove("stub")
    if report.kept != episodes or rows != (episodes * _VECTORS if has_vectors else 0):
        raise SystemExit(f"{report.kept} episodes and {rows} vectors of {episodes} episodes")
    return used


def main() -> None:
    """Print the time for each episode with and without vectors, the smallest of some runs, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    ray: Any = import_module("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with open_engine("ray") as engine:
        _driver_seconds(engine, 500, True)  # what is imported and started once
        for _ in range(arguments.runs):
            for has_vectors, times in seconds.items():
                times.append(_driver_seconds(engine, arguments.episodes, has_vectors))
    without, with_vectors = (1000 * min(times) / arguments.episodes for times in seconds.values())
    print(
        f"driver, milliseconds of CPU for each of {arguments.episodes} episodes: {without:.3f} without vectors, "
        f"{with_vectors:.3f} with {_VECTORS} of {_DIMENSION}, ratio {with_vectors / without:.2f}"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
