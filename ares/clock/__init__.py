"""The clock of an episode: its measured rate, the repair of its stamps, and the frame that each step is paired with."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.clock.pairing import (
        camera_seconds as camera_seconds,
        compute_camera_rate_hz as compute_camera_rate_hz,
        nearest_steps as nearest_steps,
        needs_timestamps as needs_timestamps,
        time_tolerance as time_tolerance,
    )
    from ares.clock.settle import (
        LEAST_RATE_SPREAD as LEAST_RATE_SPREAD,
        compute_measured_clock_fields as compute_measured_clock_fields,
        measure_clock as measure_clock,
        settle_measured_clock as settle_measured_clock,
    )
    from ares.clock.stamps import are_timestamps_even as are_timestamps_even, read_stamps as read_stamps
    from ares.clock.units import (
        SECONDS_BY_UNIT as SECONDS_BY_UNIT,
        TimeUnit as TimeUnit,
        infer_stamp_unit as infer_stamp_unit,
    )

__getattr__ = lazy_exports(__name__)
