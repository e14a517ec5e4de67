"""Whatever the filter, ids, counts, pages, facets, sets and every way to search leave the rows that Python leaves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from annotators.base import Options
from annotators.run import quote
from ares.curate.choose import choose
from ares.errors import RequestError
from ares.registry import encoders
from ares.search.facets import facets
from ares.search.query import Hit
from ares.store import paging
from tests.ares.search.odd_filters import Filter, filters, odd_columns, order_key
from tests.ares.search.odd_world import DATASETS, KINDS, TOLD, OddEncoder, World, direction, make_world

_MANY = 1_500
_FILTERS = filters(
    odd_columns(300, 0)
    | {
        "dataset": [*DATASETS, "b"],
        "instruction": list(TOLD),
        "num_steps": list(range(60)),
        "success": [True, False],
    }
    | {"episode_id": ["0", "00ff", "f0a1b2c3d4e5f607"], "key": ["0", "17", "999", "1_"]}
)
_BY = st.sampled_from(["dataset", "success", "num_steps", "instruction", *KINDS])
_ORDERS = st.lists(st.tuples(_BY, st.booleans()), min_size=1, max_size=3, unique_by=lambda one: one[0])
# The last digits of a score depend on how it was computed.
_SAME = 3e-6


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Fifteen hundred episodes, before and after compaction."""
    encoders.add("odd", lambda spec, device: OddEncoder())
    yield make_world(tmp_path_factory.mktemp("odd"), _MANY)
    encoders.remove("odd")


@pytest.fixture(autouse=True)
def _deep_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "DEEP", 400)


