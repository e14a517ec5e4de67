"""Does a curated set train better? Policies of five sets of one pool, rolled out from the same held-out starts.

    python -m benchmarks.curation              # 5 seeds, 30 starts a task
    python -m benchmarks.curation --nightly    # 10 seeds, 50 starts
    python -m benchmarks.curation --small      # whether it runs, without pictures

The pool is written here and in pool.py, and was not tuned. It is rendered once, and kept below --folder.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.curation.curated import CuratedPool, curate_pool
from benchmarks.curation.environment import (
    NotRunError,
    count_processors,
    prepare_simulation,
    run_simulations,
)
from benchmarks.curation.policy import Demonstration, train_policy
from benchmarks.curation.pool import (
    CLEAN,
    FAULTS,
    INSTRUCTIONS,
    SIZES,
    PoolEpisode,
    plant_faults,
    read_demonstrations,
    write_pool,
)
from benchmarks.curation.report import difference_lines, removal_table, success_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROOT = Path(__file__).parents[2]
_ENCODER = f"local-dir:{_ROOT / 'app' / 'demo' / 'models' / 'reference-clip'}"
# Seed of the pool that is printed, and how far from it that of the held-out starts is.
_SEED, _TO_STARTS = 59, 1000
_SETS = ("all", "random", "success filter", "ARES", "clean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is run.

    Attributes:
        sizes: Episodes of each task that are clean, and that have each fault.
        seeds: Policies of each set.
        starts: Held-out starts of each task.
        steps: Batches of a training.
        render: Whether the pool has pictures.
    """

    sizes: tuple[int, int] = SIZES
    seeds: int = 5
    starts: int = 30
    steps: int = 5000
    render: bool = True


_SMALL = Extent(sizes=(8, 2), seeds=1, starts=2, steps=400, render=False)
_NIGHTLY = Extent(seeds=10, starts=50)


