"""VectorTable: exact cosine search with filters, and vectors that a crash left behind."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ares.errors import RequestError, StoreError
from ares.store.tables import Tables, open_tables
from ares.store.vectors import Moment, VectorTable


class Rows:
    """Embedded frames, as an annotator hands them over."""

    def __init__(
        self, episode_id: str, camera: str, seconds: list[float], vectors: NDArray[np.float32]
    ) -> None:
        self.episode_id = episode_id
        self.camera = camera
        self.seconds = np.array(seconds)
        self.vectors = vectors


def _embedded(episodes: int, frames: int = 4, dim: int = 8) -> list[Rows]:
    rng = np.random.default_rng(7)
    rows = []
    for number, camera in itertools.product(range(episodes), ("front", "wrist")):
        vectors = rng.normal(size=(frames, dim)).astype(np.float32)
        # As the table keeps them.
        unit = (
            (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
        )
        rows.append(Rows(f"episode{number}", camera, [frame / 2 for frame in range(frames)], unit))
    return rows


@pytest.fixture
def vectors(tables: Tables) -> VectorTable:
    """Ten episodes of two cameras and four frames."""
    table = tables.vectors("clip-8")
    table.add(_embedded(10))
    return table


def _brute_force(rows: list[Rows], query: NDArray[np.float32], among: set[str] | None) -> list[Moment]:
    found = [
        Moment(
            episode_id=row.episode_id, camera=row.camera, seconds=float(second), score=_cosine(vector, query)
        )
        for row in rows
        if among is None or row.episode_id in among
        for second, vector in zip(row.seconds, row.vectors, strict=True)
    ]
    return sorted(found, key=lambda moment: -moment.score)


def _cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.lists(st.integers(-5, 5), min_size=8, max_size=8).filter(any),
    limit=st.integers(1, 90),
    among=st.none() | st.sets(st.integers(0, 12).map("episode{}".format)),
)
def test_search_is_exact(vectors: VectorTable, query: list[int], limit: int, among: set[str] | None) -> None:
    asked = np.array(query, np.float32)
    wanted = _brute_force(_embedded(10), asked, among)[:limit]
    found = vectors.search(asked, limit, among)
    assert [moment.score for moment in found] == pytest.approx([moment.score for moment in wanted], abs=1e-5)
    scores = {(moment.episode_id, moment.camera, moment.seconds): moment.score for moment in wanted}
    assert len(found) == len({(moment.episode_id, moment.camera, moment.seconds) for moment in found})
    for moment in found[:-1]:
        place = (moment.episode_id, moment.camera, moment.seconds)
        assert scores.get(place, wanted[-1].score) == pytest.approx(moment.score, abs=1e-5)


def test_equal_scores_stand_in_one_order(tables: Tables) -> None:
    """Whatever the order in which they were written, and wherever the cut falls."""
    same = np.ones((3, 4), np.float32)
    rows = [Rows(f"e{number}", camera, [2.0, 0.0, 1.0], same) for number in range(9) for camera in ("b", "a")]
    wanted = sorted((row.episode_id, row.camera, second) for row in rows for second in row.seconds)
    for seed in range(3):
        table = tables.vectors(f"space{seed}")
        for row in random.Random(seed).sample(rows, len(rows)):
            table.add([row])
        for limit in (1, 5, 53, 54, 100):
            found = [
                (moment.episode_id, moment.camera, moment.seconds)
                for moment in table.search(np.ones(4, np.float32), limit)
            ]
            assert found == wanted[:limit]


def test_frames_of_some_episodes_are_all_compared(
    vectors: VectorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of an episode beside one with many better frames; what is compared at once changes nothing."""
    query = np.arange(8, dtype=np.float32)
    many = Rows("many", "front", [float(second) for second in range(900)], np.tile(query / 12, (900, 1)))
    vectors.add([many])
    wanted = _brute_force(_embedded(10), query, {"episode1", "episode2"})
    for at_once in (100, 10_000):
        monkeypatch.setattr("ares.store.vectors._FRAMES_AT_ONCE", at_once)
        found = list(vectors.frames(query, ["many", "episode1", "nobody", "episode2"]))
        others = sorted((one.score for one in found if one.episode_id != "many"), reverse=True)
        assert others == pytest.approx([moment.score for moment in wanted], abs=1e-5)
        assert len(found) == 900 + len(wanted)
    assert list(vectors.frames(query, [])) == list(vectors.frames(query, ["nobody"])) == []
    with pytest.raises(StoreError, match="another length"):
        list(vectors.frames(np.ones(5, np.float32), ["many"]))


