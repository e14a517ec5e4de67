"""Gates of a rubric on one dataset: how often each fails texts that are true, and whether its failure is a veto."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ares.statistics import lower_bound, upper_bound

if TYPE_CHECKING:
    from ares.episode import Json

GradeName = Literal["acceptable", "not_acceptable", "unsure", "error"]
GateState = Literal["proven", "unproven", "informs"]
# The column with the verdicts of gates, from which a grade is derived anew where gates lose their veto.
VERDICTS_COLUMN = "grade_verdicts"
# The bound for checks by code; that for judged criteria is the rubric's.
MAX_FALSE_FAILS_OF_CODE = 0.01
_BY_CODE = "(code)"
# Controls that are true: what the source says of the episode.
_TRUE_KIND = "instruction"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """What a gate made of texts that are true.

    Attributes:
        gate: Id of the criterion, with "(code)" behind it for the checks that code makes of it.
        limit: Bound of its share of false fails, from 0 to 1.
        fails: True texts that it failed.
        texts: True texts that it ruled on.
    """

    gate: str
    limit: float
    fails: int
    texts: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The exact one-sided 95 % bounds of its share of false fails (Clopper and Pearson)."""
        return lower_bound(self.fails, self.texts), upper_bound(self.fails, self.texts)

    @property
    def state(self) -> GateState:
        """Whether its failure is a veto ("proven", "unproven") or only informs.

        It informs where the lower bound is above the limit, and where the upper bound is above the limit although so
        many texts without a false fail would have proven it. With fewer texts the rubric's word holds: it is a veto.
        """
        low, high = self.bounds
        if high <= self.limit:
            return "proven"
        is_enough = upper_bound(0, self.texts) <= self.limit
        return "informs" if is_enough or low > self.limit else "unproven"

    def to_json(self) -> dict[str, Json]:
        """The record with its bounds and its state."""
        return {
            "gate": self.gate,
            "limit": self.limit,
            "fails": self.fails,
            "texts": self.texts,
            "bounds": [round(bound, 4) for bound in self.bounds],
            "state": self.state,
        }


@dataclass(frozen=True)
class Gates:
    """The gates of a judge on one dataset.

    Attributes:
        states: State by gate; a gate that is not named is a veto.
    """

    states: Mapping[str, str]

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Gates:
        """The gates in `JudgeTrust.to_json`; none are named in a document of an older version."""
        return Gates({record["gate"]: record["state"] for record in document.get("gates", ())})

    @cached_property
    def informing(self) -> frozenset[str]:
        """Gates whose failure is no veto."""
        return frozenset(gate for gate, state in self.states.items() if state == "informs")

    def grade(self, text: str) -> GradeName:
        """The grade that follows from the verdicts of gates, as `gates_text` gives them.

        A gate that only informs is left out. A failed check by code that only informs leaves its criterion "UNSURE"
        where a judge could rule on it, because the judge was not asked.
        """
        verdicts = []
        for gate, verdict in _verdicts(text):
            criterion = gate.removesuffix(_BY_CODE)
            if gate not in self.informing:
                verdicts.append(verdict)
            elif gate != criterion and criterion in self.states:
                verdicts.append("UNSURE" if verdict == "UNMET" else verdict)
        return decide_grade(verdicts)


def decide_grade(verdicts: Iterable[str]) -> GradeName:
    """The grade that follows from the verdicts of gates; those that do not apply ("NA") count nothing."""
    applicable = {verdict for verdict in verdicts if verdict != "NA"}
    if "UNMET" in applicable:
        return "not_acceptable"
    if "ERROR" in applicable:
        return "error"
    return "acceptable" if applicable == {"MET"} else "unsure"


def gates_text(rulings: Iterable[tuple[str, str, str]]) -> str:
    """The verdicts of gates as one text ("VERB=MET OBJECT=UNMET(code)"), from criterion, verdict and source of each."""
    return " ".join(
        f"{criterion}={verdict}{_BY_CODE if source == 'hard' else ''}"
        for criterion, verdict, source in rulings
    )


def _verdicts(text: str) -> list[tuple[str, str]]:
    """Gates and verdicts in a text of `gates_text`."""
    pairs = (part.split("=", 1) for part in text.split())
    return [
        (f"{criterion}{_BY_CODE if verdict.endswith(_BY_CODE) else ''}", verdict.removesuffix(_BY_CODE))
        for criterion, verdict in pairs
    ]


def measure_gates(values: Sequence[Mapping[str, Json]]) -> tuple[GateRecord, ...]:
    """Count the false fails of gates in the values of control annotations, which name the gates in "gates".

    An instruction is true of its episode. What it says of the outcome is known only where the source states it, and
    OUTCOME is counted there alone.
    """
    documents = next((value["gates"] for value in values if value.get("gates")), [])
    gates = [gate for gate in documents if isinstance(gate, dict)] if isinstance(documents, list) else []
    rows = [row for value in values for row in _true_rows(value)]
    return tuple(_measure_gate(gate, rows) for gate in gates)


def _true_rows(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in value.get("gradings", ()) if row["kind"] == _TRUE_KIND and row.get("gates")]


def _measure_gate(gate: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> GateRecord:
    name = str(gate["gate"])
    known = [row for row in rows if row.get("known_outcome") or not gate.get("needs_outcome")]
    rulings = [ruling for ruling in (_ruling_of(name, row["gates"]) for row in known) if ruling is not None]
    return GateRecord(gate=name, limit=float(gate["limit"]), fails=sum(rulings), texts=len(rulings))


def _ruling_of(gate: str, text: str) -> bool | None:
    """Whether a gate failed a text; None where it did not rule on it."""
    criterion = gate.removesuffix(_BY_CODE)
    for by, verdict in _verdicts(text):
        if by.removesuffix(_BY_CODE) != criterion:
            continue
        is_code = by != criterion
        if gate == criterion:
            return None if is_code or verdict not in ("MET", "UNMET", "UNSURE") else verdict == "UNMET"
        # A text that goes on to the judge has passed the checks.
        return None if is_code and verdict == "UNSURE" else is_code and verdict == "UNMET"
    return None
