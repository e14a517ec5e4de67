"""Frame vectors: exact cosine search with filters, and vectors that a killed job left behind."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray

from ares.errors import RequestError, StoreError
from ares.store import Moment
from ares.store.lance_tables import Tables, open_tables
from ares.store.vectors.tables import VectorTable
from ares_annotators.base import FrameVectors


def _frames(
    episode_id: str, camera: str, seconds: Sequence[float], vectors: NDArray[np.float32]
) -> FrameVectors:
    return FrameVectors(episode_id=episode_id, camera=camera, seconds=np.array(seconds), vectors=vectors)


def _embedded(episodes: int, frames: int = 4, dim: int = 8) -> list[FrameVectors]:
    rng = np.random.default_rng(7)
    rows = []
    for number, camera in itertools.product(range(episodes), ("front", "o'clock")):
        vectors = rng.normal(size=(frames, dim)).astype(np.float32)
        # As the table keeps them.
        unit = (
            (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
        )
        rows.append(_frames(f"episode{number}", camera, [frame / 2 for frame in range(frames)], unit))
    return rows


@pytest.fixture
def vectors(tables: Tables) -> VectorTable:
    """Ten episodes of two cameras and four frames."""
    table = tables.vectors("clip-8")
    table.add(_embedded(10))
    return table


def _brute_force(
    rows: list[FrameVectors], query: NDArray[np.float32], candidates: set[str] | None
) -> list[Moment]:
    moments = [
        Moment(
            episode_id=row.episode_id, camera=row.camera, seconds=float(second), score=_cosine(vector, query)
        )
        for row in rows
        if candidates is None or row.episode_id in candidates
        for second, vector in zip(row.seconds, row.vectors, strict=True)
    ]
    return sorted(moments, key=lambda moment: -moment.score)


def _cosine(vector: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.lists(st.integers(-5, 5), min_size=8, max_size=8).filter(any),
    limit=st.integers(1, 90),
    candidates=st.none() | st.sets(st.integers(0, 12).map("episode{}".format)),
)
def test_search_is_exact(
    vectors: VectorTable, query: list[int], limit: int, candidates: set[str] | None
) -> None:
    query_vector = np.array(query, np.float32)
    expected = _brute_force(_embedded(10), query_vector, candidates)[:limit]
    moments = vectors.search(query_vector, limit, candidates)
    assert [moment.score for moment in moments] == pytest.approx(
        [moment.score for moment in expected], abs=1e-5
    )
    scores = {(moment.episode_id, moment.camera, moment.seconds): moment.score for moment in expected}
    assert len(moments) == len({(moment.episode_id, moment.camera, moment.seconds) for moment in moments})
    for moment in moments[:-1]:
        key = (moment.episode_id, moment.camera, moment.seconds)
        assert scores.get(key, expected[-1].score) == pytest.approx(moment.score, abs=1e-5)


def test_equal_scores_stand_in_one_order(tables: Tables) -> None:
    """Whatever the order in which they were written, and wherever the cut falls."""
    same = np.ones((3, 4), np.float32)
    rows = [
        _frames(f"e{number}", camera, [2.0, 0.0, 1.0], same) for number in range(9) for camera in ("b", "a")
    ]
    expected = sorted((row.episode_id, row.camera, second) for row in rows for second in row.seconds)
    for seed in range(3):
        table = tables.vectors(f"space{seed}")
        for row in random.Random(seed).sample(rows, len(rows)):
            table.add([row])
        for limit in (1, 5, 53, 54, 100):
            keys = [
                (moment.episode_id, moment.camera, moment.seconds)
                for moment in table.search(np.ones(4, np.float32), limit)
            ]
            assert keys == expected[:limit]


def test_frames_of_some_episodes_are_all_compared(
    vectors: VectorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of an episode beside one with many better frames; what is compared at once changes nothing."""
    query = np.arange(8, dtype=np.float32)
    crowd = _frames("many", "front", [float(second) for second in range(900)], np.tile(query / 12, (900, 1)))
    vectors.add([crowd])
    expected = _brute_force(_embedded(10), query, {"episode1", "episode2"})
    for batch in (100, 10_000):
        monkeypatch.setattr("ares.store.vectors.tables._BATCH_FRAMES", batch)
        moments = list(vectors.score_frames(query, ["many", "episode1", "nobody", "episode2"]))
        others = sorted((moment.score for moment in moments if moment.episode_id != "many"), reverse=True)
        assert others == pytest.approx([moment.score for moment in expected], abs=1e-5)
        assert len(moments) == 900 + len(expected)
    assert list(vectors.score_frames(query, [])) == list(vectors.score_frames(query, ["nobody"])) == []
    with pytest.raises(StoreError, match="another dimension"):
        list(vectors.score_frames(np.ones(5, np.float32), ["many"]))