def test_vectors_of_an_episode_come_back(vectors: VectorTable) -> None:
    front, wrist = _embedded(10)[6:8]
    cameras, seconds, found = vectors.of("episode3")
    assert cameras == ["front"] * 4 + ["wrist"] * 4
    assert seconds.tolist() == [0.0, 0.5, 1.0, 1.5] * 2
    assert found.dtype == np.float32
    assert np.array_equal(found, np.concatenate([front.vectors, wrist.vectors]))


def test_nothing_embedded_yet(tables: Tables) -> None:
    table = tables.vectors("empty")
    assert table.count() == 0
    assert table.search(np.ones(4, np.float32), 5) == []
    assert table.of("episode1")[2].shape[0] == 0
    assert table.keep_only(set().intersection) == 0
    table.add([])
    assert tables.spaces() == []


def test_spaces_are_those_with_vectors(tables: Tables, vectors: VectorTable) -> None:
    tables.vectors("another").add(_embedded(1, dim=3))
    assert tables.spaces() == ["another", "clip-8"]
    assert open_tables(tables.uri).vectors("clip-8").count() == vectors.count() == 80


def test_adding_again_replaces(vectors: VectorTable) -> None:
    vectors.add(_embedded(10)[:4])
    assert vectors.count() == 80
    vectors.add([Rows("episode0", "front", [9.0], np.ones((1, 8), np.float32))])
    assert vectors.count() == 77
    assert vectors.of("episode0")[0] == ["front"] + ["wrist"] * 4


def test_vectors_of_episodes_that_the_log_does_not_know_go(vectors: VectorTable) -> None:
    assert vectors.keep_only({"episode1", "episode2", "never seen"}.intersection) == 64
    assert vectors.keep_only({"episode1", "episode2"}.intersection) == 0
    assert {moment.episode_id for moment in vectors.search(np.ones(8, np.float32), 100)} == {
        "episode1",
        "episode2",
    }


def test_vectors_of_another_length_are_refused(vectors: VectorTable) -> None:
    with pytest.raises(StoreError, match="another length"):
        vectors.add([Rows("episode1", "front", [0.0], np.ones((1, 5), np.float32))])
    with pytest.raises(StoreError, match="another length"):
        vectors.search(np.ones(5, np.float32), 3)
    assert vectors.count() == 80


@pytest.mark.parametrize("space", ["", "a/b", "../x", "a b", "ü"])
def test_a_space_that_no_table_can_be_named_for(tables: Tables, space: str) -> None:
    with pytest.raises(RequestError, match="is no name of a space"):
        tables.vectors(space)


def test_ids_with_quotes(tables: Tables) -> None:
    table = tables.vectors("clip")
    ids = ["it's", '"', "a' OR '1'='1", "\\"]
    table.add([Rows(each, "o'clock", [0.0], np.ones((1, 2), np.float32)) for each in ids])
    for each in ids:
        assert [moment.episode_id for moment in table.search(np.ones(2, np.float32), 9, [each])] == [each]
        assert table.of(each)[0] == ["o'clock"]
    assert table.search(np.ones(2, np.float32), 9, []) == []


def test_optimizing_keeps_the_search_exact(
    tables: Tables, vectors: VectorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.store.tables._INDEX_ROWS", 1)
    query = np.arange(8, dtype=np.float32)
    among = [f"episode{number}" for number in range(0, 10, 2)]
    found = vectors.search(query, 30, among)
    tables.optimize()
    assert vectors.search(query, 30, among) == found
