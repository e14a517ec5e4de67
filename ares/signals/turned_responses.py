"""Dimensions that answer their command the other way in a part of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from ares.signals.turned_dimensions import FEWEST_ON_SIDE

# A dimension is compared by its mixture where commands explain so much of it, as a correlation.
_EXPLAINED = 0.6

# Mixtures are the same, or turned, from this cosine on; nearly all episodes are one or the other.
_SAME_MIXTURE, _SHARE_OF_SAME = 0.6, 0.85

_FEWEST_RESPONSES = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnedResponses:
    """Dimensions of the state that follow the commands one way in some episodes, and the other way in the rest.

    Attributes:
        axes: (S, A) the mixture of commands that most episodes follow; NaN for dimensions that none has turned.
        share: (S,) share of the episodes that have it turned.
    """

    axes: NDArray[np.float64]
    share: NDArray[np.float64]


def find_turned_responses(
    responses: Sequence[NDArray[np.float64]], correlations: Sequence[NDArray[np.float64]]
) -> TurnedResponses | None:
    """The dimensions that some of the episodes have turned against the commands; None without any.

    Args:
        responses: (A, S) mixtures of each episode.
        correlations: (S,) how well each dimension follows them.
    """
    import numpy as np

    if len(responses) < _FEWEST_RESPONSES:
        return None
    rows = np.array(responses).transpose(2, 0, 1)
    sure = np.array(correlations).T >= _EXPLAINED
    units = rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-12)
    axes, shares = np.full((rows.shape[0], rows.shape[2]), np.nan), np.zeros(rows.shape[0])
    for number, (unit, is_sure) in enumerate(zip(units, sure, strict=True)):
        if is_sure.sum() < max(_FEWEST_RESPONSES, _SHARE_OF_SAME * len(is_sure)):
            continue
        axis = np.linalg.svd(unit[is_sure], full_matrices=False)[2][0]
        cosines = unit[is_sure] @ axis
        axis, cosines = (-axis, -cosines) if (cosines < 0).mean() > 0.5 else (axis, cosines)
        turned = float((cosines < -_SAME_MIXTURE).mean())
        same = float((np.abs(cosines) > _SAME_MIXTURE).mean())
        if same >= _SHARE_OF_SAME and turned * len(cosines) >= FEWEST_ON_SIDE:
            axes[number], shares[number] = axis, turned
    return TurnedResponses(axes=axes, share=shares) if np.isfinite(axes).any() else None


def dimensions_against_commands(turned: TurnedResponses, response: NDArray[np.float64]) -> list[int]:
    """Dimensions of the state that an episode of these mixtures (A, S) has turned, by what most episodes have."""
    import numpy as np

    lengths = np.maximum(np.linalg.norm(response, axis=0), 1e-12)
    cosines = (turned.axes * response.T).sum(axis=1) / lengths
    return np.flatnonzero(cosines < -_SAME_MIXTURE).tolist()
