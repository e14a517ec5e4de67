"""Arrays by key, as Zarr stores, npz files and others hold them, turned into the signals and images of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.arrays.reader import ArrayReader
    from ingest.arrays.roles import SignalKeys, find_ends, guess_roles, unknown_family_error
    from ingest.arrays.trajectory import list_arrays, make_trajectory, signal_widths, step_times

__all__ = [
    "ArrayReader",
    "SignalKeys",
    "find_ends",
    "guess_roles",
    "list_arrays",
    "make_trajectory",
    "signal_widths",
    "step_times",
    "unknown_family_error",
]

__getattr__ = lazy_exports(__name__)
