"""Chances that a tripwire refutes a judge, exactly: sums over all that its controls may come to, no draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from ares.rubric import BATTERY, CAPTIONS_PER_CONTROL
from ares.rubric.tripwire import ControlGrading, decide_tripwire

# More controls than decide: what was before them changes nothing.
_WINDOW = 6


def chance_of_battery(shares: Mapping[str, float]) -> float:
    """The chance that a battery refutes a judge.

    Args:
        shares: Share of the false texts that it accepts, by kind; "all" for the rest.
    """
    passes = 1.0
    for kind, total in BATTERY.items():
        share = shares.get(kind, shares.get("all", 0.0))
        passes *= sum(
            math.comb(total, accepted) * share**accepted * (1 - share) ** (total - accepted)
            for accepted in range(total + 1)
            if not _is_refuted((True,) * accepted + (False,) * (total - accepted), kind)
        )
    return 1 - passes


def chance_of_controls(share: float, captions: int) -> float:
    """The chance that the controls of so many captions after the battery refute a judge.

    Args:
        share: Share of the controls that it accepts.
        captions: The captions.
    """
    # By what became of the last controls, the chance that they are so and have not refuted it.
    states: dict[tuple[bool, ...], float] = {(): 1.0}
    for _ in range(captions // CAPTIONS_PER_CONTROL):
        after: dict[tuple[bool, ...], float] = {}
        for last, chance in states.items():
            for is_accepted, own in ((True, share), (False, 1 - share)):
                state = (*last, is_accepted)[-_WINDOW:]
                if not _is_refuted(state):
                    after[state] = after.get(state, 0.0) + chance * own
        states = after
    return 1 - sum(states.values())


@cache
def _is_refuted(accepted: tuple[bool, ...], battery: str = "") -> bool:
    controls = [
        ControlGrading(battery or "object", is_accepted, bool(battery), float(number))
        for number, is_accepted in enumerate(accepted)
    ]
    return bool(decide_tripwire(controls).reason)


def likely_counts(chance: float, draws: int, doubt: float = 0.001) -> tuple[int, int]:
    """The fewest and the most of some draws that are not unlikely, each side with a doubt."""
    below = [
        math.comb(draws, hits) * chance**hits * (1 - chance) ** (draws - hits) for hits in range(draws + 1)
    ]
    low, high = 0, draws
    while sum(below[: low + 1]) < doubt:
        low += 1
    while sum(below[high:]) < doubt:
        high -= 1
    return low, high


# Of the kinds of drawn judges in `tests.judges.parameters.DRAWN`.
CHANCES: Mapping[str, float] = {
    "five-percent": chance_of_battery({"all": 0.05}),
    "most-places": chance_of_battery({"place": 0.85}),
    "turns-to-most": chance_of_controls(0.8, 150),
}
