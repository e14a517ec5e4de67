"""Vectors: search over frame vectors that look like those of real videos, against the exact product in NumPy."""

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
from benchmarks.hybrid import Asked, fused
from benchmarks.timing import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.vectors import Moment, VectorTable
    from ares.workspace import Workspace

DIM = 512
_FRAMES = 50
_CAMERAS = ("front", "wrist")
_PER_WRITE = 500
_SIZES = (10_000, 100_000, 1_000_000)
_QUERIES = 40
_LIMIT = 20
# The product works on so many rows held as float32 (2 GB); of more, its time is scaled.
_HELD = 1_000_000
# Queries one after another, as the product's two gigabytes empty every cache before the first of them.
_TURN = 10
_PAUSE = 0.2


class World:
    """Unit vectors as an image encoder makes them of episodes: all in one cone, few strong directions, scenes shared by
    fifty episodes, cameras that differ, and frames that move slowly. Texts lie in another cone.

    Args:
        seed: Of everything random.
    """

    def __init__(self, seed: int = 0) -> None:
        import numpy as np

        chance = np.random.default_rng(seed)
        self._seed = seed
        self._turn = np.linalg.qr(chance.normal(size=(DIM, DIM)))[0].astype(np.float32)
        strength = np.arange(1, DIM + 1) ** -0.5
        self._strength = (strength / np.linalg.norm(strength)).astype(np.float32)
        self._images, self._texts = (_unit(chance.normal(size=DIM)).astype(np.float32) for _ in range(2))
        self._datasets = self._draw(chance, 20)

    def frames(self, episode: int) -> NDArray[np.float32]:
        """(100, 512) vectors of one episode, its two cameras one after the other."""
        moved = self._moved(episode)
        return _unit(0.9 * self._images + moved @ self._turn.T)

    def texts(self, episodes: Sequence[int]) -> NDArray[np.float32]:
        """(N, 512) vectors of texts that are about a moment of these episodes, and as much about other things."""
        import numpy as np

        chance = np.random.default_rng((self._seed, 4))
        about = np.stack([self._moved(each)[int(chance.integers(2 * _FRAMES))] for each in episodes])
        meant = 0.35 * about + 0.35 * self._draw(chance, len(episodes))
        return _unit(0.9 * self._texts + meant @ self._turn.T)

    def _moved(self, episode: int) -> NDArray[np.float32]:
        import numpy as np

        scene = episode // 50
        shared = np.random.default_rng((self._seed, 1, scene))
        base = 0.6 * self._datasets[scene % 20] + 0.6 * self._draw(shared)
        chance, views = np.random.default_rng((self._seed, 2, episode)), []
        for _ in _CAMERAS:
            start = base + 0.5 * self._draw(shared) + 0.45 * self._draw(chance)
            walk = np.cumsum(0.08 * self._draw(chance, _FRAMES), axis=0)
            views.append(start + walk + 0.08 * self._draw(chance, _FRAMES))
        return np.concatenate(views)

    def _draw(self, chance: np.random.Generator, *shape: int) -> NDArray[np.float32]:
        import numpy as np

        drawn: NDArray[np.float32] = chance.standard_normal((*shape, DIM), dtype=np.float32)
        return drawn * self._strength


@dataclass(frozen=True, slots=True)
class _View:
    """Vectors of one camera of one episode."""

    episode_id: str
    camera: str
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Filled:
    """A table with its vectors in a file beside it, and what to ask of them."""

    ws: Workspace
    table: VectorTable
    ids: list[str]
    vectors: NDArray[np.float16]
    queries: NDArray[np.float32]

    def lasts(self, steps: Sequence[int]) -> NDArray[np.float32]:
        """(S, Q) score of the 20th best row of each query, among every step-th episode."""
        import numpy as np

        each = len(self.vectors) // len(self.ids)
        best = np.full((len(steps), _LIMIT, len(self.queries)), -1, np.float32)
        for start in range(0, len(self.ids), _PER_WRITE):
            block = self.vectors[start * each : (start + _PER_WRITE) * each].astype(np.float32)
            scores = (block @ self.queries.T).reshape(-1, each, len(self.queries))
            for step, kept in zip(steps, best, strict=True):
                rows = scores[-start % step :: step].reshape(-1, len(self.queries))
                kept[:] = np.partition(np.concatenate([kept, rows]), -_LIMIT, axis=0)[-_LIMIT:]
        last: NDArray[np.float32] = best.min(axis=1)
        return last

    def recall(self, ask: Callable[[NDArray[np.float32]], list[Moment]], lasts: NDArray[np.float32]) -> float:
        """Part of the true 20 best rows that is found, over all queries."""
        found = [
            sum(moment.score >= last - 1e-4 for moment in ask(query)) / _LIMIT
            for query, last in zip(self.queries, lasts.tolist(), strict=True)
        ]
        return float(statistics.mean(found))


