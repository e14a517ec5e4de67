"""The verdicts of gates as one text, such as "VERB=MET OBJECT=UNMET(code)", and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ares.store import read_rulings

GradeName = Literal["acceptable", "not_acceptable", "unsure", "error"]
# The column with the verdicts of gates.
VERDICTS_COLUMN = "grade_verdicts"
# Reasons of a ruling that rests on the outcome that the source records, or that people say: no judge decides it.
SOURCE_SAYS_SO, PEOPLE_SAY_SO = "the source says so", "people say how the episode ended"
_BY_CODE, _BY_LABEL, _BY_PERSON = "(code)", "(label)", "(person)"


def decide_grade_from_gates(verdicts: Iterable[str]) -> GradeName:
    """The grade that follows from the verdicts of gates; those that do not apply ("NA") count nothing."""
    applicable = {verdict for verdict in verdicts if verdict != "NA"}
    if "UNMET" in applicable:
        return "not_acceptable"
    if "ERROR" in applicable:
        return "error"
    return "acceptable" if applicable == {"MET"} else "unsure"


def format_gate_verdicts(rulings: Iterable[tuple[str, str, str, str]]) -> str:
    """The verdicts of gates as one text, such as "VERB=MET OBJECT=UNMET(code) OUTCOME=MET(label)".

    Args:
        rulings: Criterion, verdict, source and reason of each.
    """
    return " ".join(
        f"{criterion}={verdict}{_source_suffix(source, reason)}"
        for criterion, verdict, source, reason in rulings
    )


def _source_suffix(source: str, reason: str) -> str:
    if source in ("hard", "person"):
        return _BY_CODE if source == "hard" else _BY_PERSON
    return _BY_LABEL if source == "stored" and reason in (SOURCE_SAYS_SO, PEOPLE_SAY_SO) else ""


class GateVerdict(NamedTuple):
    """The verdict on one gate, and who gave it: "(code)", "(label)" of the source, "(person)", or "" for the judge."""

    gate: str
    verdict: str
    by: str


@lru_cache(maxsize=20_000)
def parse_gate_verdicts(text: str) -> tuple[GateVerdict, ...]:
    """Gates and verdicts in a text of `format_gate_verdicts`; few texts are different."""
    pairs = [part.partition("=")[::2] for part in text.split()]
    return tuple(
        GateVerdict(gate, verdict.partition("(")[0], "".join(verdict.partition("(")[1:]))
        for gate, verdict in pairs
    )


def rests_on_people(text: str) -> bool:
    """Whether no judge is needed: a person refuses the caption, or people, code and the source decide on all gates.

    Args:
        text: The verdicts on its gates, see `format_gate_verdicts`.
    """
    applicable = [verdict for verdict in parse_gate_verdicts(text) if verdict.verdict != "NA"]
    by_people = [verdict for verdict in applicable if verdict.by == _BY_PERSON]
    if any(verdict.verdict == "UNMET" for verdict in by_people):
        return True
    return bool(by_people) and all(verdict.by for verdict in applicable)


def names_people(value: Mapping[str, Any]) -> bool:
    """Whether the value of a grade says that people gave some of its verdicts: only their own annotations may."""
    sources = [ruling["source"] for ruling in read_rulings(value)]
    return "person" in sources or _BY_PERSON in str(value.get(VERDICTS_COLUMN, ""))
