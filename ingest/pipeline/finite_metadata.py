"""Metadata without NaN and infinity, which Python reads from JSON files but JSON cannot hold."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from ares.episode import Json

NOT_FINITE = "NaN or infinity in metadata is stored as null"


def finite_metadata(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    """The metadata with null in place of NaN and infinity; the same object where it has neither."""
    finite = {name: _finite(value) for name, value in metadata.items()}
    return finite if _differs(finite.values(), metadata.values()) else metadata


def _finite(value: Json) -> Json:
    """The value with null in place of NaN and infinity; the same object where it has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return finite_metadata(value)
    if isinstance(value, list):
        finite = [_finite(part) for part in value]
        return finite if _differs(finite, value) else value
    return value


def _differs(finite: Collection[Json], values: Collection[Json]) -> bool:
    return any(new is not old for new, old in zip(finite, values, strict=True))
