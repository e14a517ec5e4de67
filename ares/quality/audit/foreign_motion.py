"""Commands and dynamics of generated robots: how a person or a program moves them, and how they follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MotionStyle = Literal["minimum-jerk", "trapezoid", "person"]
# No joint is asked to move faster, radians per second.
_FASTEST = 2.0
MOTION_STYLES: tuple[MotionStyle, ...] = ("minimum-jerk", "trapezoid", "person")


def commanded_motion(
    style: MotionStyle,
    seconds: NDArray[np.float64],
    amplitudes: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(T, J) commanded motion around 0: joints move together between rests, or as a person leads them."""
    if style == "person":
        return _person(seconds, amplitudes, rng)
    return _between_goals(seconds, amplitudes, rng, is_smooth=style == "minimum-jerk")


def _between_goals(
    seconds: NDArray[np.float64],
    amplitudes: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    is_smooth: bool,
) -> NDArray[np.float64]:
    """Movements that all joints begin at once; some end early, and each is followed by a rest or by none."""
    import numpy as np

    values = np.zeros((len(seconds), len(amplitudes)))
    now, here = float(rng.uniform(0, 1.2)), np.zeros(len(amplitudes))
    while now < seconds[-1]:
        goal = np.clip(rng.normal(0, 1, len(amplitudes)), -2, 2) * amplitudes
        goal = np.where(rng.random(len(amplitudes)) < 0.8, goal, here)
        duration = max(rng.uniform(0.6, 3), 1.9 * float(np.abs(goal - here).max()) / _FASTEST)
        durations = duration * rng.choice([1.0, 1.0, 0.8], len(amplitudes))
        phase = np.clip((seconds[:, None] - now) / durations, 0, 1)
        share = phase**3 * (10 - 15 * phase + 6 * phase**2) if is_smooth else _ramp(phase)
        values += (goal - here) * share
        now, here = now + duration + float(rng.choice([0.0, rng.uniform(0, 1.2)])), goal
    return values


def _ramp(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the way at a constant speed, with an acceleration over a fifth of the time at either end."""
    import numpy as np

    ends = 0.2
    speed = 1 / (1 - ends)
    start = speed * phase**2 / (2 * ends)
    stop = 1 - speed * (1 - phase) ** 2 / (2 * ends)
    middle = speed * (phase - ends / 2)
    return np.where(phase < ends, start, np.where(phase > 1 - ends, stop, middle))


def _person(
    seconds: NDArray[np.float64], amplitudes: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Noise up to about a hertz, with spells of rest in which the hand is nearly still."""
    import numpy as np

    step = seconds[1] - seconds[0]
    speed = filtered(rng.normal(size=(len(seconds), len(amplitudes))), step, rng.uniform(3, 8), 1.0)
    speed /= np.maximum(speed.std(axis=0), 1e-12)
    activity = filtered(rng.normal(size=(len(seconds), 1)), step, 1.5, 1.0)
    speed *= np.clip(activity / max(float(activity.std()), 1e-12) + rng.uniform(0.3, 1.5), 0, 1)
    moved = np.cumsum(speed, axis=0) * step
    # People come back: the part below a twentieth of a hertz is taken out.
    moved -= filtered(moved, step, 0.3, 1.0)
    moved = (moved - moved[0]) / np.maximum(moved.std(axis=0), 1e-12) * amplitudes
    fastest = np.abs(np.diff(moved, axis=0)).max(axis=0) / step
    return np.asarray(moved * np.minimum(1, _FASTEST / np.maximum(fastest, 1e-12)))


def filtered(
    values: NDArray[np.float64], step: float, radians_per_second: float, damping: float, delay: float = 0.0
) -> NDArray[np.float64]:
    """(T, J) values after a filter of second order and a delay in seconds; before the start they rest.

    Args:
        values: (T, J).
        step: Seconds from row to row.
        radians_per_second: Natural frequency of the filter.
        damping: Damping ratio; below 1 it overshoots.
        delay: Seconds.
    """
    import numpy as np

    rest = int(6 / (min(damping, 1.0) * radians_per_second) / step) + int(delay / step) + 8
    padded = np.concatenate(
        [np.repeat(values[:1], rest, axis=0), values, np.repeat(values[-1:], rest, axis=0)]
    )
    slope = np.linspace(0, 1, len(padded))[:, None]
    trend = padded[:1] + slope * (padded[-1:] - padded[:1])  # so that the ends meet
    omega = 2 * np.pi * np.fft.rfftfreq(len(padded), step)[:, None]
    ratio = 1j * omega / radians_per_second
    response = np.exp(-1j * omega * delay) / (1 + 2 * damping * ratio + ratio**2)
    moved = np.fft.irfft(np.fft.rfft(padded - trend, axis=0) * response, len(padded), axis=0)
    late = delay + 2 * damping / radians_per_second
    total = (len(padded) - 1) * step
    moved += trend - (padded[-1:] - padded[:1]) * late / total
    return np.asarray(moved[rest : rest + len(values)])


def with_backlash(values: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """(T, J) what follows the values through gears with play: it moves once they have crossed the width."""
    import numpy as np

    followed = np.empty_like(values)
    now = values[0]
    for row, value in enumerate(values):
        now = np.clip(now, value - width / 2, value + width / 2)
        followed[row] = now
    return followed


def switched(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(T,) 0 or 1, changed up to six times at once."""
    import numpy as np

    times = np.sort(rng.uniform(0.05, 0.95, int(rng.integers(0, 7)))) * seconds[-1]
    return (np.searchsorted(times, seconds) % 2).astype(float)


def true_lag(followed: NDArray[np.float64], command: NDArray[np.float64], step: float) -> float:
    """Seconds by which motions without noise come after their commands: the peak of the correlated speeds.

    Args:
        followed: (T, J) motion.
        command: (T + L, J) commands, from L steps before the motion on; no longer lag is looked for.
        step: Seconds from row to row.
    """
    import numpy as np

    left, right = np.diff(followed, axis=0), np.diff(command, axis=0)
    moves = (left.std(axis=0) > 0) & (right.std(axis=0) > 0)
    left, right = left[:, moves], right[:, moves]
    longest, profile = len(right) - len(left), []
    for lag in range(longest + 1):
        part = right[longest - lag : len(right) - lag]
        power = np.linalg.norm(left, axis=0) * np.linalg.norm(part, axis=0)
        profile.append(float(((left * part).sum(axis=0) / np.maximum(power, 1e-12)).mean()))
    return float(np.argmax(profile)) * step
