"""Where the spans of a file lie in their episodes, and which new texts they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ares.input.span_files import NamedSpan, SpanFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Reasons, as they follow "spans of FILE".
OUTSIDE = "lie outside the episode and are left out"
CUT = "reach beyond the episode and are cut at its ends"
OVERLAPPING = "overlap others of their style and author, and are kept"
UNKNOWN = "name episodes that are not here, or that are several by that name"


def match_spans_to_episodes(file: SpanFile, find: Callable[[object], str]) -> dict[str, list[NamedSpan]]:
    """The spans of a file by episode; those of unknown episodes are counted in its tally.

    Args:
        file: The file.
        find: The episode that a name means, "" for none.
    """
    by_episode: dict[str, list[NamedSpan]] = {}
    known: dict[tuple[str | int, ...], str] = {}
    for span in file.spans:
        if span.names not in known:
            known[span.names] = next((key for name in span.names if (key := find(name))), "")
        if key := known[span.names]:
            by_episode.setdefault(key, []).append(span)
        else:
            file.tally.add(UNKNOWN, str(span.names[0]))
    return by_episode


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedSpan:
    """A span of a file in its episode.

    Attributes:
        span: As the file has it; `fields` has "stated_span" where it was cut.
        start_seconds: Start of the span [start, stop), seconds from the start of the episode.
        stop_seconds: Its end.
    """

    span: NamedSpan
    start_seconds: float
    stop_seconds: float


def locate_spans(
    spans: Iterable[NamedSpan], timestamps: Sequence[float] | NDArray[np.float64], duration_seconds: float
) -> tuple[list[LocatedSpan], Counter[str]]:
    """The spans in seconds, in order of their start; and how many are cut, overlap or lie outside, by reason.

    A span that reaches beyond the episode is cut; up to one step beyond, where clocks are rounded, without a word.

    Args:
        spans: Spans of one episode.
        timestamps: (T,) seconds of its steps; frame n begins at the second of step n.
        duration_seconds: Its length.
    """
    located, counts = list[LocatedSpan](), Counter[str]()
    step = duration_seconds / max(len(timestamps), 1) * 1.001
    for span in spans:
        start, stop = span.start, span.stop
        if span.unit == "frames":
            start, stop = (_seconds_of_frame(end, timestamps, duration_seconds) for end in (start, stop))
        if start >= duration_seconds or stop < 0 or (stop == 0 and start < 0):
            counts[OUTSIDE] += 1
            continue
        if start < -step or stop > duration_seconds + step:
            counts[CUT] += 1
            span = replace(span, fields={**span.fields, "stated_span": [start, stop]})
        located.append(
            LocatedSpan(span=span, start_seconds=max(start, 0.0), stop_seconds=min(stop, duration_seconds))
        )
    located.sort(key=lambda part: (part.start_seconds, part.stop_seconds))
    if overlapping := _num_overlapping(located):
        counts[OVERLAPPING] = overlapping
    return located, counts


def _seconds_of_frame(
    value: float, timestamps: Sequence[float] | NDArray[np.float64], duration_seconds: float
) -> float:
    """The second at which a frame begins; those before and after the episode are counted at its mean rate."""
    number, count = int(value), len(timestamps)
    if 0 <= number < count:
        return float(timestamps[number])
    period = duration_seconds / max(count, 1)
    return number * period if number < 0 else duration_seconds + (number - count) * period


def _num_overlapping(located: Iterable[LocatedSpan]) -> int:
    """Spans that begin before an earlier one of their style, camera and author ends."""
    ends: dict[Any, float] = {}
    count = 0
    for part in located:
        span = part.span
        group = (
            span.style,
            span.camera,
            span.author,
            *(str(span.fields.get(key)) for key in ("annotator", "arm", "track")),
        )
        count += part.start_seconds < ends.get(group, 0.0)
        ends[group] = max(ends.get(group, 0.0), part.stop_seconds)
    return count