def _fill(folder: str, rows: int, world: World) -> _Filled:
    import numpy as np

    episodes = rows // (_FRAMES * len(_CAMERAS))
    ws, ids = ares.open(f"{folder}/workspace"), list[str]()
    table = ws.tables.vectors("bench")
    vectors = np.lib.format.open_memmap(f"{folder}/vectors.npy", "w+", np.float16, (rows, DIM))
    for start in range(0, episodes, _PER_WRITE):
        views = []
        for number in range(start, min(start + _PER_WRITE, episodes)):
            made = world.frames(number).astype(np.float16)
            vectors[number * len(made) : (number + 1) * len(made)] = made
            ids.append(f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}")
            views += _views(ids[-1], made)
        table.add(views)
    chance = np.random.default_rng(1)
    about = chance.integers(0, episodes, _QUERIES // 2)
    unseen = np.stack([world.frames(episodes + 7 * number)[25] for number in range(_QUERIES // 2)])
    return _Filled(ws, table, ids, vectors, np.concatenate([world.texts(about.tolist()), unseen]))


def _views(episode_id: str, made: NDArray[np.float16]) -> list[_View]:
    import numpy as np

    parts = np.split(made.astype(np.float32), len(_CAMERAS))
    return [
        _View(episode_id, camera, np.arange(float(_FRAMES)), part)
        for camera, part in zip(_CAMERAS, parts, strict=True)
    ]


def vectors(sizes: Sequence[int] = _SIZES) -> Iterator[Row]:
    """Benchmarks 7, 8 and 18: the best 20 frames for unseen texts and frames, with and without a filter, and fused."""
    world, before = World(), None
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            filled = _fill(folder, rows, world)
            start = time.perf_counter()
            tuned = filled.table.refresh()
            built = time.perf_counter() - start
            ours = yield from _measured(
                filled, rows, f"{tuned.kind if tuned else 'flat'}, index {built:.0f} s"
            )
            if rows <= _HELD:
                yield from fused(Asked(filled.ws, filled.table, filled.ids, filled.queries))
            filled.ws.close()
        if before:
            yield _growth(before, (rows, ours))
        before = (rows, ours)


def _measured(filled: _Filled, rows: int, how: str) -> Generator[Row, None, float]:
    import numpy as np

    step = min(100, len(filled.ids) // 2)
    few = set(filled.ids[::step])
    held = filled.vectors[:_HELD].astype(np.float32)
    times = rows / len(held)

    def search(query: NDArray[np.float32]) -> list[Moment]:
        return filled.table.search(query, _LIMIT)

    def filtered(query: NDArray[np.float32]) -> list[Moment]:
        return filled.table.search(query, _LIMIT, few)

    def product(query: NDArray[np.float32]) -> object:
        return np.argpartition(held @ query, -_LIMIT)[-_LIMIT:]

    lasts = filled.lasts([1, step])
    ours, one = _in_turn([search, product], filled.queries, threads=1)
    # By itself: the idle threads of the product would spin while ours is measured.
    (every,) = _in_turn([product], filled.queries)
    plain, narrow = _in_turn([search, filtered], filled.queries, threads=1)
    (paused,) = _in_turn([search], filled.queries, pause=_PAUSE)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    recall = filled.recall(search, lasts[0])
    said = f"{rows:,} vectors ({how}): recall@20 {recall:.3f}, {_p95(ours)}, peak {memory:.1f} GB"
    median, scaled = statistics.median(ours), f", {_HELD:,} rows times {times:.0f}" if times > 1 else ""
    one, every = ([seconds * times for seconds in theirs] for theirs in (one, every))
    yield _row(said, median, f"exact NumPy, one thread{scaled}", one, "ratio <= 0.05 at 10^6")
    yield _row(said, median, f"exact NumPy, all threads{scaled}", every, "none")
    said = f"{rows:,} vectors, each query after a pause of {_PAUSE:.1f} s"
    yield _row(said, statistics.median(paused), "exact NumPy, one thread", one, "none")
    recall = filled.recall(filtered, lasts[1])
    said = f"{rows:,} vectors, a filter that keeps 1 %: recall@20 {recall:.3f}, {_p95(narrow)}"
    target = "ratio <= 3, recall >= 0.95"
    yield _row(said, statistics.median(narrow), "ours without a filter", plain, target)
    return median


def _p95(seconds: Sequence[float]) -> str:
    return f"p95 {statistics.quantiles(seconds, n=20)[-1] * 1e3:.1f} ms"


def _row(work: str, ours: float, peer: str, theirs: Sequence[float], target: str) -> Row:
    middle = statistics.median(theirs)
    return Row(number=7, work=work, ours_seconds=ours, peer=peer, peer_seconds=middle, target=target)


def _in_turn(
    asks: Sequence[Callable[[NDArray[np.float32]], object]],
    queries: NDArray[np.float32],
    threads: int | None = None,
    pause: float = 0.0,
) -> list[list[float]]:
    """Seconds of each way to answer, ten queries of each in turn, after two that do not count."""
    from threadpoolctl import threadpool_limits

    times: list[list[float]] = [[] for _ in asks]
    with threadpool_limits(threads):
        for start in range(0, len(queries), _TURN):
            for ask, seconds in zip(asks, times, strict=True):
                for query in [*queries[:2], *queries[start : start + _TURN]]:
                    time.sleep(pause)
                    begin = time.perf_counter()
                    ask(query)
                    seconds.append(time.perf_counter() - begin)
                del seconds[start : start + 2]
    return times


def _growth(before: tuple[int, float], after: tuple[int, float]) -> Row:
    exponent = math.log(after[1] / before[1]) / math.log(after[0] / before[0])
    return Row(
        number=18,
        work=f"search of {after[0]:,} vectors, exponent of growth {exponent:.2f}",
        ours_seconds=after[1],
        peer=f"of {before[0]:,}",
        peer_seconds=before[1],
        target="exponent < 1",
    )


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    import numpy as np

    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return unit
