"""The stamps of steps as seconds: late starts, and stamps that are missing or out of order."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from ares.clock.units import SECONDS_BY_UNIT, unit_by_rate_or_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_START_SECONDS = 1e-3
# Even stamps are off by less than this share of a period, so that they rise.
_MAX_OFF_PERIODS = 0.25
# Stamps up to this share are mended between their neighbours; with more of them the clock was set back.
_MAX_MENDED_SHARE = 0.1


class TimesInSeconds(NamedTuple):
    """Stamps as seconds.

    Attributes:
        seconds: (T,) float64, rising from 0; None where the stamps are no clock.
        warnings: What was mended, or why they are no clock.
    """

    seconds: NDArray[np.float64] | None
    warnings: tuple[str, ...] = ()


def read_stamps(stored: NDArray[np.generic], claimed_rate_hz: float) -> TimesInSeconds:
    """Read stored stamps, one per step in the order of the steps, as rising seconds from 0.

    - Stamps since 1970, and those whose periods are a thousand, a million or 10**9 times too long, tell their unit.
    - A start other than 0 is subtracted.
    - A few stamps that are not finite, repeat or are out of order are replaced by times between their neighbours.
    - A clock that was set back goes on a median period later.
    - Stamps of which too few rise are no clock.

    Args:
        stored: (T,) numbers.
        claimed_rate_hz: Steps per second that the source claims, to tell the unit.
    """
    import numpy as np

    warnings: list[str] = []
    seconds = np.asarray(stored).astype(np.float64)
    kept = _longest_rise(seconds)
    if len(seconds) > 1 and len(kept) < max(2, len(seconds) // 2) and not _is_set_back(seconds):
        return TimesInSeconds(None, ("timestamps do not rise, the rate is used",))
    unit, evidence = unit_by_rate_or_size(seconds[kept], "timestamp", claimed_rate_hz) or ("s", "")
    warnings += [evidence] if evidence else []
    start = float(seconds[kept[0]]) if len(kept) else 0.0
    if abs(start) * SECONDS_BY_UNIT[unit] > _START_SECONDS:
        warnings.append("timestamps do not begin at 0, shifted")
    seconds = (seconds - start) * SECONDS_BY_UNIT[unit]
    if len(kept) < len(seconds):
        seconds = _mend_stamps(seconds, kept, claimed_rate_hz, warnings)
    return TimesInSeconds(seconds - seconds[0] if len(seconds) else seconds, tuple(warnings))


def are_timestamps_even(stored: NDArray[np.generic], rate_hz: float) -> bool:
    """Whether (T,) stored stamps are step / rate in seconds, but for rounding: `read_stamps` would mend nothing."""
    import numpy as np

    if not len(stored):
        return False
    even = np.arange(len(stored)) / rate_hz
    off = float(np.abs(stored.astype(np.float64) - even).max())
    return off <= min(_START_SECONDS / 2, _MAX_OFF_PERIODS / rate_hz)


def _longest_rise(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of the longest strictly rising subsequence of the finite stamps."""
    import numpy as np

    if np.isfinite(seconds).all() and (np.diff(seconds) > 0).all():
        return np.arange(len(seconds))
    tails: list[float] = []
    ends: list[int] = []
    previous = np.full(len(seconds), -1)
    for position, second in enumerate(seconds.tolist()):
        if not np.isfinite(second):
            continue
        length = bisect_left(tails, second)
        previous[position] = ends[length - 1] if length else -1
        tails[length : length + 1] = [second]
        ends[length : length + 1] = [position]
    positions, position = [], ends[-1] if ends else -1
    while position >= 0:
        positions.append(position)
        position = int(previous[position])
    return np.array(positions[::-1], np.int64)


def _is_set_back(seconds: NDArray[np.float64]) -> bool:
    """Whether nearly all stamps rise over the one before."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        return bool((np.diff(seconds) > 0).mean() >= 1 - _MAX_MENDED_SHARE)


def _mend_stamps(
    seconds: NDArray[np.float64], kept: NDArray[np.int64], claimed_rate_hz: float, warnings: list[str]
) -> NDArray[np.float64]:
    """Rising seconds: stamps out of order replaced where they are few, else the steps backwards bridged."""
    import numpy as np

    numbers = np.arange(len(seconds))
    finite = seconds[np.isfinite(seconds)]
    periods = np.diff(finite)
    period = float(np.median(periods[periods > 0])) if (periods > 0).any() else 1 / claimed_rate_hz
    if len(seconds) - len(kept) <= max(1, _MAX_MENDED_SHARE * len(seconds)) or not _is_set_back(seconds):
        reasons = {
            "timestamps are not finite at some steps": not np.isfinite(seconds).all(),
            "timestamps do not increase": bool((periods <= 0).any()),
        }
        warnings += [
            f"{reason}, taken between their neighbours" for reason, holds in reasons.items() if holds
        ]
        mended = np.interp(numbers, kept, seconds[kept])
        before, after = numbers < kept[0], numbers > kept[-1]
        mended[before] -= period * (kept[0] - numbers[before])
        mended[after] += period * (numbers[after] - kept[-1])
        return mended
    warnings.append("timestamps were set back, a median period is used there")
    filled = np.interp(numbers, numbers[np.isfinite(seconds)], finite)
    steps = np.diff(filled)
    return np.concatenate(([0.0], np.cumsum(np.where(steps > 0, steps, period))))
