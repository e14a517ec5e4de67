"""Search: from a text, an image or an episode to the best moments, filtered before they are ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.search import ways
from ares.search.query import Hit, Query
from ares.search.rank import Ranking, fuse, together

if TYPE_CHECKING:
    from ares.store.vectors import Moment
    from ares.workspace import Workspace


def search(ws: Workspace, query: Query) -> list[Hit]:
    """The best moment of each of the best episodes, at most `query.limit`.

    Raises:
        RequestError: The filter cannot be read, or there is nothing to search in the way that was asked.
        ModelError: The model of the embedding space cannot be loaded.
    """
    among = ws.tables.episodes.held(query.where) if query.where.strip() else None
    asked = ways.Asked(ws=ws, query=query, among=among)
    parts = [(part, weight) for way, weight in query.weights.items() for part in ways.RANKINGS[way](asked)]
    answers = zip(together([part for part, _ in parts]), parts, strict=True)
    found = [Ranking(moments, weight) for moments, (_, weight) in answers if moments]
    moments = fuse(found) if len(found) > 1 else [moment for ranking in found for moment in ranking.moments]
    itself = {query.like, ways.episode_of(query.image)}
    others = [moment for moment in moments if moment.episode_id not in itself]
    return _hits(asked, others[: query.limit])


def _hits(asked: ways.Asked, moments: Sequence[Moment]) -> list[Hit]:
    if not moments:
        return []
    ws = asked.ws
    wanted = ["episode_id", "dataset", "instruction", "caption", "acceptable", "grade"]
    there = [column for column in wanted if column in ws.tables.episodes.columns()]
    ids = ", ".join(f"'{moment.episode_id}'" for moment in moments)
    rows = {row["episode_id"]: row for row in ws.frame(there, f"episode_id IN ({ids})").to_pylist()}
    shown = ways.moments_of(asked, [moment.episode_id for moment in moments])
    return [
        _hit(moment, rows[moment.episode_id], shown.get(moment.episode_id, ()))
        for moment in moments
        if moment.episode_id in rows
    ]


def _hit(moment: Moment, row: dict[str, object], moments: Sequence[Moment]) -> Hit:
    acceptable, caption, grade = row.get("acceptable"), row.get("caption"), row.get("grade")
    return Hit(
        episode_id=moment.episode_id,
        dataset=str(row["dataset"]),
        camera=moment.camera,
        seconds=float(moment.seconds),
        score=float(moment.score),
        instruction=str(row["instruction"] or ""),
        caption=None if caption is None else str(caption),
        acceptable=None if acceptable is None else bool(acceptable),
        grade=None if grade is None else str(grade),
        moments=tuple((one.camera, one.seconds, one.score) for one in moments),
    )
