"""How boundaries that a model saw and events of the signals become one timeline: which of them are the same event."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import Frames, Work, make_episode_subject
from annotators.segment.spans import (
    TEXT_ANNOTATORS,
    ArmBoundaries,
    Boundary,
    SegmentSpan,
    join_boundaries,
    make_spans,
)
from annotators.segment.timeline import ModelArm, ModelBoundary, align_times, to_boundaries
from ares.annotation import Annotation

if TYPE_CHECKING:
    from ares.store import Stores

# How far a boundary of a model is moved to an event of the signals where no labelled spans tell: a step of its frames.
USUAL_TOLERANCE = 0.5
# Tolerances that labelled spans choose among.
_TOLERANCES = tuple(round(0.1 * tenths, 1) for tenths in range(1, 16))
# Fewer labelled boundaries, or of fewer episodes, choose nothing; more episodes are not read.
FEWEST_LABELLED, FEWEST_EPISODES, MOST_EPISODES = 30, 5, 200
PERSON = "person"
# What finds the events of the signals of an episode.
FindEvents = Callable[[Work], Sequence[ArmBoundaries]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTimes:
    """The boundaries of an episode that people labelled, and the events of its signals.

    Attributes:
        labelled: Seconds of the boundaries, rising.
        events: Seconds of the events, rising.
        duration: Of the episode, in seconds.
    """

    labelled: tuple[float, ...]
    events: tuple[float, ...]
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapTolerance:
    """How far a boundary of a model is moved to an event of the signals.

    Attributes:
        seconds: The most seconds.
        labelled: Labelled boundaries that chose it; 0 where there were too few, and it is the usual one.
    """

    seconds: float
    labelled: int = 0


def choose_tolerance(episodes: Sequence[LabelledTimes]) -> SnapTolerance:
    """The tolerance that tells events of the signals that mean a labelled boundary from others.

    It is the one at which the share of labelled boundaries with an event so near exceeds the share of any instants with
    one so near by the most; of equal ones the smallest.

    Args:
        episodes: Episodes with labelled boundaries and signals.
    """
    episodes = [own for own in episodes if own.labelled and own.events and own.duration > 0]
    labelled = sum(len(own.labelled) for own in episodes)
    if labelled < FEWEST_LABELLED or len(episodes) < FEWEST_EPISODES:
        return SnapTolerance(seconds=USUAL_TOLERANCE)
    best, most = USUAL_TOLERANCE, -math.inf
    for tolerance in _TOLERANCES:
        hits = sum(_count_hits(own, tolerance) for own in episodes) / labelled
        covered = sum(_covered_seconds(own, tolerance) for own in episodes)
        gain = hits - covered / sum(own.duration for own in episodes)
        if gain > most:
            best, most = tolerance, gain
    return SnapTolerance(seconds=best, labelled=labelled)


def _count_hits(episode: LabelledTimes, tolerance: float) -> int:
    """Labelled boundaries with an event of their own within the tolerance."""
    return len(align_times(episode.labelled, episode.events, lambda row, column: tolerance))


def _covered_seconds(episode: LabelledTimes, tolerance: float) -> float:
    """Seconds of an episode that lie within the tolerance of an event."""
    covered, latest = 0.0, 0.0
    for event in episode.events:
        start, stop = max(latest, event - tolerance), min(episode.duration, event + tolerance)
        covered += max(0.0, stop - start)
        latest = max(latest, stop)
    return covered


def learn_tolerance(stores: Stores, find_events: FindEvents) -> SnapTolerance:
    """The tolerance that the labelled spans of a workspace choose: those of people, and of sources that name a person.

    Args:
        stores: Stores of the workspace.
        find_events: Finds the events of the signals of an episode.
    """
    spans = _read_labelled_spans(stores)
    return choose_tolerance(list(_labelled_times(stores, spans, find_events)) if spans else [])


def _read_labelled_spans(stores: Stores) -> dict[str, list[Annotation]]:
    """Spans that people labelled, by episode; of some episodes, the first by their ids."""
    log = stores.annotations
    makers = {
        id: maker
        for id, maker in log.makers().items()
        if maker.fills_segments and (maker.kind == PERSON or maker.annotator in TEXT_ANNOTATORS)
    }
    ids = sorted({id for key, maker in makers.items() for id in log.find_episodes(maker.annotator, key)})
    spans: dict[str, list[Annotation]] = {}
    if not ids:
        return spans
    for span in log.find_annotations(ids[:MOST_EPISODES], maker_ids=list(makers)):
        if makers[span.maker_id].kind == PERSON or span.value.get("author") == PERSON:
            spans.setdefault(span.episode_id, []).append(span)
    return spans


def _labelled_times(
    stores: Stores, spans: dict[str, list[Annotation]], find_events: FindEvents
) -> Iterator[LabelledTimes]:
    trajectories = dict(stores.tables.trajectories.read(list(spans)))
    for episode in stores.tables.episodes.get(list(spans)):
        trajectory = trajectories.get(episode.episode_id)
        if trajectory is None:
            continue
        work = Work(subject=make_episode_subject(episode), frames=Frames(episode, []), trajectory=trajectory)
        edges = {
            seconds for own in spans[episode.episode_id] for seconds in (own.start_seconds, own.stop_seconds)
        }
        inner = sorted(second for second in edges if 0.0 < second < episode.duration_seconds - 1e-6)
        events = sorted({own.seconds for arm in find_events(work) for own in arm.boundaries})
        yield LabelledTimes(labelled=tuple(inner), events=tuple(events), duration=episode.duration_seconds)


def name_spans(arms: Sequence[ModelArm], duration_seconds: float) -> list[SegmentSpan]:
    """The spans of a model's timeline with what is done in them; they cover the episode once for each arm."""
    spans: list[SegmentSpan] = []
    for arm in arms:
        spans += _cover(arm, to_boundaries(arm), duration_seconds)
    return spans


