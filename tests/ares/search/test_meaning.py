"""Meaning: the best episodes are those of NumPy over every caption and instruction, and vectors follow what is said."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ares import registry
from ares.errors import StoreError
from ares.search.meaning import embed_texts, said_like
from ares.settings import Settings
from ares.store import known
from ares.store.space import Space
from ares.workspace import Workspace, open_workspace
from benchmarks.grow import grow

_DIM = 16
_SPACE = Space(name="clip", encoder="hashed", model="none", dim=_DIM)
_MANY = 120


def _vector(text: str) -> NDArray[np.float32]:
    """(D,) a unit vector for a text; capital letters mean nothing, as for CLIP."""
    seed = int.from_bytes(text.lower().encode()[-7:], "little")
    vector = np.random.default_rng(seed).normal(size=_DIM).astype(np.float32)
    unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return unit


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack([_vector(text) for text in texts])


def _captions(ids: Sequence[str], texts: Sequence[str], first: int = 0) -> pa.Table:
    """Captions of some episodes in turn, some of them at the same second."""
    count = len(texts)
    return pa.table(
        {
            "annotation_id": [f"c{number:05}" for number in range(first, first + count)],
            "episode_id": [ids[number % len(ids)] for number in range(count)],
            "start_seconds": [float((count - number) % 7) for number in range(count)],
            "text": pa.array(texts, pa.string()),
        }
    )


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Episodes that are told some eighty things, with a few hundred captions, not all of which have a vector."""
    made = open_workspace(str(tmp_path_factory.mktemp("meaning") / "ws"), Settings())
    grow(made, _MANY)
    ids = sorted(made.tables.episodes.ids())
    chance = np.random.default_rng(3)
    texts = [f"thing {number // 2}" if number % 2 else f"Thing {number // 2}" for number in range(60)]
    said = [texts[number] for number in chance.integers(0, len(texts), 400)]
    made.tables.segments.upsert(_captions(ids, [*said[:200], "", "never embedded"]))
    made.tables.segments.upsert(_captions(ids, said[200:], 1_000))
    table = made.tables.texts("clip")
    for missing in table.missing(50):
        there = [text for text in missing if text != "never embedded"]
        table.add(there, _vectors(there))
    yield made
    made.close()


def _by_numpy(
    ws: Workspace, query: NDArray[np.float32], among: Collection[str] | None
) -> dict[str, tuple[float, float]]:
    """(score, second) of the best text of each episode, the earliest of those that are equally good."""
    rows = [
        (row["episode_id"], row["text"], row["start_seconds"])
        for row in ws.tables.segments.read().to_pylist()
    ]
    rows += [
        (row["episode_id"], row["instruction"], 0.0)
        for row in ws.frame(["episode_id", "instruction"]).to_pylist()
    ]
    best: dict[str, tuple[float, float]] = {}
    for episode, text, second in rows:
        if text in ("", "never embedded") or (among is not None and episode not in among):
            continue
        found = (-round(float(_vector(text).astype(np.float64) @ query), 5), second)
        best[episode] = min(best.get(episode, found), found)
    return {episode: (-score, second) for episode, (score, second) in best.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    share=st.none() | st.sampled_from([0.0, 0.02, 0.3, 0.9]),
    limit=st.integers(1, 150),
    held=st.sampled_from([0, 10_000]),
)
def test_the_best_episodes_are_those_of_numpy(
    ws: Workspace, seed: int, share: float | None, limit: int, held: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "_HELD", held)
        _compare(ws, seed, share, limit)


def _compare(ws: Workspace, seed: int, share: float | None, limit: int) -> None:
    chance = np.random.default_rng(seed)
    query = _vectors([f"asked {seed}"])[0]
    ids = sorted(ws.tables.episodes.ids())
    among = None if share is None else frozenset(one for one in ids if chance.random() < share)
    found = said_like(ws, _SPACE, query, limit, among)
    truth = _by_numpy(ws, query, among)
    assert len(found) == min(limit, len(truth)) == len({one.episode_id for one in found})
    wanted = sorted((-score, episode) for episode, (score, _) in truth.items())[:limit]
    assert [one.score for one in found] == pytest.approx([-score for score, _ in wanted], abs=3e-5)
    for one in found:
        assert one.camera == "" and one.score == pytest.approx(truth[one.episode_id][0], abs=3e-5)
        assert one.seconds == truth[one.episode_id][1]
    assert found == sorted(found, key=lambda one: (-one.score, one.episode_id))
    assert found == said_like(ws, _SPACE, query, limit, among if among is None else set(among))


def test_compaction_and_an_index_change_no_answer(ws: Workspace) -> None:
    queries = _vectors([f"query {number}" for number in range(5)])
    before = [said_like(ws, _SPACE, query, 30) for query in queries]
    ws.tables.optimize()
    assert [said_like(ws, _SPACE, query, 30) for query in queries] == before


def test_a_query_of_another_length_is_refused(ws: Workspace) -> None:
    with pytest.raises(StoreError, match="another length"):
        said_like(ws, _SPACE, np.ones(_DIM + 1, np.float32), 5)


def test_without_vectors_nothing_is_found(ws: Workspace) -> None:
    other = Space(name="other", encoder="hashed", model="none", dim=_DIM)
    assert said_like(ws, other, _vector("thing 1"), 5) == []


def test_what_thousands_were_told_is_found_in_the_order_of_their_ids(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    ids = [f"{number * 7919 % 20_000:05}" for number in range(20_000)]
    ws.tables.segments.upsert(_captions(ids, ["open it"] * 20_000))
    ws.tables.segments.upsert(_captions(["00007"], ["Open it"] * 3_000, 50_000))
    ws.tables.texts("clip").add(["open it", "Open it"], _vectors(["open it"] * 2))
    for limit in (1, 9, 700):
        found = said_like(ws, _SPACE, _vector("open it"), limit)
        assert [one.episode_id for one in found] == sorted(ids)[:limit]
    ws.close()


@pytest.mark.parametrize("held", [0, 10_000])
def test_texts_that_mean_the_same_are_not_cut_by_chance(
    tmp_path: Path, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "_HELD", held)
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    ids = [f"{number:04}" for number in range(699, -1, -1)]
    texts = [f"way {number} to say it" for number in range(700)]
    ws.tables.segments.upsert(_captions(ids, texts))
    ws.tables.texts("clip").add(texts, np.repeat(_vectors(["it"]), 700, axis=0))
    for among in (None, frozenset(ids[100:])):
        wanted = sorted(among or ids)
        for limit in (1, 250, 300, 700):
            found = said_like(ws, _SPACE, _vector("it"), limit, among)
            assert [one.episode_id for one in found] == wanted[:limit]
    ws.close()


def test_many_texts_lie_under_an_index_and_new_ones_beside_it(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    texts = [f"text {number}" for number in range(3_000)]
    ws.tables.segments.upsert(_captions([f"e{number:04}" for number in range(3_000)], texts))
    table = ws.tables.texts("clip")
    table.add(texts, _vectors(texts))
    tuned = table.refresh(flat_rows=1_000)
    assert tuned is not None and tuned.kind != "flat"
    assert table.state()[:2] == (3_000, 3_000)
    ws.tables.segments.upsert(_captions(["new"], ["text 3000", "text 77"], 9_000))
    table.add(["text 3000"], _vectors(["text 3000"]))
    assert said_like(ws, _SPACE, _vector("text 3000"), 1)[0].episode_id == "new"
    both = said_like(ws, _SPACE, _vector("text 77"), 2)
    assert [(one.episode_id, one.score) for one in both] == [("e0077", 1.0), ("new", 1.0)]
    narrow = said_like(ws, _SPACE, _vector("text 5"), 3, frozenset({"e0001", "new"}))
    assert {one.episode_id for one in narrow} == {"e0001", "new"}
    found = [said_like(ws, _SPACE, _vector(text), 20) for text in texts[::100]]
    matrix = _vectors(texts)
    lasts = [np.sort(matrix @ _vector(text))[-20] for text in texts[::100]]
    hits = [sum(one.score >= last - 1e-5 for one in some) for some, last in zip(found, lasts, strict=True)]
    assert sum(hits) / (20 * len(hits)) >= 0.9
    ws.close()


def test_vectors_follow_what_is_said(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        asked.extend(texts)
        return _vectors(texts)

    registry.encoders.add("hashed", lambda model, device: SimpleNamespace(encode_texts=encode))
    try:
        assert embed_texts(ws, _SPACE) == 0
        ws.tables.segments.upsert(_captions(["a", "b"], ["push it", "pull it", "push it", " \n", ""]))
        assert embed_texts(ws, _SPACE) == 2 and embed_texts(ws, _SPACE) == 0
        ws.tables.segments.upsert(_captions(["a", "b"], ["lift it"], 1))  # in place of what c00001 said
        assert said_like(ws, _SPACE, _vector("lift it"), 1)[0].score < 0.99
        assert embed_texts(ws, _SPACE) == 1
        assert said_like(ws, _SPACE, _vector("lift it"), 1)[0].score == 1.0
        assert said_like(ws, _SPACE, _vector("pull it"), 1)[0].score < 0.99
        other = Space(name="other", encoder="hashed", model="none", dim=_DIM)
        assert embed_texts(ws, other) == 2  # nobody says "pull it" any more
        assert asked == ["pull it", "push it", "lift it", "lift it", "push it"]
    finally:
        registry.encoders.remove("hashed")
        ws.close()
