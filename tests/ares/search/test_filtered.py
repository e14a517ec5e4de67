"""For random filters, ids, counts, pages, sets and rankers agree with plain Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from numpy.typing import NDArray

from annotators.base import Options
from ares.curation import selected_ids
from ares.deadline import Deadline, limit_time
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.registry import encoders
from ares.search import Hit
from ares.store import conjunction, ids_filter
from ares.store.lance import episode_snapshot, row_index, text as text_search
from tests.annotators.runs import estimate_cost
from tests.ares.search.random_workspace import (
    DATASETS,
    INSTRUCTIONS,
    KINDS,
    RandomWorkspace,
    SeededEncoder,
    make_random_workspace,
    text_vector,
)
from tests.ares.store.random_filters import RandomFilter, filters, order_key, random_columns

_MANY = 1_500
_FILTERS = filters(
    random_columns(300, 0)
    | {
        "dataset": [*DATASETS, "b"],
        "instruction": list(INSTRUCTIONS),
        "num_steps": list(range(60)),
        "success": [True, False],
    }
    | {"episode_id": ["0", "00ff", "f0a1b2c3d4e5f607"], "key": ["0", "17", "999", "1_"]}
)
_BY = st.sampled_from(["dataset", "success", "num_steps", "instruction", *KINDS])
_ORDERS = st.lists(st.tuples(_BY, st.booleans()), min_size=1, max_size=3, unique_by=lambda item: item[0])
# The last digits of a score depend on how it is computed.
_SAME = 3e-6


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RandomWorkspace]:
    """Fifteen hundred episodes, before and after compaction."""
    encoders.add("odd", lambda spec, device: SeededEncoder())
    yield make_random_workspace(tmp_path_factory.mktemp("odd"), _MANY)
    encoders.remove("odd")


@pytest.fixture(autouse=True)
def _large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for a million rows alone is done for these: sorting, shared texts, threads of a filter."""
    monkeypatch.setattr(episode_snapshot, "DEEP_OFFSET", 400)
    monkeypatch.setattr(episode_snapshot, "LEAST_SHARED_ROWS", 100)
    monkeypatch.setattr(text_search, "_MAX_SCANNED_ROWS", 300)
    monkeypatch.setattr(row_index, "_PART_ROWS", 400)


