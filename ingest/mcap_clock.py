"""The step clock of an MCAP recording: which stamps are steps, at what rate, and what is odd about the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import ASSUMED_RATE_HZ, Json, RateSource
from ares.errors import SourceError
from ares.media.mcap_index import Images
from ingest.mcap_spans import Span
from ingest.mcap_topics import Heardings, Track

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR_WHOLE = 0.005
_JITTER = 0.2
_DROPPED = 1.8


class Steps(NamedTuple):
    """When the steps of an episode are.

    Attributes:
        clock: (T,) int64 nanoseconds, rising, each once.
        rate_hz: Steps per second.
        rate_source: Who says so.
        measured: The mean rate of the stamps, for the metadata.
    """

    clock: NDArray[np.int64]
    rate_hz: float
    rate_source: RateSource
    measured: dict[str, Json]


def steps_of(
    found: Heardings,
    tracks: Mapping[str, Mapping[str, Track]],
    span: Span | None,
    user_rate_hz: float | None,
    where: str,
) -> Steps:
    """The steps of a recording, or of the part of it in a span. Raises SourceError when there are none."""
    clock = _within(_clock(found, tracks), span, where)
    rate_hz, rate_source = _rate(clock, user_rate_hz)
    measured = _measured(clock)
    if len(clock) > 1 and user_rate_hz is not None:
        clock = _evenly(clock, user_rate_hz)
    return Steps(clock, rate_hz, rate_source, measured)


def _clock(found: Heardings, tracks: Mapping[str, Mapping[str, Track]]) -> NDArray[np.int64]:
    """(T,) nanoseconds of the steps, rising, each once."""
    import numpy as np

    clocks = [at_of(found.images[topic]) for topic in sorted(found.images)]
    order = sorted(tracks, key=lambda topic: (found.uses[topic] != "joints", topic))
    clocks += [next(iter(tracks[topic].values())).at for topic in order]
    return np.unique(next((clock for clock in clocks if len(clock) > 1), clocks[0]))


def _within(clock: NDArray[np.int64], span: Span | None, where: str) -> NDArray[np.int64]:
    """The steps in a span. Raises SourceError when there are none."""
    if span is None:
        return clock
    inside = inside_of(clock, span)
    if not len(inside):
        raise SourceError("no message lies in the span of the episode", f"{where}: episode {span.key}")
    return inside


def _rate(clock: NDArray[np.int64], user_rate_hz: float | None) -> tuple[float, RateSource]:
    """Steps per second: what the user says, else the whole number that the stamps keep to, else their mean."""
    if user_rate_hz is not None:
        return user_rate_hz, "user"
    if len(clock) < 2:
        return ASSUMED_RATE_HZ, "assumed"
    span = float(clock[-1] - clock[0]) / 1e9
    mean = (len(clock) - 1) / span
    whole = float(max(round(mean), 1))
    # Over the whole episode the nominal clock and the stamps may part by half a step, no more.
    kept = abs(mean - whole) <= NEAR_WHOLE * whole and abs((len(clock) - 1) / whole - span) <= 0.5 / whole
    return (whole if kept else mean), "source"


def _measured(clock: NDArray[np.int64]) -> dict[str, Json]:
    """The mean rate of the stamps."""
    if len(clock) < 2:
        return {}
    return {"measured_rate_hz": round((len(clock) - 1) * 1e9 / float(clock[-1] - clock[0]), 4)}


def _evenly(clock: NDArray[np.int64], rate_hz: float) -> NDArray[np.int64]:
    """Steps at a rate over the time of others."""
    import numpy as np

    count = int(float(clock[-1] - clock[0]) / 1e9 * rate_hz + 1e-6) + 1
    made: NDArray[np.int64] = clock[0] + np.round(np.arange(count) * (1e9 / rate_hz)).astype(np.int64)
    return made


def at_of(images: Images) -> NDArray[np.int64]:
    """(N,) nanoseconds at which the images of a topic are shown, rising."""
    import numpy as np

    return images.start + np.round(np.array(images.seconds) * 1e9).astype(np.int64)


def inside_of(at: NDArray[np.int64], span: Span | None) -> NDArray[np.int64]:
    """Those stamps that lie in a span; all of them without one."""
    return at if span is None else at[(at >= span.start) & (at < span.stop)]


def odd(at: NDArray[np.int64], clock: NDArray[np.int64], stamped: bool, rising: bool) -> Iterator[str]:
    """What is odd about the stamps of a topic, in words."""
    import numpy as np

    if not stamped:
        yield "has messages without header stamps; their times of publishing are taken"
    if not rising:
        yield "has stamps that run backwards; its messages were sorted"
    gaps = np.diff(at)
    if not (gaps > 0).all():
        yield "has stamps that repeat"
    gaps = gaps[gaps > 0]
    if len(gaps) < 2:
        return
    usual = float(np.median(gaps))
    dropped = gaps > _DROPPED * usual
    if dropped.any():
        yield "dropped messages"
    if (np.abs(gaps[~dropped] - usual) > _JITTER * usual).any():
        yield "is not evenly spaced (jitter above 20 %)"
    margin = 2 * max(usual, float(np.median(np.diff(clock))) if len(clock) > 1 else 0.0)
    if at[0] > clock[0] + margin or at[-1] < clock[-1] - margin:
        yield "does not cover the whole episode"
