"""Checks of time between a camera, the state and another camera: lags, and a video of another rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from ares.quality.finding import QualityFinding, confidence_of
from ares.quality.video.codes import CAMERA_LAG, VIDEO_LAG, VIDEO_RATE
from ares.quality.video.motion_map import VideoLag
from ares.quality.video.picture_checks import video_finding

_LAG_SECONDS = 0.1
_LAG_STEPS = 1.5
# A camera may show a motion so much later than the encoders, and not much earlier.
_LATEST_SECONDS = 0.35
_EARLIEST_SECONDS = 0.1
# Cameras of a dataset may differ by so much.
_APART_SECONDS = 0.15
_LOWEST_CORRELATION = 0.2
# Two cameras may see different motions, such as an object and a hand.
_LOWEST_BETWEEN_CAMERAS = 0.5
# An interval wider than this says nothing.
_WIDEST_SECONDS = 0.5
_RATE_SHARE = 0.05


def check_lags(
    lags: Mapping[tuple[str, str], VideoLag],
    typical: Mapping[tuple[str, str], float],
    rate_hz: float,
    known: Set[tuple[str, str]],
) -> Iterator[QualityFinding]:
    """A041, A042 and A043.

    Args:
        lags: Lags of an episode by (cause, camera); the cause is "" for the state.
        typical: Median lags of the dataset, in steps.
        rate_hz: Steps per second.
        known: Codes that were found, with their camera.
    """
    for (cause, camera), lag in lags.items():
        if abs(lag.rate_factor - 1) >= _RATE_SHARE and not cause:
            confidence = confidence_of(abs(lag.rate_factor - 1), _RATE_SHARE)
            yield video_finding(VIDEO_RATE, camera, 0.0, lag.rate_factor - 1, confidence)
            continue
        if cause and (lag.steps is None or lag.correlation < _LOWEST_BETWEEN_CAMERAS):
            continue
        excess = _excess_steps(lag, typical.get((cause, camera)), rate_hz, is_state=not cause)
        bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
        if excess >= bar:
            check = CAMERA_LAG if cause else VIDEO_LAG
            middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
            yield video_finding(check, camera, 0.0, middle / rate_hz, confidence_of(excess, bar))


def _excess_steps(lag: VideoLag, typical: float | None, rate_hz: float, *, is_state: bool) -> float:
    """Steps by which the interval of a lag is beyond what its dataset, or any camera, has; 0 where it says nothing."""
    width = (lag.high_steps - lag.low_steps) / rate_hz
    if lag.correlation < _LOWEST_CORRELATION or width > _WIDEST_SECONDS:
        return 0.0
    beyond = 0.0
    if typical is not None:
        is_apart = lag.low_steps > typical or lag.high_steps < typical
        middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
        beyond = abs(middle - typical) if is_apart else 0.0
    latest = _LATEST_SECONDS if is_state else _APART_SECONDS
    earliest = _EARLIEST_SECONDS if is_state else _APART_SECONDS
    over = max(lag.low_steps - latest * rate_hz, -earliest * rate_hz - lag.high_steps)
    bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
    return max(beyond, bar + over if over > 0 else 0.0)
