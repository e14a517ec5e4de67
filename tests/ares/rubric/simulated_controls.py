"""Gradings of controls as a judge of known error rates would give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SLOT_GATES = {"action": "VERB", "object": "OBJECT", "attributes": "ATTRIBUTES", "to": "DESTINATION"}
GATES = [
    *({"gate": gate, "slot": slot} for slot, gate in SLOT_GATES.items()),
    {"gate": "OUTCOME", "slot": "outcome"},
]
KINDS = ("foreign", "injected", "blank", "scrambled", "near_miss", "outcome")


@dataclass(frozen=True)
class SimulatedJudge:
    """How often a judge accepts what it must not, by kind or "near_miss:SLOT"; 0 where nothing is named.

    Attributes:
        rates: Share accepted by kind.
    """

    rates: Mapping[str, float] = field(default_factory=dict)

    def rate(self, kind: str) -> float:
        """The rate of a kind."""
        return self.rates.get(kind, self.rates.get(kind.partition(":")[0], 0.0))


def simulate_controls(
    judge: SimulatedJudge, captions: int, seed: int, *, foreign: int = 2, is_labelled: bool = True
) -> list[dict[str, Any]]:
    """Values of control annotations, one caption an episode; every other episode fails where outcomes are recorded."""
    random = np.random.default_rng(seed)
    return [
        _control_value(judge, random, foreign, number % 2 == 1 if is_labelled else None)
        for number in range(captions)
    ]


def _control_value(
    judge: SimulatedJudge, random: np.random.Generator, foreign: int, succeeds: bool | None
) -> dict[str, Any]:
    verdicts = {gate["gate"]: "MET" for gate in GATES}
    rows = [{"kind": "own", "grade": "acceptable", "gates": _format(verdicts)}]
    for kind, count in (("foreign", foreign), ("injected", 1), ("blank", 1), ("scrambled", 1)):
        rate = judge.rate(kind)
        rows += [_row(kind, bool(random.random() < rate), verdicts, "OBJECT") for _ in range(count)]
    for slot, gate in SLOT_GATES.items():
        accepted = bool(random.random() < judge.rate(f"near_miss:{slot}"))
        rows.append({**_row("near_miss", accepted, verdicts, gate), "slot": slot})
    if succeeds is not None:
        claim = "not completed" if succeeds else "completed"
        accepted = bool(random.random() < judge.rate(f"outcome:{claim}"))
        rows.append({**_row("outcome", accepted, verdicts, "OUTCOME"), "claim": claim})
    return {"gradings": rows, "gates": GATES}


def _row(kind: str, is_accepted: bool, verdicts: Mapping[str, str], refusing: str) -> dict[str, Any]:
    own = dict(verdicts) if is_accepted else {**verdicts, refusing: "UNMET"}
    grade = "acceptable" if is_accepted else "not_acceptable"
    return {"kind": kind, "grade": grade, "gates": _format(own), "known_false": True, "calls": 1}


def _format(verdicts: Mapping[str, str]) -> str:
    return " ".join(f"{gate}={verdict}" for gate, verdict in verdicts.items())
