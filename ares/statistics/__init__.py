"""Intervals of shares and paired tests, for counts in which several items may belong to one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.statistics.intervals import Interval, clustered_interval, effective_items
    from ares.statistics.paired import PairedDifference, compare_paired, mcnemar_p_value
    from ares.statistics.shares import difference_bounds, lower_bound, upper_bound, wilson_interval

__all__ = [
    "Interval",
    "PairedDifference",
    "clustered_interval",
    "compare_paired",
    "difference_bounds",
    "effective_items",
    "lower_bound",
    "mcnemar_p_value",
    "upper_bound",
    "wilson_interval",
]

__getattr__ = lazy_exports(__name__)
