"""Every ranker keeps the protocol, and one of another package is used like ours."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import pytest

from ares.errors import RequestError
from ares.registry import rankers
from ares.search import Query
from ares.search.query import QUERY_PARTS, QueryPart
from ares.search.rankers.base import MomentRanker
from ares.settings import Settings
from ares.store import Moment, Stores
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes


class LengthRanker:
    """Ranks long episodes first, for any text."""

    query_parts: ClassVar[tuple[QueryPart, ...]] = ("text",)

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[str]:
        """The text."""
        return [query.text] if query.text else []

    def rank(self, encoded: str, candidates: Collection[str] | None, limit: int) -> list[Moment]:
        """Episodes by number of steps."""
        rows = self._stores.tables.episodes.read_columns(["episode_id", "num_steps"]).to_pylist()
        moments = [
            Moment(episode_id=row["episode_id"], camera="", seconds=0.0, score=float(row["num_steps"]))
            for row in rows
            if candidates is None or row["episode_id"] in candidates
        ]
        return sorted(moments, key=lambda moment: (-moment.score, moment.episode_id))[:limit]


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Fifty episodes without vectors."""
    workspace = open_workspace(str(tmp_path_factory.mktemp("rankers") / "ws"), Settings())
    add_synthetic_episodes(workspace, 50)
    return workspace


@pytest.mark.parametrize("name", rankers.names())
def test_a_ranker_names_what_it_compares(name: str, ws: Workspace) -> None:
    ranker = rankers.get(name)(ws.stores)
    assert ranker.query_parts and set(ranker.query_parts) <= set(QUERY_PARTS)
    assert callable(ranker.encode) and callable(ranker.rank)
    assert isinstance(ranker, MomentRanker) == (name == "frames")


@pytest.mark.parametrize("name", ["captions", "frames", "meaning"])
def test_a_default_search_leaves_out_a_ranker_without_data(name: str, ws: Workspace) -> None:
    encoded = rankers.get(name)(ws.stores).encode(Query(text="a drawer"))
    assert list(encoded) == (["a drawer"] if name == "captions" else [])


def test_a_ranker_of_another_package_is_used_by_its_name(ws: Workspace) -> None:
    rankers.add("length", LengthRanker)
    hits = ws.search("anything", by="length", limit=3)
    longest = sorted(
        ws.stores.tables.episodes.read_columns(["num_steps"])["num_steps"].to_pylist(), reverse=True
    )[:3]
    assert [hit.rank_value for hit in hits] == longest
    filtered = ws.search("anything", by="length", where="success", limit=100)
    assert len(filtered) == ws.stores.tables.episodes.count("success")
    with pytest.raises(RequestError, match=r"image cannot be compared by length: there are frames$"):
        Query(image="mug.png", by="length")
    with pytest.raises(RequestError, match=r"no ranker 'size': there are: action, .*length"):
        Query(text="a", by="size")
