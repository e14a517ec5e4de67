"""Runs of steps for which something holds, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def find_runs(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(R, 2): first and one past the last position of each run of true values of a mask (T,)."""
    import numpy as np

    padded = np.zeros(len(mask) + 2, np.bool_)
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def find_equal_steps(is_equal: NDArray[np.bool_], fewest: int) -> NDArray[np.intp]:
    """(R, 2): first and one past the last step of each run of at least so many equal steps.

    Args:
        is_equal: (T - 1,) whether each step but the first equals the one before.
        fewest: Steps of the shortest run.
    """
    runs = find_runs(is_equal)
    runs[:, 1] += 1  # the step that the others equal belongs to the run
    return runs[runs[:, 1] - runs[:, 0] >= fewest]
