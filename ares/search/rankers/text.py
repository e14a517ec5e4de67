"""Ranks episodes by their captions and instructions, compared with a text as words or as vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ares.search.encoding import encode_text
from ares.search.engine import Ranking, fuse_rankings, keep_best_moment_per_episode
from ares.search.rankers.base import RankerScores, VectorQuery
from ares.search.spaces import find_embedding_space, list_embedding_spaces
from ares.search.word_coverage import word_coverage
from ares.store import EpisodeRowRuns, Moment, TextHashes, best_rows_per_episode

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.search.query import Query, QueryPart
    from ares.store import Stores, TextIds


class KeywordRanker:
    """Compares captions and instructions with the words of a text, or of the instruction of an episode."""

    query_parts: ClassVar[tuple[QueryPart, ...]] = ("text", "like")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[str]:
        """The texts to look for."""
        texts = [query.text]
        if query.like.strip():
            texts.append(self._stores.tables.episodes.get_episode(query.like).instruction)
        return [text for text in texts if text.strip()]

    def rank(self, encoded: str, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Episodes whose caption or instruction matches; when both kinds match, their rankings are fused."""
        tables = self._stores.tables
        captions = [
            _text_moment(hit.episode_id, hit.start_seconds, hit.score)
            for hit in tables.segments.search_text(encoded, limit, candidates)
        ]
        instructions = [
            _text_moment(episode_id, 0.0, score)
            for episode_id, score in tables.episodes.search_instruction(encoded, limit, candidates)
        ]
        rankings = [
            Ranking(keep_best_moment_per_episode(moments)) for moments in (captions, instructions) if moments
        ]
        if len(rankings) > 1:
            return fuse_rankings(rankings)
        return rankings[0].moments if rankings else []

    def score_episodes(self, encoded: str, limit: int) -> RankerScores:
        """The share of the words of the text that each episode has, see `word_coverage`."""
        return RankerScores(*word_coverage(self._stores, encoded), "share")


def _text_moment(episode_id: str, seconds: float, score: float) -> Moment:
    """A match in a text. Its camera is empty because a text describes a time span and not a frame."""
    return Moment(episode_id=episode_id, camera="", seconds=seconds, score=score)


# Rows in the first batch per episode of the answer, unless a single text has more.
_ROWS_PER_EPISODE = 4

# A cosine similarity, and the ids of all texts that have it.
RankedTexts = tuple[float, "NDArray[np.int64]"]


