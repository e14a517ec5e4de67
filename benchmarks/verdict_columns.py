"""Measures what the columns of verdicts cost: a sync, the facets, filters and memory, with and without them.

.venv/bin/python -m benchmarks.verdict_columns --episodes 100000
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import ares
from ares.search.facets import compute_facets
from ares.workspace import Workspace
from benchmarks.synthetic_annotations import append_synthetic_annotations
from benchmarks.synthetic_episodes import add_synthetic_episodes

_ROUNDS = 5
_FILTERS = ("grade = 'unsure'", "grade_verb = 'UNMET'", "grade_verdicts LIKE '%OUTCOME=UNMET%'")


def main() -> None:
    """Print a row for each kind of work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=100_000, help="number of episodes")
    count = parser.parse_args().episodes
    without, with_verdicts = (_measure_alone(count, has_verdicts) for has_verdicts in (False, True))
    print(f"| work, {count:,} episodes | without columns of verdicts | with them |\n|---|---|---|")
    for work in with_verdicts:
        print(f"| {work} | {without.get(work, '')} | {with_verdicts[work]} |")


def _measure_alone(count: int, has_verdicts: bool) -> dict[str, str]:
    """Names of work and what they took, measured in a process of their own, whose memory nothing else has filled."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, count, has_verdicts).result()


def _measure(count: int, has_verdicts: bool) -> dict[str, str]:
    return dict(measure(count, has_verdicts))


def measure(count: int, has_verdicts: bool) -> Iterator[tuple[str, str]]:
    """Names of work and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        ws = ares.open(f"{folder}/workspace", create=True)
        add_synthetic_episodes(ws, count)
        append_synthetic_annotations(ws, has_verdicts=has_verdicts)
        yield "peak memory, episodes and annotations made", _peak()
        started, cpu = time.perf_counter(), time.process_time()
        ws.sync()
        yield "sync of all", f"{time.perf_counter() - started:.3f} s"
        yield "sync of all, processor", f"{time.process_time() - cpu:.3f} s"
        yield "peak memory after the sync", _peak()
        yield "facets, first call after a change of the table", _best(lambda: _facets_of_new_workspace(ws))
        yield "facets after a filter change", _best(lambda: compute_facets(ws.stores, _new_filter()))
        for where in _FILTERS if has_verdicts else _FILTERS[:1]:
            yield f"count where {where}", _best(partial(_count, ws, where))
        yield "peak memory after facets and filters", _peak()
        ws.close()


def _facets_of_new_workspace(ws: Workspace) -> None:
    fresh = ares.open(ws.path)
    compute_facets(fresh.stores)
    fresh.close()


def _new_filter() -> str:
    """A filter that was not used before: matches of recent filters are cached by their text."""
    return f"num_steps > 25 AND {time.perf_counter_ns()} > 0"


def _count(ws: Workspace, where: str) -> None:
    ws.stores.tables.episodes.count(f"{where} AND {time.perf_counter_ns()} > 0")


def _peak() -> str:
    """Peak memory of this process since its start."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB"


def _best(work: Callable[[], object]) -> str:
    """The shortest time of several rounds: other load only adds."""
    seconds = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return f"{min(seconds):.3f} s"


if __name__ == "__main__":
    main()
