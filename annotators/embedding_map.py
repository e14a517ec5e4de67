"""The annotator `map`: 2-D coordinates of each episode in an embedding space, by UMAP, or by PCA without it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.annotation import Column, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, ModelError
from ares.imports import install_command
from ares.search import find_embedding_space
from ares_annotators.base import Options, Preflight, Result, Work, new_annotation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


_VERSION = "1"
# UMAP's defaults; a sample of this size is fitted in half a minute.
_NEIGHBORS, _MIN_DIST, _SEED = 15, 0.1, 0
_SAMPLE_SIZE, _MIN_EPISODES = 10_000, 10
_BATCH_SIZE = 1_000
# The map is fitted again when the workspace holds so many times the episodes of the last fit.
_REFIT_GROWTH = 2
_MAP_SAMPLES = "maps"

COLUMNS = (
    Column(
        name="map_x",
        type="float64",
        meaning="Place on the map of looks, across; near episodes look alike, axes mean nothing.",
    ),
    Column(name="map_y", type="float64", meaning="Place on the map of looks, up."),
)


class FittedUmap:
    """A projection fitted to a sample of episodes.

    Args:
        model: The fitted umap.UMAP, or the fitted `PcaModel`.
        ids: episode_ids of its sample, in order of its rows.
    """

    def __init__(self, model: Any, ids: Sequence[str]) -> None:
        self._model = model
        self._rows = {episode_id: row for row, episode_id in enumerate(ids)}

    def coordinates(self, means: dict[str, NDArray[np.float32]]) -> dict[str, tuple[float, float]]:
        """(x, y) by episode: those of the sample as fitted, the others transformed."""
        import numpy as np

        rows = self._rows
        points = {
            episode_id: self._model.embedding_[rows[episode_id]] for episode_id in means if episode_id in rows
        }
        new_ids = [episode_id for episode_id in means if episode_id not in rows]
        if new_ids:
            new_points = self._model.transform(np.stack([means[episode_id] for episode_id in new_ids]))
            points.update(zip(new_ids, new_points, strict=True))
        return {episode_id: (round(float(x), 4), round(float(y), 4)) for episode_id, (x, y) in points.items()}


class PcaModel:
    """The two directions in which vectors differ most.

    Attributes:
        embedding_: Places (N, 2) of the vectors that it is fitted to.
    """

    embedding_: NDArray[np.float32]

    def fit(self, vectors: NDArray[np.float32]) -> None:
        """Fit it to unit vectors (N, D)."""
        import numpy as np

        self._mean = vectors.mean(axis=0)
        _, _, directions = np.linalg.svd(vectors - self._mean, full_matrices=False)
        # The sign of a direction is arbitrary: its largest part is positive, on every machine.
        largest = np.abs(directions[:2]).argmax(axis=1)
        self._directions = directions[:2] * np.sign(directions[[0, 1], largest])[:, None]
        self.embedding_ = self.transform(vectors)

    def transform(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Places (N, 2) of vectors (N, D)."""
        points: NDArray[np.float32] = (vectors - self._mean) @ self._directions.T
        return points


def fit_umap(means: dict[str, NDArray[np.float32]], is_umap: bool = True) -> FittedUmap:
    """Fit UMAP, or else PCA, to mean vectors (D,) of episodes. Raises ModelError when there are too few for a map."""
    if len(means) < _MIN_EPISODES:
        raise ModelError("too few embedded episodes for a map", f"{len(means)}, at least {_MIN_EPISODES}")
    import numpy as np

    model = _new_umap(len(means)) if is_umap else PcaModel()
    model.fit(np.stack(list(means.values())))
    return FittedUmap(model, list(means))


def _new_umap(count: int) -> Any:
    import umap

    return umap.UMAP(
        n_neighbors=min(_NEIGHBORS, count - 1),
        min_dist=_MIN_DIST,
        metric="cosine",
        random_state=_SEED,
        n_jobs=1,  # a fixed seed needs one thread; umap warns about more
    )


