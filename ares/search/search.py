"""Search: from a text, an image or an episode to the best moments, filtered before they are ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.search.query import Hit, Query
from ares.search.rank import best_per_episode, fuse
from ares.search.spaces import choose_space, encoder, spaces
from ares.store.vectors import Moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.space import Space
    from ares.workspace import Workspace

# Moments asked for per episode wanted: neighbouring frames of one episode crowd the top of a ranking.
_MOMENTS_PER_EPISODE = 20


def search(ws: Workspace, query: Query) -> list[Hit]:
    """The best moment of each of the best episodes, at most `query.limit`.

    Raises:
        RequestError: The filter cannot be read, or there is nothing to search in the way that was asked.
        ModelError: The model of the embedding space cannot be loaded.
    """
    among = ws.tables.episodes.ids(query.where) if query.where.strip() else None
    rankings = [ranking for ranking in (_by_frames(ws, query, among), _by_words(ws, query, among)) if ranking]
    moments = fuse(rankings) if len(rankings) > 1 else [moment for ranking in rankings for moment in ranking]
    others = [moment for moment in moments if moment.episode_id != query.like]
    return _hits(ws, others[: query.limit])


def _by_frames(ws: Workspace, query: Query, among: set[str] | None) -> list[Moment]:
    if query.by == "captions" or (query.by == "" and not query.image and not spaces(ws)):
        return []
    space = choose_space(ws, query.space)
    vector = _vector(ws, query, space)
    found = ws.tables.vectors(space.name).search(vector, query.limit * _MOMENTS_PER_EPISODE, among)
    return best_per_episode(found)


def _vector(ws: Workspace, query: Query, space: Space) -> NDArray[np.float32]:
    """(D,) unit vector of what is asked."""
    import numpy as np

    if not query.like:
        model = encoder(space)
        asked = model.encode_texts([query.text]) if query.text else model.encode_images([_image(query.image)])
        first: NDArray[np.float32] = asked[0]
        return first
    vectors = ws.tables.vectors(space.name).of(query.like)[2]
    if not len(vectors):
        raise RequestError("the episode has no frame vectors", f"{query.like!r}; run `ares annotate embed`")
    mean = vectors.mean(axis=0)
    unit: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit


def _image(path: str) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise RequestError("the image cannot be read", f"{path!r}: {error}") from None


def _by_words(ws: Workspace, query: Query, among: set[str] | None) -> list[Moment]:
    if query.by == "frames" or query.image:
        return []
    text = query.text or _words_of(ws, query.like)
    if not text:
        return []
    wanted = query.limit * 2
    captions = [
        _said(hit.episode_id, hit.start_seconds, hit.score)
        for hit in ws.tables.segments.search_text(text, wanted, among)
    ]
    instructions = [
        _said(episode_id, 0.0, score)
        for episode_id, score in ws.tables.episodes.search_instruction(text, wanted, among)
    ]
    both = [best_per_episode(found) for found in (captions, instructions) if found]
    return fuse(both) if len(both) > 1 else [moment for ranking in both for moment in ranking]


def _said(episode_id: str, seconds: float, score: float) -> Moment:
    """What matched by words, as a moment of no camera: the words are of the span, not of a frame."""
    return Moment(episode_id=episode_id, camera="", seconds=seconds, score=score)


def _words_of(ws: Workspace, episode_id: str) -> str:
    rows = ws.frame(["instruction"], f"episode_id = '{ws.episode(episode_id).episode_id}'")
    return str(rows["instruction"][0].as_py() or "")


def _hits(ws: Workspace, moments: Sequence[Moment]) -> list[Hit]:
    if not moments:
        return []
    wanted = ["episode_id", "dataset", "instruction", "caption", "acceptable", "grade"]
    there = [column for column in wanted if column in ws.tables.episodes.columns()]
    ids = ", ".join(f"'{moment.episode_id}'" for moment in moments)
    rows = {row["episode_id"]: row for row in ws.frame(there, f"episode_id IN ({ids})").to_pylist()}
    return [_hit(moment, rows[moment.episode_id]) for moment in moments if moment.episode_id in rows]


def _hit(moment: Moment, row: dict[str, object]) -> Hit:
    acceptable, caption, grade = row.get("acceptable"), row.get("caption"), row.get("grade")
    return Hit(
        episode_id=moment.episode_id,
        dataset=str(row["dataset"]),
        camera=moment.camera,
        seconds=float(moment.seconds),
        score=float(moment.score),
        instruction=str(row["instruction"] or ""),
        caption=None if caption is None else str(caption),
        acceptable=None if acceptable is None else bool(acceptable),
        grade=None if grade is None else str(grade),
    )
