"""The ticks on the timeline of the player: grippers that open or close, and moments that rulings refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ares.contract import DatasetKey, MeaningContract, SignalName, read_contracts
from ares.episode import Episode, Json, Signal, Trajectory
from ares.signals import DimensionKind, classify_by_name

if TYPE_CHECKING:
    from annotators.motion import GripperChange
    from ares.store import Stores


# Seconds that a ruling gives for all of an episode are the frames that the judge was shown.
_LEAST_GRID = 4
_UNEVEN = 0.02


def make_timeline_ticks(
    stores: Stores, episode: Episode, trajectory: Trajectory, captions: Sequence[Mapping[str, Any]]
) -> list[Json]:
    """Events and evidence in order of time.

    Args:
        stores: Stores of the workspace; the contract of the dataset says which end of a gripper is open.
        episode: The episode.
        trajectory: Its signals.
        captions: Captions with their grades, see `read_annotations`.

    Returns:
        Objects with `seconds`, `label` and `kind`: "opens", "closes", "changes" (where nobody says which end is
        open) or "evidence".
    """
    key = DatasetKey(episode.format, episode.dataset, episode.version)
    names = [signal.names if signal else () for signal in (trajectory.state, trajectory.action)]
    contract = read_contracts(stores.annotations, key).of_layout(*names)
    ticks = [
        *make_gripper_ticks(trajectory, contract),
        *make_ruling_ticks(captions, episode.duration_seconds),
    ]
    ticks.sort(key=lambda tick: float(str(tick["seconds"])))
    return list[Json](ticks)


def make_gripper_ticks(trajectory: Trajectory, contract: MeaningContract | None) -> list[dict[str, Json]]:
    """Grippers and hands that open or close, by the state, or by the action where the state has none."""
    from annotators.motion import find_gripper_events

    signals: list[tuple[SignalName, Signal | None]] = [
        ("state", trajectory.state),
        ("action", trajectory.action),
    ]
    ends: tuple[DimensionKind, ...] = ("gripper", "hand")
    for name, signal in signals:
        kinds = classify_by_name(signal.names) if signal else ()
        if signal is None or not set(ends) & set(kinds):
            continue
        return [
            {
                "seconds": float(trajectory.timestamps[change.step]),
                "kind": _gripper_direction(contract, name, change),
                "label": f"{end}: {signal.names[change.number]} {'rises' if change.rises else 'falls'}",
            }
            for end in ends
            for change in find_gripper_events(signal, kinds, end)
        ]
    return []


def _gripper_direction(contract: MeaningContract | None, name: SignalName, change: GripperChange) -> str:
    """ "opens", "closes", or "changes" where the contract does not say which end is open."""
    for part in contract.signals if contract else ():
        if part.signal == name and change.number in part.numbers:
            convention = part.estimate("gripper").value
            if convention in ("high is open", "high is closed"):
                return "opens" if (convention == "high is open") == change.rises else "closes"
    return "changes"


def make_ruling_ticks(
    captions: Sequence[Mapping[str, Any]], duration_seconds: float
) -> list[dict[str, Json]]:
    """Seconds that rulings of the newest grade of the first caption refer to, each with its criteria and verdicts.

    A ruling that refers to evenly spaced seconds over most of the episode has no moment as evidence: these are the
    frames that the judge was shown.
    """
    labels: dict[float, list[str]] = {}
    # A ruling of a person has no grade; the frames that a judge saw stay its evidence.
    grades = [
        grade
        for caption in captions[:1]
        for grade in caption["grades"]
        if grade["groups"] and grade.get("grade") != ""
    ]
    pairs = [
        (group, ruling) for grade in grades[:1] for group in grade["groups"] for ruling in group["rulings"]
    ]
    for group, ruling in pairs:
        seconds = sorted(set(ruling["seconds"] or group["seconds"]))
        if is_evenly_sampled(seconds, duration_seconds):
            continue
        for second in seconds:
            labels.setdefault(second, []).append(f"{ruling['criterion']} {ruling['verdict']}")
    return [
        {"seconds": second, "kind": "evidence", "label": ", ".join(texts)}
        for second, texts in sorted(labels.items())
    ]


def is_evenly_sampled(seconds: Sequence[float], duration_seconds: float) -> bool:
    """Whether sorted seconds are evenly spaced over at least half of an episode."""
    gaps = [after - before for before, after in pairwise(seconds)]
    if len(seconds) < _LEAST_GRID or seconds[-1] - seconds[0] < duration_seconds / 2:
        return False
    return max(gaps) - min(gaps) <= max(_UNEVEN * duration_seconds, 1e-6)
