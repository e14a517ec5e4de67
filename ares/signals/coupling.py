"""How the state follows an action whose dimensions have no names in common with it: by regression of its speeds.

Where names pair the dimensions, `plain_arrays` compares each with its own command. Else each speed of the state may be
a mixture of all commands, as of joints that an end effector leads: the mixture is learnt from the episode at each lag,
and the lag at which the commands explain most is that of the episode. The mixture also has a sign: a dimension that is
turned in some of the episodes follows the same commands the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Commands are mixed where there are so many steps for each of them; of more commands one is chosen.
_STEPS_PER_COMMAND = 6
# Part of the power of the commands that is added to each of them: two that are nearly one share their effect.
_RIDGE = 1e-2
# A dimension is compared by its mixture where commands explain so much of it, as a correlation.
_EXPLAINED = 0.6
# Mixtures are the same, or turned, from this cosine on; nearly all episodes are one or the other.
_SAME_MIXTURE, _SHARE_OF_SAME = 0.6, 0.85
_FEWEST_COMPARED, _FEWEST_ON_SIDE = 5, 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnedResponses:
    """Dimensions of the state that follow the commands one way in some episodes, and the other way in the rest.

    Attributes:
        axes: (S, A) the mixture of commands that most episodes follow; NaN for dimensions that none has turned.
        share: (S,) share of the episodes that have it turned.
    """

    axes: NDArray[np.float64]
    share: NDArray[np.float64]


def mixed_commands(
    followed: NDArray[np.float64], command: NDArray[np.float64], longest: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Commands mixed as each dimension of the state follows them best, and the mixtures.

    Where there are few steps for so many commands, each dimension follows the one command that explains it best.

    Args:
        followed: (T, S) speeds of the state over their deviation.
        command: (T, A) commands, likewise; they may be zero throughout.
        longest: Steps of the longest lag, either way.

    Returns:
        (T, S) mixed commands, and (A, S) their weights.
    """
    import numpy as np

    steps, width = command.shape
    padded = np.pad(command, ((longest, longest), (0, 0)))
    shifted = (padded[2 * longest - lag : 2 * longest - lag + steps] for lag in range(2 * longest + 1))
    products = np.stack([part.T @ followed for part in shifted])
    power = command.T @ command
    power += _RIDGE * max(float(np.trace(power)) / width, 1e-12) * np.eye(width)
    if steps >= _STEPS_PER_COMMAND * width:
        weights = np.linalg.solve(power, products)
    else:
        single = products / np.diag(power)[:, None]
        explains = np.abs(products * single)
        weights = np.where(explains == explains.max(axis=1, keepdims=True), single, 0.0)
    explained = (products * weights).sum(axis=(1, 2))
    best = weights[int(explained.argmax())]
    return command @ best, best


def find_turned_responses(
    responses: Sequence[NDArray[np.float64]], correlations: Sequence[NDArray[np.float64]]
) -> TurnedResponses | None:
    """The dimensions that some of the episodes have turned against the commands; None without any.

    Args:
        responses: (A, S) mixtures of each episode.
        correlations: (S,) how well each dimension follows them.
    """
    import numpy as np

    if len(responses) < _FEWEST_COMPARED:
        return None
    rows = np.array(responses).transpose(2, 0, 1)
    sure = np.array(correlations).T >= _EXPLAINED
    units = rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-12)
    axes, shares = np.full((rows.shape[0], rows.shape[2]), np.nan), np.zeros(rows.shape[0])
    for number, (unit, is_sure) in enumerate(zip(units, sure, strict=True)):
        if is_sure.sum() < max(_FEWEST_COMPARED, _SHARE_OF_SAME * len(is_sure)):
            continue
        axis = np.linalg.svd(unit[is_sure], full_matrices=False)[2][0]
        cosines = unit[is_sure] @ axis
        axis, cosines = (-axis, -cosines) if (cosines < 0).mean() > 0.5 else (axis, cosines)
        turned = float((cosines < -_SAME_MIXTURE).mean())
        same = float((np.abs(cosines) > _SAME_MIXTURE).mean())
        if same >= _SHARE_OF_SAME and turned * len(cosines) >= _FEWEST_ON_SIDE:
            axes[number], shares[number] = axis, turned
    return TurnedResponses(axes=axes, share=shares) if np.isfinite(axes).any() else None


def turned_dimensions(turned: TurnedResponses, response: NDArray[np.float64]) -> list[int]:
    """Dimensions of the state that an episode of these mixtures (A, S) has turned, by what most episodes have."""
    import numpy as np

    lengths = np.maximum(np.linalg.norm(response, axis=0), 1e-12)
    cosines = (turned.axes * response.T).sum(axis=1) / lengths
    return np.flatnonzero(cosines < -_SAME_MIXTURE).tolist()
