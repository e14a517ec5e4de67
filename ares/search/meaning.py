"""Meaning: episodes by what was said of them, compared as vectors of texts, so that other words are found too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.search.spaces import encoder
from ares.store.firsts import firsts
from ares.store.told import Told
from ares.store.vectors import Moment

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.known import Numbers
    from ares.store.space import Space
    from ares.workspace import Workspace

_ENCODED_AT_ONCE, _WRITTEN_AT_ONCE = 256, 8_192
# Rows gone through at once per episode wanted, unless one text alone has more.
_ROWS_PER_EPISODE = 4

# A cosine similarity, and the numbers of all texts that have it.
Alike = tuple[float, "NDArray[np.int64]"]


def embed_texts(ws: Workspace, space: Space) -> int:
    """Make the vectors of captions and instructions that have none in a space. Returns how many were made.

    Raises ModelError when the model of the space cannot be loaded.
    """
    import numpy as np

    table, made = ws.tables.texts(space.name), 0
    for texts in table.missing(_WRITTEN_AT_ONCE):
        parts = [texts[at : at + _ENCODED_AT_ONCE] for at in range(0, len(texts), _ENCODED_AT_ONCE)]
        table.add(texts, np.concatenate([encoder(space).encode_texts(part) for part in parts]))
        made += len(texts)
    return made


def said_like(
    ws: Workspace,
    space: Space,
    query: NDArray[np.float32],
    limit: int,
    among: Collection[str] | None = None,
) -> list[Moment]:
    """Episodes whose caption or instruction means what a vector means, best first; one moment each.

    Texts are gone through from the best on until enough episodes have one, so a narrow filter loses none; the moment of
    an episode is the earliest at which its best text was said, and episodes with equal texts stand by id.

    Args:
        ws: The workspace.
        space: Embedding space of the vector.
        query: (D,) unit vector.
        limit: Most episodes.
        among: Only these episodes, or None for all.

    Raises:
        StoreError: The query has another length than the vectors of the space.
    """
    import numpy as np

    known = ws.tables.texts(space.name).look(len(query))
    if known is None:
        return []
    tables = [
        _Said.of(told, known.numbers, among)
        for told in (ws.tables.segments.told(), ws.tables.episodes.told())
    ]
    rows = np.sum([said.per_text(known.near.rows) for said in tables], axis=0)
    found: list[pa.Table] = []
    seen: set[str] = set()
    for part in _parts(known.ranked(query, rows > 0), rows, _ROWS_PER_EPISODE * limit):
        found.append(_rows(tables, part, len(rows), limit))
        seen.update(found[-1]["episode_id"].to_pylist())
        if len(seen) >= limit:
            break
    return _moments(tables, found, limit)


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """Rows of a table by the numbers of their texts.

    Attributes:
        told: The table.
        kept: Places of the rows, in the order of a scan.
        numbers: (N,) of each of them, -1 for a text without a vector.
    """

    told: Told
    kept: NDArray[np.int64] | slice
    numbers: NDArray[np.int32]

    @classmethod
    def of(cls, told: Told, numbers: Numbers, among: Collection[str] | None) -> _Said:
        kept = told.kept(among)
        return cls(told, kept, numbers.of(told.texts)[kept])

    def per_text(self, texts: int) -> NDArray[np.int64]:
        """(T,) how many rows say each text."""
        import numpy as np

        return np.bincount(self.numbers + 1, minlength=texts + 1)[1:]

    def rows(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Places and scores of the rows whose text has one. Args: (T + 1,) scores, NaN for none, and at the end."""
        import numpy as np

        scored = scores[self.numbers]
        at = np.flatnonzero(~np.isnan(scored))
        return at if isinstance(self.kept, slice) else self.kept[at], scored[at]


def _parts(ranked: Iterator[Alike], rows: NDArray[np.int64], most: int) -> Iterator[list[Alike]]:
    """The texts in parts that have so many rows, each part twice as many as that before it, or one text."""
    part, said = list[Alike](), 0
    for score, numbers in ranked:
        many = int(rows[numbers].sum())
        if part and said + many > most:
            yield part
            part, said, most = [], 0, 2 * most
        part.append((score, numbers))
        said += many
    if part:
        yield part


def _rows(tables: Sequence[_Said], part: Sequence[Alike], texts: int, limit: int) -> pa.Table:
    """The rows with the best text of each of the best episodes that were told or described with some texts.

    Returns:
        Columns episode_id, score, table and offset, best score first, then by id.
    """
    import numpy as np
    import pyarrow as pa

    scores = np.full(texts + 1, np.nan)
    for score, numbers in part:
        scores[numbers] = score
    found = pa.concat_tables([_scored(number, said, scores) for number, said in enumerate(tables)])
    return firsts(found, "score", "descending", limit)[0]


def _scored(number: int, said: _Said, scores: NDArray[np.float64]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    offsets, scored = said.rows(scores)
    ids = said.told.rows.episode_ids.take(said.told.rows.runs_at(offsets))
    table = np.full(len(offsets), number, np.int8)
    return pa.table({"episode_id": ids, "score": scored, "table": table, "offset": offsets})


def _moments(tables: Sequence[_Said], found: Sequence[pa.Table], limit: int) -> list[Moment]:
    """The first moment of each of the best episodes, of rows that were found part by part."""
    import numpy as np
    import pyarrow as pa

    if not found:
        return []
    kept, _ = firsts(pa.concat_tables(found), "score", "descending", limit)
    seconds = np.zeros(len(kept))
    for number, said in enumerate(tables):
        mine = kept["table"].to_numpy() == number
        seconds[mine] = said.told.seconds(kept["offset"].to_numpy()[mine])
    best: dict[str, Moment] = {}
    ids, scores = kept["episode_id"].to_pylist(), kept["score"].to_pylist()
    for episode_id, score, second in zip(ids, scores, seconds.tolist(), strict=True):
        there = best.get(episode_id)
        if there is None or second < there.seconds:
            best[episode_id] = Moment(episode_id=episode_id, camera="", seconds=second, score=score)
    return list(best.values())