def main() -> None:
    """Read the command line, run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--nightly", dest="extent", action="store_const", const=_NIGHTLY, default=Extent())
    size.add_argument("--small", dest="extent", action="store_const", const=_SMALL)
    parser.add_argument(
        "--folder", type=Path, default=_ROOT / ".cache" / "curation", help="where the pool is kept"
    )
    parser.add_argument("--encoder", default=_ENCODER, help="model that audits the instructions; '' for none")
    parser.add_argument("--seed", type=int, default=_SEED, help="another pool and other starts")
    arguments = parser.parse_args()
    extent: Extent = arguments.extent
    encoder = arguments.encoder if extent.render else ""
    try:
        python = prepare_simulation(_ROOT / ".cache", render=extent.render)
    except NotRunError as error:
        print(f"not run: {error}")
        return
    _print_benchmark(python, extent, (arguments.folder, encoder, arguments.seed))


def _print_benchmark(python: Path, extent: Extent, of: tuple[Path, str, int]) -> None:
    """Make, curate, train, roll out and print.

    Args:
        python: Python of the simulation.
        extent: How much.
        of: Folder that keeps the pool, encoder, seed.
    """
    kept, encoder, seed = of
    pool, seconds = kept / f"pool-{seed}-{extent.sizes[0]}-{extent.sizes[1]}", dict[str, float]()
    with tempfile.TemporaryDirectory() as name, _timed(seconds, "in all"):
        scratch = Path(name)
        with _timed(seconds, "demonstrations and pictures (kept)"):
            _make_pool(python, extent, pool, seed)
        episodes = plant_faults(pool / "recorded", seed, extent.sizes)
        with _timed(seconds, "curation by ARES, with embedding"):
            curated = curate_pool(pool / "lerobot", scratch, encoder)
        print(curated.note)
        print(removal_table(episodes, curated.kept, curated.found), end="\n\n", flush=True)
        with _timed(seconds, "training"):
            _train_all(_choose_sets(episodes, curated, extent.seeds), extent, scratch / "policies")
        with _timed(seconds, "rollouts"):
            successes = _roll_out(python, extent, scratch, seed)
    sizes = {name: str(len(curated.kept)) for name in ("random", "ARES")}
    sizes |= {"all": str(len(episodes)), "success filter": str(sum(part.success for part in episodes))}
    sizes["clean"] = str(sum(part.fault == CLEAN for part in episodes))
    print(success_table(successes, list(INSTRUCTIONS), sizes), end="\n\n")
    print(difference_lines(successes, "ARES", [name for name in _SETS if name != "ARES"]))
    print(
        f"{extent.seeds} seeds, {extent.starts} starts a task; pool and starts of seed {seed}; 95 % intervals"
    )
    print("; ".join(f"{what} {value / 60:.1f} min" for what, value in seconds.items()))


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    """Note how long something took."""
    started = time.monotonic()
    yield
    seconds[what] = time.monotonic() - started


def _make_pool(python: Path, extent: Extent, pool: Path, seed: int) -> None:
    """The pool as LeRobot below a folder, with what it was made of; nothing where it is there."""
    if (pool / "lerobot").exists():
        return
    clean, faulty = extent.sizes
    experts = clean + faulty * (len(FAULTS) - 1)
    shutil.rmtree(pool, ignore_errors=True)
    work = ["demonstrate", pool / "recorded", "--seed", seed, "--experts", experts, "--failures", faulty]
    work += ["--render"] * extent.render
    run_simulations(python, [[*work, "--task", task] for task in INSTRUCTIONS])
    write_pool(plant_faults(pool / "recorded", seed, extent.sizes), pool / "unfinished")
    (pool / "unfinished").rename(pool / "lerobot")


def _choose_sets(
    episodes: Sequence[PoolEpisode], curated: CuratedPool, seeds: int
) -> list[dict[str, list[Demonstration]]]:
    """For each seed the demonstrations of each set; the random set is drawn for each, of as many as ARES kept."""
    import numpy as np

    of_ares = read_demonstrations(curated.folder)
    fixed = {
        "all": [part.recorded for part in episodes],
        "success filter": [part.recorded for part in episodes if part.success],
        "ARES": of_ares,
        "clean": [part.recorded for part in episodes if part.fault == CLEAN],
    }
    drawn = [
        [
            episodes[number].recorded
            for number in np.random.default_rng(seed).permutation(len(episodes))[: len(of_ares)]
        ]
        for seed in range(seeds)
    ]
    return [{name: {**fixed, "random": drawn[seed]}[name] for name in _SETS} for seed in range(seeds)]


def _train_all(sets: Sequence[Mapping[str, list[Demonstration]]], extent: Extent, folder: Path) -> None:
    """Write FOLDER/SEED/NUMBER.npz with the policy of each set, one process for each processor."""
    works = []
    for seed, by_name in enumerate(sets):
        (folder / str(seed)).mkdir(parents=True)
        for number, demonstrations in enumerate(by_name.values()):
            path = folder / str(seed) / f"{number}.npz"
            works.append((demonstrations, INSTRUCTIONS, seed, extent.steps, path))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count_processors(), context) as pool:
        for future in [pool.submit(train_policy, *work) for work in works]:
            future.result()


def _roll_out(python: Path, extent: Extent, scratch: Path, seed: int) -> dict[str, NDArray[np.float64]]:
    """(tasks, seeds, starts) successes of each set, from starts that the pool does not have."""
    import numpy as np

    def result_path(task: str, policy_seed: int) -> Path:
        return scratch / f"{task}-{policy_seed}.json"

    of_starts = ["--seed", seed + _TO_STARTS, "--starts", extent.starts]
    works = [
        ["roll-out", scratch / "policies" / str(of), result_path(task, of), "--task", task, *of_starts]
        for task in INSTRUCTIONS
        for of in range(extent.seeds)
    ]
    run_simulations(python, works)
    read = [
        [json.loads(result_path(task, of).read_text()) for of in range(extent.seeds)] for task in INSTRUCTIONS
    ]
    return {
        name: np.array([[part[str(number)] for part in of_task] for of_task in read], float)
        for number, name in enumerate(_SETS)
    }


if __name__ == "__main__":
    main()
