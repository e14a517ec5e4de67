"""The fault that each check was made to find: its size was committed before the check was written."""

from __future__ import annotations

from typing import NamedTuple


class FaultStrength(NamedTuple):
    """Size of the planted fault by which a check is scored.

    Attributes:
        size: How large it is.
        unit: Its unit, or what is planted.
    """

    size: float
    unit: str

    def __str__(self) -> str:
        return f"{self.size:g} {self.unit}"


STRENGTHS = {
    "A001": FaultStrength(1, "steps"),
    "A002": FaultStrength(0.2, "rad of motion that is lost"),
    "A003": FaultStrength(0.05, "of the steps, 0.05 rad of motion lost"),
    "A004": FaultStrength(0.2, "rad at one step"),
    "A005": FaultStrength(0.02, "rad between neighbouring values"),
    "A006": FaultStrength(0.05, "of the steps cut off"),
    "A007": FaultStrength(1, "jumps by 2 pi"),
    "A009": FaultStrength(0.03, "rad for 0.5 s"),
    "A010": FaultStrength(3, "s"),
    "A011": FaultStrength(3, "s"),
    "A012": FaultStrength(0.2, "s"),
    "A013": FaultStrength(1, "sign"),
    "A014": FaultStrength(2, "times"),
    "A015": FaultStrength(57.2958, "times: degrees among radians"),
    "A016": FaultStrength(0.3, "s missing during motion, stamps numbered through"),
    "A017": FaultStrength(0.2, "s during motion"),
    "A018": FaultStrength(0.1, "of the rate"),
    "A019": FaultStrength(0.3, "rad"),
    "A020": FaultStrength(3, "steps for each value"),
    "A021": FaultStrength(0.5, "of the period"),
    "A022": FaultStrength(1, "sign turned in state and action of half of the episodes"),
    "A023": FaultStrength(1, "sign turned in state and action of half of the episodes"),
    "A030": FaultStrength(0.01, "of the picture's width: deviation of a Gaussian blur, for 1 s"),
    "A031": FaultStrength(2, "stops too much light for 1 s"),
    "A032": FaultStrength(2, "stops too little light for 1 s"),
    "A033": FaultStrength(0.2, "s"),
    "A034": FaultStrength(1, "s during motion"),
    "A035": FaultStrength(0.2, "s during motion"),
    "A036": FaultStrength(0.3, "s missing, by the stamps"),
    "A037": FaultStrength(1, "camera of one episode with red and blue swapped"),
    "A038": FaultStrength(1, "pair of cameras of one episode exchanged"),
    "A039": FaultStrength(
        0.05, "of the bytes of 0.5 s replaced, or blocks of 8 pixels with one colour each for 0.5 s"
    ),
    "A040": FaultStrength(0.5, "s"),
    "A041": FaultStrength(0.2, "s"),
    "A044": FaultStrength(0.5, "of the frames repeated"),
    "A045": FaultStrength(20, "frames after the last episode"),
    "A046": FaultStrength(1, "frame"),
    "A050": FaultStrength(1, "steps"),
    "A051": FaultStrength(1, "steps that are left"),
    "A052": FaultStrength(3, "frames"),
    "A053": FaultStrength(1, "text that is lost"),
    "A054": FaultStrength(1, "text that is replaced"),
    "A055": FaultStrength(86_400, "s between two steps"),
    "A056": FaultStrength(1, "camera that is lost"),
    "A057": FaultStrength(1, "action that is the state of its step"),
    "A060": FaultStrength(1, "column of another dataset"),
    "A061": FaultStrength(1, "part of another layout"),
    "A062": FaultStrength(1, "frame or task too many"),
    "A063": FaultStrength(1, "number"),
    "A064": FaultStrength(1, "task past the list"),
    "A065": FaultStrength(1, "episode"),
}
