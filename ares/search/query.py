"""What a search can be asked, and the moments that it returns."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ares.episode import Json
from ares.errors import PluginError, RequestError
from ares.io import expanded_path
from ares.registry import rankers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | NDArray[np.uint8]"
QueryPart = Literal["text", "image", "like"]
QUERY_PARTS: tuple[QueryPart, ...] = ("text", "image", "like")
# The cut at which the relevant episodes end, which the search computes.
AUTO: Literal["auto"] = "auto"
MinScore = float | Literal["auto"]
_MAX_LIMIT = 10_000_000
_DEFAULT_WEIGHTS: Mapping[str, float] = {"frames": 1.0, "captions": 1.0, "meaning": 1.0}
_FRAME = re.compile(r"(?P<episode_id>[0-9a-f]{4,16})/(?P<camera>.+)@(?P<seconds>\d+(?:\.\d+)?)")


class FrameReference(NamedTuple):
    """A frame of a stored episode.

    Attributes:
        episode_id: Id of the episode, or the start of it: at least 4 of its 16 digits.
        camera: Camera name.
        seconds: Seconds from the start of the episode.
    """

    episode_id: str
    camera: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A text, an image or an episode to search by, or several of them together.

    Attributes:
        text: Words that describe a moment.
        image: Path of a similar image, or "EPISODE_ID/CAMERA@SECONDS" for a frame of a stored episode.
        like: episode_id of a similar episode, or the unique start of it.
        by: Names of rankers with optional weights, separated by commas: "frames" compares images, "captions" words,
            "meaning" the meaning of texts, "state" and "action" motion; "frames=2,state" counts images twice. ""
            uses the first three as far as the workspace has their vectors. Several rankings are fused by rank.
        where: SQL filter over the episode columns, applied before the search.
        limit: Maximum number of episodes in the answer.
        space: Name of the embedding space, or "" for the newest.
        min_score: Least score of an episode of the answer, 0 to 1, on a scale that compares all episodes; "auto" is
            where the relevant ones end, see `ares.search.choose_relevance_threshold`. None ranks without a cut.
    """

    text: str = ""
    image: str = ""
    like: str = ""
    by: str = ""
    where: str = ""
    limit: int = 20
    space: str = ""
    min_score: MinScore | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise RequestError(
                "a search needs a text, an image or an episode", "give one of text, image, like"
            )
        for name in self.weights if self.by else ():
            if not _ranker_compares_parts(name, self.parts):
                usable = [other for other in rankers.names() if _is_usable(other, self.parts)]
                raise RequestError(
                    f"{' and '.join(self.parts)} cannot be compared by {name}",
                    f"there are {', '.join(usable)}",
                )
        if not 1 <= self.limit <= _MAX_LIMIT:
            raise RequestError(f"the limit must be at least 1 and at most {_MAX_LIMIT}", f"got {self.limit}")
        check_min_score(self.min_score)

    @property
    def parts(self) -> tuple[QueryPart, ...]:
        """The fields among text, image and like that are not empty."""
        return tuple(part for part in QUERY_PARTS if getattr(self, part).strip())

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each ranker. Raises RequestError for an unknown ranker or an invalid weight."""
        if not self.by.strip():
            return dict(_DEFAULT_WEIGHTS)
        weights = dict[str, float]()
        for item in self.by.split(","):
            name, weight = _parse_weight(item.strip())
            if name in weights:
                raise RequestError("each ranker may be given once", f"{name!r} is repeated in {self.by!r}")
            weights[name] = weight
        return weights

    @property
    def own_episodes(self) -> list[str]:
        """Ids of the episodes that the query itself names: they are never in the answer."""
        return [id for id in (self.like, self.frame.episode_id if self.frame else "") if id]

    @property
    def frame(self) -> FrameReference | None:
        """The stored frame that `image` names, or None when it names a file."""
        match = _FRAME.fullmatch(self.image)
        return (
            FrameReference(match["episode_id"], match["camera"], float(match["seconds"])) if match else None
        )


def check_min_score(min_score: MinScore | None) -> None:
    """Raise RequestError for a cut that is no number from 0 to 1, "auto" or None."""
    is_cut = isinstance(min_score, int | float) and not isinstance(min_score, bool) and 0 <= min_score <= 1
    if not (min_score is None or min_score == AUTO or is_cut):
        raise RequestError("the least score is a number from 0 to 1, or 'auto'", f"got {min_score!r}")


def _ranker_compares_parts(name: str, parts: tuple[QueryPart, ...]) -> bool:
    """Whether a ranker compares any of these parts of a query."""
    ranker: Any = rankers.get(name)
    return not set(parts).isdisjoint(getattr(ranker, "query_parts", ()))


def _is_usable(name: str, parts: tuple[QueryPart, ...]) -> bool:
    """Whether a ranker can be imported and compares any of these parts."""
    try:
        return _ranker_compares_parts(name, parts)
    except PluginError:
        return False


def _parse_weight(item: str) -> tuple[str, float]:
    name, _, number = (text.strip() for text in item.partition("="))
    rankers.get(name)  # refuses unknown names
    try:
        weight = float(number) if number else 1.0
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise RequestError("a weight must be a number above 0", f"got {item!r}")
    return name, weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The best moment of one episode.

    Attributes:
        episode_id: Id of the episode.
        dataset: Its dataset.
        camera: Camera of the moment; "" when only words or motion matched.
        seconds: The moment, from the start of the episode.
        score: Higher is better: cosine similarity by frames, meaning, state or action, BM25 by captions. Several
            rankings, and captions together with instructions, score by reciprocal-rank fusion.
        instruction: Task instruction of the episode.
        caption: Its caption, or None.
        acceptable: Whether the caption passed its rubric; None when it is not graded or not decided.
        grade: "acceptable", "not_acceptable", "unsure", "error", or None when it is not graded.
        grade_trust: What the controls of its judge say of it in the dataset: "trusted", "untrusted", "unproven"; None
            without a grade by a judge.
        relevance: `score` as a share of the best score of the answer, 0 to 1; comparable within one answer only.
        ranks: (way, rank) for each ranker that lists the episode, such as ("frames", 3); ranks count from 1.
        moments: (camera, seconds, cosine similarity) of its three best frames, best first, more than a second apart;
            empty when frames were not compared.
    """

    episode_id: str
    dataset: str
    camera: str
    seconds: float
    score: float
    instruction: str
    caption: str | None
    acceptable: bool | None
    grade: str | None
    relevance: float = 1.0
    ranks: tuple[tuple[str, int], ...] = ()
    moments: tuple[tuple[str, float, float], ...] = ()
    grade_trust: str | None = None

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return {**asdict(self), "ranks": dict(self.ranks)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Hit:
        """The hit that `to_json` wrote. Raises TypeError or ValueError for a document of another kind."""
        moments = tuple((camera, seconds, score) for camera, seconds, score in document["moments"])
        return cls(**{**document, "moments": moments, "ranks": tuple(document["ranks"].items())})


@contextmanager
def make_query_image_path(image: ImageLike) -> Iterator[str]:
    """The path of an image; a picture in memory is written to a temporary file until then.

    Args:
        image: A path or a frame as text, a path object, a PIL image, or (H, W, 3) uint8 RGB.

    Raises:
        RequestError: It is none of these.
    """
    if isinstance(image, str | os.PathLike):
        yield expanded_path(image)
        return
    with tempfile.TemporaryDirectory(prefix="ares-query-") as folder:
        path = Path(folder) / "image.png"
        _to_pil(image).save(path)
        yield str(path)


def _to_pil(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    import numpy as np
    from PIL import Image

    if isinstance(image, Image.Image):
        return image.convert("RGB")
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise RequestError(
            "an image is a path, a PIL image, or an array (H, W, 3) uint8",
            f"got {type(image).__name__} {array.dtype} {array.shape}",
        )
    return Image.fromarray(array)
