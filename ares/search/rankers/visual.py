"""Ranks episodes by frames that look like a text, an image or another episode."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from ares.errors import MediaError, RequestError, SourceError
from ares.input import check_pixels
from ares.io import describe_os_error
from ares.search.encoding import encode_text, load_encoder
from ares.search.engine import moment_order
from ares.search.rankers.base import EvidenceScale, RankerScores, VectorQuery
from ares.search.spaces import find_embedding_space, list_embedding_spaces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.search.query import FrameReference, Query, QueryPart
    from ares.search.spaces import EmbeddingSpace
    from ares.store import Moment, Stores


# Moments reported per episode, and the least time between two of them.
_MAX_MOMENTS, _MIN_GAP_SECONDS = 3, 1.0


class VisualRanker:
    """Compares frame vectors with the vector of a text or an image, or with the mean vector of an episode."""

    query_parts: ClassVar[tuple[QueryPart, ...]] = ("text", "image", "like")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[VectorQuery]:
        """One unit vector per part of the query; empty for a default search of a workspace without frame vectors."""
        if not query.by and not query.image and not list_embedding_spaces(self._stores):
            return []
        space = find_embedding_space(self._stores, query.space)
        # Before a model is loaded, which takes seconds: the image may not exist.
        image = self._image(query) if query.image.strip() else None
        return [*self._vectors(query, space, image)]

    def rank(self, encoded: VectorQuery, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """The best frame of each of the best episodes, by cosine similarity."""
        return self._stores.tables.vectors(encoded.space).search_episodes(encoded.vector, limit, candidates)

    def score_episodes(self, encoded: VectorQuery, limit: int) -> RankerScores:
        """The best frame of each episode; of the best `limit` episodes where the vectors have an index."""
        table = self._stores.tables.vectors(encoded.space)
        # No picture has the vector of a text: the best of all is all that is known.
        scale: EvidenceScale = "relative" if encoded.is_text else "absolute"
        return RankerScores(*table.score_episodes(encoded.vector, limit), scale)

    def best_moments(
        self, encoded: Sequence[VectorQuery], episode_ids: Sequence[str]
    ) -> dict[str, list[Moment]]:
        """Up to three moments of each episode, best first, more than a second apart."""
        moments: dict[str, list[Moment]] = {}
        for part in encoded:
            table = self._stores.tables.vectors(part.space)
            for moment in table.score_frames(part.vector, episode_ids):
                moments.setdefault(moment.episode_id, []).append(moment)
        return {
            episode_id: _spaced_apart(sorted(candidates, key=moment_order))
            for episode_id, candidates in moments.items()
        }

    def _vectors(
        self, query: Query, space: EmbeddingSpace, image: NDArray[np.uint8] | None
    ) -> Iterator[VectorQuery]:
        if query.like.strip():
            yield VectorQuery(space.name, self._mean_vector(query.like, space))
        if query.text.strip():
            yield VectorQuery(space.name, encode_text(self._stores, space, query.text), is_text=True)
        if image is not None:
            yield VectorQuery(space.name, load_encoder(space).encode_images([image])[0])

    def _image(self, query: Query) -> NDArray[np.uint8]:
        """RGB image (H, W, 3) of the query."""
        return self._read_frame(query.frame) if query.frame else _read_image(query.image)

    def _mean_vector(self, episode_id: str, space: EmbeddingSpace) -> NDArray[np.float32]:
        """Unit vector (D,) of the mean over all frames of an episode."""
        import numpy as np

        vectors = self._stores.tables.vectors(space.name).read(episode_id).vectors
        if not len(vectors):
            raise RequestError(
                "the episode has no frame vectors", f"{episode_id!r}; run `ares annotate embed`"
            )
        mean = vectors.mean(axis=0, dtype=np.float32)
        unit: NDArray[np.float32] = (mean / np.linalg.norm(mean)).astype(np.float32)
        return unit

    def _read_frame(self, reference: FrameReference) -> NDArray[np.uint8]:
        """RGB image (H, W, 3) of a frame of a stored episode."""
        from ares.clock import camera_seconds
        from ares.media import frames_at

        tables = self._stores.tables
        episode = tables.episodes.get_episode(reference.episode_id)
        camera = episode.camera(reference.camera)
        seconds = camera_seconds(
            episode,
            camera,
            [reference.seconds],
            lambda: tables.trajectories.get(episode.episode_id).timestamps,
        )
        try:
            frame: NDArray[np.uint8] = frames_at(camera.media, seconds)[0]
        except MediaError as error:
            raise RequestError("the frame cannot be read", str(error)) from None
        return frame


def _read_image(path: str) -> NDArray[np.uint8]:
    """RGB image (H, W, 3) of a file."""
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            check_pixels(image.width, image.height, path)
            return np.asarray(image.convert("RGB"))
    except SourceError as error:
        raise RequestError("the image is too large", error.detail) from None
    except UnidentifiedImageError:
        raise RequestError("the file is no image", f"{path!r}; give a JPEG, PNG or WebP") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
        raise RequestError("the image cannot be read", f"{path!r}: {detail}") from None


def _spaced_apart(moments: Sequence[Moment]) -> list[Moment]:
    """The first few moments, without those within a second of a better one: neighbouring frames look alike."""
    selected: list[Moment] = []
    for moment in moments:
        if len(selected) < _MAX_MOMENTS and all(
            abs(moment.seconds - other.seconds) > _MIN_GAP_SECONDS for other in selected
        ):
            selected.append(moment)
    return selected
