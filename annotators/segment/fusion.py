"""How boundaries that a model saw and events of the signals become one timeline: which of them are the same event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

if TYPE_CHECKING:
    from ares.annotation import Annotation, Maker
    from ares.episode import Episode, Trajectory
    from ares.store import Stores

# How far a boundary of a model is moved to an event of the signals where no labelled spans tell: a step of its frames.
USUAL_TOLERANCE = 0.5
# Tolerances that labelled spans choose among, and how near a boundary is right.
_TOLERANCES = tuple(round(0.1 * tenths, 1) for tenths in range(1, 16))
_RIGHT_SECONDS = 0.5
# Fewer labelled boundaries, or of fewer episodes, choose nothing; more episodes are not read.
FEWEST_LABELLED, FEWEST_EPISODES, MOST_EPISODES = 30, 5, 200
PERSON = "person"
# What finds the events of the signals of an episode.
FindEvents = Callable[[Work], Sequence[ArmBoundaries]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTimes:
    """The boundaries of an episode: those that people labelled, those of a model, and the events of its signals.

    Attributes:
        labelled: Seconds of the labelled boundaries, rising.
        told: Seconds of those of the model, rising.
        events: Seconds of the events, rising.
    """

    labelled: tuple[float, ...]
    told: tuple[float, ...]
    events: tuple[float, ...]


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
    """The tolerance at which model and signals together meet the labelled boundaries best; of equal ones the smallest.

    That is the F1 of all boundaries within half a second: a small tolerance keeps two where there is one, a large one
    takes two for one.

    Args:
        episodes: Episodes that people, the model and the signals have boundaries of.
    """
    labelled = sum(len(own.labelled) for own in episodes)
    if labelled < FEWEST_LABELLED or len(episodes) < FEWEST_EPISODES:
        return SnapTolerance(seconds=USUAL_TOLERANCE)
    best = max(_TOLERANCES, key=lambda tolerance: _measure_agreement(episodes, tolerance))
    return SnapTolerance(seconds=best, labelled=labelled)


def _measure_agreement(episodes: Sequence[LabelledTimes], tolerance: float) -> float:
    """F1 of the boundaries that a tolerance makes, against the labelled ones."""
    hits, total = 0, 0
    for own in episodes:
        same = align_times(own.told, own.events, lambda row, column: tolerance)
        moved = {row for row, _ in same}
        alone = [seconds for row, seconds in enumerate(own.told) if row not in moved]
        found = sorted([*own.events, *alone])
        hits += len(align_times(found, own.labelled, lambda row, column: _RIGHT_SECONDS))
        total += len(found) + len(own.labelled)
    return 2 * hits / max(total, 1)


def learn_tolerance(stores: Stores, model: str, find_events: FindEvents) -> SnapTolerance:
    """The tolerance that the labelled spans of a workspace choose, of episodes that the model alone has segmented.

    Labelled are spans of people, and of sources that name a person.

    Args:
        stores: Stores of the workspace.
        model: Name of the model.
        find_events: Finds the events of the signals of an episode.
    """
    told = _read_boundaries(
        stores,
        lambda maker: (
            maker.annotator == "segment" and maker.model == model and maker.settings.get("by") == "model"
        ),
        lambda maker, span: True,
    )
    labelled = _read_boundaries(
        stores,
        lambda maker: maker.kind == PERSON or maker.annotator in TEXT_ANNOTATORS,
        lambda maker, span: maker.kind == PERSON or span.value.get("author") == PERSON,
    )
    ids = sorted(told.keys() & labelled.keys())[:MOST_EPISODES]
    trajectories = dict(stores.tables.trajectories.read(ids)) if ids else {}
    episodes = [own for own in stores.tables.episodes.get(ids) if own.episode_id in trajectories]
    return choose_tolerance(
        [
            LabelledTimes(
                labelled=labelled[own.episode_id],
                told=told[own.episode_id],
                events=_event_seconds(own, trajectories[own.episode_id], find_events),
            )
            for own in episodes
        ]
    )


def _read_boundaries(
    stores: Stores, is_wanted: Callable[[Maker], bool], counts: Callable[[Maker, Annotation], bool]
) -> dict[str, tuple[float, ...]]:
    """Seconds of the boundaries in the spans of some makers, by episode, without the start."""
    log = stores.annotations
    makers = {id: own for id, own in log.makers().items() if own.fills_segments and is_wanted(own)}
    ids = sorted({episode for id, own in makers.items() for episode in log.find_episodes(own.annotator, id)})
    seconds: dict[str, set[float]] = {}
    for span in log.find_annotations(ids[: 5 * MOST_EPISODES], maker_ids=list(makers)) if ids else ():
        if counts(makers[span.maker_id], span):
            seconds.setdefault(span.episode_id, set()).add(span.start_seconds)
    return {id: tuple(sorted(own - {0.0})) for id, own in seconds.items()}


def _event_seconds(episode: Episode, trajectory: Trajectory, find_events: FindEvents) -> tuple[float, ...]:
    work = Work(subject=make_episode_subject(episode), frames=Frames(episode, []), trajectory=trajectory)
    return tuple(sorted({own.seconds for arm in find_events(work) for own in arm.boundaries}))


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
