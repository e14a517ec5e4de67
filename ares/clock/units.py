"""The unit of stored stamps, by the name, the rate or the size of the values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TimeUnit = Literal["s", "ms", "us", "ns"]

SECONDS_BY_UNIT: dict[TimeUnit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_WORDS: dict[TimeUnit, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}

_NAME_ENDS: dict[str, TimeUnit] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), "ns"),
}

# Twenty minutes after its start a clock in microseconds has the size of a date in seconds; its steps would take hours.
_SLOWEST_STEP_SECONDS = 10.0

# Seconds since 1970 of the years 2000 and 2100.
UNIX_SECONDS = (946_684_800.0, 4_102_444_800.0)

# How far the median period may be from that of the stated rate; units differ by a factor of a thousand.
_STATED_FACTOR = 20.0

# Robots record at least so many steps per second: of the units that fit, the largest is taken.
_SLOWEST_HZ = 0.5

# Between this and the slowest rate a smaller unit gives a rate at which robots are controlled too.
_DOUBTFUL_HZ = 1.0


class UnitGuess(NamedTuple):
    """The unit of stamps.

    Attributes:
        unit: The unit.
        evidence: What it was told by, as a warning; "" where the name says it, or where it is plainly seconds.
    """

    unit: TimeUnit
    evidence: str = ""


def parse_time_unit_suffix(name: str) -> TimeUnit | None:
    """The unit with which a name ends, such as "time_ms", "stampNs" or "Time (s)"; None for a name without one."""
    match = re.search(r"(?:[_\W]|(?<=[a-z])(?=[A-Z]))([A-Za-z]+)\W*$", name.strip())
    return _NAME_ENDS.get(match[1].lower()) if match else None


def infer_stamp_unit(
    stamps: NDArray[np.generic], name: str, stated_rate_hz: float | None = None
) -> UnitGuess:
    """The unit of stamps; the first evidence that there is decides.

    - The end of their name.
    - The rate that the source states: the unit in which the stamps have about this rate.
    - Their size: the unit in which the first is a time between the years 2000 and 2100, and a step at most 10 s.
    - Their own rate: the largest unit in which there is at least one step in two seconds. Milliseconds that are read
      as seconds make 0.03 Hz of 30 Hz.

    Args:
        stamps: (T,) numbers as stored.
        name: Their name in the source.
        stated_rate_hz: Steps per second that the source states, or None.
    """
    if unit := parse_time_unit_suffix(name):
        return UnitGuess(unit)
    if guess := unit_by_rate_or_size(stamps, name, stated_rate_hz):
        return guess
    _, period = _first_and_period(stamps)
    return _guess_from_rate(period, name) if period else UnitGuess("s")


def unit_by_rate_or_size(
    stamps: NDArray[np.generic], name: str, stated_rate_hz: float | None
) -> UnitGuess | None:
    """The unit that the stated rate or the size of (T,) stamps tells; None where neither does."""
    first, period = _first_and_period(stamps)
    by_rate = _by_stated_rate(period, name, stated_rate_hz) if stated_rate_hz and period else None
    return by_rate or _by_size(first, period, name)


def _first_and_period(stamps: NDArray[np.generic]) -> tuple[float, float]:
    """The first finite stamp and the median of the rising periods, in units of the stamps; 0 for none.

    Of an even number the lower of the two in the middle: where one of two periods is a pause, their mean is neither.
    """
    import numpy as np

    # Periods of whole numbers are exact: nanoseconds since 1970 have more digits than a float.
    flat = stamps.reshape(-1).astype(np.float64 if stamps.dtype.kind == "f" else np.int64)
    finite = flat[np.isfinite(flat)]
    periods = np.diff(finite)
    rising = periods[periods > 0]
    period = np.percentile(rising, 50, method="lower") if len(rising) else 0.0
    return float(finite[0]) if len(finite) else 0.0, float(period)


def _by_stated_rate(period: float, name: str, rate_hz: float) -> UnitGuess | None:
    for unit, seconds in SECONDS_BY_UNIT.items():
        if 1 / _STATED_FACTOR < period * seconds * rate_hz < _STATED_FACTOR:
            evidence = f"{name} is in {_WORDS[unit]}, by the rate of {rate_hz:g} Hz that is stated"
            return UnitGuess(unit, evidence if unit != "s" else "")
    return None


def _by_size(first: float, period: float, name: str) -> UnitGuess | None:
    low, high = UNIX_SECONDS
    for unit, seconds in SECONDS_BY_UNIT.items():
        if low <= abs(first) * seconds <= high and period * seconds <= _SLOWEST_STEP_SECONDS:
            if period * seconds * _SLOWEST_HZ > 1 and unit != "ns":
                return _doubtful_guess(unit, f"{_WORDS[unit]} since 1970", name)
            return UnitGuess(
                unit, f"{name} is in {_WORDS[unit]} since 1970, by its size" if unit != "s" else ""
            )
    return None


def _guess_from_rate(period: float, name: str) -> UnitGuess:
    rates = {unit: 1 / (period * seconds) for unit, seconds in SECONDS_BY_UNIT.items()}
    fitting: list[TimeUnit] = [unit for unit, rate in rates.items() if rate >= _SLOWEST_HZ]
    unit = fitting[0] if fitting else "ns"
    if rates[unit] <= _DOUBTFUL_HZ and unit != "ns":
        return _doubtful_guess(unit, _WORDS[unit], name, " or step numbers" if unit == "s" else "")
    evidence = (
        f"{name} is in {_WORDS[unit]}, by its rate: {rates[unit]:.2g} Hz, as seconds {rates['s']:.1g} Hz"
    )
    return UnitGuess(unit, evidence if unit != "s" else "")


def _doubtful_guess(unit: TimeUnit, words: str, name: str, more: str = "") -> UnitGuess:
    """A unit beside which the next smaller one is possible too."""
    units = list(SECONDS_BY_UNIT)
    smaller = _WORDS[units[units.index(unit) + 1]]
    return UnitGuess(
        unit, f"{name} is taken as {words}, and may be {smaller}{more}: time_unit in a spec says it"
    )
