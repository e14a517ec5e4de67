"""The annotator `map`: similar episodes lie together, the map stays the same, and errors say when there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from typing import Any, NamedTuple

import numpy as np
import pytest

from ares.episode import Episode, Record, Trajectory
from ares.errors import ModelError, RequestError
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.embedding_map import MapAnnotator
from tests.annotators.samples import make_camera, make_episode

_KINDS, _KIND_SIZE = 3, 12


class _Row(NamedTuple):
    episode_id: str
    camera: str
    seconds: np.ndarray
    vectors: np.ndarray


def _id(kind: int, number: int) -> str:
    # Ids are hashes: which kind an episode is of must not follow from the order of ids.
    return f"{(number * _KINDS + kind) * 7919 % 65_536:016x}"


@pytest.fixture
def no_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """UMAP is not installed; it would compile itself for ten seconds."""

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("ares_annotators.embedding_map.version", version)


def _fill(ws: Workspace, numbers: range) -> list[Episode]:
    """Episodes of three looks, two frames each, with their vectors."""
    rng = np.random.default_rng(0)
    looks = np.eye(8, dtype=np.float32)[:_KINDS]
    episodes, rows = [], []
    for kind in range(_KINDS):
        for number in numbers:
            episode_id = _id(kind, number)
            episodes.append(make_episode(episode_id, [make_camera("front", 3.0, 1.0)]))
            vectors = (looks[kind] + rng.normal(0, 0.05, (2, 8))).astype(np.float32)
            rows.append(_Row(episode_id, "front", np.array([0.0, 1.0]), vectors))
    blank = Trajectory(timestamps=np.arange(3.0))
    ws.stores.tables.episodes.add([Record(episode=episode, trajectory=blank) for episode in episodes])
    ws.stores.tables.vectors("look").add(rows)
    ws.stores.annotations.put_documents(
        "spaces", {"look": {"encoder": "clip", "model": "m", "dim": 8, "created": "1"}}
    )
    return episodes


def _coordinates(
    ws: Workspace, options: Options, episodes: list[Episode], work_for: Callable[..., Work]
) -> dict[str, tuple[float, float]]:
    annotator = MapAnnotator(options, ws.stores)
    annotator.preflight([])
    results = annotator.process([work_for(episode, [annotator]) for episode in episodes])
    annotations = [
        annotation for result in results if isinstance(result, Result) for annotation in result.annotations
    ]
    return {point.episode_id: (point.value["map_x"], point.value["map_y"]) for point in annotations}  # type: ignore[misc]


@pytest.mark.parametrize("projection", ["pca", pytest.param("umap", marks=pytest.mark.slow)])
def test_new_episodes_are_placed_beside_their_kind_on_the_map_that_is_there(
    projection: str, ws: Workspace, options: Options, work_for: Callable[..., Work], request: Any
) -> None:
    if projection == "pca":
        request.getfixturevalue("no_umap")
    else:
        pytest.importorskip("umap")
    old = _fill(ws, range(_KIND_SIZE))
    producer = MapAnnotator(options, ws.stores).producer
    assert producer.settings.get("projection", "umap") == projection
    before = _coordinates(ws, options, old, work_for)
    new = _fill(ws, range(_KIND_SIZE, _KIND_SIZE + 3))
    assert MapAnnotator(options, ws.stores).producer.maker_id == producer.maker_id
    after = _coordinates(ws, options, [*old, *new], work_for)
    assert {episode_id: after[episode_id] for episode_id in before} == before
    homes = [
        np.mean([before[_id(kind, number)] for number in range(_KIND_SIZE)], axis=0) for kind in range(_KINDS)
    ]
    for kind in range(_KINDS):
        distances = [float(np.linalg.norm(after[_id(kind, _KIND_SIZE)] - home)) for home in homes]
        assert distances[kind] == min(distances)


@pytest.mark.usefixtures("no_umap")
def test_without_umap_the_map_is_made_by_pca_and_its_producer_says_so(
    ws: Workspace, options: Options
) -> None:
    _fill(ws, range(_KIND_SIZE))
    annotator = MapAnnotator(options, ws.stores)
    assert "umap" not in annotator.producer.settings
    assert "made by PCA" in str(annotator.preflight([]).warnings)


@pytest.mark.usefixtures("no_umap")
def test_a_workspace_that_doubled_is_drawn_anew(ws: Workspace, options: Options) -> None:
    _fill(ws, range(_KIND_SIZE))
    producer = MapAnnotator(options, ws.stores).producer.maker_id
    _fill(ws, range(_KIND_SIZE, 3 * _KIND_SIZE))
    assert MapAnnotator(options, ws.stores).producer.maker_id != producer


@pytest.mark.usefixtures("no_umap")
def test_an_episode_without_vectors_fails_alone_and_too_few_fail_together(
    ws: Workspace, options: Options, work_for: Callable[..., Work]
) -> None:
    three = _fill(ws, range(1))
    annotator = MapAnnotator(options, ws.stores)
    (first, *_) = annotator.process([work_for(episode, [annotator]) for episode in three])
    assert isinstance(first, ModelError) and "too few" in str(first)
    filled = _fill(ws, range(1, _KIND_SIZE))
    annotator = MapAnnotator(options, ws.stores)
    bare = replace(filled[0], episode_id="f" * 16)
    good, missing = annotator.process([work_for(filled[0], [annotator]), work_for(bare, [annotator])])
    assert isinstance(good, Result)
    assert isinstance(missing, ModelError) and "frame vectors" in str(missing)


def test_making_the_annotator_writes_nothing_and_a_run_stores_its_sample(
    ws: Workspace, options: Options
) -> None:
    filled = _fill(ws, range(1))
    annotator = MapAnnotator(options, ws.stores)
    assert dict(ws.stores.annotations.find_documents("maps")) == {}
    annotator.preflight([])
    ((_, stored),) = ws.stores.annotations.find_documents("maps")
    assert stored == {"episodes": len(filled), "sample": sorted(item.episode_id for item in filled)}


def test_without_vectors_embed_is_asked_for(options: Options, ws: Workspace) -> None:
    with pytest.raises(RequestError, match="annotate embed"):
        MapAnnotator(options, ws.stores)
