"""Interventions of people during an episode: flagged steps and spans become segments, a signal and a share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.episode import INTERVENTION, INTERVENTION_SHARE, Record, Signal, SourceSegment, Trajectory
from ares.signals import find_runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FLAGS = (INTERVENTION, "is_intervention", "is_human", "human_action")


def add_interventions(record: Record) -> Record:
    """The record with its interventions as segments, as a signal of 0 and 1 per step, and their share of its steps.

    They are those of a flag per step, else the spans that are called interventions; without either nothing is added.
    """
    import numpy as np

    trajectory, spans = record.trajectory, [part for part in record.segments if part.style == INTERVENTION]
    name = _find_flag(trajectory)
    if not name and not spans:
        return record
    stamps = trajectory.timestamps
    steps = np.zeros(len(stamps), np.bool_)
    if name:
        steps = trajectory.extra[name].values[:, 0] > 0
    for span in () if name else spans:
        steps |= (stamps >= span.start_seconds) & (stamps < span.stop_seconds)
    extra = {key: signal for key, signal in trajectory.extra.items() if key != name}
    extra[INTERVENTION] = Signal(steps.astype(np.float32)[:, None], (INTERVENTION,))
    share = float(steps.mean()) if len(steps) else 0.0
    episode = replace(record.episode, metadata={**record.episode.metadata, INTERVENTION_SHARE: share})
    segments = () if spans else tuple(_segments_of(steps, stamps, episode.duration_seconds))
    return replace(
        record,
        episode=episode,
        trajectory=replace(trajectory, extra=extra),
        segments=(*record.segments, *segments),
    )


def _find_flag(trajectory: Trajectory) -> str:
    """The signal that is 0 or 1 at each step and named as a flag of interventions; "" without one."""
    for name in sorted(trajectory.extra, key=lambda name: name != INTERVENTION):
        values = trajectory.extra[name].values
        if (
            name.rpartition(".")[2] in _FLAGS
            and values.shape[1] == 1
            and ((values == 0) | (values == 1)).all()
        ):
            return name
    return ""


def _segments_of(
    steps: NDArray[np.bool_], stamps: NDArray[np.float64], duration: float
) -> Iterator[SourceSegment]:
    for start, stop in find_runs(steps).tolist():
        yield SourceSegment(
            style=INTERVENTION,
            text=INTERVENTION,
            start_seconds=float(stamps[start]),
            stop_seconds=float(stamps[stop]) if stop < len(stamps) else duration,
            author="person",
        )
