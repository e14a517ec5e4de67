"""What the values of a dimension say of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A dimension that spends so much of its time near two values is a switch.
_SWITCH_SHARE = 0.9
_SWITCH_WIDTH = 0.05


def switch_like(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the dimensions (T, D) move, but are nearly always near their lowest or their highest value."""
    import numpy as np

    low, span = values.min(axis=0), np.ptp(values, axis=0)
    share = (values - low) / np.where(span > 0, span, 1)
    near = (np.minimum(share, 1 - share) < _SWITCH_WIDTH).mean(axis=0)
    at_both = (share > 1 - _SWITCH_WIDTH).mean(axis=0)
    return np.asarray((span > 0) & (near > _SWITCH_SHARE) & (at_both > 0.02) & (at_both < 0.98))
