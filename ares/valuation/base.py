"""The interface of valuers; the entry points of "ares.valuers" hold functions that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ares.episode import Json, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScore:
    """What a valuer says of one episode.

    Attributes:
        value: Its score, higher is better; None where the valuer cannot say.
        reason: Why it cannot, in the same words for every episode; "" otherwise.
    """

    value: float | None
    reason: str = ""


# Scores an episode by its id and signals.
EpisodeScorer = Callable[[str, Trajectory], EpisodeScore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Valuer:
    """A way to value episodes.

    Attributes:
        version: Version of its code.
        sample_size: Most episodes of a dataset that it is fitted to.
        fit: Makes the scorer of a dataset from the trajectories of a sample of it, by episode id. All have the same
            dimensions.
        settings: What changes its scores.
    """

    version: str
    sample_size: int
    fit: Callable[[Mapping[str, Trajectory]], EpisodeScorer]
    settings: Mapping[str, Json] = field(default_factory=dict)


# Makes a valuer whose random choices follow a seed.
ValuerFactory = Callable[[int], Valuer]
