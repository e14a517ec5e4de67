"""Turns what people pass in Python for episodes and values into checked ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ares.episode import Episode
from ares.errors import RequestError, shorten
from ares.io import expanded_path
from ares.search import Hit

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.jobs import EpisodeSelection, IngestRequest, MediaMode
    from ares.search import MinScore
    from ares.store import StoredSegment


class SelectionOptions(TypedDict, total=False):
    """The conditions of a selection of episodes, see `EpisodeSelection`."""

    where: str
    set: str
    dataset: str
    search: str
    like: str | Episode | Hit
    image: str
    by: str
    limit: int | None
    min_score: MinScore | None


class IngestKeywords(TypedDict, total=False):
    """What may be chosen for an ingestion, see `IngestRequest`; the engine is "local" or "ray"."""

    format: str
    dataset: str
    rate_hz: float | None
    cameras: str
    spec: str | os.PathLike[str]
    options: str | os.PathLike[str]
    media: MediaMode
    limit: int | None
    settle_seconds: float
    verify: bool
    engine: str


def make_ingest_request(sources: Iterable[str | os.PathLike[str]], keywords: IngestKeywords) -> IngestRequest:
    """The request of an ingestion, with paths as Python has them."""
    from ares.jobs import ComputePlan, IngestRequest

    values: dict[str, Any] = dict(keywords)
    values |= {name: expanded_path(values[name]) for name in ("spec", "options") if name in values}
    compute = ComputePlan(engine=values.pop("engine", "local"))
    return IngestRequest(sources=tuple(map(expanded_path, sources)), compute=compute, **values)


def read_episode_ids(items: Iterable[object]) -> list[str]:
    """The ids of some episodes, or of the one that an object is about.

    Raises:
        RequestError: It is a table, a single text, or a list of something else.
    """
    from ares.store import StoredSegment

    kind = type(items).__name__
    if isinstance(items, Episode | Hit | StoredSegment):
        return [items.episode_id]
    if type(items).__name__ in ("Episodes", "StoredSet"):
        return list(items.ids())  # type: ignore[attr-defined]
    if isinstance(items, str) or getattr(items, "ndim", 1) != 1 or not isinstance(items, Iterable):
        form = (
            "the text comes first: ws.tag('name', view)"
            if kind == "str"
            else "give for example df['episode_id']"
        )
        raise RequestError("ids are a list of episode ids", f"got a {kind}; {form}")
    return [read_episode_id(item, f"a {kind} with ") for item in items]


def read_episode_id(item: object, within: str = "") -> str:
    """The id of an episode, or of what has one; a text is an id. Raises RequestError, with where it is, for others."""
    from ares.store import StoredSegment

    if isinstance(item, Episode | Hit | StoredSegment):
        return item.episode_id
    if isinstance(item, str):
        return item
    raise RequestError(
        "an episode is given by its id, or as it is",
        f"got {within}{type(item).__name__} {shorten(repr(item), 60)}",
    )


def read_values(values: Any) -> tuple[pa.Array, pa.Array]:
    """(N,) ids and (N,) values of a mapping by id, or of a Series of pandas with ids as its index.

    Raises:
        RequestError: It is something else, an id is no text, or the values are of several types.
    """
    import pyarrow as pa

    if not hasattr(values, "items") or getattr(values, "ndim", 1) != 1:
        raise RequestError(
            "values are given by id",
            f"got a {type(values).__name__}; give {{id: 0.5}}, or of a frame"
            " dict(zip(frame['episode_id'], frame['score']))",
        )
    pairs = list(values.items())
    ids = [read_episode_id(episode) for episode, _ in pairs]
    return pa.array(ids, pa.string()), make_values_array([value for _, value in pairs])


def make_values_array(values: Any) -> pa.Array:
    """Values as one Arrow array, a missing one as null. Raises RequestError for several types, or none of Arrow."""
    import pyarrow as pa

    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    reason = "the values of a column are of one type, flags, numbers or texts"
    if bool in (kinds := set(map(type, listed))) and kinds - {bool, type(None)}:
        raise RequestError(reason, "got true or false beside others")
    try:
        return pa.array(listed, from_pandas=True)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise RequestError(reason, str(error).splitlines()[0]) from None


def read_id_file(path: Path) -> list[str]:
    """The ids in a text file, separated by white space. Raises RequestError for a file that cannot be read."""
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("the list of ids cannot be read", f"{str(path)!r}: {error}") from None


if TYPE_CHECKING:
    # Ids, episodes, hits of a search, or segments; the path of a text file of ids; or a selection as it is.
    EpisodesLike: TypeAlias = Iterable[str | Episode | Hit | StoredSegment] | Path | EpisodeSelection


def make_selection(
    episodes: EpisodesLike | None, options: SelectionOptions, if_empty: str = "no episode is selected"
) -> EpisodeSelection:
    """The selection of a list and conditions; without a list (None) that of the conditions alone.

    Raises:
        RequestError: They cannot be combined, are no ids, or the list is empty; `if_empty` is the reason then.
    """
    from ares.jobs import EpisodeSelection

    conditions: dict[str, Any] = dict(options)
    if conditions.get("like"):
        conditions["like"] = read_episode_id(conditions["like"])
    if isinstance(episodes, EpisodeSelection):
        if options:
            raise RequestError("a selection has all conditions", f"leave out {', '.join(options)}")
        return episodes
    if episodes is None:
        return EpisodeSelection(**conditions)
    ids = read_id_file(episodes) if isinstance(episodes, Path) else read_episode_ids(episodes)
    if not len(ids):  # the conditions alone would select
        raise RequestError(if_empty, "the list of episodes is empty")
    return EpisodeSelection(ids=ids, **conditions)