def _drawn(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of that many examples; the world is shared by all of them and never changed."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    # A failing filter is short as it is; to look for a shorter one takes minutes.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(max_examples=examples, deadline=None, suppress_health_check=checks, phases=phases)


@_drawn(80)
@given(asked=_FILTERS)
def test_ids_and_counts(world: World, asked: Filter) -> None:
    wanted = set(world.ids[asked.holds(world.columns)])
    for ws in world.workspaces:
        assert ws.tables.episodes.ids(asked.sql) == wanted
        assert ws.tables.episodes.count(asked.sql) == len(wanted)


@_drawn(10)
@given(asked=_FILTERS, order=_ORDERS, size=st.integers(_MANY // 8, _MANY))
def test_pages_lose_no_row_and_show_none_twice(
    world: World, asked: Filter, order: list[tuple[str, bool]], size: int
) -> None:
    text = ", ".join(name + (" DESC" if falling else "") for name, falling in order)
    wanted = _ordered(world, asked, order)
    for ws in world.workspaces:
        scan = ws.tables.episodes.scan
        pages = [
            [
                one
                for batch in scan(["episode_id"], asked.sql, size, offset, text)
                for one in batch[0].to_pylist()
            ]
            for offset in range(0, len(wanted) + 1, size)
        ]
        assert [one for page in pages for one in page] == wanted
        assert {len(page) for page in pages[:-1]} <= {size}


def _ordered(world: World, asked: Filter, order: Sequence[tuple[str, bool]]) -> list[str]:
    """Ids by some columns, missing values last, -0.0 before 0.0."""
    rows = sorted(np.flatnonzero(asked.holds(world.columns)).tolist(), key=lambda row: world.ids[row])
    for name, falling in reversed(order):
        values = world.columns[name]

        def key(row: int, values: list[Any] = values) -> Any:
            value = values[row]
            return (order_key(value), np.copysign(1, value)) if isinstance(value, float) else value

        there = sorted((row for row in rows if values[row] is not None), key=key, reverse=falling)
        rows = there + [row for row in rows if values[row] is None]
    return [str(world.ids[row]) for row in rows]


@_drawn(15)
@given(asked=_FILTERS)
def test_facets_count_the_rows_of_the_filter(world: World, asked: Filter) -> None:
    rows = np.flatnonzero(asked.holds(world.columns))
    for ws in world.workspaces:
        for facet in facets(ws, asked.sql, sorted({*KINDS, "dataset", "success"})):
            values = [world.columns[facet.column][row] for row in rows]
            known = [value for value in values if value is not None]
            assert facet.missing == len(values) - len(known)
            if facet.type in ("int64", "float64", "timestamp"):
                assert sum(facet.histogram) + facet.below + facet.above + facet.unreal == len(known)
            else:
                items = (set(value) if isinstance(value, list) else [value] for value in known)
                assert dict(facet.counts) == Counter(item for each in items for item in each)


@_drawn(8)
@given(asked=_FILTERS, numbers=st.lists(st.integers(0, _MANY // 2), max_size=20))
def test_sets_annotators_and_pages_choose_the_same(world: World, asked: Filter, numbers: list[int]) -> None:
    wanted = {str(one) for one in world.ids[asked.holds(world.columns)]}
    listed = [str(world.ids[number]) for number in numbers]
    for ws in world.workspaces:
        chosen = list(choose(ws, where=asked.sql)[0])
        assert (len(chosen), set(chosen)) == (len(wanted), wanted)
        if listed and set(listed) <= wanted:
            # One that is listed twice is a member once: the set sees to that.
            found = list(choose(ws, where=asked.sql, ids=listed)[0])
            assert list(dict.fromkeys(found)) == list(dict.fromkeys(listed))
        elif listed:
            with pytest.raises(RequestError, match="are not among the episodes"):
                list(choose(ws, where=asked.sql, ids=listed)[0])
        assert {episode.episode_id for episode in ws.episodes(asked.sql)} == wanted
        (quoted,) = quote(ws, ["motion"], Options(settings=ws.settings), asked.sql)
        assert quoted.planned == len(wanted)


def _best_frames(world: World, query: NDArray[np.float32], rows: NDArray[np.bool_]) -> dict[str, float]:
    """The score of the best frame of each episode that has one; a query is kept as the vectors are."""
    query = query.astype(np.float16).astype(np.float32)
    best: dict[str, float] = {}
    likeness = world.frames @ query / np.linalg.norm(query) / np.linalg.norm(world.frames, axis=1)
    for score, (row, _, _) in zip(likeness.tolist(), world.places, strict=True):
        if rows[row]:
            best[str(world.ids[row])] = max(score, best.get(str(world.ids[row]), -2.0))
    return best


def _are_the_best(hits: Sequence[Hit], scores: dict[str, float], limit: int) -> None:
    """Hits are the best of these scores: none better is left out, in order of score and then of id."""
    found = [hit.episode_id for hit in hits]
    assert len(set(found)) == len(found) == min(limit, len(scores))
    assert [hit.score for hit in hits] == pytest.approx([scores[one] for one in found], abs=_SAME)
    assert [(-hit.score, hit.episode_id) for hit in hits] == sorted(
        (-hit.score, hit.episode_id) for hit in hits
    )
    if hits:
        missed = max((score for one, score in scores.items() if one not in found), default=-2.0)
        assert missed <= hits[-1].score + _SAME


@_drawn(20)
@given(asked=_FILTERS, text=st.sampled_from(["mug", "a drawer", "☕"]), limit=st.integers(1, 60))
def test_text_to_moments_is_exact(world: World, asked: Filter, text: str, limit: int) -> None:
    scores = _best_frames(world, direction(text), asked.holds(world.columns))
    for ws in world.workspaces:
        hits = ws.search(text, by="frames", where=asked.sql, limit=limit, space="exact")
        _are_the_best(hits, scores, limit)
        for hit in hits:
            camera, second, score = hit.moments[0]
            assert (camera, second) == (hit.camera, hit.seconds) and score == pytest.approx(
                hit.score, abs=_SAME
            )
            assert [score for *_, score in hit.moments] == pytest.approx(
                _moments(world, text, hit.episode_id), abs=_SAME
            )


def _moments(world: World, text: str, episode_id: str) -> list[float]:
    """The scores of the best three frames of an episode that are more than a second apart."""
    query, (row,) = direction(text), np.flatnonzero(world.ids == episode_id)
    frames = [
        (vector, at) for vector, (of, _, at) in zip(world.frames, world.places, strict=True) if of == row
    ]
    norm = float(np.linalg.norm(query))
    scored = [(float(vector @ query / norm / np.linalg.norm(vector)), at) for vector, at in frames]
    best: list[tuple[float, float]] = []
    for score, at in sorted(scored, key=lambda one: -one[0]):
        if all(abs(at - other) > 1 for _, other in best):
            best.append((score, at))
    return [score for score, _ in best[:3]]


def test_an_index_keeps_its_promise_and_leaves_no_row_of_another_filter(world: World) -> None:
    recalls: list[float] = []

    @_drawn(25)
    @given(asked=_FILTERS, number=st.integers(0, 1_000))
    def ask(asked: Filter, number: int) -> None:
        scores = _best_frames(world, direction(str(number)), asked.holds(world.columns))
        for ws in world.workspaces:
            hits = ws.search(str(number), by="frames", where=asked.sql, limit=20, space="indexed")
            found = [hit.episode_id for hit in hits]
            assert len(set(found)) == len(found) == min(20, len(scores))
            assert [hit.score for hit in hits] == pytest.approx([scores.get(one) for one in found], abs=_SAME)
            best = sorted(scores.values(), reverse=True)[:20]
            recalls.append(_recall([hit.score for hit in hits], best))

    ask()
    assert np.mean(recalls) >= 0.95


def _recall(found: list[float], wanted: list[float]) -> float:
    return sum(score >= wanted[-1] - _SAME for score in found) / len(wanted) if wanted else 1.0


@_drawn(15)
@given(
    asked=_FILTERS, text=st.sampled_from(["mug", "drawer", "café", "open drawer"]), limit=st.integers(1, 60)
)
def test_words_are_ranked_as_without_a_filter(world: World, asked: Filter, text: str, limit: int) -> None:
    kept = set(world.ids[asked.holds(world.columns)].tolist())
    words = [re.compile(rf"\b{word}\b") for word in text.split()]

    def says(said: str) -> bool:
        return any(word.search(said.lower()) for word in words)

    told = {
        one for one, said in zip(world.ids.tolist(), world.columns["instruction"], strict=True) if says(said)
    }
    told |= {str(world.ids[row]) for row, _, said in world.captions if says(said)}
    for ws in world.workspaces:
        captions, episodes = ws.tables.segments, ws.tables.episodes
        all_captions, all_told = captions.search_text(text, 9_999), episodes.search_instruction(text, 9_999)
        of_kept = [hit for hit in all_captions if hit.episode_id in kept]
        assert captions.search_text(text, limit, kept) == of_kept[:limit]
        assert (
            episodes.search_instruction(text, limit, kept)
            == [one for one in all_told if one[0] in kept][:limit]
        )
        assert {hit.episode_id for hit in all_captions} | {one for one, _ in all_told} == told
        hits = ws.search(text, by="captions", where=asked.sql, limit=limit)
        found = [hit.episode_id for hit in hits]
        assert len(set(found)) == len(found) == min(limit, len(told & kept))
        assert set(found) <= told & kept


@_drawn(12)
@given(asked=_FILTERS, text=st.sampled_from(["mug", "☕"]), limit=st.integers(1, 300))
def test_meaning_is_exact(world: World, asked: Filter, text: str, limit: int) -> None:
    query, kept = direction(text), asked.holds(world.columns)
    said = [*enumerate(world.columns["instruction"]), *((row, text) for row, _, text in world.captions)]
    likeness = {text: float(direction(text) @ query / np.linalg.norm(query)) for _, text in said}
    scores: dict[str, float] = {}
    for row, told in said:
        if kept[row]:
            scores[str(world.ids[row])] = max(likeness[told], scores.get(str(world.ids[row]), -2.0))
    for ws in world.workspaces:
        hits = ws.search(text, by="meaning", where=asked.sql, limit=limit, space="exact")
        assert [hit.score for hit in hits] == pytest.approx(
            sorted(scores.values(), reverse=True)[:limit], abs=1e-3
        )
        assert [scores[hit.episode_id] for hit in hits] == pytest.approx(
            [hit.score for hit in hits], abs=1e-3
        )
        assert len({hit.episode_id for hit in hits}) == len(hits)


@_drawn(12)
@given(asked=_FILTERS, limit=st.integers(1, 30), number=st.integers(0, 500))
def test_like_an_episode_is_exact(world: World, asked: Filter, limit: int, number: int) -> None:
    rows = [row for row, _, _ in world.places]
    row, kept = rows[number], asked.holds(world.columns)
    own = np.array(rows) == row
    look = world.frames[own].mean(axis=0)
    looks = _best_frames(world, look / np.linalg.norm(look), kept)
    courses = (
        world.courses
        @ world.courses[row]
        / np.linalg.norm(world.courses, axis=1)
        / np.linalg.norm(world.courses[row])
    )
    moves = {str(world.ids[at]): float(courses[at]) for at in np.flatnonzero(kept)}
    itself = str(world.ids[row])
    for ws in world.workspaces:
        for by, scores in (("frames", looks), ("state", moves)):
            hits = ws.search(like=itself, by=by, where=asked.sql, limit=limit, space="exact")
            _are_the_best(hits, {one: score for one, score in scores.items() if one != itself}, limit)


@_drawn(6)
@given(
    asked=_FILTERS,
    limit=st.integers(1, 30),
    looks=st.sampled_from([0.5, 1.0, 3.0]),
    text=st.sampled_from(["", "mug"]),
)
def test_a_mixture_is_the_sum_of_its_ranks(
    world: World, asked: Filter, limit: int, looks: float, text: str
) -> None:
    like = str(world.ids[world.places[100][0]])
    for ws in world.workspaces:
        where = f"({asked.sql}) AND episode_id <> '{like}'"
        whole: dict[str, object] = {"like": like, "where": where, "space": "exact"}
        mixed = ws.search(text, by=f"frames={looks},state", limit=limit, **whole)
        scores: dict[str, float] = {}
        asks: list[tuple[str, dict[str, object], float]] = [
            ("", whole | {"by": "frames"}, looks),
            ("", whole | {"by": "state"}, 1),
        ]
        if text:
            asks.append((text, {"where": where, "space": "exact", "by": "frames"}, looks))
        for words, ask, weight in asks:
            ranks = [hit.episode_id for hit in ws.search(words, limit=2 * limit + 2, **ask)]
            for rank, one in enumerate(ranks, start=1):
                scores[one] = scores.get(one, 0.0) + weight / (60 + rank)
        scores.pop(like, None)
        _are_the_best(mixed, scores, limit)
