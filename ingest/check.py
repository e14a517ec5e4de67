"""Check: what is suspicious about an episode's data, each finding with a reason that can be counted and its second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Column, Maker
from ares.episode import Episode, Json, Record, Signal, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A step that takes more than this many times the usual one is a gap.
_GAP = 3.0
# An action that stands at its own extreme for at least this share of the steps has run into a limit.
_SATURATED_SHARE = 0.5
_FEW_STEPS = 10
_SAYS_NOTHING = frozenset(
    {"none", "null", "nan", "n/a", "na", "unknown", "unspecified", "test", "task", "valid", "todo"}
)

CHECKER = Maker(
    annotator="quality",
    version="1",
    settings={"gap": _GAP, "saturated_share": _SATURATED_SHARE, "few_steps": _FEW_STEPS},
    columns=(
        Column(name="quality_findings", type="int64", meaning="suspicious things found when it was ingested"),
    ),
)

_CHECKER_ID = CHECKER.maker_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One suspicious thing.

    Attributes:
        reason: Countable words.
        seconds: Where it shows first, from the start of the episode.
    """

    reason: str
    seconds: float = 0.0


def check(record: Record) -> tuple[Finding, ...]:
    """Everything suspicious about a record: cameras, clock, signals, text; pixels as far as they were flagged."""
    episode, trajectory = record.episode, record.trajectory
    return (
        *_cameras(episode),
        *_clock(trajectory.timestamps, episode.rate_hz),
        *_signals(trajectory),
        *_text(episode),
    )


def annotation(episode: Episode, findings: tuple[Finding, ...], created: str) -> Annotation:
    """The fact that an episode was checked by the CHECKER, with what was found."""
    listed: list[Json] = [{"reason": one.reason, "seconds": one.seconds} for one in findings]
    return Annotation(
        episode_id=episode.episode_id,
        name=CHECKER.annotator,
        value={"findings": listed, "quality_findings": len(findings)},
        maker_id=_CHECKER_ID,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created=created,
    )


def _cameras(episode: Episode) -> Iterator[Finding]:
    if episode.num_steps <= 1:
        yield Finding(reason="episode has one step")
    for camera in episode.cameras:
        for flag in camera.flags:
            yield Finding(reason=f"camera {camera.name} is {flag}")
        if camera.media.kind == "mcap":
            continue  # topics have clocks of their own; their gaps are told by the ingester
        # A recorder may drop the very first or last frame of a video; a TFRecord holds one image a step.
        slack = 1 if camera.media.kind == "mp4" else 0
        if abs(camera.media.num_frames - episode.num_steps) > slack:
            shorter = min(camera.media.num_frames, episode.num_steps)
            yield Finding(
                reason=f"camera {camera.name} has not one frame for each step",
                seconds=shorter / episode.rate_hz,
            )


def _clock(timestamps: NDArray[np.float64], rate_hz: float) -> Iterator[Finding]:
    import numpy as np

    if len(timestamps) < 2:
        return
    taken = np.diff(timestamps)
    shortest = taken.min()
    if shortest > 0 and taken.max() <= _GAP * shortest:
        return  # as most are, and the median of few numbers takes long
    still = np.flatnonzero(~(taken > 0))
    if len(still):
        yield Finding(reason="timestamps do not increase", seconds=_finite(timestamps[still[0]]))
    usual = float(np.median(taken[taken > 0])) if (taken > 0).any() else 1.0 / rate_hz
    gaps = np.flatnonzero(taken > _GAP * usual)
    if len(gaps):
        yield Finding(reason="timestamps have a gap", seconds=_finite(timestamps[gaps[0]]))


def _finite(second: float) -> float:
    return float(second) if second == second and abs(second) != float("inf") else 0.0


def _signals(trajectory: Trajectory) -> Iterator[Finding]:
    named = (("state", trajectory.state), ("action", trajectory.action))
    for name, signal in named:
        if signal is not None and len(signal.values):
            yield from _signal(name, signal, trajectory.timestamps)


def _signal(name: str, signal: Signal, timestamps: NDArray[np.float64]) -> Iterator[Finding]:
    import numpy as np

    values = signal.values
    if not np.isfinite(values).all():
        broken = np.flatnonzero(~np.isfinite(values).all(axis=1))
        yield Finding(reason=f"{name} is not finite", seconds=_finite(timestamps[broken[0]]))
        return
    if len(values) < _FEW_STEPS:
        return
    if (values == values[0]).all():
        yield Finding(reason=f"{name} never changes")
    elif name == "action":
        yield from _saturated(signal, timestamps)


def _saturated(signal: Signal, timestamps: NDArray[np.float64]) -> Iterator[Finding]:
    import numpy as np

    size = np.abs(signal.values)
    shares = (size == size.max(axis=0)).mean(axis=0)
    for dim in np.flatnonzero(shares >= _SATURATED_SHARE):
        name, column = signal.names[dim], signal.values[:, dim]
        # Two values are a switch, one is a dimension that is not used, and a gripper rests at its limits.
        if "gripper" not in name and len(np.unique(column)) > 2:
            first = int(np.argmax(size[:, dim]))
            yield Finding(reason=f"action {name} is saturated", seconds=_finite(timestamps[first]))


def _text(episode: Episode) -> Iterator[Finding]:
    text = episode.instruction.strip().lower()
    if not text:
        yield Finding(reason="there is no instruction")
    elif text in _SAYS_NOTHING or not re.search(r"[^\W\d_]{2}", text):
        yield Finding(reason="instruction says nothing")