def test_the_mean_of_an_episode_is_over_all_its_frames_of_all_cameras(tables: Tables) -> None:
    table = tables.vectors("clip-8")
    assert table.mean_vectors(["episode0"]) == {}
    rows = [*_embedded(3, frames=4), *_embedded(5, frames=1)[6:]]
    for row in reversed(rows):
        table.add([row])
    means = table.mean_vectors(["episode4", "episode1", "episode0", "gone"])
    assert means.keys() == {"episode4", "episode1", "episode0"}
    for episode, mean in means.items():
        own = np.concatenate([row.vectors for row in rows if row.episode_id == episode])
        assert mean.dtype == np.float32 and mean == pytest.approx(own.mean(axis=0), abs=1e-6)


def test_vectors_of_an_episode_come_back(vectors: VectorTable) -> None:
    front, wrist = _embedded(10)[6:8]
    cameras, seconds, stored = vectors.read("episode3")
    assert cameras == ["front"] * 4 + ["o'clock"] * 4
    assert seconds.tolist() == [0.0, 0.5, 1.0, 1.5] * 2
    assert stored.dtype == np.float32
    assert np.array_equal(stored, np.concatenate([front.vectors, wrist.vectors]))


def test_nothing_embedded_yet(tables: Tables) -> None:
    table = tables.vectors("empty")
    assert table.count() == 0
    assert table.search(np.ones(4, np.float32), 5) == []
    assert table.read("episode1")[2].shape[0] == 0
    assert table.delete_unknown(set().intersection) == 0
    table.add([])
    assert tables.spaces() == []


def test_spaces_are_those_with_vectors(tables: Tables, vectors: VectorTable) -> None:
    tables.vectors("another").add(_embedded(1, dim=3))
    assert tables.spaces() == ["another", "clip-8"]
    assert open_tables(tables.uri).vectors("clip-8").count() == vectors.count() == 80


def test_adding_again_replaces(vectors: VectorTable) -> None:
    vectors.add(_embedded(10)[:4])
    assert vectors.count() == 80
    vectors.add([_frames("episode0", "front", [9.0], np.ones((1, 8), np.float32))])
    assert vectors.count() == 77
    assert vectors.read("episode0")[0] == ["front"] + ["o'clock"] * 4


def test_vectors_of_episodes_that_the_log_does_not_know_go(vectors: VectorTable) -> None:
    assert vectors.delete_unknown({"episode1", "episode2", "never seen"}.intersection) == 64
    assert vectors.delete_unknown({"episode1", "episode2"}.intersection) == 0
    assert {moment.episode_id for moment in vectors.search(np.ones(8, np.float32), 100)} == {
        "episode1",
        "episode2",
    }


def test_vectors_of_another_length_are_refused(vectors: VectorTable) -> None:
    with pytest.raises(StoreError, match="another dimension"):
        vectors.add([_frames("episode1", "front", [0.0], np.ones((1, 5), np.float32))])
    with pytest.raises(StoreError, match="another dimension"):
        vectors.search(np.ones(5, np.float32), 3)
    assert vectors.count() == 80


@pytest.mark.parametrize("space", ["", "a/b", "../x", "a b", "ü"])
def test_a_space_that_no_table_can_be_named_for(tables: Tables, space: str) -> None:
    with pytest.raises(RequestError, match="cannot be the name of a space"):
        tables.vectors(space)


def test_every_episode_has_the_score_of_its_best_frame(vectors: VectorTable, tables: Tables) -> None:
    query = np.arange(1, 9, dtype=np.float32)
    found, scores = vectors.score_episodes(query, 3)
    expected: dict[str, float] = {}
    for moment in _brute_force(_embedded(10), query, None):
        expected.setdefault(moment.episode_id, moment.score)
    by_id: dict[str, float] = {}
    for episode_id, score in zip(found.to_pylist(), scores.tolist(), strict=True):
        by_id[episode_id] = max(score, by_id.get(episode_id, -1.0))
    assert by_id == pytest.approx(expected, abs=1e-5), "without an index all are scored, whatever the limit"
    found, scores = tables.vectors("empty").score_episodes(query, 3)
    assert (len(found), len(scores)) == (0, 0)
    with pytest.raises(StoreError):
        vectors.score_episodes(query[:3], 3)


def test_an_index_that_cannot_be_updated_is_told(
    tables: Tables, vectors: VectorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(table: VectorTable, flat_rows: int) -> None:
        raise StoreError("no room", "")

    monkeypatch.setattr(VectorTable, "refresh", fail)
    lines: list[str] = []
    tables.refresh_indexes(lines.append, 80)
    assert lines[0] == "indexing 80 vectors of clip-8; they can be searched meanwhile"
    assert (
        lines[1].startswith("the index of clip-8 could not be updated and is used as before")
        and len(lines) == 2
    )