def fuse_spans(
    by_model: Sequence[ModelArm],
    by_signals: Sequence[ArmBoundaries],
    tolerance: SnapTolerance,
    duration_seconds: float,
) -> list[SegmentSpan]:
    """The spans of a model's timeline and of the events of the signals; they cover the episode once for each arm.

    A boundary of the model within the tolerance of an event is that event: it has its time, and is surer than both.
    Where they disagree both are kept, each as sure as it was. What the model says of no arm that the signals know has
    a timeline of its own, with the times of events of any arm.

    Args:
        by_model: What the model saw, of each arm.
        by_signals: The events of the signals, of each arm.
        tolerance: How far a boundary of the model may be moved.
        duration_seconds: Of the episode.
    """
    events = {own.arm: own.boundaries for own in by_signals}
    is_one_arm = len(by_model) == 1 and len(events) == 1
    spans: list[SegmentSpan] = []
    for arm in by_model:
        name = next(iter(events)) if is_one_arm else arm.arm
        own = events.pop(name, None)
        everyone = sorted((event for arm in by_signals for event in arm.boundaries), key=_by_time)
        snapped, boundaries = _snap(arm, everyone if own is None else own, tolerance.seconds, own is not None)
        spans += _cover(replace(snapped, arm=name), boundaries, duration_seconds)
    rest = [ArmBoundaries(name, boundaries) for name, boundaries in events.items()]
    return spans + (make_spans(rest, duration_seconds) if rest else [])


def _by_time(boundary: Boundary) -> float:
    return boundary.seconds


def _snap(
    arm: ModelArm, events: Sequence[Boundary], tolerance: float, keeps_events: bool
) -> tuple[ModelArm, list[Boundary]]:
    """The arm with its changes at the events they mean, and all boundaries; those of other events only where asked."""
    pairs = dict(
        align_times(
            [own.seconds for own in arm.boundaries],
            [event.seconds for event in events],
            lambda row, column: tolerance,
        )
    )
    moved: list[ModelBoundary] = []
    boundaries: list[Boundary] = []
    for number, own in enumerate(arm.boundaries):
        event = events[pairs[number]] if number in pairs else None
        moved.append(own if event is None else replace(own, seconds=event.seconds))
        boundaries.append(
            Boundary(own.seconds, "model", own.confidence) if event is None else _join_evidence(own, event)
        )
    if keeps_events:
        boundaries += [event for number, event in enumerate(events) if number not in pairs.values()]
    # A change that was not moved may now lie on the other side of one that was.
    return replace(arm, boundaries=tuple(sorted(moved, key=lambda own: own.seconds))), boundaries


def _join_evidence(own: ModelBoundary, event: Boundary) -> Boundary:
    """The boundary of an event that both tell of: it is none only if both are wrong."""
    confidence = 1 - (1 - own.confidence) * (1 - event.confidence)
    return Boundary(event.seconds, f"{event.source}+model", confidence)


def _cover(arm: ModelArm, boundaries: Sequence[Boundary], duration_seconds: float) -> list[SegmentSpan]:
    """The spans between boundaries, each with what the model says of its middle."""
    own = ArmBoundaries(arm.arm, join_boundaries(boundaries, duration_seconds))
    return [
        replace(span, text=arm.text_at((span.start_seconds + span.stop_seconds) / 2))
        for span in make_spans([own], duration_seconds)
    ]
