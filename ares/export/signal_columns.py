"""What a further signal is called in an export, and of which type it is: as in its source, where that loses nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ares.episode import SIGNAL_TYPES, Episode, Signal
from ares.export.base import EXPORT_SIGNALS

_REAL_TYPES = frozenset({"float32", "float64"})
_WHOLE_TYPES = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
# Signals are stored as float32, which has every whole number up to this.
_LARGEST_WHOLE = 2**24


class SignalColumn(NamedTuple):
    """A further signal as it is written.

    Attributes:
        key: Its name in the source; "/" leads into a folder.
        dtype: Its NumPy type, such as "bool"; "float32" where its values are not exactly of the type of the source.
        shape: The shape of one step in the source: () for a single number. LeRobot has its numbers side by side.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]


def source_column(episode: Episode, name: str, signal: Signal) -> SignalColumn:
    """A signal of an episode as its source has it; (D,) float32 of its own name where that is not known."""
    width, types = len(signal.names), episode.metadata.get(SIGNAL_TYPES)
    known = types.get(name) if isinstance(types, Mapping) and name not in EXPORT_SIGNALS else None
    match known:
        case {"key": str(key), "dtype": str(dtype), "shape": list(listed)}:
            sizes = tuple(size for size in listed if isinstance(size, int))
            shape = sizes if math.prod(sizes) == width else (width,)
            return SignalColumn(key.removeprefix("steps/").strip("/"), _exact_type(dtype, signal), shape)
    return SignalColumn(name, "float32", (width,))


def _exact_type(dtype: str, signal: Signal) -> str:
    """The type of the source where the stored numbers are what it had, else float32."""
    import numpy as np

    if dtype in _WHOLE_TYPES:
        # NaN is not smaller than anything.
        return dtype if bool((np.abs(signal.values) < _LARGEST_WHOLE).all()) else "float32"
    return dtype if dtype in _REAL_TYPES else "float32"


def join_columns(columns: Collection[SignalColumn], name: str, width: int) -> SignalColumn:
    """One column for a signal of several sources: what they do not share is that of (D,) float32 of its name."""
    keys, dtypes, shapes = ({column[part] for column in columns} for part in range(3))
    return SignalColumn(
        key=min(column.key for column in columns) if len(keys) == 1 else name,
        dtype=min(column.dtype for column in columns) if len(dtypes) == 1 else "float32",
        shape=min(column.shape for column in columns) if len(shapes) == 1 else (width,),
    )


def dotted_columns(columns: Mapping[str, SignalColumn], reserved: Collection[str]) -> dict[str, SignalColumn]:
    """The columns whose key is free, with a dot where LeRobot refuses a "/".

    Keys that differ by dots and underscores alone count as one, as LeRobot on Lance has them.

    Args:
        columns: By name of the signal.
        reserved: Keys that have another meaning, which a signal cannot have.
    """
    used, free = {key.replace(".", "_") for key in reserved}, dict[str, SignalColumn]()
    for name, column in columns.items():
        key = column.key.replace("/", ".")
        if (plain := key.replace(".", "_")) not in used:
            used.add(plain)
            free[name] = column._replace(key=key)
    return free
