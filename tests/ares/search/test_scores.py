"""A search scores every episode: the cut selects exactly those above it, in pages, facets, sets and tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ares
from ares.errors import RequestError
from ares.search import EncodedQuery, EpisodeScores, Query, compute_facets, score_episodes, search
from ares.search.encoded_columns import count_frequent_values
from ares.store import in_condition, segment_schema
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

EPISODES = 1_500
QUERY = "open the drawer"


@pytest.fixture(scope="module")
def drawers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Episodes of 80 instructions of two words; five others have a caption with both words."""
    with ares.open(tmp_path_factory.mktemp("drawers") / "w", create=True) as ws:
        add_synthetic_episodes(ws, EPISODES)
        episodes = ws.stores.tables.episodes
        others = sorted(episodes.ids("instruction = 'push the mug'"))[:5]
        rows = [
            {"annotation_id": id, "episode_id": id, "annotator": "caption", "start_seconds": 0.0,
             "stop_seconds": 1.0, "camera": "front", "text": "opening a drawer", "maker_id": "m"}
            for id in others
        ]  # fmt: skip
        ws.stores.tables.segments.upsert(pa.Table.from_pylist(rows, schema=segment_schema()))
        ws.stores.tables.optimize()
        yield ws


@pytest.fixture(scope="module")
def scores(drawers: Workspace) -> EpisodeScores:
    return score_episodes(drawers.stores, EncodedQuery(drawers.stores, Query(text=QUERY)))


@pytest.fixture(scope="module")
def relevant(drawers: Workspace) -> set[str]:
    episodes = drawers.stores.tables.episodes
    return episodes.ids("instruction = 'open the drawer'") | set(
        drawers.stores.tables.segments.read()["episode_id"].to_pylist()
    )


def test_the_default_cut_selects_every_episode_with_the_words_and_no_other(
    scores: EpisodeScores, relevant: set[str]
) -> None:
    assert len(relevant) > 15
    assert set(scores.ranked_ids(scores.cut)[0]) == relevant
    assert scores.count(scores.cut) == len(relevant)


def test_scores_are_the_share_of_the_words_by_their_rarity(drawers: Workspace, scores: EpisodeScores) -> None:
    ids, values = scores.ranked_ids(0.0)
    score_of = dict(zip(ids, values.tolist(), strict=True))
    episodes = drawers.stores.tables.episodes
    texts = [episode.instruction for episode in episodes.read()] + ["opening a drawer"] * 5
    rarity = {}
    for word in ("open", "drawer"):
        count = sum(word in text for text in texts)
        rarity[word] = np.log1p((len(texts) - count + 0.5) / (count + 0.5))
    captioned = set(drawers.stores.tables.segments.read()["episode_id"].to_pylist())
    for episode in episodes.read():
        shared = sum(weight for word, weight in rarity.items() if word in episode.instruction)
        share = 1.0 if episode.episode_id in captioned else shared / sum(rarity.values())
        assert score_of[episode.episode_id] == pytest.approx(share, abs=1e-4)


def test_facets_count_what_passes_the_cut(
    drawers: Workspace, scores: EpisodeScores, relevant: set[str]
) -> None:
    columns = ["dataset", "success", "num_steps", "instruction", "instructions"]
    counted = compute_facets(drawers.stores, "num_steps > 50", columns, scores.rows(scores.cut))
    expected = compute_facets(
        drawers.stores, f"num_steps > 50 AND {in_condition('episode_id', relevant)}", columns
    )
    assert [facet.to_json() for facet in counted] == [facet.to_json() for facet in expected]


def test_columns_with_too_many_values_for_codes_are_counted_alike(
    drawers: Workspace, scores: EpisodeScores, relevant: set[str]
) -> None:
    rows = scores.rows(scores.cut)
    for column, kind in (("instruction", "string"), ("instructions", "list<string>"), ("robot", "string")):
        counted = count_frequent_values(rows.episodes, "success", column, kind, rows.row_mask)
        where = f"success AND {in_condition('episode_id', relevant)}"
        assert counted == count_frequent_values(rows.episodes, where, column, kind)
        assert 0 < sum(count for _, count in counted.counts) < len(relevant)


def test_a_set_of_a_search_has_what_passes_and_its_recipe_says_the_cut(
    drawers: Workspace, scores: EpisodeScores, relevant: set[str]
) -> None:
    by_default = drawers.sets.create("drawers", search=QUERY, min_score="auto")
    assert set(by_default.ids()) == relevant
    assert by_default.recipe["min_score"] == scores.cut
    lower = scores.cut - 0.6
    expected = set(scores.ranked_ids(lower, "success")[0])
    below = drawers.sets.create("more", search=QUERY, min_score=lower, where="success")
    assert set(below.ids()) == expected and len(expected) > 100
    assert len(list(drawers.sets.create("few", search=QUERY, min_score=lower, limit=7).ids())) == 7
    action = drawers.tag("drawer", search=QUERY, min_score="auto")
    assert action.count == len(relevant)
    drawers.undo()


def test_hits_have_the_score_and_none_is_below_the_cut(drawers: Workspace, relevant: set[str]) -> None:
    hits = search(drawers.stores, Query(text=QUERY, min_score="auto", limit=100))
    assert {hit.episode_id for hit in hits} == relevant
    assert {hit.score for hit in hits} == {1.0}
    assert not search(drawers.stores, Query(text="microscope", min_score="auto"))
    # A cut at 0 shows episodes that nothing speaks for.
    assert len(search(drawers.stores, Query(text="microscope", min_score=0.0, limit=30))) == 30


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan"), "best", True])
def test_a_cut_beyond_the_scale_is_refused(wrong: Any) -> None:
    with pytest.raises(RequestError, match="number from 0 to 1, or 'auto'"):
        Query(text="mug", min_score=wrong)


def test_a_cut_without_a_search_is_refused(drawers: Workspace) -> None:
    with pytest.raises(RequestError, match="belongs to a search"):
        drawers.sets.create("none", where="success", min_score=0.5)
