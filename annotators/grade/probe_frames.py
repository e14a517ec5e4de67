"""What a blind judge looks at: frames of each camera, as images and then as vectors, and the menu that they rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class CameraFrames:
    """Frames of one camera: images (N, H, W, 3), later their vectors (N, D).

    Attributes:
        task: Frames over the episode.
        last: Frames at its end.
        shuffled: The first, with their tiles shuffled; none where that is not asked for.
    """

    task: NDArray[Any]
    last: NDArray[Any]
    shuffled: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class CaseFrames:
    """The frames of a case by camera; seconds are those of the first camera."""

    cameras: Sequence[CameraFrames]
    task_seconds: tuple[float, ...]
    last_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PhraseMenu:
    """The phrases on offer in a case and the model's belief in each, which add up to 1.

    Attributes:
        phrases: The phrases.
        beliefs: (N,) the beliefs.
        arrangement: How much better the likeliest phrase fits the frames than it fits their shuffled tiles, in cosine;
            None where that was not measured.
    """

    phrases: Sequence[str]
    beliefs: NDArray[np.float64]
    arrangement: float | None

    @property
    def top(self) -> str:
        return self.phrases[int(self.beliefs.argmax())]

    @property
    def items(self) -> list[tuple[str, float]]:
        """Each phrase with the belief in it."""
        return list(zip(self.phrases, self.beliefs.tolist(), strict=True))


def next_vectors(vectors: Iterator[NDArray[np.float32]], count: int) -> NDArray[np.float32]:
    """(count, D) vectors: the next ones; (0, 0) for none."""
    import numpy as np

    return np.stack(list(islice(vectors, count))) if count else np.zeros((0, 0), np.float32)
