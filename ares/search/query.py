"""Query and Hit: what can be asked of a search, and one moment that answers it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from ares.episode import Json
from ares.errors import RequestError

By = Literal["", "frames", "captions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question; exactly one of text, image and like.

    Attributes:
        text: Words that describe a moment.
        image: Path of an image file that looks like it.
        like: episode_id of an episode to find the like of.
        by: "frames" compares looks, "captions" compares words, "" does both where both can be done and fuses the ranks.
        where: SQL filter over the episode columns, applied before the search.
        limit: Most episodes in the answer.
        space: Embedding space, or "" for the newest.
    """

    text: str = ""
    image: str = ""
    like: str = ""
    by: By = ""
    where: str = ""
    limit: int = 20
    space: str = ""

    def __post_init__(self) -> None:
        given = [name for name in ("text", "image", "like") if getattr(self, name).strip()]
        if len(given) != 1:
            raise RequestError(
                "a search needs one of text, image and like", f"got {' and '.join(given) or 'none'}"
            )
        if self.by not in ("", "frames", "captions"):
            raise RequestError("a search goes by frames or captions", f"got {self.by!r}")
        if self.image and self.by == "captions":
            raise RequestError("an image has no words to compare", "leave out --by captions")
        if self.limit < 1:
            raise RequestError("the limit must be at least 1", f"got {self.limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The best moment of one episode.

    Attributes:
        episode_id: The episode.
        dataset: Its dataset.
        camera: Camera of the moment; "" when only words matched.
        seconds: The moment, from the start of the episode.
        score: Higher is better: cosine similarity by frames, BM25 by captions, reciprocal-rank fusion of both.
        instruction: What the robot was told.
        caption: What a captioner saw, or None.
        acceptable: Whether the caption passed its rubric; None when it is not graded or not decided.
        grade: "acceptable", "not_acceptable", "unsure", "error", or None when it is not graded.
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

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return asdict(self)
