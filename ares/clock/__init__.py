"""The clock of an episode: its measured rate, the repair of its stamps, and the frame that each step is paired with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.clock.measure import MeasuredClock, measure_clock
    from ares.clock.pairing import (
        camera_seconds,
        nearest_steps,
        needs_stamps,
        rounding_seconds,
        shown_rate_hz,
    )
    from ares.clock.settle import RATES_DISAGREE, settle_clock, settled_fields
    from ares.clock.stamps import are_even, read_stamps
    from ares.clock.units import SECONDS_BY_UNIT, TimeUnit, infer_unit, unit_of_name

__all__ = [
    "RATES_DISAGREE",
    "SECONDS_BY_UNIT",
    "MeasuredClock",
    "TimeUnit",
    "are_even",
    "camera_seconds",
    "infer_unit",
    "measure_clock",
    "nearest_steps",
    "needs_stamps",
    "read_stamps",
    "rounding_seconds",
    "settle_clock",
    "settled_fields",
    "shown_rate_hz",
    "unit_of_name",
]

__getattr__ = lazy_exports(__name__)
