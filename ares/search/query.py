"""Query and Hit: what can be asked of a search, and one moment that answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from ares.episode import Json
from ares.errors import RequestError

Way = Literal["frames", "captions", "meaning", "state", "action"]
WAYS: tuple[Way, ...] = get_args(Way)
_ALL = "|".join(WAYS)
_MOST = 10_000_000
_USUAL: tuple[Way, ...] = ("frames", "captions", "meaning")
# What each kind of question can be compared by.
_COMPARES: Mapping[str, tuple[Way, ...]] = {
    "text": ("frames", "captions", "meaning"),
    "image": ("frames",),
    "like": WAYS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question: a text, an image or an episode, or several of them together.

    Attributes:
        text: Words that describe a moment.
        image: Path of an image file that looks like it, or "EPISODE_ID/CAMERA@SECONDS" for a frame that is there.
        like: episode_id of an episode to find the like of.
        by: How to compare, with commas and weights: "frames" looks, "captions" words, "meaning" what the words mean,
            "state" and "action" motion; "frames=2,state" counts looks twice. "" is the first three where they can be
            done. The ranks of several are fused.
        where: SQL filter over the episode columns, applied before the search.
        limit: Most episodes in the answer.
        space: Embedding space, or "" for the newest.
    """

    text: str = ""
    image: str = ""
    like: str = ""
    by: str = ""
    where: str = ""
    limit: int = 20
    space: str = ""

    def __post_init__(self) -> None:
        if not self.given:
            raise RequestError(
                "a search needs a text, an image or an episode", "give one of text, image, like"
            )
        for way in self.weights if self.by else ():
            if not any(way in _COMPARES[name] for name in self.given):
                raise RequestError(
                    f"{' and '.join(self.given)} cannot be compared by {way}",
                    f"there are {', '.join(sorted({one for name in self.given for one in _COMPARES[name]}))}",
                )
        if not 1 <= self.limit <= _MOST:
            raise RequestError(f"the limit must be at least 1 and at most {_MOST}", f"got {self.limit}")

    @property
    def given(self) -> tuple[str, ...]:
        """Which of text, image and like are asked."""
        return tuple(name for name in ("text", "image", "like") if getattr(self, name).strip())

    @property
    def weights(self) -> dict[Way, float]:
        """How much each way of comparing counts. Raises RequestError for a way or weight that is none."""
        if not self.by.strip():
            return dict.fromkeys(_USUAL, 1.0)
        weights = dict[Way, float]()
        for part in self.by.split(","):
            way, weight = _weight(part.strip())
            if way in weights:
                raise RequestError("a way to compare is given once", f"{way!r} twice in {self.by!r}")
            weights[way] = weight
        return weights


def _weight(part: str) -> tuple[Way, float]:
    name, _, number = part.partition("=")
    known = next((way for way in WAYS if way == name.strip()), None)
    if known is None:
        raise RequestError(f"a search goes by {_ALL}", f"got {name!r}")
    try:
        weight = float(number) if number else 1.0
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise RequestError("a weight is a number above 0", f"got {part!r}")
    return known, weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The best moment of one episode.

    Attributes:
        episode_id: The episode.
        dataset: Its dataset.
        camera: Camera of the moment; "" when only words or motion matched.
        seconds: The moment, from the start of the episode.
        score: Higher is better: cosine similarity by frames, meaning, state or action, BM25 by captions,
            reciprocal-rank fusion of several, and of captions with instructions when both share words.
        instruction: What the robot was told.
        caption: What a captioner saw, or None.
        acceptable: Whether the caption passed its rubric; None when it is not graded or not decided.
        grade: "acceptable", "not_acceptable", "unsure", "error", or None when it is not graded.
        moments: (camera, seconds, cosine similarity) of its three best moments by looks, best first, more than a second
            apart; empty when looks were not compared.
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
    moments: tuple[tuple[str, float, float], ...] = ()

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return asdict(self)
