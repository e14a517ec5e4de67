"""Meaning: episodes by what was said of them, compared as vectors of texts, so that other words are found too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ares.search.spaces import encoder
from ares.store.filters import among as one_of
from ares.store.texts import TextTable
from ares.store.vectors import Moment

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.space import Space
    from ares.workspace import Workspace

_ENCODED_AT_ONCE = 256
_MOST_AT_ONCE = 256


def embed_texts(ws: Workspace, space: Space) -> int:
    """Make the vectors of captions and instructions that have none in a space. Returns how many were made.

    Raises ModelError when the model of the space cannot be loaded.
    """
    table = TextTable(ws.tables, space.name)
    texts = table.missing()
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        chunk = texts[start : start + _ENCODED_AT_ONCE]
        table.add(chunk, encoder(space).encode_texts(chunk))
    return len(texts)


def said_like(
    ws: Workspace,
    space: Space,
    query: NDArray[np.float32],
    limit: int,
    where: str = "",
    among: Collection[str] | None = None,
) -> list[Moment]:
    """Episodes whose caption or instruction means what a vector means, best first; one moment each.

    Texts are gone through from the best on until enough episodes have one, so a narrow filter loses none.

    Args:
        ws: The workspace.
        space: Embedding space of the vector.
        query: (D,) unit vector.
        limit: Most episodes.
        where: Filter of the episodes, as SQL.
        among: The same filter as ids, or None for all.
    """
    best: dict[str, Moment] = {}
    for texts in _growing(TextTable(ws.tables, space.name).nearest(query)):
        for moment in _moments(ws, texts, limit, where, among):
            best.setdefault(moment.episode_id, moment)
        if len(best) >= limit:
            break
    return list(best.values())[:limit]


def _growing(texts: Iterable[tuple[str, float]]) -> Iterator[list[tuple[str, float]]]:
    """One text, then two, four and so on: the first ones have enough episodes as a rule."""
    left, size = iter(texts), 1
    while part := list(islice(left, size)):
        yield part
        size = min(2 * size, _MOST_AT_ONCE)


def _moments(
    ws: Workspace,
    texts: Sequence[tuple[str, float]],
    limit: int,
    where: str,
    among: Collection[str] | None,
) -> Iterator[Moment]:
    """Moments of episodes told or described with some texts, by the place of the text, then the episode."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names, scores = [text for text, _ in texts], [score for _, score in texts]
    rows = pa.concat_tables([_told(ws, names, limit, where), ws.tables.segments.spans("text", names)])
    if among is not None:
        rows = rows.filter(pc.is_in(rows["episode_id"], pa.array(among, pa.string())))
    ranked = rows.append_column("rank", pc.index_in(rows["text"], pa.array(names)))
    ordered = ranked.sort_by([(name, "ascending") for name in ("rank", "episode_id", "seconds")])
    for batch in ordered.to_batches(max_chunksize=max(limit, 1)):
        for row in batch.to_pylist():
            yield Moment(
                episode_id=row["episode_id"], camera="", seconds=row["seconds"], score=scores[row["rank"]]
            )


def _told(ws: Workspace, texts: Sequence[str], limit: int, where: str) -> pa.Table:
    """Episodes with these instructions, as the rows of `SegmentTable.spans`."""
    import numpy as np
    import pyarrow as pa

    condition = " AND ".join(
        part for part in (one_of("instruction", texts), f"({where})" if where else "") if part
    )
    # All rows of one text are worth the same, so the first by id are enough.
    few = len(texts) == 1
    scanned = ws.tables.episodes.scan(
        ["episode_id", "instruction"],
        where=condition,
        limit=limit if few else None,
        order_by="episode_id" if few else "",
    )
    rows = pa.Table.from_batches(scanned, schema=ws.tables.episodes.schema(["episode_id", "instruction"]))
    columns = [rows["episode_id"], pa.array(np.zeros(len(rows))), rows["instruction"]]
    return pa.Table.from_arrays(columns, names=["episode_id", "seconds", "text"])
