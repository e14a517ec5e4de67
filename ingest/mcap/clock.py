"""The step clock of an MCAP recording: the times of the steps, their rate, and warnings about topic times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ares.clock import measure_clock
from ares.episode import RateSource
from ares.errors import SourceError
from ares.media.mcap import TopicImages
from ares.registry import did_you_mean
from ingest.base import MISSING
from ingest.mcap.spans import EpisodeSpan
from ingest.mcap.topics import RecordingContents
from ingest.mcap.tracks import SignalTrack
from ingest.signals import resolve_rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE_TOLERANCE = 0.005
_JITTER_SHARE = 0.2
# More than a day at 100 Hz; only a damaged stamp asks for more.
_MAX_EVEN_STEPS = 10_000_000
_DROPPED_FACTOR = 1.8


class StepClock(NamedTuple):
    """Times and rate of the steps of an episode.

    Attributes:
        times: (T,) int64 nanoseconds, rising, without duplicates.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        has_stamps: Whether the times are those of messages, and not computed from the rate.
    """

    times: NDArray[np.int64]
    rate_hz: float
    rate_source: RateSource
    has_stamps: bool


def make_step_clock(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    span: EpisodeSpan | None,
    user_rate_hz: float | None,
    where: str,
    steps_topic: str = "",
) -> StepClock:
    """The steps of a recording, or of the span of it that is an episode; the messages of `steps_topic` if there is one.

    Raises SourceError when there are none.
    """
    times = (
        _spec_topic_times(contents, tracks, steps_topic, where)
        if steps_topic
        else _step_times(contents, tracks)
    )
    times = _select_span(times, span, where)
    rate_hz, rate_source = resolve_rate(user_rate_hz, _stamped_rate_hz(times), "measured")
    if len(times) > 1 and user_rate_hz is not None:
        return StepClock(_even_times(times, user_rate_hz, where), rate_hz, rate_source, False)
    return StepClock(times, rate_hz, rate_source, len(times) > 1)


def _step_times(
    contents: RecordingContents, tracks: Mapping[str, Mapping[str, SignalTrack]]
) -> NDArray[np.int64]:
    """(T,) nanoseconds of the steps: the times of the first topic with more than one, cameras before signals."""
    import numpy as np

    candidates = [image_times(contents.images[topic]) for topic in sorted(contents.images)]
    topics = sorted(tracks, key=lambda topic: (contents.uses[topic] != "joints", topic))
    candidates += [next(iter(tracks[topic].values())).times for topic in topics]
    return np.unique(next((times for times in candidates if len(times) > 1), candidates[0]))


def _spec_topic_times(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    topic: str,
    where: str,
) -> NDArray[np.int64]:
    """(T,) nanoseconds of the messages of the topic that a spec names. Raises SourceError where it is not used."""
    import numpy as np

    if topic in contents.images:
        return np.unique(image_times(contents.images[topic]))
    if topic in tracks:
        return np.unique(next(iter(tracks[topic].values())).times)
    raise SourceError(
        MISSING,
        f"{where}: timestamps names {topic!r}; {did_you_mean(topic, contents.summaries)}it is to be a camera or a "
        f"topic of state or action: {', '.join([*contents.images, *tracks])}",
    )


def _select_span(times: NDArray[np.int64], span: EpisodeSpan | None, where: str) -> NDArray[np.int64]:
    """The times in a span. Raises SourceError when there are none."""
    inside = times_in_span(times, span)
    if span is not None and not len(inside):
        raise SourceError("no message lies in the span of the episode", f"{where}: episode {span.key}")
    return inside


def _stamped_rate_hz(times: NDArray[np.int64]) -> float | None:
    """The integer rate that the times follow, else their measured rate; None for a single step."""
    clock = measure_clock((times - times[0]) / 1e9) if len(times) > 1 else None
    if clock is None:
        return None
    nominal = float(max(round(clock.rate_hz), 1))
    is_close = abs(clock.rate_hz - nominal) <= RATE_TOLERANCE * nominal
    # Over all steps the nominal clock and the measured one may differ by half a step at most.
    is_nominal = is_close and len(times) * abs(nominal / clock.rate_hz - 1) <= 0.5
    return nominal if is_nominal else clock.rate_hz


def _even_times(times: NDArray[np.int64], rate_hz: float, where: str) -> NDArray[np.int64]:
    """Evenly spaced steps at a rate, from the first to the last of some times. Raises SourceError for too many."""
    import numpy as np

    count = int(float(times[-1] - times[0]) / 1e9 * rate_hz + 1e-6) + 1
    if count > _MAX_EVEN_STEPS:
        raise SourceError(
            "stamps are too far apart for the rate", f"{where}: {count} steps at {rate_hz:g} Hz"
        )
    even_times: NDArray[np.int64] = times[0] + np.round(np.arange(count) * (1e9 / rate_hz)).astype(np.int64)
    return even_times


def image_times(images: TopicImages) -> NDArray[np.int64]:
    """(N,) nanoseconds at which the images of a topic are shown, rising."""
    import numpy as np

    return images.start + np.round(np.array(images.seconds) * 1e9).astype(np.int64)


def times_in_span(times: NDArray[np.int64], span: EpisodeSpan | None) -> NDArray[np.int64]:
    """The times that lie in a span; all of them where there is no span."""
    return times if span is None else times[(times >= span.start) & (times < span.stop)]


def time_warnings(
    times: NDArray[np.int64], step_times: NDArray[np.int64], *, has_own_times: bool, in_time_order: bool
) -> Iterator[str]:
    """Warnings about the times of a topic.

    Args:
        times: (N,) int64 nanoseconds of its messages, rising.
        step_times: (T,) int64 nanoseconds of the steps.
        has_own_times: Whether the times are the header times of the messages.
        in_time_order: Whether the messages lie in the file in the order of their times.
    """
    import numpy as np

    if not has_own_times:
        yield "has messages without header stamps; their publish times are used"
    if not in_time_order:
        yield "has stamps that run backwards; its messages were sorted"
    gaps = np.diff(times)
    if not (gaps > 0).all():
        yield "has stamps that repeat"
    gaps = gaps[gaps > 0]
    if len(gaps) < 2:
        return
    median_gap = float(np.median(gaps))
    is_dropped = gaps > _DROPPED_FACTOR * median_gap
    if is_dropped.any():
        yield "dropped messages"
    if (np.abs(gaps[~is_dropped] - median_gap) > _JITTER_SHARE * median_gap).any():
        yield "is not evenly spaced (jitter above 20 %)"
    step_gap = float(np.median(np.diff(step_times))) if len(step_times) > 1 else 0.0
    margin = 2 * max(median_gap, step_gap)
    if times[0] > step_times[0] + margin or times[-1] < step_times[-1] - margin:
        yield "does not cover the whole episode"
