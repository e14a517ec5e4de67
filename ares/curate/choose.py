"""Choose: the episode ids that a filter, a search or a list names, with the recipe that says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import RequestError
from ares.store import filters
from ares.store.scratch import Scratch

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace

# The order of a set: by place in the source, whatever the order of ingestion.
ORDER = "dataset, version, split, key"
# Episodes that a search contributes when no limit is given: a ranking has no natural end.
_SEARCH_LIMIT = 100
# Ids of a list that one filter names; of a longer one each is looked for among all episodes.
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
            the first id is taken.
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
    """The first ids, each once, as listed. Raises RequestError when any is not among the episodes of a filter."""
    import pyarrow as pa

    # By itself first: a fault is pointed at in the filter that was given, not among the ids.
    ws.tables.episodes.check(where)
    few = filters.among("episode_id", ids) if len(ids) <= _LOOK_UP else ""
    condition = " AND ".join(filters.alone(part) for part in (where, few) if part.strip())
    with Scratch() as scratch:
        schema = pa.schema([("episode_id", pa.string()), ("place", pa.int64())])
        scratch.put("listed", schema, _listed(ids, schema))
        scratch.put(
            "there",
            ws.tables.episodes.schema(["episode_id"]),
            ws.tables.episodes.scan(["episode_id"], condition),
        )
        scratch.make("unknown", "SELECT episode_id, place FROM listed ANTI JOIN there USING (episode_id)")
        unknown = scratch.ask("SELECT count(*) AS n, arg_min(episode_id, place) AS first FROM unknown")
        count, first = unknown["n"][0].as_py(), unknown["first"][0].as_py()
        if count:
            raise RequestError(f"{count} ids are not among the episodes", f"first: {first!r}")
        taken = f"LIMIT {limit}" if limit is not None else ""
        once = f"SELECT episode_id FROM listed GROUP BY episode_id ORDER BY min(place) {taken}"
        for batch in scratch.stream(once):
            yield from batch["episode_id"].to_pylist()


def _listed(ids: Collection[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for number, chunk in enumerate(filters.chunks(ids, _LOOK_UP)):
        places = pa.array(range(number * _LOOK_UP, number * _LOOK_UP + len(chunk)), pa.int64())
        yield pa.record_batch([pa.array(chunk, pa.string()), places], schema=schema)
