"""Choose: the episode ids that a filter, a search or a list names, with the recipe that says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import RequestError
from ares.store import filters

if TYPE_CHECKING:
    from ares.workspace import Workspace

# The order of a set: by place in the source, whatever the order of ingestion.
ORDER = "dataset, version, split, key"
# Episodes that a search contributes when no limit is given: a ranking has no natural end.
_SEARCH_LIMIT = 100
# Ids that one filter names, of a list that someone gave.
_LOOK_UP = 10_000


def choose(
    ws: Workspace,
    *,
    where: str = "",
    search: str = "",
    like: str = "",
    image: str = "",
    by: str = "",
    ids: Collection[str] = (),
    limit: int | None = None,
) -> tuple[Iterator[str], dict[str, Json]]:
    """Episode ids, and the recipe to keep with the set.

    Ids of a search come best first, those that a `limit` takes of a filter are the first by place in the source, and
    those of a list come as listed. Nothing is read before the ids are taken.

    Args:
        ws: The workspace.
        where: SQL filter; applies to a search and to a list of ids too.
        search: Text; the best `limit` episodes for it (100 without a limit), best first.
        like: Episode whose like is searched for; with `image` and `by` as of `ares.search.query.Query`.
        image: Image to search by.
        by: Ways to compare, with weights.
        ids: Episode ids, instead of a search.
        limit: Most episodes.

    Raises:
        RequestError: The filter cannot be read, or an id is not among the episodes that it leaves; that is known when
            all ids were taken.
    """
    recipe: dict[str, Json] = {"where": where, "search": search, "ids": len(ids), "limit": limit}
    asked = {"like": like, "image": image, "by": by}
    if search or like or image:
        recipe.update((name, text) for name, text in asked.items() if text)
        hits = ws.search(search, **asked, where=where, limit=limit or _SEARCH_LIMIT)
        return iter([hit.episode_id for hit in hits]), recipe
    if ids:
        return _known(ws, ids, where, limit), recipe
    # Which they are depends on the order only where a limit cuts it off.
    order = ORDER if limit is not None else ""
    batches = ws.tables.episodes.scan(["episode_id"], where=where, limit=limit, order_by=order)
    return (str(value) for batch in batches for value in batch.column("episode_id").to_pylist()), recipe


def _known(ws: Workspace, ids: Collection[str], where: str, limit: int | None) -> Iterator[str]:
    """The first ids, as listed; raises RequestError at the end when any is not among the episodes of a filter."""
    ws.tables.episodes.check(where)
    taken, unknown = set[str](), list[str]()
    for chunk in filters.chunks(ids, _LOOK_UP):
        listed = filters.among("episode_id", chunk)
        known = ws.tables.episodes.ids(f"{filters.alone(where)} AND {listed}" if where.strip() else listed)
        unknown += [one for one in chunk if one not in known]
        if limit is None:
            yield from (one for one in chunk if one in known)
            continue
        for one in chunk:
            if one in known and one not in taken and len(taken) < limit:
                taken.add(one)
                yield one
    if unknown:
        raise RequestError(f"{len(unknown)} ids are not among the episodes", f"first: {unknown[0]!r}")
