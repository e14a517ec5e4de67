"""For random filters, ids, counts, pages, sets and rankers agree with plain Python."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from numpy.typing import NDArray

from ares.curation import selected_ids
from ares.deadline import Deadline, limit_time
from ares.episode import Json, Record
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.registry import encoders
from ares.search import Hit, find_signal_layout, name_motion_space
from ares.settings import Settings
from ares.store import arrow_type, conjunction, ids_filter
from ares.store.lance import episode_snapshot, row_index, text as text_search
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import FrameVectors, Options
from tests.annotators.runs import estimate_cost
from tests.ares.store.random_filters import TEXTS, RandomFilter, filters, order_key, random_columns

_MANY, _DIM = 600, 16
_TYPES = {
    "note": "string", "grade": "string", "score": "float64", "events": "int64", "acceptable": "bool",
    "seen": "timestamp", "objects": "list<string>", "order": "int64",
}  # fmt: skip
_DATASETS = ("it's", "b_%", "set\\3", "ü")
_INSTRUCTIONS = (*(text for text in TEXTS if text.strip("'\\")), "close the drawer", "lift the mug")
_SOURCE = ("episode_id", "dataset", "key", "instruction", "num_steps", "success")
_FILTERS = filters(
    random_columns(300, 0)
    | {
        "dataset": [*_DATASETS, "b"],
        "instruction": list(_INSTRUCTIONS),
        "num_steps": list(range(60)),
        "success": [True, False],
        "episode_id": ["0", "00ff", "f0a1b2c3d4e5f607"],
        "key": ["0", "17", "999", "1_"],
    }
)
_BY = st.sampled_from(["dataset", "success", "num_steps", "instruction", *_TYPES])
_ORDERS = st.lists(st.tuples(_BY, st.booleans()), min_size=1, max_size=3, unique_by=lambda item: item[0])
# The last digits of a score depend on how it is computed.
_SAME = 3e-6


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    unit = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float16)
    rounded: NDArray[np.float32] = unit.astype(np.float32)
    return rounded


def _text_vector(text: str) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return _unit(np.random.default_rng(seed).normal(size=_DIM))


class _Encoder:
    """Computes vectors that depend only on the text."""

    dim = _DIM

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([_text_vector(text) for text in texts])

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        raise AssertionError("no test asks for the vector of an image")


@dataclass(frozen=True, slots=True, eq=False)
class _Contents:
    """Workspaces, and what they hold.

    Attributes:
        workspaces: The same episodes twice: with rows beyond their indexes, and after compaction.
        columns: Values by column, (N) each.
        ids: (N,) episode ids.
        frames: (F, D) vectors of the space "exact".
        moments: The number of the episode and the second of each of these.
        motion_vectors: (N, D) motion vector of each episode.
    """

    workspaces: Sequence[Workspace]
    columns: dict[str, list[Any]]
    ids: NDArray[Any]
    frames: NDArray[np.float32]
    moments: list[tuple[int, float]]
    motion_vectors: NDArray[np.float32]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let hypothesis not print every value."""
        printer.text(f"{len(self.ids)} episodes")


