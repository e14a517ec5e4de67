"""The map annotator: what looks alike lies together, it stands still, and says when it cannot be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from annotators.base import Options, Result, Work
from annotators.map import make_map
from ares.episode import Episode, Record, Trajectory
from ares.errors import ModelError, RequestError
from ares.workspace import Workspace

pytest.importorskip("umap")
_KINDS, _EACH = 3, 12


class _Row(NamedTuple):
    episode_id: str
    camera: str
    seconds: np.ndarray
    vectors: np.ndarray


def _id(kind: int, number: int) -> str:
    # Ids are hashes: which kind an episode is of must not follow from the order of ids.
    return f"{(number * _KINDS + kind) * 7919 % 65_536:016x}"


def _fill(ws: Workspace, like: Episode, numbers: range) -> list[Episode]:
    """Episodes of three looks, two frames each, with their vectors."""
    rng = np.random.default_rng(0)
    looks = np.eye(8, dtype=np.float32)[:_KINDS]
    made, rows = [], []
    for kind in range(_KINDS):
        for number in numbers:
            episode_id = _id(kind, number)
            made.append(replace(like, episode_id=episode_id, key=episode_id, content_hash=episode_id))
            vectors = (looks[kind] + rng.normal(0, 0.05, (2, 8))).astype(np.float32)
            rows.append(_Row(episode_id, "front", np.array([0.0, 1.0]), vectors))
    blank = Trajectory(timestamps=np.arange(3.0))
    ws.tables.episodes.add([Record(episode=one, trajectory=blank) for one in made])
    ws.tables.vectors("look").add(rows)
    ws.annotations.put("spaces", {"look": {"encoder": "clip", "model": "m", "dim": 8, "created": "1"}})
    return made


def _places(
    ws: Workspace, options: Options, episodes: list[Episode], work_for: Callable[..., Work]
) -> dict[str, tuple[float, float]]:
    annotator = make_map(options, ws)
    results = annotator.process([work_for(one, [annotator]) for one in episodes])
    made = [fact for one in results if isinstance(one, Result) for fact in one.annotations]
    return {fact.episode_id: (fact.value["map_x"], fact.value["map_y"]) for fact in made}  # type: ignore[misc]


def test_what_looks_alike_lies_together(
    ws: Workspace, options: Options, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    made = _fill(ws, episodes["drawer-close_000"], range(_EACH))
    placed = _places(ws, options, made, work_for)
    groups = [np.array([placed[_id(kind, number)] for number in range(_EACH)]) for kind in range(_KINDS)]
    centres = [group.mean(axis=0) for group in groups]
    spread = max(
        float(np.linalg.norm(group - centre, axis=1).max())
        for group, centre in zip(groups, centres, strict=True)
    )
    apart = min(float(np.linalg.norm(a - b)) for i, a in enumerate(centres) for b in centres[:i])
    assert apart > 2 * spread


def test_new_episodes_are_placed_on_the_map_that_is_there(
    ws: Workspace, options: Options, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    old = _fill(ws, episodes["drawer-close_000"], range(_EACH))
    maker, before = make_map(options, ws).maker.maker_id, _places(ws, options, old, work_for)
    new = _fill(ws, episodes["drawer-close_000"], range(_EACH, _EACH + 3))
    assert make_map(options, ws).maker.maker_id == maker
    after = _places(ws, options, [*old, *new], work_for)
    assert {one: after[one] for one in before} == before
    for kind in range(_KINDS):
        home = np.array([before[_id(kind, number)] for number in range(_EACH)]).mean(axis=0)
        others = [
            np.array([before[_id(other, number)] for number in range(_EACH)]).mean(axis=0)
            for other in range(_KINDS)
            if other != kind
        ]
        place = np.array(after[_id(kind, _EACH)])
        assert np.linalg.norm(place - home) < min(np.linalg.norm(place - other) for other in others)


def test_a_workspace_that_doubled_is_drawn_anew(
    ws: Workspace, options: Options, episodes: dict[str, Episode]
) -> None:
    _fill(ws, episodes["drawer-close_000"], range(_EACH))
    maker = make_map(options, ws).maker.maker_id
    _fill(ws, episodes["drawer-close_000"], range(_EACH, 3 * _EACH))
    assert make_map(options, ws).maker.maker_id != maker


def test_an_episode_without_vectors_fails_alone_and_too_few_fail_together(
    ws: Workspace, options: Options, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    made = _fill(ws, episodes["drawer-close_000"], range(_EACH))
    annotator = make_map(options, ws)
    bare = replace(made[0], episode_id="f" * 16)
    good, lacking = annotator.process([work_for(made[0], [annotator]), work_for(bare, [annotator])])
    assert isinstance(good, Result)
    assert isinstance(lacking, ModelError) and "frame vectors" in str(lacking)


def test_three_episodes_are_no_map(
    ws: Workspace, options: Options, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    made = _fill(ws, episodes["drawer-close_000"], range(1))
    annotator = make_map(options, ws)
    (first, *_) = annotator.process([work_for(one, [annotator]) for one in made])
    assert isinstance(first, ModelError) and "too few" in str(first)


def test_without_vectors_embed_is_asked_for(options: Options, ws: Workspace) -> None:
    with pytest.raises(RequestError, match="annotate embed"):
        make_map(options, ws)
