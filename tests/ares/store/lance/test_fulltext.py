"""Full-text search returns the best episodes by BM25, with any filter and with repeated texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.store.lance import text as fulltext
from ares.store.lance.row_index import RowIndex
from ares.store.lance.table import TableWriter
from ares.store.lance_tables import Tables, open_tables

_WORDS = [f"w{letter}x" for letter in "abcdefghij"]
_EPISODES = [f"episode{number:02}" for number in range(30)]


def _captions(seed: int, count: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    episodes = np.sort(rng.integers(0, len(_EPISODES), count))
    texts = [" ".join(rng.choice(_WORDS, rng.integers(1, 5))) for _ in range(count)]
    return pa.table(
        {
            "annotation_id": [f"{seed}-{number:04}" for number in range(count)],
            "episode_id": [_EPISODES[text] for text in episodes],
            "start_seconds": rng.integers(0, 9, count).astype(float),
            "text": texts,
        }
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Three hundred captions of few words, written in three goes and indexed, with a hole."""
    tables = open_tables(str(tmp_path_factory.mktemp("words") / "lance"))
    for seed in range(3):
        tables.segments.upsert(_captions(seed, 100))
    tables.optimize()
    return tables


def _expected_scores(
    rows: Sequence[dict[str, object]], query: str, candidates: set[str] | None
) -> dict[str, tuple[float, ...]]:
    """BM25 of every caption; of each episode the best, the earliest of equals."""
    texts = [Counter(str(row["text"]).split()) for row in rows]
    mean = sum(text.total() for text in texts) / len(texts)
    best: dict[str, tuple[float, ...]] = {}
    for row, counts in zip(rows, texts, strict=True):
        score = 0.0
        for word in query.split():
            containing = sum(word in other for other in texts)
            rarity = math.log((len(texts) - containing + 0.5) / (containing + 0.5) + 1)
            score += (
                rarity * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * counts.total() / mean))
            )
        episode, second = str(row["episode_id"]), row["start_seconds"]
        assert isinstance(second, float)
        if score and (candidates is None or episode in candidates):
            best[episode] = min(best.get(episode, (0.0, 0.0)), (-round(score, 4), second))
    return best


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3, unique=True).map(" ".join),
    candidates=st.none() | st.sets(st.sampled_from(_EPISODES), max_size=30),
    limit=st.integers(1, 40),
    max_scanned_rows=st.sampled_from([0, 30_000]),
)
def test_the_best_episodes_are_those_of_bm25(
    indexed: Tables, query: str, candidates: set[str] | None, limit: int, max_scanned_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fulltext, "_MAX_SCANNED_ROWS", max_scanned_rows)
        hits = indexed.segments.search_text(query, limit, candidates)
    expected_scores = _expected_scores(indexed.segments.read().to_pylist(), query, candidates)
    assert len(hits) == min(limit, len(expected_scores))
    expected = sorted((score, episode) for episode, (score, _) in expected_scores.items())[:limit]
    assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in expected], abs=2e-4)
    for hit in hits:
        score, second = expected_scores[hit.episode_id]
        assert hit.score == pytest.approx(-score, abs=2e-4) and hit.start_seconds == second
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.episode_id))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.lists(st.sampled_from(_WORDS), min_size=1, max_size=2).map(" ".join),
    candidates=st.frozensets(st.sampled_from(_EPISODES), min_size=1),
)
def test_what_is_newer_than_the_index_is_found_as_after_it(
    fresh: tuple[Tables, Tables], query: str, candidates: frozenset[str]
) -> None:
    before, after = ({hit[:1] for hit in text.segments.search_text(query, 30, candidates)} for text in fresh)
    assert before == after


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Tables]:
    """The same captions: some of them newer than the index, and all of them in it."""
    opened = []
    for name in ("tail", "whole"):
        tables = open_tables(str(tmp_path_factory.mktemp(name) / "lance"))
        tables.segments.upsert(_captions(0, 60))
        tables.optimize()
        tables.segments.upsert(_captions(1, 50))
        opened.append(tables)
    opened[1].optimize()
    return opened[0], opened[1]


def test_an_episode_that_says_it_a_hundred_times_leaves_room_for_others(tmp_path: Path) -> None:
    tables = open_tables(str(tmp_path))
    rows = {
        "annotation_id": [f"a{number:03}" for number in range(203)],
        "episode_id": ["often"] * 200 + ["b", "a", "c"],
        "start_seconds": [float(number) for number in range(200, 0, -1)] + [1.0, 2.0, 3.0],
        "text": ["open the drawer"] * 200 + ["open the drawer slowly"] * 3,
    }
    tables.segments.upsert(pa.table(rows))
    for limit, expected in ((1, ["often"]), (3, ["often", "a", "b"]), (9, ["often", "a", "b", "c"])):
        hits = tables.segments.search_text("open drawer", limit)
        assert [hit.episode_id for hit in hits] == expected
        assert (hits[0].start_seconds, hits[0].annotation_id) == (1.0, "a199")
    assert [hit.episode_id for hit in tables.segments.search_text("drawer", 2, ["c", "a"])] == ["a", "c"]


_SHARED = [
    "open the doors",
    "Opening a door",
    "push mugs into the drawer",
    None,
    "",
    "OPEN",
    "opener: push-mug",
]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from(_SHARED), min_size=1, max_size=60),
    words=st.lists(st.sampled_from(["open", "doors", "the", "mug", "push", "nothing"]), max_size=4),
)
def test_a_word_among_shared_texts_has_the_rows_that_it_has_in_the_table(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], words: list[str]
) -> None:
    uri = str(tmp_path_factory.mktemp("shared") / "t.lance")
    rows = {
        "episode_id": [f"{number:016x}" for number in range(len(texts))],
        "text": pa.array(texts, pa.string()),
    }
    dataset = lance.write_dataset(pa.table(rows), uri)
    fulltext.create_fulltext_index(TableWriter("t", lambda: dataset), "text")
    shared = fulltext.find_distinct_texts(dataset, "text")
    expected = fulltext.rows_with_words(dataset, RowIndex(dataset), "text", words)
    if shared is None:
        assert set(texts) == {None}
        return
    for own, others in zip(shared.rows_with_words(words), expected, strict=True):
        assert own.tolist() == sorted(others.tolist())
    matching = shared.matching_rows("contains(lower(text), 'door') OR text IS NULL")
    assert matching is not None
    assert matching.tolist() == [text is None or "door" in text.lower() for text in texts]
    constant = shared.matching_rows("(('open' = text) IS NOT FALSE) IS NOT NULL")
    assert constant is not None and constant.all()
    assert shared.matching_rows("contains(text, 'door') OR episode_id = '0'") is None


def test_texts_that_most_rows_do_not_share_are_searched_where_they_are(tmp_path: Path) -> None:
    texts = pa.table({"text": [f"episode {number}" for number in range(3_000)]})
    assert fulltext.find_distinct_texts(lance.write_dataset(texts, tmp_path / "t.lance"), "text") is None
