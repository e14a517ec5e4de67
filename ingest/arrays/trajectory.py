"""Signals and step times of an episode from the arrays that were read and the roles that they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.clock import TimeUnit
from ares.episode import ArrayUse, SourceArray, Trajectory
from ingest.arrays.reader import ArrayReader
from ingest.arrays.roles import SignalKeys
from ingest.stamps import StepTimes, seconds_from_first, time_steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def step_times(
    reader: ArrayReader,
    time_key: str,
    rate_hz: float | None,
    *,
    unit: TimeUnit | None = None,
    known_hz: float | None = None,
) -> StepTimes:
    """The times of the steps: by an array of times where it rises, else evenly spaced.

    Args:
        reader: The arrays of the episode.
        time_key: Key of the times, or "".
        rate_hz: Rate set by the user, or None.
        unit: Unit of the times; None to tell it by their name, size or rate.
        known_hz: Rate that the source states, or None.
    """
    stamps = reader.numbers.get(time_key)
    is_single = stamps is not None and stamps.shape[1] == 1
    name = f"{reader.prefix}{time_key}"
    seconds = (
        seconds_from_first(stamps, unit, name, reader.warnings, known_hz)
        if stamps is not None and is_single and rate_hz is None
        else None
    )
    return time_steps(
        seconds,
        reader.stop - reader.start,
        reader.warnings,
        name=name,
        user_rate_hz=rate_hz,
        stated_rate_hz=known_hz,
    )


def make_trajectory(reader: ArrayReader, roles: SignalKeys, seconds: NDArray[np.float64]) -> Trajectory:
    """The signals by their roles; arrays without a role become extra signals."""
    used = {*roles.state, *roles.action, roles.reward, roles.time}
    reward = reader.signal((roles.reward,) if roles.reward else ())
    return Trajectory(
        timestamps=seconds,
        state=reader.signal(roles.state),
        action=reader.signal(roles.action),
        reward=reward.values[:, 0] if reward else None,
        extra={
            key: signal for key in reader.numbers if key not in used and (signal := reader.signal((key,)))
        },
    )


def signal_widths(reader: ArrayReader) -> dict[str, int]:
    """Numbers per step of each array of numbers, by key."""
    return {key: values.shape[1] for key, values in reader.numbers.items()}


def list_arrays(reader: ArrayReader, roles: SignalKeys) -> Iterator[SourceArray]:
    """What each array of the episode is used as."""
    uses: dict[str, ArrayUse] = {roles.ends: "ends", roles.time: "time", roles.reward: "reward"}
    uses |= dict.fromkeys(roles.action, "action")
    uses |= dict.fromkeys(roles.state, "state")
    for key in dict.fromkeys((*roles.state, *roles.action, *reader.shapes)):
        shape, dtype = reader.shapes[key]
        if key in reader.numbers:
            use = uses.get(key, "extra")
            name = key if use == "extra" else ""
            yield SourceArray(
                key=key, use=use, name=name, shape=(reader.stop - reader.start, *shape[1:]), dtype=dtype
            )
        elif key not in reader.images:
            note = reader.unused.get(key, "").removeprefix("is not stored").strip(" ()")
            note = note or ("field of the metadata" if key in reader.fields else "")
            yield SourceArray(key=key, use=uses.get(key, "unused"), shape=shape, dtype=dtype, note=note)
