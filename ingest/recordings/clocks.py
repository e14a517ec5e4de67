"""The clock of a recording: which times its topics go by, and the steps that they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ares.clock import measure_clock
from ares.console import count_of
from ares.errors import SourceError
from ares.media import TopicImages, message_times
from ares.registry import did_you_mean
from ares_ingest.base import MISSING
from ares_ingest.recordings.recorded_spans import RecordedSpan
from ares_ingest.recordings.signal_tracks import SignalTrack
from ares_ingest.recordings.topics import RecordingContents
from ares_ingest.signals import resolve_rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import RateSource


RATE_TOLERANCE = 0.005
# Two topics share a clock where they overlap by this share of what they overlap by when they are published.
_SHARED_CLOCK = 0.5
# A topic of fewer messages may have been published once, before the steps, for all of them.
_FEW_MESSAGES = 10
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


def compute_recording_steps(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    span: RecordedSpan | None,
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

    candidates = [read_image_times(contents.images[topic]) for topic in sorted(contents.images)]
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
        return np.unique(read_image_times(contents.images[topic]))
    if topic in tracks:
        return np.unique(next(iter(tracks[topic].values())).times)
    raise SourceError(
        MISSING,
        f"{where}: timestamps names {topic!r}; {did_you_mean(topic, contents.summaries)}it is to be a camera or a "
        f"topic of state or action: {', '.join([*contents.images, *tracks])}",
    )


def _select_span(times: NDArray[np.int64], span: RecordedSpan | None, where: str) -> NDArray[np.int64]:
    """The times in a span. Raises SourceError when there are none."""
    inside = select_times_in_span(times, span)
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
            "stamps are too far apart for the rate", f"{where}: {count_of(count, 'step')} at {rate_hz:g} Hz"
        )
    even_times: NDArray[np.int64] = times[0] + np.round(np.arange(count) * (1e9 / rate_hz)).astype(np.int64)
    return even_times


def read_image_times(images: TopicImages) -> NDArray[np.int64]:
    """(N,) nanoseconds at which the images of a topic are shown, rising."""
    import numpy as np

    return images.start + np.round(np.array(images.seconds) * 1e9).astype(np.int64)


def select_times_in_span(times: NDArray[np.int64], span: RecordedSpan | None) -> NDArray[np.int64]:
    """The times that lie in a span; all of them where there is no span."""
    return times if span is None else times[(times >= span.start) & (times < span.stop)]


def check_topic_times(
    times: NDArray[np.int64], step_times: NDArray[np.int64], *, has_header_times: bool, in_time_order: bool
) -> Iterator[str]:
    """Warnings about the times of a topic.

    Args:
        times: (N,) int64 nanoseconds of its messages, rising.
        step_times: (T,) int64 nanoseconds of the steps.
        has_header_times: Whether the times are the header times of the messages.
        in_time_order: Whether the messages lie in the file in the order of their times.
    """
    import numpy as np

    if not has_header_times:
        yield "has messages without header stamps; it goes by publish times"
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


class _TopicSpans(NamedTuple):
    """First and last nanosecond of a topic by the clock that its messages have, and by publication."""

    own: tuple[int, int]
    published: tuple[int, int]


def settle_topic_clocks(contents: RecordingContents) -> RecordingContents:
    """The contents with all topics on one clock: where their header stamps do not overlap, that of publication."""
    cameras = contents.images.values()
    spans = [
        _TopicSpans(_first_and_last(read_image_times(images)), _first_and_last(images.publish_times))
        for images in cameras
    ]
    for messages in contents.signals.values():
        if not messages.publish_times:
            continue
        times, _ = message_times(messages.header_times, messages.publish_times)
        spans.append(_TopicSpans(_first_and_last(times), _first_and_last(messages.publish_times)))
    if all(_share_a_clock(first, second) for first, second in combinations(spans, 2)):
        return contents
    contents.warn("header stamps of the topics do not overlap; all topics go by publish times")
    images = {topic: images for topic, images in contents.images.items() if images.has_header_times}
    signals = {topic: messages for topic, messages in contents.signals.items() if all(messages.header_times)}
    return replace(
        contents,
        published=frozenset((*images, *signals)),
        images=contents.images | {topic: part.by_publication() for topic, part in images.items()},
        signals=contents.signals | {topic: part.by_publication() for topic, part in signals.items()},
    )


def _first_and_last(times: Sequence[int] | NDArray[np.int64]) -> tuple[int, int]:
    return int(min(times)), int(max(times))


def _share_a_clock(first: _TopicSpans, second: _TopicSpans) -> bool:
    """Whether two topics overlap by their header stamps about as much as they do when they are published."""
    overlap = _shared_time(first.published, second.published)
    return overlap <= 0 or _shared_time(first.own, second.own) >= _SHARED_CLOCK * overlap


def _shared_time(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Nanoseconds for which two spans overlap; below 0 for the time between them."""
    return min(first[1], second[1]) - max(first[0], second[0])


def check_topics_meet_steps(
    contents: RecordingContents,
    tracks: dict[str, Mapping[str, SignalTrack]],
    step_times: NDArray[np.int64],
    where: str,
    stated: frozenset[str],
) -> None:
    """Check that every topic has messages in the time of the (T,) steps; a further signal without one is left out.

    Raises SourceError where one lies after all of them, or where one of more than a few messages lies before them.
    """
    times = {topic: read_image_times(images) for topic, images in contents.images.items()}
    times |= {topic: next(iter(fields.values())).times for topic, fields in tracks.items()}
    for topic, topic_times in times.items():
        is_before = topic_times[-1] < step_times[0] and len(topic_times) >= _FEW_MESSAGES
        if not is_before and topic_times[0] <= step_times[-1]:
            continue
        if contents.uses[topic] == "spec" and topic not in stated:
            contents.leave_unused(topic, "none of its messages lies in the time of the steps")
            del tracks[topic]
        else:
            gap = max(step_times[0] - topic_times[-1], topic_times[0] - step_times[-1]) / 1e9
            detail = f"{where}: {count_of(len(topic_times), 'message')} of {topic}, {gap:.3g} s away"
            raise SourceError("no message of a topic lies in the time of the steps", detail)
