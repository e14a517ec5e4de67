"""Plants further faults into signals: of whole signals, of the clock, and those that no check is made to find."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ares.quality.audit.planted_faults import FaultSite
from ares.quality.signals import EpisodeSignals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _with_column(signals: EpisodeSignals, name: str, dim: int, column: NDArray[np.float64]) -> EpisodeSignals:
    values = (signals.state if name == "state" else signals.action).copy()
    values[:, dim] = column
    return replace(signals, state=values) if name == "state" else replace(signals, action=values)


def _rows(signals: EpisodeSignals, rows: NDArray[np.intp]) -> EpisodeSignals:
    """Some of the steps, with stamps numbered through."""
    import numpy as np

    seconds = np.arange(len(rows)) / signals.rate_hz
    return replace(signals, seconds=seconds, state=signals.state[rows], action=signals.action[rows])


def not_finite_row(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """One step of the state is NaN in every dimension."""
    state = signals.state.copy()
    state[int(rng.integers(len(state)))] = float("nan")
    return replace(signals, state=state)


def not_finite_action(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """One value of the action is infinite."""
    column = signals.action[:, site.action_dim].copy()
    column[int(rng.integers(len(column)))] = float("inf")
    return _with_column(signals, "action", site.action_dim, column)


def dead_state(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The state repeats its first step."""
    return replace(signals, state=signals.state * 0 + signals.state[0])


def dead_action(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The action repeats its first step."""
    return replace(signals, action=signals.action * 0 + signals.action[0])


def spike_action(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """One value of the action is off."""
    column = signals.action[:, site.action_dim].copy()
    column[int(rng.integers(2, len(column) - 2))] += site.strength * rng.choice([-1, 1])
    return _with_column(signals, "action", site.action_dim, column)


def offset(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """A dimension of the state is off by a constant, as after a wrong calibration."""
    column = signals.state[:, site.dim] + site.strength * rng.choice([-1, 1])
    return _with_column(signals, "state", site.dim, column)


def noise(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """White noise in a dimension of the state."""
    column = signals.state[:, site.dim] + rng.normal(0, site.strength, len(signals.state))
    return _with_column(signals, "state", site.dim, column)


def _other_dim(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> int | None:
    """Another dimension of the state that moves; None where there is none."""
    import numpy as np

    moving = [int(dim) for dim in np.flatnonzero(np.ptp(signals.state, axis=0) > 0) if dim != site.dim]
    return int(rng.choice(moving)) if moving else None


def copied_dimension(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    """A dimension of the state holds the values of another."""
    other = _other_dim(signals, site, rng)
    return None if other is None else _with_column(signals, "state", site.dim, signals.state[:, other])


def exchanged_dimensions(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    """Two dimensions of the state are exchanged."""
    other = _other_dim(signals, site, rng)
    if other is None:
        return None
    exchanged = _with_column(signals, "state", site.dim, signals.state[:, other])
    return _with_column(exchanged, "state", other, signals.state[:, site.dim])


def slow_samples(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """A dimension of the state gets a new value only every so many steps."""
    import numpy as np

    rows = np.arange(len(signals.state))
    kept_rows = rows - rows % max(2, round(site.strength))
    return _with_column(signals, "state", site.dim, signals.state[kept_rows, site.dim])


def late_state(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The state comes late; its first step is repeated."""
    import numpy as np

    shift = round(site.strength * signals.rate_hz)
    rows = np.clip(np.arange(len(signals.state)) - shift, 0, None)
    return replace(signals, state=signals.state[rows])


def clock_gap(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The stamps jump ahead at one step."""
    seconds = signals.seconds.copy()
    seconds[int(rng.integers(2, len(seconds) - 2)) :] += site.strength
    return replace(signals, seconds=seconds)


def clock_backwards(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """A stamp is that of the step before."""
    seconds, step = signals.seconds.copy(), int(rng.integers(2, len(signals.seconds) - 2))
    seconds[step] = seconds[step - 1]
    return replace(signals, seconds=seconds)


def clock_jitter(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """Every stamp is off by a random part of the period."""
    shift = rng.uniform(-0.5, 0.5, len(signals.seconds)) * min(site.strength, 0.95) / signals.rate_hz
    return replace(signals, seconds=signals.seconds + shift)


def halved_rate(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """Every second step is missing, and the stamps are numbered at the old rate."""
    import numpy as np

    return _rows(signals, np.arange(0, len(signals.state), round(site.strength)))


def cut_short(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The end of the episode is missing."""
    import numpy as np

    return _rows(signals, np.arange(max(10, round(len(signals.state) * (1 - site.strength)))))


def sign_of_state(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """A dimension of the state has the other sign."""
    return _with_column(signals, "state", site.dim, -signals.state[:, site.dim])


def joint_in_degrees(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """One dimension of the state is in the other unit of angles."""
    factor = site.strength if site.unit_scale == 1.0 else 1 / site.strength
    return _with_column(signals, "state", site.dim, signals.state[:, site.dim] * factor)


def delta_action(signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator) -> EpisodeSignals:
    """The action holds its changes."""
    import numpy as np

    return replace(signals, action=np.diff(signals.action, axis=0, append=signals.action[-1:]))


def action_is_state(
    signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    """The action is a copy of the state of the same step."""
    if signals.state.shape[1] != signals.action.shape[1]:
        return None
    return replace(signals, action=signals.state.copy())
