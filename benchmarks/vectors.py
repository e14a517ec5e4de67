"""Benchmarks 7, 8 and 18: search over realistic synthetic frame vectors, against the exact product in NumPy."""

from __future__ import annotations

import math
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ares
from benchmarks.hybrid import HybridWorkload, benchmark_hybrid_search
from benchmarks.timing import BenchmarkResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Moment, VectorTable
    from ares.workspace import Workspace

DIM = 512
_FRAMES = 50
_CAMERAS = ("front", "wrist")
_EPISODES_PER_WRITE = 500
_SIZES = (10_000, 100_000, 1_000_000)
_LIMIT = 20
# Rows of the exact product, as float32 in memory (2 GB); for more rows its time is scaled.
_MAX_EXACT_ROWS = 1_000_000
# Queries per turn: the two gigabytes of the product empty every cache before the first query of a turn.
_QUERIES_PER_TURN = 10
_PAUSE_SECONDS = 0.2


class SyntheticVectors:
    """Synthetic unit vectors with the structure of encoded video frames.

    All frames lie in one cone with few strong directions. Fifty episodes share a scene, cameras differ, and frames
    change slowly. Texts lie in another cone.

    Args:
        seed: Seed of all random values.
    """

    def __init__(self, seed: int = 0) -> None:
        import numpy as np

        rng = np.random.default_rng(seed)
        self._seed = seed
        self._rotation = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0].astype(np.float32)
        scale = np.arange(1, DIM + 1) ** -0.5
        self._scale = (scale / np.linalg.norm(scale)).astype(np.float32)
        self._image_axis, self._text_axis = (_unit(rng.normal(size=DIM)).astype(np.float32) for _ in range(2))
        self._dataset_offsets = self._draw(rng, 20)

    def frames(self, episode: int) -> NDArray[np.float32]:
        """(100, 512) vectors of one episode, camera by camera."""
        content = self._frame_content(episode)
        return _unit(0.9 * self._image_axis + content @ self._rotation.T)

    def texts(self, episodes: Sequence[int]) -> NDArray[np.float32]:
        """(N, 512) vectors of texts that describe one moment of each episode, mixed with as much random content."""
        import numpy as np

        rng = np.random.default_rng((self._seed, 4))
        moments = np.stack(
            [self._frame_content(episode)[int(rng.integers(2 * _FRAMES))] for episode in episodes]
        )
        content = 0.35 * moments + 0.35 * self._draw(rng, len(episodes))
        return _unit(0.9 * self._text_axis + content @ self._rotation.T)

    def _frame_content(self, episode: int) -> NDArray[np.float32]:
        import numpy as np

        scene = episode // 50
        scene_rng = np.random.default_rng((self._seed, 1, scene))
        base = 0.6 * self._dataset_offsets[scene % 20] + 0.6 * self._draw(scene_rng)
        episode_rng, views = np.random.default_rng((self._seed, 2, episode)), []
        for _ in _CAMERAS:
            start = base + 0.5 * self._draw(scene_rng) + 0.45 * self._draw(episode_rng)
            walk = np.cumsum(0.08 * self._draw(episode_rng, _FRAMES), axis=0)
            views.append(start + walk + 0.08 * self._draw(episode_rng, _FRAMES))
        return np.concatenate(views)

    def _draw(self, rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
        import numpy as np

        samples: NDArray[np.float32] = rng.standard_normal((*shape, DIM), dtype=np.float32)
        return samples * self._scale


@dataclass(frozen=True, slots=True)
class SyntheticCameraVectors:
    """Vectors of one camera of one episode."""

    episode_id: str
    camera: str
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class VectorWorkload:
    """A vector table, the same vectors in a file, and queries."""

    ws: Workspace
    table: VectorTable
    ids: list[str]
    vectors: NDArray[np.float16]
    queries: NDArray[np.float32]

    def kth_best_scores(self, steps: Sequence[int]) -> NDArray[np.float32]:
        """(S, Q) score of the 20th best row of each query, within every step-th episode."""
        import numpy as np

        rows_per_episode = len(self.vectors) // len(self.ids)
        best = np.full((len(steps), _LIMIT, len(self.queries)), -1, np.float32)
        for start in range(0, len(self.ids), _EPISODES_PER_WRITE):
            block = self.vectors[
                start * rows_per_episode : (start + _EPISODES_PER_WRITE) * rows_per_episode
            ].astype(np.float32)
            scores = (block @ self.queries.T).reshape(-1, rows_per_episode, len(self.queries))
            for step, top_scores in zip(steps, best, strict=True):
                rows = scores[-start % step :: step].reshape(-1, len(self.queries))
                top_scores[:] = np.partition(np.concatenate([top_scores, rows]), -_LIMIT, axis=0)[-_LIMIT:]
        threshold: NDArray[np.float32] = best.min(axis=1)
        return threshold

    def recall(
        self, search: Callable[[NDArray[np.float32]], list[Moment]], kth_best: NDArray[np.float32]
    ) -> float:
        """Mean share of the true 20 best rows that a search returns."""
        shares = [
            sum(moment.score >= kth_score - 1e-4 for moment in search(query)) / _LIMIT
            for query, kth_score in zip(self.queries, kth_best.tolist(), strict=True)
        ]
        return float(statistics.mean(shares))


def _build_workload(folder: str, rows: int, source: SyntheticVectors, queries: int) -> VectorWorkload:
    import numpy as np

    episodes = rows // (_FRAMES * len(_CAMERAS))
    ws, ids = ares.open(f"{folder}/workspace", create=True), list[str]()
    table = ws.stores.tables.vectors("bench")
    vectors = np.lib.format.open_memmap(f"{folder}/vectors.npy", "w+", np.float16, (rows, DIM))
    for start in range(0, episodes, _EPISODES_PER_WRITE):
        views = []
        for number in range(start, min(start + _EPISODES_PER_WRITE, episodes)):
            frames = source.frames(number).astype(np.float16)
            vectors[number * len(frames) : (number + 1) * len(frames)] = frames
            ids.append(f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}")
            views += _split_cameras(ids[-1], frames)
        table.add(views)
    rng = np.random.default_rng(1)
    text_episodes = rng.integers(0, episodes, queries // 2)
    unseen_frames = np.stack([source.frames(episodes + 7 * number)[25] for number in range(queries // 2)])
    return VectorWorkload(
        ws, table, ids, vectors, np.concatenate([source.texts(text_episodes.tolist()), unseen_frames])
    )


def _split_cameras(episode_id: str, frames: NDArray[np.float16]) -> list[SyntheticCameraVectors]:
    import numpy as np

    parts = np.split(frames.astype(np.float32), len(_CAMERAS))
    return [
        SyntheticCameraVectors(episode_id, camera, np.arange(float(_FRAMES)), part)
        for camera, part in zip(_CAMERAS, parts, strict=True)
    ]


def benchmark_vector_search(sizes: Sequence[int] = _SIZES, rounds: int = 4) -> Iterator[BenchmarkResult]:
    """Time the best 20 frames for unseen texts and frames, with and without a filter, and hybrid search.

    A round is a turn of ten queries; there are four at most.
    """
    source, previous = SyntheticVectors(), None
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            workload = _build_workload(folder, rows, source, _QUERIES_PER_TURN * max(1, min(rounds, 4)))
            start = time.perf_counter()
            index = workload.table.refresh()
            build_seconds = time.perf_counter() - start
            search_seconds = yield from _measure_search(
                workload, rows, f"{index.kind if index else 'flat'}, index {build_seconds:.0f} s"
            )
            if rows <= _MAX_EXACT_ROWS:
                yield from benchmark_hybrid_search(
                    HybridWorkload(workload.ws, workload.table, workload.ids, workload.queries)
                )
            workload.ws.close()
        if previous:
            yield _growth_result(previous, (rows, search_seconds))
        previous = (rows, search_seconds)


def _measure_search(
    workload: VectorWorkload, rows: int, index_label: str
) -> Generator[BenchmarkResult, None, float]:
    """Yield the results of benchmark 7 for one size; returns the median seconds of a search."""
    import numpy as np

    exact_vectors = workload.vectors[:_MAX_EXACT_ROWS].astype(np.float32)
    scale = rows / len(exact_vectors)

    def search(query: NDArray[np.float32]) -> list[Moment]:
        return workload.table.search(query, _LIMIT)

    def product(query: NDArray[np.float32]) -> object:
        return np.argpartition(exact_vectors @ query, -_LIMIT)[-_LIMIT:]

    ares_seconds, single_thread = _time_queries_in_turn([search, product], workload.queries, threads=1)
    # Measured separately: idle threads of the product would spin while ARES is measured.
    (all_threads,) = _time_queries_in_turn([product], workload.queries)
    (paused,) = _time_queries_in_turn([search], workload.queries, pause=_PAUSE_SECONDS)
    single_thread, all_threads = (
        [seconds * scale for seconds in peer_seconds] for peer_seconds in (single_thread, all_threads)
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    recall = workload.recall(search, workload.kth_best_scores([1])[0])
    work = f"{rows:,} vectors ({index_label}): recall@20 {recall:.3f}, {_p95(ares_seconds)}, peak {memory:.1f} GB"
    median = statistics.median(ares_seconds)
    scale_note = f", {_MAX_EXACT_ROWS:,} rows times {scale:.0f}" if scale > 1 else ""
    target = "ratio <= 0.05 at 10^6"
    yield _result(work, median, f"exact NumPy, one thread{scale_note}", single_thread, target)
    yield _result(work, median, f"exact NumPy, all threads{scale_note}", all_threads, "none")
    work = f"{rows:,} vectors, each query after a pause of {_PAUSE_SECONDS:.1f} s"
    yield _result(work, statistics.median(paused), "exact NumPy, one thread", single_thread, "none")
    yield _measure_filtered_search(workload, rows, search)
    return median


def _measure_filtered_search(
    workload: VectorWorkload, rows: int, search: Callable[[NDArray[np.float32]], list[Moment]]
) -> BenchmarkResult:
    """Time the search within every hundredth episode, against the search without a filter."""
    step = min(100, len(workload.ids) // 2)
    candidates = set(workload.ids[::step])

    def search_filtered(query: NDArray[np.float32]) -> list[Moment]:
        return workload.table.search(query, _LIMIT, candidates)

    unfiltered, filtered = _time_queries_in_turn([search, search_filtered], workload.queries, threads=1)
    recall = workload.recall(search_filtered, workload.kth_best_scores([step])[0])
    work = f"{rows:,} vectors, a filter that keeps 1 %: recall@20 {recall:.3f}, {_p95(filtered)}"
    target = "ratio <= 3, recall >= 0.95"
    return _result(work, statistics.median(filtered), "ours without a filter", unfiltered, target)


def _p95(seconds: Sequence[float]) -> str:
    return f"p95 {statistics.quantiles(seconds, n=20)[-1] * 1e3:.1f} ms"


def _result(
    work: str, ares_seconds: float, peer: str, peer_seconds: Sequence[float], target: str
) -> BenchmarkResult:
    peer_median = statistics.median(peer_seconds)
    return BenchmarkResult(
        number=7, work=work, ours_seconds=ares_seconds, peer=peer, peer_seconds=peer_median, target=target
    )


def _time_queries_in_turn(
    searches: Sequence[Callable[[NDArray[np.float32]], object]],
    queries: NDArray[np.float32],
    threads: int | None = None,
    pause: float = 0.0,
) -> list[list[float]]:
    """Seconds of each query by search, ten queries of each in turn, after two that are not counted."""
    from threadpoolctl import threadpool_limits

    times: list[list[float]] = [[] for _ in searches]
    with threadpool_limits(threads):
        for start in range(0, len(queries), _QUERIES_PER_TURN):
            for search, seconds in zip(searches, times, strict=True):
                for query in [*queries[:2], *queries[start : start + _QUERIES_PER_TURN]]:
                    time.sleep(pause)
                    begin = time.perf_counter()
                    search(query)
                    seconds.append(time.perf_counter() - begin)
                del seconds[start : start + 2]
    return times


def _growth_result(previous: tuple[int, float], current: tuple[int, float]) -> BenchmarkResult:
    exponent = math.log(current[1] / previous[1]) / math.log(current[0] / previous[0])
    return BenchmarkResult(
        number=18,
        work=f"search of {current[0]:,} vectors, exponent of growth {exponent:.2f}",
        ours_seconds=current[1],
        peer=f"of {previous[0]:,}",
        peer_seconds=previous[1],
        target="exponent < 1",
    )


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    import numpy as np

    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return unit