def _read_map_sample(stores: Stores, space: str) -> _MapSample:
    """The sample that is stored until the workspace has doubled, so that the map stays the same; then a new one."""
    stored = stores.annotations.get_document(_MAP_SAMPLES, space)
    num_episodes = stores.tables.episodes.count()
    if isinstance(stored, dict) and num_episodes < _REFIT_GROWTH * stored["episodes"]:
        return _MapSample(tuple(stored["sample"]), stored["episodes"])
    # Ids are hashes: the smallest are a fair sample, and the same one every time.
    ids = heapq.nsmallest(_SAMPLE_SIZE, chain.from_iterable(stores.tables.episodes.id_batches()))
    return _MapSample(tuple(ids), num_episodes)


class _MapSample(NamedTuple):
    """Ids of the episodes that a map is fitted to, and how many episodes the workspace had when they were drawn."""

    ids: tuple[str, ...]
    num_episodes: int


def _mean_vectors(stores: Stores, space: str, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    means: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(ids), _BATCH_SIZE):
        means.update(stores.tables.vectors(space).mean_vectors(ids[start : start + _BATCH_SIZE]))
    return means


def _projection_settings() -> dict[str, Json]:
    """Settings of UMAP where it is installed; those of PCA otherwise, which says so."""
    try:
        umap = version("umap-learn")
    except PackageNotFoundError:
        return {"projection": "pca"}
    return {"neighbors": _NEIGHBORS, "min_dist": _MIN_DIST, "seed": _SEED, "umap": umap}


class MapAnnotator:
    """Places episodes on a map of the newest embedding space, by the mean of their frame vectors.

    UMAP (McInnes, Healy and Melville, arXiv:1802.03426), or PCA where umap-learn is not installed, is fitted to a
    sample that stays the same until the workspace has doubled; the other episodes are transformed into the fitted map.

    Raises:
        RequestError: There are no frame vectors.
    """

    batch_size = _BATCH_SIZE

    def __init__(self, options: Options, stores: Stores) -> None:
        self._stores, self._space = stores, find_embedding_space(stores).name
        self._sample = _read_map_sample(stores, self._space)
        settings = {**_projection_settings(), "sample": short_hash(list(self._sample.ids))}
        self._is_umap = "umap" in settings
        self.producer = Producer(
            annotator="map", version=_VERSION, model=self._space, settings=settings, columns=COLUMNS
        )

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Store the sample, so that the map stays the same while the workspace grows a little."""
        document: Json = {"episodes": self._sample.num_episodes, "sample": list[Json](self._sample.ids)}
        self._stores.annotations.put_documents(_MAP_SAMPLES, {self._space: document})
        command = install_command("ares-curation[map]")
        advice = f"the map is made by PCA; UMAP separates groups better: {command}"
        return Preflight(warnings=() if self._is_umap else (advice,))

    def process(self, works: Sequence[Work]) -> list[Result | AresError]:
        """A place per episode with frame vectors; the first call fits the map."""
        if isinstance(self._map, ModelError):
            return [self._map] * len(works)
        ids = [work.episode.episode_id for work in works]
        coordinates = self._map.coordinates(self._stores.tables.vectors(self._space).mean_vectors(ids))
        return [self._result(work, coordinates.get(work.episode.episode_id)) for work in works]

    @cached_property
    def _map(self) -> FittedUmap | ModelError:
        """The map, or why there is none: a million episodes are not to try it one after the other."""
        try:
            return fit_umap(_mean_vectors(self._stores, self._space, self._sample.ids), self._is_umap)
        except ModelError as error:
            return error

    def _result(self, work: Work, point: tuple[float, float] | None) -> Result | AresError:
        if point is None:
            return ModelError("the episode has no frame vectors", "run `ares annotate embed` first")
        return Result(
            annotations=[new_annotation(work, self.producer, {"map_x": point[0], "map_y": point[1]})]
        )