class SemanticRanker:
    """Compares the vectors of captions and instructions with that of a text, or of the instruction of an episode."""

    query_parts: ClassVar[tuple[QueryPart, ...]] = ("text", "like")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[VectorQuery]:
        """One unit vector per text; empty for a default search of a workspace without embedding spaces."""
        if not query.by and not list_embedding_spaces(self._stores):
            return []
        space = find_embedding_space(self._stores, query.space)
        texts = [query.text]
        if query.like.strip():
            texts.append(self._stores.tables.episodes.get_episode(query.like).instruction)
        return [
            VectorQuery(space.name, encode_text(self._stores, space, text)) for text in texts if text.strip()
        ]

    def rank(self, encoded: VectorQuery, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Episodes by cosine similarity of their best text; see `rank_by_text`."""
        return rank_by_text(self._stores, encoded.space, encoded.vector, limit, candidates)

    def score_episodes(self, encoded: VectorQuery, limit: int) -> RankerScores:
        """The best text of every episode that has one with a vector."""
        import numpy as np

        tables = self._stores.tables
        snapshot = tables.texts(encoded.space).snapshot(len(encoded.vector))
        if snapshot is None:
            return RankerScores(EpisodeRowRuns([]), np.zeros(0), "absolute")
        text_scores = np.append(snapshot.score_all(encoded.vector), np.nan)
        selected = [
            _TextRows.select(hashes, snapshot.text_ids, None)
            for hashes in (tables.segments.text_hashes(), tables.episodes.text_hashes())
        ]
        runs, scores = zip(*(rows.best_by_run(text_scores) for rows in selected), strict=True)
        parts = [(rows.hashes.row_index, part) for rows, part in zip(selected, runs, strict=True)]
        return RankerScores(EpisodeRowRuns(parts), np.concatenate(scores), "absolute")


def rank_by_text(
    stores: Stores,
    space: str,
    query: NDArray[np.float32],
    limit: int,
    candidates: Collection[str] | None = None,
) -> list[Moment]:
    """Episodes by the similarity of their best caption or instruction to a vector, best first; one moment each.

    Texts are read by falling similarity until enough episodes have one, so that a narrow filter loses none. The moment
    of an episode is the earliest with its best text; episodes with equal scores are sorted by id.

    Args:
        stores: Stores of the workspace.
        space: Name of the embedding space of the vector.
        query: (D,) unit vector.
        limit: Maximum number of episodes.
        candidates: Only these episodes, or None for all.

    Raises:
        StoreError: The query has another dimension than the vectors of the space.
    """
    import numpy as np

    snapshot = stores.tables.texts(space).snapshot(len(query))
    if snapshot is None:
        return []
    tables = [
        _TextRows.select(hashes, snapshot.text_ids, candidates)
        for hashes in (stores.tables.segments.text_hashes(), stores.tables.episodes.text_hashes())
    ]
    rows_per_text = np.sum([table.rows_per_text(snapshot.vectors.row_count) for table in tables], axis=0)
    ranked = snapshot.rank(query, rows_per_text > 0)
    best: list[pa.Table] = []
    episode_ids: set[str] = set()
    for texts in _batch_by_rows(ranked, rows_per_text, _ROWS_PER_EPISODE * limit):
        best.append(_best_rows(tables, texts, len(rows_per_text), limit))
        episode_ids.update(best[-1]["episode_id"].to_pylist())
        if len(episode_ids) >= limit:
            break
    return _to_moments(tables, best, limit)


@dataclass(frozen=True, slots=True, eq=False)
class _TextRows:
    """The candidate rows of a table, with the ids of their texts.

    Attributes:
        hashes: Text hashes and row index of the whole table.
        offsets: Scan offsets of the N candidate rows, or a slice for all rows.
        text_ids: (N,) id of the text of each of these rows, -1 for a text without a vector.
    """

    hashes: TextHashes
    offsets: NDArray[np.int64] | slice
    text_ids: NDArray[np.int32]

    @classmethod
    def select(cls, hashes: TextHashes, text_ids: TextIds, candidates: Collection[str] | None) -> _TextRows:
        offsets = hashes.row_offsets(candidates)
        return cls(hashes, offsets, text_ids.ids_of(hashes.hashes)[offsets])

    def rows_per_text(self, texts: int) -> NDArray[np.int64]:
        """Number of candidate rows (T,) with each text."""
        import numpy as np

        return np.bincount(self.text_ids + 1, minlength=texts + 1)[1:]

    def scored(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Scan offsets and scores of the rows whose text has a score.

        Args:
            scores: (T + 1,) score of each text, NaN for none; the last entry is NaN, for texts without a vector.
        """
        import numpy as np

        row_scores = scores[self.text_ids]
        rows = np.flatnonzero(~np.isnan(row_scores))
        return rows if isinstance(self.offsets, slice) else self.offsets[rows], row_scores[rows]

    def best_by_run(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers and best scores of the runs of rows that have one, where all rows are selected; see `scored`."""
        import numpy as np

        row_index = self.hashes.row_index
        row_scores = np.nan_to_num(scores[self.text_ids], nan=-np.inf)
        best = np.maximum.reduceat(row_scores, row_index.offsets) if row_index.count else row_scores
        runs = np.flatnonzero(np.isfinite(best))
        return runs, best[runs]


def _batch_by_rows(
    ranked: Iterator[RankedTexts], rows_per_text: NDArray[np.int64], max_rows: int
) -> Iterator[list[RankedTexts]]:
    """Batches of texts with at most `max_rows` rows, or of one entry; each batch may have twice as many as the last."""
    batch, batch_rows = list[RankedTexts](), 0
    for score, ids in ranked:
        rows = int(rows_per_text[ids].sum())
        if batch and batch_rows + rows > max_rows:
            yield batch
            batch, batch_rows, max_rows = [], 0, 2 * max_rows
        batch.append((score, ids))
        batch_rows += rows
    if batch:
        yield batch


def _best_rows(tables: Sequence[_TextRows], texts: Sequence[RankedTexts], count: int, limit: int) -> pa.Table:
    """The rows with the best text of each of the best episodes, among rows with one of these texts.

    Returns:
        Columns episode_id, score, table and offset; best score first, then by id.
    """
    import numpy as np
    import pyarrow as pa

    scores = np.full(count + 1, np.nan)
    for score, ids in texts:
        scores[ids] = score
    rows = pa.concat_tables([_scored_rows(number, table, scores) for number, table in enumerate(tables)])
    return best_rows_per_episode(rows, limit)[0]


def _scored_rows(table_number: int, table: _TextRows, scores: NDArray[np.float64]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    offsets, row_scores = table.scored(scores)
    row_index = table.hashes.row_index
    ids = row_index.episode_ids.take(row_index.runs_at(offsets))
    table_numbers = np.full(len(offsets), table_number, np.int8)
    return pa.table({"episode_id": ids, "score": row_scores, "table": table_numbers, "offset": offsets})


def _to_moments(tables: Sequence[_TextRows], best: Sequence[pa.Table], limit: int) -> list[Moment]:
    """The earliest moment of each of the best episodes, from the best rows of every batch."""
    import numpy as np
    import pyarrow as pa

    if not best:
        return []
    rows, _ = best_rows_per_episode(pa.concat_tables(best), limit)
    seconds = np.zeros(len(rows))
    for table_number, table in enumerate(tables):
        in_table = rows["table"].to_numpy() == table_number
        seconds[in_table] = table.hashes.seconds(rows["offset"].to_numpy()[in_table])
    moments: dict[str, Moment] = {}
    ids, scores = rows["episode_id"].to_pylist(), rows["score"].to_pylist()
    for episode_id, score, second in zip(ids, scores, seconds.tolist(), strict=True):
        earliest = moments.get(episode_id)
        if earliest is None or second < earliest.seconds:
            moments[episode_id] = Moment(episode_id=episode_id, camera="", seconds=second, score=score)
    return list(moments.values())
