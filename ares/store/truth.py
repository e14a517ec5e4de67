"""Truth: what exact search finds for sampled queries, in one pass over the vectors, with and without filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.store.nearest import Nearest, matrix
from ares.store.rows import Chosen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As search promises it: the recall of the first 20.
K = 20
_BATCH = 16_384
# Rows that tell how frames differ.
_SAMPLED = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """The truth among the rows of some random episodes.

    Attributes:
        share: Share of the rows that were kept.
        chosen: Those rows; None for all.
        frames: (Q,) score of the 20th best row of each query, or of the last when there are fewer.
        episodes: (Q,) score of the 20th best episode.
        wanted: Rows, and episodes, that there are to find: at most 20 each.
    """

    share: float
    chosen: Chosen | None
    frames: NDArray[np.floating]
    episodes: NDArray[np.floating]
    wanted: tuple[int, int]


def sample_queries(near: Nearest, count: int, seed: int) -> NDArray[np.float32]:
    """(3 * count, D) unit vectors of three kinds in turn: frames seen again, frames never seen, and texts.

    A text is far from every frame: it shares with some frames only how they differ from the mean frame, as much with
    frames that have nothing to do with it, and adds a direction of its own.
    """
    import numpy as np

    chance = np.random.default_rng(seed)
    offsets = np.sort(chance.choice(near.rows, min(near.rows, max(3 * count, _SAMPLED)), replace=False))
    sample = _unit(matrix(near.dataset.take(offsets.tolist(), columns=["vector"])["vector"]))
    mean = sample.mean(axis=0)
    drawn = sample[chance.permutation(len(sample))[np.arange(3 * count) % len(sample)]]
    noise = _unit(chance.normal(size=drawn.shape).astype(np.float32))
    # Differences in the directions in which frames differ, as much as they do: what moves a query to other partitions.
    mixed = chance.normal(size=(3 * count, len(sample))).astype(np.float32) @ (sample - mean)
    mixed *= np.linalg.norm(drawn - mean, axis=1).mean() / np.linalg.norm(mixed, axis=1, keepdims=True)
    again = _unit(drawn[:count] + 0.1 * noise[:count])
    unseen = _unit(drawn[count : 2 * count] + mixed[count : 2 * count])
    texts = _unit(drawn[2 * count :] - mean + 1.5 * mixed[2 * count :] + noise[0])
    return near.rounded(np.stack([again, unseen, texts], axis=1).reshape(-1, drawn.shape[1]))


def truths(near: Nearest, queries: NDArray[np.float32], shares: list[float], seed: int) -> list[Filtered]:
    """The truth for each share, the rows of a filter being those of episodes drawn by chance."""
    import numpy as np

    chance = np.random.default_rng(seed)
    episode = near.places.episode_ids.combine_chunks().dictionary_encode().indices.to_numpy()
    runs = [chance.random(episode.max() + 1)[episode] < share for share in shares]
    best = [_Best(len(queries)) for _ in shares]
    starts, at = near.places.offsets, 0
    scanner = near.dataset.scanner(columns=["vector"], scan_in_order=True, batch_size=_BATCH)
    for batch in scanner.to_batches():
        scores = queries @ _unit(matrix(batch["vector"])).T
        run = np.searchsorted(starts, np.arange(at, at + len(batch)), side="right") - 1
        for kept, one in zip(runs, best, strict=True):
            inside = kept[run]
            one.take(scores if inside.all() else scores[:, inside], episode[run[inside]])
        at += len(batch)
    return [_filtered(near, share, kept, one) for share, kept, one in zip(shares, runs, best, strict=True)]


def _filtered(near: Nearest, share: float, kept: NDArray[np.bool_], best: _Best) -> Filtered:
    chosen = None if kept.all() else near.places.where(kept)
    rows = near.rows if chosen is None else len(chosen.row_ids)
    frames, episodes = best.frames, best.scores
    return Filtered(
        rows / near.rows if chosen is not None else 1.0,
        chosen,
        frames.min(axis=1),
        episodes.min(axis=1),
        (frames.shape[1], episodes.shape[1]),
    )


class _Best:
    """The best rows and the best episodes of each query so far."""

    def __init__(self, queries: int) -> None:
        import numpy as np

        self.frames: NDArray[np.floating] = np.zeros((queries, 0))
        self.scores: NDArray[np.floating] = np.zeros((queries, 0))
        self._episodes = np.zeros((queries, 0), np.int64)

    def take(self, scores: NDArray[np.float32], episodes: NDArray[np.int32]) -> None:
        """Rows of one batch: (Q, B) scores, (B,) their episodes."""
        import numpy as np

        if not len(episodes):
            return
        self.frames = _highest(np.concatenate([self.frames, _highest(scores)], axis=1))
        begins = np.concatenate(([0], np.flatnonzero(np.diff(episodes)) + 1))
        fresh = np.maximum.reduceat(scores, begins, axis=1)
        scored = np.concatenate([self.scores, fresh], axis=1)
        named = np.concatenate([self._episodes, np.broadcast_to(episodes[begins], fresh.shape)], axis=1)
        rows = [_distinct(one, names) for one, names in zip(scored, named, strict=True)]
        self.scores = np.stack([one for one, _ in rows])
        self._episodes = np.stack([names for _, names in rows])


def _highest(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    return scores if scores.shape[1] <= K else np.partition(scores, -K, axis=1)[:, -K:]


def _distinct(
    scores: NDArray[np.floating], names: NDArray[np.int64]
) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """The best score of each name, the best 20 names."""
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(names[order], return_index=True)
    taken = order[np.sort(first)[:K]]
    return scores[taken], names[taken]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit
