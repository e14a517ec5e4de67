"""The semantic ranking equals that of NumPy over all captions and instructions, and new texts get vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray

from ares import registry
from ares.errors import StoreError
from ares.search import embed_texts
from ares.search.rankers.text import rank_by_text
from ares.search.spaces import EmbeddingSpace
from ares.settings import Settings
from ares.store.vectors import texts as text_ids
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

_DIM = 16
_SPACE = EmbeddingSpace(name="clip", encoder="hashed", model="none", dim=_DIM)
_MANY = 120


def _vector(text: str) -> NDArray[np.float32]:
    """(D,) a unit vector for a text; capital letters mean nothing, as for CLIP."""
    seed = int.from_bytes(text.lower().encode()[-7:], "little")
    vector = np.random.default_rng(seed).normal(size=_DIM).astype(np.float32)
    unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return unit


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack([_vector(text) for text in texts])


def _captions(ids: Sequence[str], texts: Sequence[str], first_number: int = 0) -> pa.Table:
    """Captions of some episodes in turn, some of them at the same second."""
    count = len(texts)
    return pa.table(
        {
            "annotation_id": [f"c{number:05}" for number in range(first_number, first_number + count)],
            "episode_id": [ids[number % len(ids)] for number in range(count)],
            "start_seconds": [float((count - number) % 7) for number in range(count)],
            "text": pa.array(texts, pa.string()),
        }
    )


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Episodes that are told some eighty things, with a few hundred captions, not all of which have a vector."""
    workspace = open_workspace(str(tmp_path_factory.mktemp("meaning") / "ws"), Settings())
    add_synthetic_episodes(workspace, _MANY)
    ids = sorted(workspace.stores.tables.episodes.ids())
    rng = np.random.default_rng(3)
    texts = [f"thing {number // 2}" if number % 2 else f"Thing {number // 2}" for number in range(60)]
    captions = [texts[number] for number in rng.integers(0, len(texts), 400)]
    workspace.stores.tables.segments.upsert(_captions(ids, [*captions[:200], "", "never embedded"]))
    workspace.stores.tables.segments.upsert(_captions(ids, captions[200:], 1_000))
    table = workspace.stores.tables.texts("clip")
    for batch in table.texts_without_vectors(50):
        embeddable = [text for text in batch if text != "never embedded"]
        table.add(embeddable, _vectors(embeddable))
    yield workspace
    workspace.close()


def _by_numpy(
    ws: Workspace, query: NDArray[np.float32], candidates: Collection[str] | None
) -> dict[str, tuple[float, set[float]]]:
    """Score of the best text of each episode, and its second: the earliest of those that are equally good.

    Beside it, the seconds of texts that rounding cannot tell from the best.
    """
    rows = [
        (row["episode_id"], row["text"], row["start_seconds"])
        for row in ws.stores.tables.segments.read().to_pylist()
    ]
    rows += [
        (row["episode_id"], row["instruction"], 0.0)
        for row in ws.stores.tables.episodes.read_columns(["episode_id", "instruction"]).to_pylist()
    ]
    scored: dict[str, list[tuple[float, float]]] = {}
    for episode, text, second in rows:
        if text in ("", "never embedded") or (candidates is not None and episode not in candidates):
            continue
        score = float(_vector(text).astype(np.float64) @ query)
        scored.setdefault(episode, []).append((score, second))
    return {episode: _best(moments) for episode, moments in scored.items()}


def _best(moments: list[tuple[float, float]]) -> tuple[float, set[float]]:
    best = max(score for score, _ in moments)
    close = {second for score, second in moments if 1e-9 < best - score <= 3e-5}
    return best, {min(second for score, second in moments if best - score <= 1e-9), *close}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    share=st.none() | st.sampled_from([0.0, 0.02, 0.3, 0.9]),
    limit=st.integers(1, 150),
    max_cached=st.sampled_from([0, 10_000]),
)
def test_the_best_episodes_are_those_of_numpy(
    ws: Workspace, seed: int, share: float | None, limit: int, max_cached: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_ids, "_MAX_CACHED_VECTORS", max_cached)
        _compare(ws, seed, share, limit)


def _compare(ws: Workspace, seed: int, share: float | None, limit: int) -> None:
    rng = np.random.default_rng(seed)
    query = _vectors([f"asked {seed}"])[0]
    ids = sorted(ws.stores.tables.episodes.ids())
    candidates = None if share is None else frozenset(moment for moment in ids if rng.random() < share)
    moments = rank_by_text(ws.stores, _SPACE.name, query, limit, candidates)
    truth = _by_numpy(ws, query, candidates)
    assert len(moments) == min(limit, len(truth)) == len({moment.episode_id for moment in moments})
    expected = sorted((-score, episode) for episode, (score, _) in truth.items())[:limit]
    assert [moment.score for moment in moments] == pytest.approx([-score for score, _ in expected], abs=3e-5)
    for moment in moments:
        assert moment.camera == "" and moment.score == pytest.approx(truth[moment.episode_id][0], abs=3e-5)
        assert moment.seconds in truth[moment.episode_id][1]
    assert moments == sorted(moments, key=lambda moment: (-moment.score, moment.episode_id))
    assert moments == rank_by_text(
        ws.stores, _SPACE.name, query, limit, candidates if candidates is None else set(candidates)
    )


def test_compaction_and_an_index_change_no_answer(ws: Workspace) -> None:
    queries = _vectors([f"query {number}" for number in range(5)])
    before = [rank_by_text(ws.stores, _SPACE.name, query, 30) for query in queries]
    ws.stores.tables.optimize()
    assert [rank_by_text(ws.stores, _SPACE.name, query, 30) for query in queries] == before


def test_a_query_of_another_length_is_refused(ws: Workspace) -> None:
    with pytest.raises(StoreError, match="another dimension"):
        rank_by_text(ws.stores, _SPACE.name, np.ones(_DIM + 1, np.float32), 5)


def test_without_vectors_nothing_is_found(ws: Workspace) -> None:
    other = EmbeddingSpace(name="other", encoder="hashed", model="none", dim=_DIM)
    assert rank_by_text(ws.stores, other.name, _vector("thing 1"), 5) == []


def test_what_thousands_were_told_is_found_in_the_order_of_their_ids(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    ids = [f"{number * 7919 % 4_000:05}" for number in range(4_000)]
    ws.stores.tables.segments.upsert(_captions(ids, ["open it"] * 4_000))
    ws.stores.tables.segments.upsert(_captions(["00007"], ["Open it"] * 600, 50_000))
    ws.stores.tables.texts("clip").add(["open it", "Open it"], _vectors(["open it"] * 2))
    for limit in (1, 9, 700):
        moments = rank_by_text(ws.stores, _SPACE.name, _vector("open it"), limit)
        assert [moment.episode_id for moment in moments] == sorted(ids)[:limit]
    ws.close()


@pytest.mark.parametrize("max_cached", [0, 10_000])
def test_texts_that_mean_the_same_are_not_cut_by_chance(
    tmp_path: Path, max_cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_ids, "_MAX_CACHED_VECTORS", max_cached)
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    ids = [f"{number:04}" for number in range(699, -1, -1)]
    texts = [f"way {number} to say it" for number in range(700)]
    ws.stores.tables.segments.upsert(_captions(ids, texts))
    ws.stores.tables.texts("clip").add(texts, np.repeat(_vectors(["it"]), 700, axis=0))
    for candidates in (None, frozenset(ids[100:])):
        expected = sorted(candidates or ids)
        for limit in (1, 250, 300, 700):
            moments = rank_by_text(ws.stores, _SPACE.name, _vector("it"), limit, candidates)
            assert [moment.episode_id for moment in moments] == expected[:limit]
    ws.close()


@pytest.mark.nightly
def test_many_texts_lie_under_an_index_and_new_ones_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random vectors have no neighbourhoods that an index could learn.
    monkeypatch.setattr("ares.store.vectors.index.TARGET", 0.9)
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    texts = [f"text {number}" for number in range(3_000)]
    ws.stores.tables.segments.upsert(_captions([f"e{number:04}" for number in range(3_000)], texts))
    table = ws.stores.tables.texts("clip")
    table.add(texts, _vectors(texts))
    index = table.refresh(flat_rows=1_000)
    assert index is not None and index.kind != "flat"
    assert table.state()[:2] == (3_000, 3_000)
    ws.stores.tables.segments.upsert(_captions(["new"], ["text 3000", "text 77"], 9_000))
    table.add(["text 3000"], _vectors(["text 3000"]))
    assert rank_by_text(ws.stores, _SPACE.name, _vector("text 3000"), 1)[0].episode_id == "new"
    tied = rank_by_text(ws.stores, _SPACE.name, _vector("text 77"), 2)
    assert [(moment.episode_id, moment.score) for moment in tied] == [("e0077", 1.0), ("new", 1.0)]
    filtered = rank_by_text(ws.stores, _SPACE.name, _vector("text 5"), 3, frozenset({"e0001", "new"}))
    assert {moment.episode_id for moment in filtered} == {"e0001", "new"}
    results = [rank_by_text(ws.stores, _SPACE.name, _vector(text), 20) for text in texts[::100]]
    matrix = _vectors(texts)
    thresholds = [np.sort(matrix @ _vector(text))[-20] for text in texts[::100]]
    hits = [
        sum(moment.score >= threshold - 1e-5 for moment in result)
        for result, threshold in zip(results, thresholds, strict=True)
    ]
    assert sum(hits) / (20 * len(hits)) >= 0.9
    ws.close()


def test_vectors_follow_what_is_said(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    encoded_texts: list[str] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        encoded_texts.extend(texts)
        return _vectors(texts)

    registry.encoders.add("hashed", lambda model, device: SimpleNamespace(encode_texts=encode))
    try:
        assert embed_texts(ws.stores, _SPACE) == 0
        ws.stores.tables.segments.upsert(_captions(["a", "b"], ["push it", "pull it", "push it", " \n", ""]))
        assert embed_texts(ws.stores, _SPACE) == 2 and embed_texts(ws.stores, _SPACE) == 0
        ws.stores.tables.segments.upsert(
            _captions(["a", "b"], ["lift it"], 1)
        )  # in place of what c00001 said
        assert rank_by_text(ws.stores, _SPACE.name, _vector("lift it"), 1)[0].score < 0.99
        assert embed_texts(ws.stores, _SPACE) == 1
        assert rank_by_text(ws.stores, _SPACE.name, _vector("lift it"), 1)[0].score == 1.0
        assert rank_by_text(ws.stores, _SPACE.name, _vector("pull it"), 1)[0].score < 0.99
        other = EmbeddingSpace(name="other", encoder="hashed", model="none", dim=_DIM)
        assert embed_texts(ws.stores, other) == 2  # nobody says "pull it" any more
        assert encoded_texts == ["pull it", "push it", "lift it", "lift it", "push it"]
    finally:
        registry.encoders.remove("hashed")
        ws.close()


@pytest.mark.parametrize("max_cached", [0, 10_000])
def test_every_text_has_the_score_by_which_it_is_ranked(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, max_cached: int
) -> None:
    query = 3 * _vectors(["asked"])[0]
    snapshot = ws.stores.tables.texts("clip").snapshot(len(query))
    assert snapshot
    monkeypatch.setattr(text_ids, "_MAX_CACHED_VECTORS", max_cached)
    scores = snapshot.score_all(query)
    ranked = {
        int(text): score
        for score, texts in snapshot.rank(query, np.ones(len(scores), bool))
        for text in texts
    }
    assert scores.tolist() == pytest.approx([ranked[text] for text in range(len(scores))], abs=3e-5)
    assert scores.tolist() == np.round(scores, 6).tolist()
