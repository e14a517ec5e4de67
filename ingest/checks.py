"""Checks the data of an episode: cameras, timestamps, signals and text; each finding has a reason and a second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Column, Maker
from ares.episode import TOPIC_KINDS, Episode, Json, Record, Signal, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# An interval between steps longer than this many medians is a gap.
_GAP_FACTOR = 3.0
# An action that has its own extreme value in at least this share of the steps is saturated.
_SATURATED_SHARE = 0.5
_FEW_STEPS = 10
_PLACEHOLDER_INSTRUCTIONS = frozenset(
    {"none", "null", "nan", "n/a", "na", "unknown", "unspecified", "test", "task", "valid", "todo"}
)

CHECKER = Maker(
    annotator="quality",
    version="1",
    settings={"gap": _GAP_FACTOR, "saturated_share": _SATURATED_SHARE, "few_steps": _FEW_STEPS},
    columns=(
        Column(name="quality_findings", type="int64", meaning="suspicious things found when it was ingested"),
    ),
)

_CHECKER_ID = CHECKER.maker_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """A suspicious property of an episode.

    Attributes:
        reason: Text by which findings are counted.
        seconds: When it first occurs, from the start of the episode.
    """

    reason: str
    seconds: float = 0.0


def check_record(record: Record) -> tuple[CheckFinding, ...]:
    """All findings about a record; of its pixels only the flags that its ingester set."""
    episode, trajectory = record.episode, record.trajectory
    return (
        *_check_cameras(episode),
        *_check_timestamps(trajectory.timestamps, episode.rate_hz),
        *_check_signals(trajectory),
        *_check_instruction(episode),
    )


def findings_annotation(episode: Episode, findings: tuple[CheckFinding, ...], created: str) -> Annotation:
    """The annotation that records the findings about an episode.

    Args:
        episode: The episode that was checked.
        findings: What was found; may be empty.
        created: When, as ISO 8601 in UTC.
    """
    documents: list[Json] = [{"reason": finding.reason, "seconds": finding.seconds} for finding in findings]
    return Annotation(
        episode_id=episode.episode_id,
        name=CHECKER.annotator,
        value={"findings": documents, "quality_findings": len(findings)},
        maker_id=_CHECKER_ID,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created=created,
    )


def _check_cameras(episode: Episode) -> Iterator[CheckFinding]:
    if episode.num_steps <= 1:
        yield CheckFinding(reason="episode has one step")
    for camera in episode.cameras:
        for flag in camera.flags:
            yield CheckFinding(reason=f"camera {camera.name} is {flag}")
        if camera.media.kind in TOPIC_KINDS:
            continue  # topics have clocks of their own; their ingester warns of gaps
        # A recorder may drop the very first or last frame of a video; a TFRecord holds one image a step.
        tolerance = 1 if camera.media.kind == "mp4" else 0
        if abs(camera.media.num_frames - episode.num_steps) > tolerance:
            shorter = min(camera.media.num_frames, episode.num_steps)
            yield CheckFinding(
                reason=f"camera {camera.name} has not one frame for each step",
                seconds=shorter / episode.rate_hz,
            )


def _check_timestamps(timestamps: NDArray[np.float64], rate_hz: float) -> Iterator[CheckFinding]:
    import numpy as np

    if len(timestamps) < 2:
        return
    intervals = np.diff(timestamps)
    shortest = intervals.min()
    if shortest > 0 and intervals.max() <= _GAP_FACTOR * shortest:
        return  # the usual case, without the slow median
    not_increasing = np.flatnonzero(~(intervals > 0))
    if len(not_increasing):
        yield CheckFinding(
            reason="timestamps do not increase", seconds=_finite_or_zero(timestamps[not_increasing[0]])
        )
    median = float(np.median(intervals[intervals > 0])) if (intervals > 0).any() else 1.0 / rate_hz
    gaps = np.flatnonzero(intervals > _GAP_FACTOR * median)
    if len(gaps):
        yield CheckFinding(reason="timestamps have a gap", seconds=_finite_or_zero(timestamps[gaps[0]]))


def _finite_or_zero(second: float) -> float:
    return float(second) if second == second and abs(second) != float("inf") else 0.0


def _check_signals(trajectory: Trajectory) -> Iterator[CheckFinding]:
    signals = (("state", trajectory.state), ("action", trajectory.action))
    for name, signal in signals:
        if signal is not None and len(signal.values):
            yield from _check_signal(name, signal, trajectory.timestamps)


def _check_signal(name: str, signal: Signal, timestamps: NDArray[np.float64]) -> Iterator[CheckFinding]:
    import numpy as np

    values = signal.values
    if not np.isfinite(values).all():
        not_finite = np.flatnonzero(~np.isfinite(values).all(axis=1))
        yield CheckFinding(reason=f"{name} is not finite", seconds=_finite_or_zero(timestamps[not_finite[0]]))
        return
    if len(values) < _FEW_STEPS:
        return
    if (values == values[0]).all():
        yield CheckFinding(reason=f"{name} never changes")
    elif name == "action":
        yield from _check_saturation(signal, timestamps)


def _check_saturation(signal: Signal, timestamps: NDArray[np.float64]) -> Iterator[CheckFinding]:
    import numpy as np

    magnitude = np.abs(signal.values)
    shares = (magnitude == magnitude.max(axis=0)).mean(axis=0)
    for dim in np.flatnonzero(shares >= _SATURATED_SHARE):
        name, column = signal.names[dim], signal.values[:, dim]
        # Two values are a switch, one value is an unused dimension, and a gripper is often at its limits.
        if "gripper" not in name and len(np.unique(column)) > 2:
            first = int(np.argmax(magnitude[:, dim]))
            yield CheckFinding(
                reason=f"action {name} is saturated", seconds=_finite_or_zero(timestamps[first])
            )


def _check_instruction(episode: Episode) -> Iterator[CheckFinding]:
    text = episode.instruction.strip().lower()
    if not text:
        yield CheckFinding(reason="there is no instruction")
    elif text in _PLACEHOLDER_INSTRUCTIONS or not re.search(r"[^\W\d_]{2}", text):
        yield CheckFinding(reason="instruction says nothing")
