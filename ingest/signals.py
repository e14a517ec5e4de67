"""Limits, dimension names and step rates of signals, shared by all source formats."""

from __future__ import annotations

import functools

from ares.episode import ASSUMED_RATE_HZ, RateSource

# A column with more numbers per step is no signal but an image, a point cloud or an embedding.
MAX_SIGNAL_WIDTH = 256


@functools.lru_cache(maxsize=1024)
def numbered_names(name: str, width: int) -> tuple[str, ...]:
    """Names of `width` dimensions: the name itself for one, else "name_0", "name_1" and so on."""
    return (name,) if width == 1 else tuple(f"{name}_{number}" for number in range(width))


def resolve_rate(
    user_rate_hz: float | None, known_rate_hz: float | None, source: RateSource = "spec"
) -> tuple[float, RateSource]:
    """Steps per second and where the rate comes from: the user, else the source or its spec, else assumed."""
    if user_rate_hz is not None:
        return user_rate_hz, "user"
    return (known_rate_hz, source) if known_rate_hz else (ASSUMED_RATE_HZ, "assumed")
