"""Step times from an array of stamps that a spec or a name tells; shared by the formats that hold arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ares.episode import RateSource
from ares.errors import SourceError
from ingest.dataset_spec import TimeUnit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECONDS_BY_UNIT: dict[TimeUnit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class StepTimes(NamedTuple):
    """When the steps of an episode are.

    Attributes:
        seconds: (T,) float64 from the first step.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        has_stamps: Whether the seconds are those of an array of times, and not computed from the rate.
    """

    seconds: NDArray[np.float64]
    rate_hz: float
    rate_source: RateSource
    has_stamps: bool = False


def rising_seconds(stamps: NDArray[Any], unit: TimeUnit) -> NDArray[np.float64] | None:
    """(T,) seconds from the first stamp; None where the stamps are not finite or do not rise.

    Args:
        stamps: (T,) or (T, 1) numbers as stored.
        unit: Their unit.
    """
    import numpy as np

    # Subtracted as stored: nanoseconds since 1970 have more digits than a float.
    flat = stamps.reshape(-1)
    seconds = (flat - flat[0]).astype(np.float64) * SECONDS_BY_UNIT[unit]
    # Compared as stored too: unsigned stamps that fall would wrap around.
    is_rising = bool(
        np.isfinite(seconds).all() and (flat[1:] > flat[:-1]).all() and (np.diff(seconds) > 0).all()
    )
    return seconds if is_rising else None


def spec_times(
    stamps: NDArray[Any], key: str, unit: TimeUnit, user_rate_hz: float | None, where: str
) -> StepTimes | None:
    """The steps by the array that a spec names as their times; None at a rate of the user, or for a single step.

    Args:
        stamps: (T,) or (T, 1) numbers as stored.
        key: Name of the array, for the message.
        unit: Unit of the stamps.
        user_rate_hz: Rate set by the user, or None.
        where: The episode, for the message.

    Raises SourceError when the stamps do not rise, or are not one number per step.
    """
    if stamps.size != len(stamps):
        raise SourceError(
            "timestamps of the spec are not one number per step", f"{where}: {key} has {stamps.shape}"
        )
    if user_rate_hz is not None or len(stamps) < 2:
        return None
    seconds = rising_seconds(stamps, unit)
    if seconds is None:
        raise SourceError("timestamps of the spec do not rise", f"{where}: {key}")
    return StepTimes(seconds, float((len(seconds) - 1) / seconds[-1]), "source", True)
