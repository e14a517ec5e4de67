"""Quaternions among the dimensions of a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_TOLERANCE = 1e-3


def quaternion_starts(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """First of each four neighbouring dimensions of (T, D) whose squares sum to 1 at every step."""
    import numpy as np

    if values.shape[1] < 4 or not len(values):
        return np.zeros(0, dtype=np.intp)
    # Few dimensions pass at the first step: only these are looked at in all of them.
    passed = np.flatnonzero(np.abs(_squared_norms_of_four(values[:1])[0] - 1) < _TOLERANCE)
    blocks = (values[:, start : start + 4] for start in passed)
    whole = [bool((np.abs((block**2).sum(axis=1) - 1) < _TOLERANCE).all()) for block in blocks]
    return np.asarray(passed[np.array(whole, dtype=bool)])


def _squared_norms_of_four(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(np.lib.stride_tricks.sliding_window_view(values**2, 4, axis=1).sum(axis=2))


def remove_quaternion_sign_flips(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, D) values in which no quaternion jumps to its negative, which is the same rotation; a copy where one did."""
    import numpy as np

    changed, stop = values, 0
    for start in quaternion_starts(values):
        block = values[:, start : start + 4]
        flips = (block[1:] * block[:-1]).sum(axis=1) < 0
        if start >= stop and flips.any():
            changed = values.copy() if changed is values else changed
            signs = np.concatenate([[1.0], np.cumprod(np.where(flips, -1.0, 1.0))])
            changed[:, start : start + 4] = block * signs[:, None]
            stop = int(start) + 4
    return changed
