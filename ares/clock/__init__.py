"""The clock of an episode: its measured rate, the repair of its stamps, and the frame that each step is paired with."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.clock.settle import (
        camera_seconds as camera_seconds,
        measure_clock as measure_clock,
        nearest_steps as nearest_steps,
        needs_stamps as needs_stamps,
        rounding_seconds as rounding_seconds,
        settle_clock as settle_clock,
        settled_fields as settled_fields,
        shown_rate_hz as shown_rate_hz,
    )
    from ares.clock.stamps import (
        SECONDS_BY_UNIT as SECONDS_BY_UNIT,
        TimeUnit as TimeUnit,
        are_even as are_even,
        infer_stamp_unit as infer_stamp_unit,
        read_stamps as read_stamps,
    )

__getattr__ = lazy_exports(__name__)
