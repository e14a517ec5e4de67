"""The ticks on the timeline of the player: events of an episode, where it likely failed, and frames of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ares.contract import DatasetKey, MeaningContract, SignalName, read_contracts
from ares.episode import INTERVENTION, Episode, Json, Signal, Trajectory
from ares.signals import DimensionKind, classify_by_name
from ares_app.dashboard.column_words import code_words

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.motion import GripperChange


# Seconds that a ruling gives for all of an episode are the frames that the judge was shown.
_LEAST_GRID = 4
_UNEVEN = 0.02


def make_timeline_ticks(
    stores: Stores,
    episode: Episode,
    trajectory: Trajectory,
    segments: Sequence[Mapping[str, Any]],
    judged: Mapping[str, Any] | None,
) -> list[Json]:
    """Events and evidence in order of time.

    Args:
        stores: Stores of the workspace; the contract of the dataset says which end of a gripper is open.
        episode: The episode.
        trajectory: Its signals.
        segments: Its segments; those of the kind `intervention` say when a person took over.
        judged: The text that people rule on, with its criteria, see `read_annotations`.

    Returns:
        Objects with `seconds`, `label`, `kind` and `likely`. A kind is "opens", "closes", "changes" (where nobody says
        which end is open), "intervention", "end" or "evidence". Where an episode failed is likely the last event of a
        gripper, a person who took over, or the end.
    """
    key = DatasetKey(episode.format, episode.dataset, episode.version)
    names = [signal.names if signal else () for signal in (trajectory.state, trajectory.action)]
    contract = read_contracts(stores.annotations, key).of_layout(*names)
    grippers = make_gripper_ticks(trajectory, contract)
    grippers.sort(key=lambda tick: float(str(tick["seconds"])))
    if grippers:
        grippers[-1] = {**grippers[-1], "likely": True, "label": f"last {grippers[-1]['label']}"}
    end: dict[str, Json] = {
        "seconds": episode.duration_seconds, "kind": "end", "label": "end", "likely": True
    }  # fmt: skip
    evidence = make_ruling_ticks(judged, episode.duration_seconds)
    starts = sorted({part["start"] for part in segments if part["style"] == INTERVENTION})
    interventions: list[dict[str, Json]] = [
        {"seconds": second, "kind": INTERVENTION, "label": "a person takes over", "likely": True}
        for second in starts
    ]
    ticks = [*grippers, *interventions, *evidence, end]
    ticks.sort(key=lambda tick: float(str(tick["seconds"])))
    return list[Json](ticks)


def find_likely_failure(ticks: Sequence[Json]) -> float:
    """Return where a failed episode is opened: a person took over, else the last event of a gripper, or the end."""
    likely = [tick for tick in ticks if isinstance(tick, dict) and tick.get("likely")]
    likely.sort(key=lambda tick: (tick["kind"] == "end", tick["kind"] != "intervention"))
    return float(str(likely[0]["seconds"]))


def make_gripper_ticks(trajectory: Trajectory, contract: MeaningContract | None) -> list[dict[str, Json]]:
    """Grippers and hands that open or close, by the state, or by the action where the state has none."""
    from ares_annotators.motion import find_gripper_events

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


def make_ruling_ticks(judged: Mapping[str, Any] | None, duration_seconds: float) -> list[dict[str, Json]]:
    """Seconds that rulings on a text refer to, each with its criteria, and no verdict, which a person may change.

    So are those at which its judge saw what the signals contradict.

    A ruling that refers to evenly spaced seconds over most of the episode has no moment as evidence: these are the
    frames that the judge was shown.
    """
    labels: dict[float, list[str]] = {}
    for criterion in judged["criteria"] if judged else ():
        seconds = sorted(set(criterion["seconds"]))
        if not is_evenly_sampled(seconds, duration_seconds):
            for second in seconds:
                labels.setdefault(second, []).append(code_words(criterion["id"]))
    for item in (judged or {}).get("disagreements", ()):
        labels.setdefault(item["seconds"], []).append(item["text"])
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
