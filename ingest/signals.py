"""What all formats share about signals: limits, dimension names, rates, and times of steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.clock import SECONDS_BY_UNIT, TimeUnit, infer_stamp_unit, measure_clock, read_stamps
from ares.episode import ASSUMED_RATE_HZ, RateSource
from ares.errors import SourceError
from ares.registry import did_you_mean
from ares_ingest.base import MISSING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.spec import DatasetSpec


# A column with more numbers per step is no signal but an image, a point cloud or an embedding.
MAX_SIGNAL_WIDTH = 256


@functools.lru_cache(maxsize=1024)
def numbered_names(name: str, width: int, shape: tuple[int, ...] = ()) -> tuple[str, ...]:
    """Names of `width` dimensions: the name itself for one, else "name_0", "name_1" and so on.

    Where a step is a table of some shape, the names say the row and the column: "name_0_1".
    """
    axes = [size for size in shape if size > 1]
    if len(axes) > 1 and math.prod(axes) == width:
        return tuple("_".join(map(str, (name, *cell))) for cell in product(*map(range, axes)))
    return (name,) if width == 1 else tuple(f"{name}_{number}" for number in range(width))


def spread_names(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """The names of `width` dimensions: one for each, else the first of them numbered."""
    return names if len(names) == width else numbered_names(names[0], width)


def resolve_rate(
    user_rate_hz: float | None, known_rate_hz: float | None, source: RateSource = "spec"
) -> tuple[float, RateSource]:
    """Steps per second and where the rate comes from: the user, else the source or its spec, else assumed."""
    if user_rate_hz is not None:
        return user_rate_hz, "user"
    return (known_rate_hz, source) if known_rate_hz else (ASSUMED_RATE_HZ, "assumed")


class SpecTimeArray(NamedTuple):
    """The array that a spec names as the times of the steps.

    Attributes:
        key: Its name in the source; "" where the spec names none.
        unit: Unit of its numbers; None where their name, size or rate tells it.
    """

    key: str = ""
    unit: TimeUnit | None = None


NO_TIME = SpecTimeArray()


def find_spec_time_array(spec: DatasetSpec | None) -> SpecTimeArray:
    """What a spec says of the times."""
    return SpecTimeArray(spec.timestamps, spec.time_unit) if spec else NO_TIME


def missing_time_error(key: str, keys: Iterable[str], where: str) -> SourceError:
    """The error for a spec that names times which an episode does not have."""
    keys = list(keys)
    hint = did_you_mean(key, keys)
    return SourceError(
        MISSING, f"{where}: timestamps names {key!r}; {hint}it holds {', '.join(keys[:24]) or 'nothing'}"
    )


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


def convert_to_seconds(
    stamps: NDArray[Any],
    unit: TimeUnit | None,
    name: str,
    warnings: dict[str, None],
    stated_rate_hz: float | None = None,
) -> NDArray[np.float64]:
    """(T,) seconds from the first finite stamp.

    Args:
        stamps: (T,) or (T, 1) numbers as stored.
        unit: Their unit; None to tell it by their name, size or rate.
        name: Name of the stamps.
        warnings: Warnings of the episode, to which the evidence of the unit is added.
        stated_rate_hz: Rate that the source states, or None.
    """
    import numpy as np

    if unit is None:
        unit, evidence = infer_stamp_unit(stamps, name, stated_rate_hz)
        warnings.update({evidence: None} if evidence else {})

    # Subtracted as whole numbers: nanoseconds since 1970 have more digits than a float. Unsigned ones would wrap.
    flat = stamps.reshape(-1).astype(np.float64 if stamps.dtype.kind == "f" else np.int64)
    first = flat[np.isfinite(flat)][:1]
    seconds: NDArray[np.float64] = (flat - (first[0] if len(first) else 0)) * SECONDS_BY_UNIT[unit]
    return seconds


def compute_step_times(
    stamps: NDArray[np.generic] | None,
    count: int,
    warnings: dict[str, None],
    *,
    name: str,
    user_rate_hz: float | None,
    stated_rate_hz: float | None = None,
    usual_rate_hz: float | None = None,
) -> StepTimes:
    """The times of the steps: by their stamps, of which a few are mended, else evenly spaced.

    A rate that the source states stays beside the stamps, so that `ares.clock.settle_measured_clock` compares them.

    Args:
        stamps: (T,) seconds on any clock, as stored; None for no stamps.
        count: Number of steps, T.
        warnings: Warnings of the episode, to which these are added.
        name: Name of the stamps, for warnings.
        user_rate_hz: Rate set by the user, which replaces the stamps, or None.
        stated_rate_hz: Rate that the source states, or None.
        usual_rate_hz: Rate at which a format is usually recorded, for episodes without stamps, or None.
    """
    import numpy as np

    if user_rate_hz is None and stamps is not None and count > 1:
        seconds = rising_seconds(stamps, name, warnings)
        measured = None if seconds is None else measure_clock(seconds)
        if seconds is not None and measured is not None:
            rate_hz, source = resolve_rate(None, stated_rate_hz, "source")
            if stated_rate_hz is None:
                rate_hz, source = measured.rate_hz, "measured"
            return StepTimes(seconds, rate_hz, source, has_stamps=True)
    rate_hz, source = resolve_rate(
        user_rate_hz, stated_rate_hz or usual_rate_hz, "source" if stated_rate_hz else "format"
    )
    if source == "assumed":
        warnings[f"rate is not known, {rate_hz:g} Hz assumed (give --rate)"] = None
    return StepTimes(np.arange(count) / rate_hz, rate_hz, source)


def rising_seconds(
    stamps: NDArray[np.generic], name: str, warnings: dict[str, None]
) -> NDArray[np.float64] | None:
    """Rising seconds from 0, of which a few are mended; None, and a warning, for stamps of which too few rise.

    Args:
        stamps: (T,) seconds on any clock.
        name: Name of the stamps, for warnings.
        warnings: Warnings of the episode, to which these are added.
    """
    import numpy as np

    seconds = np.asarray(stamps, np.float64)
    finite = seconds[np.isfinite(seconds)]
    periods = np.diff(finite)
    rising = periods[periods > 0]
    # By their median period, so that no other unit is taken for them.
    read = read_stamps(seconds - finite[0], 1 / float(np.median(rising))) if len(rising) else None
    if read is None or read.seconds is None:
        warnings[f"{name} does not rise; steps are evenly spaced"] = None
        return None
    warnings.update(dict.fromkeys(f"{name}: {text}" for text in read.warnings))
    return read.seconds


def compute_spec_step_times(
    stamps: NDArray[Any],
    key: str,
    unit: TimeUnit | None,
    user_rate_hz: float | None,
    where: str,
    warnings: dict[str, None],
) -> StepTimes | None:
    """The steps by the array that a spec names as their times; None at a rate of the user, or for a single step.

    Args:
        stamps: (T,) or (T, 1) numbers as stored.
        key: Name of the array, for the message.
        unit: Unit of the stamps; None to tell it by their name, size or rate.
        user_rate_hz: Rate set by the user, or None.
        where: The episode, for the message.
        warnings: Warnings of the episode, to which those about mended stamps are added.

    Raises SourceError when too few of the stamps rise, or are not one number per step.
    """
    if stamps.size != len(stamps):
        raise SourceError(
            "timestamps of the spec are not one number per step", f"{where}: {key} has {stamps.shape}"
        )
    if user_rate_hz is not None or len(stamps) < 2:
        return None
    seconds = convert_to_seconds(stamps, unit, key, warnings)
    times = compute_step_times(seconds, len(stamps), warnings, name=key, user_rate_hz=None)
    if not times.has_stamps:
        raise SourceError("timestamps of the spec do not rise", f"{where}: {key}")
    return times
