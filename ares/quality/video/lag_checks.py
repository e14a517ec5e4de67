"""Checks of time between a camera, the state and another camera: lags, and a video of another rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
# At another rate the lag must be known so well.
_RATE_STEPS = 2.0
_RATE_SECONDS = 0.3
_GAIN_BETWEEN_CAMERAS = 0.1
_FEWEST_FOR_RATES = 4


def check_lags(
    lags: Mapping[tuple[str, str], VideoLag],
    typical: Mapping[tuple[str, str], float],
    rate_hz: float,
    num_episodes: int,
) -> Iterator[QualityFinding]:
    """A041, A042 and A043.

    Args:
        lags: Lags of an episode by (cause, camera); the cause is "" for the state.
        typical: Median lags of the dataset, in steps.
        rate_hz: Steps per second.
        num_episodes: Episodes that the maps were learnt from: of few, none says another's rate.
    """
    rates = dict(_rates(lags, rate_hz)) if num_episodes >= _FEWEST_FOR_RATES else {}
    yield from (
        video_finding(VIDEO_RATE, camera, 0.0, rate, confidence_of(abs(rate), _RATE_SHARE))
        for camera, rate in rates.items()
    )
    for (cause, camera), lag in lags.items():
        if camera in rates or cause in rates:
            continue
        if cause and (lag.steps is None or lag.correlation < _LOWEST_BETWEEN_CAMERAS):
            continue
        excess = _excess_steps(lag, typical.get((cause, camera)), rate_hz, is_state=not cause)
        bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
        if excess >= bar:
            check = CAMERA_LAG if cause else VIDEO_LAG
            middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
            yield video_finding(check, camera, 0.0, middle / rate_hz, confidence_of(excess, bar))


def _rates(lags: Mapping[tuple[str, str], VideoLag], rate_hz: float) -> Iterator[tuple[str, float]]:
    """Cameras of another rate, with the share of it: by the state, or by two cameras that differ.

    Of two cameras that differ it is the one whose other rate agrees more with the state, else the second.
    """
    for (cause, camera), lag in lags.items():
        rate = lag.rate_factor - 1
        width = max(_RATE_STEPS, _RATE_SECONDS * rate_hz)
        if abs(rate) < _RATE_SHARE or lag.high_steps - lag.low_steps > width:
            continue
        if cause and not _cameras_agree(lag):
            continue
        first, second = lags.get(("", cause)), lags.get(("", camera))
        if cause and first is not None and second is not None and first.rate_gain > second.rate_gain:
            yield cause, -rate
        else:
            yield camera, rate


def _cameras_agree(lag: VideoLag) -> bool:
    """Whether two cameras clearly show one motion, at another rate."""
    return lag.correlation >= _LOWEST_BETWEEN_CAMERAS and lag.rate_gain >= _GAIN_BETWEEN_CAMERAS


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
