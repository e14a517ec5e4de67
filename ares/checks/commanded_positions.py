"""Where the dimensions of a state are commanded to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.signals import EpisodeSignals, TypicalEpisode, paired_dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A dimension follows its command from this correlation of the speeds on.
FOLLOWS = 0.5


def commanded_position(
    signals: EpisodeSignals, typical: TypicalEpisode, number: int
) -> NDArray[np.float64] | None:
    """(T,) where a dimension is commanded to be, up to an offset; None where the data do not say.

    Before its first command takes effect, and after the last one has, it is commanded to stay.
    """
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    pair = next((pair for pair, (dim, _) in enumerate(pairs) if dim == number), None)
    if pair is None or typical.lag_steps is None or not typical.correlations[pair] > FOLLOWS:
        return None
    column = signals.action[:, pairs[pair][1]]
    if typical.meaning == "absolute":
        positions = np.concatenate([column[:1], column])
    else:
        positions = np.concatenate([[0.0], np.cumsum(column)])
    # The first position is the one before any command.
    steps = np.arange(1, len(signals.state) + 1) - round(typical.lag_steps)
    return np.asarray(positions[np.clip(steps, 0, len(column))] * typical.gains[pair])
