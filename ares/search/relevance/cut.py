"""Where the relevant episodes of a search end: at the widest gap between two scores that follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Below this no gap is looked for: with words compared, and where only vectors say what is alike. See
# docs/why/030-where-a-search-ends.md.
_LEAST_WITH_WORDS, _LEAST_BY_VECTORS = 0.3, 0.7
# Digits of a score: those of the URL and of the recipe of a set, so that a cut means the same everywhere.
SCORE_DIGITS = 4


def default_cut(scores: NDArray[np.float64], complete: NDArray[np.bool_] | None, *, has_words: bool) -> float:
    """The score from which on episodes are relevant, when nobody says another.

    Args:
        scores: (N,) score of each episode, 0 to 1.
        complete: (N,) whether a text of the episode has all words of the query, or None without words. Such an
            episode is never below the cut.
        has_words: Whether words were compared.

    Returns:
        A score of an episode, or the least score that counts where no episode reaches it.
    """
    import numpy as np

    least = _LEAST_WITH_WORDS if has_words else _LEAST_BY_VECTORS
    values = np.unique(scores[scores >= least])
    cut = least
    if len(values):
        gaps = np.diff(values, prepend=least)
        # Of equal gaps the highest: fewer episodes pass.
        cut = float(values[len(gaps) - 1 - int(np.argmax(gaps[::-1]))])
    if complete is not None and complete.any():
        cut = min(cut, float(scores[complete].min()))
    return round(cut, SCORE_DIGITS)
