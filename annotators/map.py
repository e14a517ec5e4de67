"""Map: each episode's place on a 2-D map of an embedding space, by UMAP fitted to a sample."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import TYPE_CHECKING, Any

from annotators.base import Annotator, Options, Result, Work
from annotators.facts import fact
from ares.annotation import Column, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, ModelError, RequestError
from ares.search.spaces import choose_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.workspace import Workspace

_VERSION = "1"
# UMAP's own defaults; a sample of this size is fitted in half a minute.
_NEIGHBORS, _MIN_DIST, _SEED = 15, 0.1, 0
_SAMPLE, _FEWEST = 10_000, 10
_BATCH = 1_000
# The map is drawn anew when the workspace holds this many times the episodes that its sample was taken from.
_GROWTH = 2
_MAPS = "maps"

COLUMNS = (
    Column(
        name="map_x",
        type="float64",
        meaning="Place on the map of looks, across; near episodes look alike, axes mean nothing.",
    ),
    Column(name="map_y", type="float64", meaning="Place on the map of looks, up."),
)


def make_map(options: Options, ws: Workspace) -> Annotator:
    """An annotator that places episodes on a map of the newest embedding space, by the mean of their frame vectors.

    UMAP (McInnes, Healy and Melville, arXiv:1802.03426) is fitted to a sample that stays the same until the workspace
    has doubled; the other episodes are transformed into its map.

    Raises:
        RequestError: There are no frame vectors, or umap-learn is not installed.
    """
    space = choose_space(ws)
    sample = _sample(ws, space.name)
    settings: dict[str, Json] = {
        "neighbors": _NEIGHBORS,
        "min_dist": _MIN_DIST,
        "seed": _SEED,
        "sample": short_hash(list(sample)),
        "umap": _umap_version(),
    }
    maker = Maker(annotator="map", version=_VERSION, model=space.name, settings=settings, columns=COLUMNS)
    fitted = cache(lambda: fit(_means(ws, space.name, sample)))
    return Annotator(
        maker=maker, process=lambda works: _process(works, ws, space.name, fitted, maker), batch=_BATCH
    )


class Map:
    """A fitted map.

    Args:
        model: The fitted umap.UMAP.
        ids: episode_ids of its sample, in order of its rows.
    """

    def __init__(self, model: Any, ids: Sequence[str]) -> None:
        self._model = model
        self._rows = {episode_id: row for row, episode_id in enumerate(ids)}

    def places(self, means: dict[str, NDArray[np.float32]]) -> dict[str, tuple[float, float]]:
        """Places by episode: those of the sample as fitted, the others transformed."""
        import numpy as np

        drawn = {one: self._model.embedding_[self._rows[one]] for one in means if one in self._rows}
        others = [one for one in means if one not in self._rows]
        if others:
            placed = self._model.transform(np.stack([means[one] for one in others]))
            drawn.update(zip(others, placed, strict=True))
        return {one: (round(float(x), 4), round(float(y), 4)) for one, (x, y) in drawn.items()}


def fit(means: dict[str, NDArray[np.float32]]) -> Map | ModelError:
    """UMAP over the mean vectors (D,) of some episodes; an error when they are too few for a map."""
    if len(means) < _FEWEST:
        return ModelError("too few embedded episodes for a map", f"{len(means)}, at least {_FEWEST}")
    import numpy as np
    import umap

    model = umap.UMAP(
        n_neighbors=min(_NEIGHBORS, len(means) - 1),
        min_dist=_MIN_DIST,
        metric="cosine",
        random_state=_SEED,
        n_jobs=1,  # what a fixed seed needs; more would only be warned of
    )
    model.fit(np.stack(list(means.values())))
    return Map(model, list(means))


def _sample(ws: Workspace, space: str) -> tuple[str, ...]:
    """The ids that the map is fitted to; kept, so that the map stands still while the workspace grows a little."""
    known, now = ws.annotations.get(_MAPS, space), ws.tables.episodes.count()
    if isinstance(known, dict) and now < _GROWTH * known["episodes"]:
        return tuple(known["sample"])
    # Ids are hashes: the smallest are a fair sample, and the same one every time.
    chosen = heapq.nsmallest(_SAMPLE, chain.from_iterable(ws.tables.episodes.stretches()))
    ws.annotations.put(_MAPS, {space: {"episodes": now, "sample": list[Json](chosen)}})
    return tuple(chosen)


def _means(ws: Workspace, space: str, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    found: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(ids), _BATCH):
        found.update(ws.tables.vectors(space).means(ids[start : start + _BATCH]))
    return found


def _process(
    works: Sequence[Work], ws: Workspace, space: str, fitted: Callable[[], Map | ModelError], maker: Maker
) -> list[Result | AresError]:
    drawn = fitted()
    if isinstance(drawn, ModelError):
        return [drawn] * len(works)
    means = ws.tables.vectors(space).means([work.episode.episode_id for work in works])
    places = drawn.places(means)
    return [_result(work, places.get(work.episode.episode_id), maker) for work in works]


def _result(work: Work, place: tuple[float, float] | None, maker: Maker) -> Result | AresError:
    if place is None:
        return ModelError("the episode has no frame vectors", "run `ares annotate embed` first")
    return Result(annotations=[fact(work, maker, {"map_x": place[0], "map_y": place[1]})])


def _umap_version() -> str:
    try:
        return version("umap-learn")
    except PackageNotFoundError:
        raise RequestError("a map needs umap-learn", "pip install 'ares-curation[map]'") from None
