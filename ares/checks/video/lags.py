"""Lags of the cameras of an episode against its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ares.checks.codes import VIDEO_LAG
from ares.checks.finding import QualityFinding, finding_confidence
from ares.checks.video.picture_quality import video_finding
from ares.signals import LagPeak

_LAG_SECONDS = 0.1

_LAG_STEPS = 1.5

# A camera may show a motion so much later than the encoders, and not much earlier.
_LATEST_SECONDS = 0.35

_EARLIEST_SECONDS = 0.1

_LOWEST_CORRELATION = 0.2

# An interval wider than this says nothing.
_WIDEST_SECONDS = 0.5


def check_lags(
    lags: Mapping[str, LagPeak], typical: Mapping[str, float], rate_hz: float
) -> Iterator[QualityFinding]:
    """A041.

    Args:
        lags: Lag of each camera of an episode behind its state, by its name.
        typical: Median lags of the dataset, in steps.
        rate_hz: Steps per second.
    """
    bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
    for camera, lag in lags.items():
        middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
        excess = _excess_steps(lag, middle, typical.get(camera), rate_hz, bar)
        if excess >= bar:
            yield video_finding(VIDEO_LAG, camera, 0.0, middle / rate_hz, finding_confidence(excess, bar))


def _excess_steps(lag: LagPeak, middle: float, typical: float | None, rate_hz: float, bar: float) -> float:
    """Steps by which the interval of a lag is beyond what its dataset, or any camera, has; 0 where it says nothing."""
    width = (lag.high_steps - lag.low_steps) / rate_hz
    if lag.correlation < _LOWEST_CORRELATION or width > _WIDEST_SECONDS:
        return 0.0
    is_apart = typical is not None and not lag.low_steps <= typical <= lag.high_steps
    beyond = abs(middle - typical) if is_apart and typical is not None else 0.0
    over = max(lag.low_steps - _LATEST_SECONDS * rate_hz, -_EARLIEST_SECONDS * rate_hz - lag.high_steps)
    return max(beyond, bar + over if over > 0 else 0.0)