@pytest.fixture(scope="module")
def contents(
    tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Record]
) -> Iterator[_Contents]:
    """Episodes that were written, indexed, changed, added to and deleted from, before and after compaction."""
    encoders.add("odd", lambda spec, device: _Encoder())
    folder, rng, generator = tmp_path_factory.mktemp("odd"), random.Random(1), np.random.default_rng(2)
    columns, names = random_columns(_MANY, 0), ("x", "y", "z")
    records = [
        make_record(
            number,
            dataset=rng.choice(_DATASETS),
            instruction=rng.choice(_INSTRUCTIONS),
            num_steps=rng.randrange(1, 60),
            success=rng.choice((True, False, None)),
            state_names=names,
        )
        for number in range(_MANY)
    ]
    ids = [record.episode.episode_id for record in records]
    # Many frames are equal, and every tenth episode has none.
    pool = _unit(generator.normal(size=(60, _DIM)))
    frames = [
        np.concatenate([_unit(generator.normal(size=(3, _DIM))), pool[generator.integers(0, 60, 2)]])
        for _ in range(_MANY)
    ]
    frames = [vectors if number % 10 else vectors[:0] for number, vectors in enumerate(frames)]
    motion_vectors, layout = _unit(generator.normal(size=(_MANY, _DIM))), find_signal_layout(names)
    assert layout is not None
    motion_space = name_motion_space("state", layout, records[0].episode)

    def vectors_of(number: int) -> list[FrameVectors]:
        parts = (("front", frames[number][:3]), ("wrist", frames[number][3:]))
        return [
            FrameVectors(
                episode_id=ids[number], camera=camera, seconds=np.arange(float(len(own))) * 2, vectors=own
            )
            for camera, own in parts
        ]

    def motion_of(number: int) -> FrameVectors:
        own = motion_vectors[number : number + 1]
        return FrameVectors(episode_id=ids[number], camera="", seconds=np.zeros(1), vectors=own)

    with (
        pytest.MonkeyPatch.context() as patch,
        open_workspace(str(folder / "ws"), Settings(), create=True) as ws,
    ):
        patch.setattr("ares.store.lance_tables._MIN_INDEXED_ROWS", 100)
        tables = ws.stores.tables

        def set_values(numbers: range, names: Sequence[str]) -> None:
            values = {name: [columns[name][number] for number in numbers] for name in names}
            arrays = {
                name: pa.array(values[name], arrow_type(_TYPES[name]), from_pandas=False) for name in names
            }
            table = pa.table({"episode_id": [ids[number] for number in numbers], **arrays})
            tables.episodes.set_values(table)

        def write(numbers: range) -> None:
            tables.episodes.add([records[number] for number in numbers])
            with_values = range(numbers.start, (numbers.start + 4 * numbers.stop) // 5)
            set_values(with_values, list(_TYPES))
            for values in columns.values():
                values[with_values.stop : numbers.stop] = [None] * (numbers.stop - with_values.stop)
            tables.vectors("exact").add([row for number in numbers for row in vectors_of(number)])
            tables.vectors(motion_space).add([motion_of(number) for number in numbers])

        indexed = range(_MANY * 4 // 5)
        write(indexed)
        space: dict[str, Json] = {"encoder": "odd", "model": "m", "dim": _DIM, "created": "2026-01-01"}
        ws.stores.annotations.put_documents("spaces", {"exact": space})
        tables.optimize()
        # Some have an index, others have none.
        changed = random_columns(_MANY, 5)
        for name in ("grade", "note", "score"):
            columns[name][: indexed.stop : 7] = changed[name][: indexed.stop : 7]
            set_values(indexed[::7], [name])
        write(range(indexed.stop, _MANY))
        # No command deletes episodes, but the repair after a crash may.
        for name in ("episodes", "trajectories", "vectors_exact", f"vectors_{motion_space}"):
            table = tables.connection.open_table(name)
            assert table is not None
            table.delete(f"episode_id IN ({', '.join(map(repr, ids[::11]))})")
        shutil.copytree(folder / "ws", folder / "tidy")
        with open_workspace(str(folder / "tidy"), Settings()) as compacted:
            compacted.stores.tables.optimize()
            patch.undo()
            left = [number for number in range(_MANY) if number % 11]
            moments = [
                (row, second)
                for row, number in enumerate(left)
                for vectors in vectors_of(number)
                for second in vectors.seconds.tolist()
            ]
            source = {name: [getattr(records[number].episode, name) for number in left] for name in _SOURCE}
            yield _Contents(
                workspaces=(ws, compacted),
                columns=source
                | {name: [values[number] for number in left] for name, values in columns.items()},
                ids=np.array(source["episode_id"]),
                frames=np.concatenate([frames[number] for number in left]),
                moments=moments,
                motion_vectors=motion_vectors[left],
            )
    encoders.remove("odd")


@pytest.fixture(autouse=True)
def _large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for a million rows alone is done for these: sorting, shared texts, threads of a filter."""
    monkeypatch.setattr(episode_snapshot, "DEEP_OFFSET", 150)
    monkeypatch.setattr(episode_snapshot, "LEAST_SHARED_ROWS", 50)
    monkeypatch.setattr(text_search, "_MAX_SCANNED_ROWS", 120)
    monkeypatch.setattr(row_index, "_PART_ROWS", 150)


def _drawn(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Settings of a test with that many examples; all of them share one workspace that never changes."""
    suppressed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    # Filters are short: to shrink a failing one takes minutes.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(max_examples=examples, deadline=None, suppress_health_check=suppressed, phases=phases)


@_drawn(40)
@given(filter_=_FILTERS)
def test_ids_and_counts(contents: _Contents, filter_: RandomFilter) -> None:
    expected = set(contents.ids[filter_.matches(contents.columns)])
    for ws in contents.workspaces:
        assert ws.stores.tables.episodes.ids(filter_.sql) == expected
        assert ws.stores.tables.episodes.count(filter_.sql) == len(expected)
        with limit_time(Deadline(60.0)):  # as a page asks
            either = f"(({filter_.sql}) OR (contains(lower(instruction), 'drawer')))"
            assert ws.stores.tables.episodes.count(filter_.sql) == len(expected)
            assert ws.stores.tables.episodes.count(either) == len(ws.stores.tables.episodes.ids(either))


def test_words_among_some_episodes_are_those_of_these_episodes(contents: _Contents) -> None:
    ids, instructions = contents.ids[:300], contents.columns["instruction"][:300]
    where = conjunction([ids_filter([str(name) for name in ids]), "contains(lower(instruction), 'drawer')"])
    expected = {
        str(name) for name, text in zip(ids, instructions, strict=True) if "drawer" in (text or "").lower()
    }
    assert expected
    for ws in contents.workspaces:
        with limit_time(Deadline(60.0)):
            assert ws.stores.tables.episodes.count(where) == len(expected)
            assert int(ws.stores.tables.episodes.snapshot().row_mask(where).sum()) == len(expected)


@pytest.mark.slow
@_drawn(10)
@given(filter_=_FILTERS, order=_ORDERS, size=st.integers(_MANY // 8, _MANY))
def test_pages_lose_no_row_and_show_none_twice(
    contents: _Contents, filter_: RandomFilter, order: list[tuple[str, bool]], size: int
) -> None:
    text = ", ".join(name + (" DESC" if descending else "") for name, descending in order)
    expected = _ordered(contents, filter_, order)
    for ws in contents.workspaces:
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


def _ordered(contents: _Contents, filter_: RandomFilter, order: Sequence[tuple[str, bool]]) -> list[str]:
    """Ids by some columns, missing values last, -0.0 before 0.0."""
    rows = sorted(
        np.flatnonzero(filter_.matches(contents.columns)).tolist(), key=lambda row: contents.ids[row]
    )
    for name, descending in reversed(order):
        values = contents.columns[name]

        def key(row: int, values: list[Any] = values) -> Any:
            value = values[row]
            return (order_key(value), np.copysign(1, value)) if isinstance(value, float) else value

        present = sorted((row for row in rows if values[row] is not None), key=key, reverse=descending)
        rows = present + [row for row in rows if values[row] is None]
    return [str(contents.ids[row]) for row in rows]


@pytest.mark.slow
@_drawn(8)
@given(filter_=_FILTERS, numbers=st.lists(st.integers(0, _MANY // 2), max_size=20))
def test_sets_annotators_and_pages_choose_the_same(
    contents: _Contents, filter_: RandomFilter, numbers: list[int]
) -> None:
    expected = {str(episode_id) for episode_id in contents.ids[filter_.matches(contents.columns)]}
    listed = [str(contents.ids[number]) for number in numbers]
    for ws in contents.workspaces:
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
    contents: _Contents, query: NDArray[np.float32], rows: NDArray[np.bool_]
) -> dict[str, float]:
    """The score of the best frame of each episode that has one; a query is kept as the vectors are."""
    query = query.astype(np.float16).astype(np.float32)
    best: dict[str, float] = {}
    similarities = contents.frames @ query / np.linalg.norm(query) / np.linalg.norm(contents.frames, axis=1)
    for score, (row, _) in zip(similarities.tolist(), contents.moments, strict=True):
        if rows[row]:
            best[str(contents.ids[row])] = max(score, best.get(str(contents.ids[row]), -2.0))
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


@pytest.mark.slow
@_drawn(20)
@given(filter_=_FILTERS, text=st.sampled_from(["mug", "a drawer", "☕"]), limit=st.integers(1, 60))
def test_text_to_moments_is_exact(contents: _Contents, filter_: RandomFilter, text: str, limit: int) -> None:
    scores = _best_frames(contents, _text_vector(text), filter_.matches(contents.columns))
    for ws in contents.workspaces:
        hits = ws.search(text, by="frames", where=filter_.sql, limit=limit, space="exact")
        _are_the_best(hits, scores, limit)
        for hit in hits:
            camera, second, score = hit.moments[0]
            assert (camera, second) == (hit.camera, hit.seconds) and score == pytest.approx(
                hit.rank_value, abs=_SAME
            )
            assert [score for *_, score in hit.moments] == pytest.approx(
                _moments(contents, text, hit.episode_id), abs=_SAME
            )


def _moments(contents: _Contents, text: str, episode_id: str) -> list[float]:
    """The scores of the best three frames of an episode that are more than a second apart."""
    query, (row,) = _text_vector(text), np.flatnonzero(contents.ids == episode_id)
    frames = [
        (vector, second)
        for vector, (episode_row, second) in zip(contents.frames, contents.moments, strict=True)
        if episode_row == row
    ]
    norm = float(np.linalg.norm(query))
    scored = [(float(vector @ query / norm / np.linalg.norm(vector)), second) for vector, second in frames]
    best: list[tuple[float, float]] = []
    for score, second in sorted(scored, key=lambda item: -item[0]):
        if all(abs(second - other) > 1 for _, other in best):
            best.append((score, second))
    return [score for score, _ in best[:3]]


@pytest.mark.slow
@_drawn(6)
@given(filter_=_FILTERS, limit=st.integers(1, 30), number=st.integers(0, 500))
def test_like_an_episode_is_exact(
    contents: _Contents, filter_: RandomFilter, limit: int, number: int
) -> None:
    rows = [row for row, _ in contents.moments]
    row, row_mask = rows[number], filter_.matches(contents.columns)
    is_own = np.array(rows) == row
    mean_vector = contents.frames[is_own].mean(axis=0)
    frame_scores = _best_frames(contents, mean_vector / np.linalg.norm(mean_vector), row_mask)
    similarities = (
        contents.motion_vectors
        @ contents.motion_vectors[row]
        / np.linalg.norm(contents.motion_vectors, axis=1)
        / np.linalg.norm(contents.motion_vectors[row])
    )
    motion_scores = {
        str(contents.ids[other]): float(similarities[other]) for other in np.flatnonzero(row_mask)
    }
    own_id = str(contents.ids[row])
    for ws in contents.workspaces:
        for by, scores in (("frames", frame_scores), ("state", motion_scores)):
            hits = ws.search(like=own_id, by=by, where=filter_.sql, limit=limit, space="exact")
            _are_the_best(
                hits,
                {episode_id: score for episode_id, score in scores.items() if episode_id != own_id},
                limit,
            )


@pytest.mark.slow
@_drawn(6)
@given(
    filter_=_FILTERS,
    limit=st.integers(1, 30),
    frame_weight=st.sampled_from([0.5, 1.0, 3.0]),
    text=st.sampled_from(["", "mug"]),
)
def test_a_mixture_is_the_sum_of_its_ranks(
    contents: _Contents, filter_: RandomFilter, limit: int, frame_weight: float, text: str
) -> None:
    like = str(contents.ids[contents.moments[100][0]])
    for ws in contents.workspaces:
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
