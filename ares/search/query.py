"""What a search can be asked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ares.errors import PluginError, RequestError
from ares.registry import rankers

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
    def named_episodes(self) -> list[str]:
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
