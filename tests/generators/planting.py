"""Plants one fault of known strength into the signals of an episode, to measure which checks find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ares.checks.codes import (
    ACTION_LAG,
    CHATTER,
    CLOCK_RATE,
    DEAD_CHANNEL,
    DROPPED_STEPS,
    GAIN,
    IDLE_END,
    IDLE_START,
    NOT_FINITE,
    QUANTISED,
    REPEATED_STEPS,
    SATURATED,
    SIGN_FLIP,
    SPIKE,
    STUCK,
    UNIT_CLASH,
    WRAP_AROUND,
)
from ares.signals import EpisodeSignals


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSite:
    """Where a fault is planted, and how strong it is.

    Attributes:
        dim: Number of a dimension of the state that moves, and of the action with its name.
        action_dim: That number of the action.
        strength: In the unit of the fault, angles in the unit of the signal.
        unit_scale: Units of the signal per radian.
    """

    dim: int
    action_dim: int
    strength: float
    unit_scale: float = 1.0


Planter = Callable[[EpisodeSignals, FaultSite, "np.random.Generator"], EpisodeSignals | None]


def _with_state(signals: EpisodeSignals, dim: int, column: NDArray[np.float64]) -> EpisodeSignals:
    state = signals.state.copy()
    state[:, dim] = column
    return replace(signals, state=state)


def _moving_start(
    signals: EpisodeSignals, site: FaultSite, steps: int, motion: float, rng: np.random.Generator
) -> int:
    """A random first step of a span in which the dimension moves at least so far; -1 where there is none."""
    column = signals.state[:, site.dim]
    if len(column) < steps + 6:
        return -1
    moved = np.abs(column[steps:] - column[:-steps])
    starts = np.flatnonzero(moved[3:-3] >= motion) + 3
    return int(rng.choice(starts)) if len(starts) else -1


def _plant_not_finite_values(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals:
    column = signals.state[:, site.dim].copy()
    start = int(rng.integers(0, max(1, len(column) - int(site.strength))))
    column[start : start + max(1, int(site.strength))] = rng.choice([float("nan"), float("inf")])
    return _with_state(signals, site.dim, column)


def _plant_dead_dimension(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    column = signals.state[:, site.dim]
    if column.max() - column.min() < site.strength:
        return None
    return _with_state(signals, site.dim, column * 0 + column[0])


def _plant_stuck_span(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    column = signals.state[:, site.dim].copy()
    steps = max(4, round(site.strength * len(column)))
    start = _moving_start(signals, site, steps, 0.05 * site.unit_scale, rng)
    column[start : start + steps] = column[start]
    return _with_state(signals, site.dim, column) if start >= 0 else None


def _plant_spike(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    column = signals.state[:, site.dim].copy()
    column[rng.integers(2, len(column) - 2)] += rng.choice([-1, 1]) * site.strength
    return _with_state(signals, site.dim, column)


def _plant_quantised_values(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    column = signals.state[:, site.dim]
    if column.max() - column.min() < 5 * site.strength:
        return None
    return _with_state(signals, site.dim, np.round(column / site.strength) * site.strength)


def _plant_saturation(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    """Cut off at the value that the given share of the steps exceeds."""
    column = signals.state[:, site.dim]
    limit = np.quantile(column, 1 - site.strength)
    if column.max() - limit < 0.03 * site.unit_scale:
        return None
    return _with_state(signals, site.dim, np.minimum(column, limit))


def _plant_wrapped_angle(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    column, turn = signals.state[:, site.dim], 2 * np.pi * site.unit_scale
    start = _moving_start(signals, site, 3, 0.02 * site.unit_scale, rng)
    if start < 0:
        return None
    level = column[start + 1]
    return _with_state(signals, site.dim, (column - level) % turn - turn / 2)


def _plant_chatter(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    column = signals.state[:, site.dim].copy()
    steps = max(6, round(0.5 * signals.rate_hz))
    start = int(rng.integers(0, max(1, len(column) - steps)))
    part = column[start : start + steps]
    part += site.strength * (-1) ** np.arange(len(part))
    return _with_state(signals, site.dim, column)


def _hold_start_or_end(signals: EpisodeSignals, site: FaultSite, at_end: bool) -> EpisodeSignals:
    """The episode with its first or last step kept for so many seconds, with the noise of its steps."""
    steps = round(site.strength * signals.rate_hz)
    rows = np.arange(len(signals.state))
    kept = np.full(steps, rows[-1 if at_end else 0])
    return _with_rows(signals, np.concatenate([rows, kept] if at_end else [kept, rows]))


def _with_rows(signals: EpisodeSignals, rows: NDArray[np.intp]) -> EpisodeSignals:
    """The episode made of some of its steps, with stamps numbered through."""
    seconds = np.arange(len(rows)) / signals.rate_hz
    return replace(signals, seconds=seconds, state=signals.state[rows], action=signals.action[rows])


def _plant_idle_start(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    return _hold_start_or_end(signals, site, at_end=False)


def _plant_idle_end(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    return _hold_start_or_end(signals, site, at_end=True)


def _plant_action_lag(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """Actions so many seconds late or early; the ends repeat the first or the last action."""
    shift = round(site.strength * signals.rate_hz) * int(rng.choice([-1, 1]))
    rows = np.clip(np.arange(len(signals.action)) - shift, 0, len(signals.action) - 1)
    return replace(signals, action=signals.action[rows])


def _scaled_action(signals: EpisodeSignals, dim: int, factor: float) -> EpisodeSignals:
    action = signals.action.copy()
    action[:, dim] *= factor
    return replace(signals, action=action)


def _plant_sign_flip(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    return _scaled_action(signals, site.action_dim, -1.0)


def _plant_action_gain(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    return _scaled_action(signals, site.action_dim, float(site.strength ** rng.choice([-1, 1])))


def _plant_other_angle_unit(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals:
    """All of it in the other unit of angles."""
    factor = site.strength if site.unit_scale == 1.0 else 1 / site.strength
    return replace(signals, state=signals.state * factor, action=signals.action * factor)


def _plant_dropped_steps(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    steps = max(2, round(site.strength * signals.rate_hz))
    start = _moving_start(signals, site, steps, 0.1 * site.unit_scale, rng)
    rows = np.arange(len(signals.state))
    return _with_rows(signals, np.delete(rows, slice(start + 1, start + steps))) if start >= 0 else None


def _plant_repeated_steps(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    steps = max(2, round(site.strength * signals.rate_hz))
    start = _moving_start(signals, site, steps, 0.03 * site.unit_scale, rng)
    rows = np.arange(len(signals.state))
    return _with_rows(signals, np.insert(rows, start, np.full(steps, start))) if start >= 0 else None


def _plant_wrong_rate(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    factor = 1 + site.strength * float(rng.choice([-1, 1]))
    rate_hz = signals.rate_hz * factor
    return replace(signals, seconds=signals.seconds / factor, rate_hz=rate_hz, measured_rate_hz=rate_hz)


PLANTERS: Mapping[str, Planter] = {
    NOT_FINITE.code: _plant_not_finite_values,
    DEAD_CHANNEL.code: _plant_dead_dimension,
    STUCK.code: _plant_stuck_span,
    SPIKE.code: _plant_spike,
    QUANTISED.code: _plant_quantised_values,
    SATURATED.code: _plant_saturation,
    WRAP_AROUND.code: _plant_wrapped_angle,
    CHATTER.code: _plant_chatter,
    IDLE_START.code: _plant_idle_start,
    IDLE_END.code: _plant_idle_end,
    ACTION_LAG.code: _plant_action_lag,
    SIGN_FLIP.code: _plant_sign_flip,
    GAIN.code: _plant_action_gain,
    UNIT_CLASH.code: _plant_other_angle_unit,
    DROPPED_STEPS.code: _plant_dropped_steps,
    REPEATED_STEPS.code: _plant_repeated_steps,
    CLOCK_RATE.code: _plant_wrong_rate,
}
# Codes whose strength is an angle, so that it is multiplied by the unit of the signal.
ANGLES = frozenset(
    code.code
    for code in (
        DEAD_CHANNEL,
        SPIKE,
        QUANTISED,
        CHATTER,
    )
)
# Checks that need a known lag.
NEED_LAG = frozenset(code.code for code in (ACTION_LAG, SIGN_FLIP, GAIN))
