"""Ways: how the parts of a question are compared with what there is: by looks, by words, by motion."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ares.errors import MediaError, RequestError
from ares.search.meaning import said_like
from ares.search.motion import Kind, layout_of, space_name
from ares.search.query import Query, Way
from ares.search.rank import Ranking, best_per_episode, fuse, order
from ares.search.spaces import choose_space, encoder, spaces
from ares.store.vectors import Moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.space import Space
    from ares.workspace import Workspace

# Episodes in a ranking per episode wanted: a fusion looks deeper than what is shown.
_PER_RANKING = 2
# Moments shown of one episode, and what is apart enough to be another one.
_MOMENTS, _ONE_MOMENT_SECONDS = 3, 1.0
_FRAME = re.compile(r"(?P<episode>[0-9a-f]{16})/(?P<camera>.+)@(?P<seconds>\d+(?:\.\d+)?)")


Part = Callable[[], list[Moment]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question on its way.

    Attributes:
        ws: Where to search.
        query: What is asked.
        among: Episodes that its filter leaves, or None for all.
    """

    ws: Workspace
    query: Query
    among: Collection[str] | None

    @property
    def depth(self) -> int:
        """Episodes that each ranking is asked for: a fusion looks deeper, and what was asked itself takes places."""
        return self.query.limit * _PER_RANKING + 2


def episode_of(image: str) -> str:
    """The episode whose frame is asked as an image, or ""."""
    found = _FRAME.fullmatch(image)
    return found["episode"] if found else ""


def moments_of(asked: Asked, episode_ids: Sequence[str]) -> dict[str, list[Moment]]:
    """The best few moments of some episodes by their looks, best first; none where looks were not asked."""
    ws, query = asked.ws, asked.query
    if "frames" not in query.weights or (not query.by and not query.image and not spaces(ws)):
        return {}
    table = ws.tables.vectors(choose_space(ws, query.space).name)
    found: dict[str, list[Moment]] = {}
    for vector in _looks(ws, query, choose_space(ws, query.space)):
        for moment in table.frames(vector, episode_ids):
            found.setdefault(moment.episode_id, []).append(moment)
    return {one: _apart(sorted(moments, key=order)) for one, moments in found.items()}


def _apart(moments: Sequence[Moment]) -> list[Moment]:
    """The best moments that are not a second from a better one: neighbouring frames are one moment."""
    kept: list[Moment] = []
    for moment in moments:
        if len(kept) < _MOMENTS and all(
            abs(moment.seconds - other.seconds) > _ONE_MOMENT_SECONDS for other in kept
        ):
            kept.append(moment)
    return kept


def _by_frames(asked: Asked) -> Iterator[Part]:
    ws, query = asked.ws, asked.query
    if not query.by and not query.image and not spaces(ws):
        return
    space = choose_space(ws, query.space)
    for vector in _looks(ws, query, space):
        table = ws.tables.vectors(space.name)
        yield partial(table.search_episodes, vector, asked.depth, asked.among)


def _looks(ws: Workspace, query: Query, space: Space) -> Iterator[NDArray[np.float32]]:
    """(D,) unit vector of each part of a question."""
    if query.text.strip():
        yield _text_vector(space, query.text)
    if query.image.strip():
        yield encoder(space).encode_images([_image(ws, query.image)])[0]
    if query.like.strip():
        yield _mean_look(ws, query.like, space)


@lru_cache(maxsize=64)
def _text_vector(space: Space, text: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = encoder(space).encode_texts([text])[0]
    return vector


def _mean_look(ws: Workspace, episode_id: str, space: Space) -> NDArray[np.float32]:
    import numpy as np

    vectors = ws.tables.vectors(space.name).of(episode_id)[2]
    if not len(vectors):
        raise RequestError("the episode has no frame vectors", f"{episode_id!r}; run `ares annotate embed`")
    mean = vectors.mean(axis=0, dtype=np.float32)
    unit: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit


def _image(ws: Workspace, image: str) -> NDArray[np.uint8]:
    """(H, W, 3) of an image file, or of a frame of an episode."""
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    frame = _FRAME.fullmatch(image)
    if frame:
        return _frame(ws, frame["episode"], frame["camera"], float(frame["seconds"]))
    try:
        with Image.open(image) as opened:
            return np.asarray(opened.convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise RequestError("the image cannot be read", f"{image!r}: {error}") from None


def _frame(ws: Workspace, episode_id: str, camera: str, second: float) -> NDArray[np.uint8]:
    from ares.media.frames import frames_at

    try:
        shown: NDArray[np.uint8] = frames_at(ws.episode(episode_id).camera(camera).media, [second])[0]
    except MediaError as error:
        raise RequestError("the frame cannot be read", str(error)) from None
    return shown


def _by_captions(asked: Asked) -> Iterator[Part]:
    query = asked.query
    if query.text.strip():
        yield partial(_said, asked, query.text)
    if query.like.strip():
        yield partial(_said, asked, asked.ws.episode(query.like).instruction)


def _said(asked: Asked, text: str) -> list[Moment]:
    """Episodes whose captions or instructions share words with a text."""
    if not text.strip():
        return []
    tables, wanted = asked.ws.tables, asked.depth
    captions = [
        _wordy(hit.episode_id, hit.start_seconds, hit.score)
        for hit in tables.segments.search_text(text, wanted, asked.among)
    ]
    instructions = [
        _wordy(episode_id, 0.0, score)
        for episode_id, score in tables.episodes.search_instruction(text, wanted, asked.among)
    ]
    both = [Ranking(best_per_episode(found)) for found in (captions, instructions) if found]
    return fuse(both) if len(both) > 1 else [moment for ranking in both for moment in ranking.moments]


def _wordy(episode_id: str, seconds: float, score: float) -> Moment:
    """What matched by words, as a moment of no camera: the words are of the span, not of a frame."""
    return Moment(episode_id=episode_id, camera="", seconds=seconds, score=score)


def _by_meaning(asked: Asked) -> Iterator[Part]:
    ws, query = asked.ws, asked.query
    if not query.by and not spaces(ws):
        return
    space = choose_space(ws, query.space)
    told = ws.episode(query.like).instruction if query.like.strip() else ""
    for text in (query.text, told):
        if text.strip():
            vector = _text_vector(space, text)
            yield partial(said_like, ws, space, vector, asked.depth, asked.among)


def _by_motion(kind: Kind) -> Callable[[Asked], Iterator[Part]]:
    def rank(asked: Asked) -> Iterator[Part]:
        episode = asked.ws.episode(asked.query.like)
        names = episode.state_names if kind == "state" else episode.action_names
        layout = layout_of(names)
        if layout is None:
            raise RequestError(f"the episode has no {kind}", f"{episode.episode_id!r} of {episode.dataset}")
        table = asked.ws.tables.vectors(space_name(kind, layout, episode))
        vectors = table.of(episode.episode_id).vectors
        if not len(vectors):
            raise RequestError(
                f"the {kind} of the episode cannot be compared",
                f"{episode.episode_id!r}; run `ares annotate motion`, which leaves out signals that are not finite",
            )
        yield partial(table.search, vectors[0], asked.depth, asked.among)

    return rank


# For each way what has to be asked: models have run by then, so that the parts can be asked at the same time.
RANKINGS: Mapping[Way, Callable[[Asked], Iterator[Part]]] = {
    "frames": _by_frames,
    "captions": _by_captions,
    "meaning": _by_meaning,
    "state": _by_motion("state"),
    "action": _by_motion("action"),
}