def _drawn(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Settings of a test with that many examples; all of them share one workspace that never changes."""
    suppressed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    # Filters are short: to shrink a failing one takes minutes.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(max_examples=examples, deadline=None, suppress_health_check=suppressed, phases=phases)


@_drawn(80)
@given(filter_=_FILTERS)
def test_ids_and_counts(workspace: RandomWorkspace, filter_: RandomFilter) -> None:
    expected = set(workspace.ids[filter_.matches(workspace.columns)])
    for ws in workspace.workspaces:
        assert ws.stores.tables.episodes.ids(filter_.sql) == expected
        assert ws.stores.tables.episodes.count(filter_.sql) == len(expected)
        with limit_time(Deadline(60.0)):  # as a page asks
            either = f"(({filter_.sql}) OR (contains(lower(instruction), 'drawer')))"
            assert ws.stores.tables.episodes.count(filter_.sql) == len(expected)
            assert ws.stores.tables.episodes.count(either) == len(ws.stores.tables.episodes.ids(either))


def test_words_among_some_episodes_are_those_of_these_episodes(workspace: RandomWorkspace) -> None:
    ids, instructions = workspace.ids[:300], workspace.columns["instruction"][:300]
    where = conjunction([ids_filter([str(name) for name in ids]), "contains(lower(instruction), 'drawer')"])
    expected = {
        str(name) for name, text in zip(ids, instructions, strict=True) if "drawer" in (text or "").lower()
    }
    assert expected
    for ws in workspace.workspaces:
        with limit_time(Deadline(60.0)):
            assert ws.stores.tables.episodes.count(where) == len(expected)
            assert int(ws.stores.tables.episodes.snapshot().row_mask(where).sum()) == len(expected)


@_drawn(10)
@given(filter_=_FILTERS, order=_ORDERS, size=st.integers(_MANY // 8, _MANY))
def test_pages_lose_no_row_and_show_none_twice(
    workspace: RandomWorkspace, filter_: RandomFilter, order: list[tuple[str, bool]], size: int
) -> None:
    text = ", ".join(name + (" DESC" if descending else "") for name, descending in order)
    expected = _ordered(workspace, filter_, order)
    for ws in workspace.workspaces:
        scan = ws.stores.tables.episodes.scan
        pages = [
            [
                episode_id
                for batch in scan(["episode_id"], filter_.sql, size, offset, text)
                for episode_id in batch[0].to_pylist()
            ]
            for offset in range(0, len(expected) + 1, size)
        ]
        assert [episode_id for page in pages for episode_id in page] == expected
        assert {len(page) for page in pages[:-1]} <= {size}


def _ordered(
    workspace: RandomWorkspace, filter_: RandomFilter, order: Sequence[tuple[str, bool]]
) -> list[str]:
    """Ids by some columns, missing values last, -0.0 before 0.0."""
    rows = sorted(
        np.flatnonzero(filter_.matches(workspace.columns)).tolist(), key=lambda row: workspace.ids[row]
    )
    for name, descending in reversed(order):
        values = workspace.columns[name]

        def key(row: int, values: list[Any] = values) -> Any:
            value = values[row]
            return (order_key(value), np.copysign(1, value)) if isinstance(value, float) else value

        present = sorted((row for row in rows if values[row] is not None), key=key, reverse=descending)
        rows = present + [row for row in rows if values[row] is None]
    return [str(workspace.ids[row]) for row in rows]


@_drawn(8)
@given(filter_=_FILTERS, numbers=st.lists(st.integers(0, _MANY // 2), max_size=20))
def test_sets_annotators_and_pages_choose_the_same(
    workspace: RandomWorkspace, filter_: RandomFilter, numbers: list[int]
) -> None:
    expected = {str(episode_id) for episode_id in workspace.ids[filter_.matches(workspace.columns)]}
    listed = [str(workspace.ids[number]) for number in numbers]
    for ws in workspace.workspaces:
        selected = list(selected_ids(ws.stores, EpisodeSelection(where=filter_.sql)))
        assert (len(selected), set(selected)) == (len(expected), expected)
        if listed and set(listed) <= expected:
            # Repeated ids are removed by the set.
            chosen = list(selected_ids(ws.stores, EpisodeSelection(where=filter_.sql, ids=listed)))
            assert list(dict.fromkeys(chosen)) == list(dict.fromkeys(listed))
        elif listed:
            with pytest.raises(RequestError, match=r"(is|are) not among the episodes"):
                list(selected_ids(ws.stores, EpisodeSelection(where=filter_.sql, ids=listed)))
        assert {episode.episode_id for episode in ws.stores.tables.episodes.read(filter_.sql)} == expected
        (estimate,) = estimate_cost(ws.stores, ["motion"], Options(settings=ws.settings), filter_.sql)
        assert estimate.planned == len(expected)


def _best_frames(
    workspace: RandomWorkspace, query: NDArray[np.float32], rows: NDArray[np.bool_]
) -> dict[str, float]:
    """The score of the best frame of each episode that has one; a query is kept as the vectors are."""
    query = query.astype(np.float16).astype(np.float32)
    best: dict[str, float] = {}
    similarities = workspace.frames @ query / np.linalg.norm(query) / np.linalg.norm(workspace.frames, axis=1)
    for score, (row, _, _) in zip(similarities.tolist(), workspace.frame_keys, strict=True):
        if rows[row]:
            best[str(workspace.ids[row])] = max(score, best.get(str(workspace.ids[row]), -2.0))
    return best


def _are_the_best(hits: Sequence[Hit], scores: dict[str, float], limit: int) -> None:
    """Hits are the best of these scores: none better is left out, in order of score and then of id."""
    hit_ids = [hit.episode_id for hit in hits]
    assert len(set(hit_ids)) == len(hit_ids) == min(limit, len(scores))
    assert [hit.rank_value for hit in hits] == pytest.approx(
        [scores[episode_id] for episode_id in hit_ids], abs=_SAME
    )
    assert [(-hit.rank_value, hit.episode_id) for hit in hits] == sorted(
        (-hit.rank_value, hit.episode_id) for hit in hits
    )
    if hits:
        best_missing = max(
            (score for episode_id, score in scores.items() if episode_id not in hit_ids), default=-2.0
        )
        assert best_missing <= hits[-1].rank_value + _SAME


@_drawn(20)
@given(filter_=_FILTERS, text=st.sampled_from(["mug", "a drawer", "☕"]), limit=st.integers(1, 60))
def test_text_to_moments_is_exact(
    workspace: RandomWorkspace, filter_: RandomFilter, text: str, limit: int
) -> None:
    scores = _best_frames(workspace, text_vector(text), filter_.matches(workspace.columns))
    for ws in workspace.workspaces:
        hits = ws.search(text, by="frames", where=filter_.sql, limit=limit, space="exact")
        _are_the_best(hits, scores, limit)
        for hit in hits:
            camera, second, score = hit.moments[0]
            assert (camera, second) == (hit.camera, hit.seconds) and score == pytest.approx(
                hit.rank_value, abs=_SAME
            )
            assert [score for *_, score in hit.moments] == pytest.approx(
                _moments(workspace, text, hit.episode_id), abs=_SAME
            )


def _moments(workspace: RandomWorkspace, text: str, episode_id: str) -> list[float]:
    """The scores of the best three frames of an episode that are more than a second apart."""
    query, (row,) = text_vector(text), np.flatnonzero(workspace.ids == episode_id)
    frames = [
        (vector, second)
        for vector, (episode_row, _, second) in zip(workspace.frames, workspace.frame_keys, strict=True)
        if episode_row == row
    ]
    norm = float(np.linalg.norm(query))
    scored = [(float(vector @ query / norm / np.linalg.norm(vector)), second) for vector, second in frames]
    best: list[tuple[float, float]] = []
    for score, second in sorted(scored, key=lambda item: -item[0]):
        if all(abs(second - other) > 1 for _, other in best):
            best.append((score, second))
    return [score for score, _ in best[:3]]


@_drawn(15)
@given(
    filter_=_FILTERS, text=st.sampled_from(["mug", "drawer", "café", "open drawer"]), limit=st.integers(1, 60)
)
def test_words_are_ranked_as_without_a_filter(
    workspace: RandomWorkspace, filter_: RandomFilter, text: str, limit: int
) -> None:
    candidate_ids = set(workspace.ids[filter_.matches(workspace.columns)].tolist())
    patterns = [re.compile(rf"\b{word}\b") for word in text.split()]

    def matches(document: str) -> bool:
        return any(word.search(document.lower()) for word in patterns)

    matching_ids = {
        episode_id
        for episode_id, document in zip(workspace.ids.tolist(), workspace.columns["instruction"], strict=True)
        if matches(document)
    }
    matching_ids |= {str(workspace.ids[row]) for row, _, document in workspace.captions if matches(document)}
    for ws in workspace.workspaces:
        captions, episodes = ws.stores.tables.segments, ws.stores.tables.episodes
        all_captions, all_instructions = (
            captions.search_text(text, 9_999),
            episodes.search_instruction(text, 9_999),
        )
        candidate_captions = [hit for hit in all_captions if hit.episode_id in candidate_ids]
        assert captions.search_text(text, limit, candidate_ids) == candidate_captions[:limit]
        assert (
            episodes.search_instruction(text, limit, candidate_ids)
            == [episode_id for episode_id in all_instructions if episode_id[0] in candidate_ids][:limit]
        )
        assert {hit.episode_id for hit in all_captions} | {
            episode_id for episode_id, _ in all_instructions
        } == matching_ids
        hits = ws.search(text, by="captions", where=filter_.sql, limit=limit)
        hit_ids = [hit.episode_id for hit in hits]
        assert len(set(hit_ids)) == len(hit_ids) == min(limit, len(matching_ids & candidate_ids))
        assert set(hit_ids) <= matching_ids & candidate_ids


@_drawn(6)
@given(filter_=_FILTERS, limit=st.integers(1, 30), number=st.integers(0, 500))
def test_like_an_episode_is_exact(
    workspace: RandomWorkspace, filter_: RandomFilter, limit: int, number: int
) -> None:
    rows = [row for row, _, _ in workspace.frame_keys]
    row, row_mask = rows[number], filter_.matches(workspace.columns)
    is_own = np.array(rows) == row
    mean_vector = workspace.frames[is_own].mean(axis=0)
    frame_scores = _best_frames(workspace, mean_vector / np.linalg.norm(mean_vector), row_mask)
    similarities = (
        workspace.motion_vectors
        @ workspace.motion_vectors[row]
        / np.linalg.norm(workspace.motion_vectors, axis=1)
        / np.linalg.norm(workspace.motion_vectors[row])
    )
    motion_scores = {
        str(workspace.ids[other]): float(similarities[other]) for other in np.flatnonzero(row_mask)
    }
    own_id = str(workspace.ids[row])
    for ws in workspace.workspaces:
        for by, scores in (("frames", frame_scores), ("state", motion_scores)):
            hits = ws.search(like=own_id, by=by, where=filter_.sql, limit=limit, space="exact")
            _are_the_best(
                hits,
                {episode_id: score for episode_id, score in scores.items() if episode_id != own_id},
                limit,
            )


@_drawn(6)
@given(
    filter_=_FILTERS,
    limit=st.integers(1, 30),
    frame_weight=st.sampled_from([0.5, 1.0, 3.0]),
    text=st.sampled_from(["", "mug"]),
)
def test_a_mixture_is_the_sum_of_its_ranks(
    workspace: RandomWorkspace, filter_: RandomFilter, limit: int, frame_weight: float, text: str
) -> None:
    like = str(workspace.ids[workspace.frame_keys[100][0]])
    for ws in workspace.workspaces:
        where = f"({filter_.sql}) AND episode_id <> '{like}'"
        options: dict[str, Any] = {"like": like, "where": where, "space": "exact"}
        fused = ws.search(text, by=f"frames={frame_weight},state", limit=limit, **options)
        scores: dict[str, float] = {}
        searches: list[tuple[str, dict[str, Any], float]] = [
            ("", options | {"by": "frames"}, frame_weight),
            ("", options | {"by": "state"}, 1),
        ]
        if text:
            searches.append((text, {"where": where, "space": "exact", "by": "frames"}, frame_weight))
        for search_text, search_options, weight in searches:
            ranks = [
                hit.episode_id
                for hit in ws.search(search_text, limit=max(2 * limit, 100) + 2, **search_options)
            ]
            for rank, episode_id in enumerate(ranks, start=1):
                scores[episode_id] = scores.get(episode_id, 0.0) + weight / (60 + rank)
        scores.pop(like, None)
        _are_the_best(fused, scores, limit)
