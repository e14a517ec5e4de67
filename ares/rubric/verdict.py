"""Verdicts on single criteria, and their aggregation into the grade of a caption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from ares.annotation import Column
from ares.rubric.gate_verdicts import (
    PEOPLE_SAY_SO,
    VERDICTS_COLUMN,
    GradeName,
    decide_grade_from_gates,
    format_gate_verdicts,
)
from ares.rubric.slots import COMPLETED, NOT_COMPLETED
from ares.store import read_rulings

if TYPE_CHECKING:
    from ares.episode import Json


Category = Literal["essential", "important", "optional", "pitfall"]

REFUTED_COLUMN, GRADE_TIME_COLUMN = "grade_refuted", "grade_time"
# What an annotation with rulings on a caption adds to the episode whose caption it is: ares/store/sync/apply.py fills
# these columns from the log, and app/dashboard/cached_reads.py reads them for the cards.
GRADE_COLUMNS = (
    Column(
        name="acceptable",
        type="bool",
        meaning="Whether the caption is true; empty if undecided, or by a judge that is refuted.",
        needs_current_maker=True,
    ),
    Column(
        name="grade",
        type="string",
        meaning="What the rubric makes of the caption.",
        choices=("acceptable", "not_acceptable", "unsure", "error"),
    ),
    Column(
        name="grade_score",
        type="float64",
        meaning="Weighted share of criteria met, 0 to 1; for ranking only.",
    ),
    Column(
        name="grade_margin",
        type="float64",
        meaning="How sure the least sure ruling is that decides the grade, 0 to 1.",
    ),
    Column(
        name=REFUTED_COLUMN,
        type="bool",
        meaning="True where false captions that the judge accepted refute it, so that the grade does not count.",
    ),
    Column(
        name=GRADE_TIME_COLUMN,
        type="float64",
        meaning="When the grade was made, in seconds since 1970.",
    ),
    Column(
        name=VERDICTS_COLUMN,
        type="string",
        meaning="Verdicts on the criteria that decide the grade, (code) behind those of checks.",
    ),
)
# Columns of the verdicts on single criteria: Lance takes no dot in a name, and `grade` is a column itself.
_VERDICT_PREFIX = "grade_"
# Criteria whose columns would be others of grades.
RESERVED_CRITERIA = frozenset(
    {"SCORE", "REFUTED", "TIME", "STALE", "MAKER", "SPLIT", "VERDICTS", "MARGIN", "ACCEPTABLE", "TRUST"}
)
# Categories of what people say under the name of no criterion: of a caption as a whole, and of how its episode ended.
WHOLE, EPISODE_OUTCOME = "whole", "episode outcome"
# Weights of Rubrics as Rewards (arXiv 2507.17746); pitfalls are phrased so that MET is good.
WEIGHTS: dict[Category, float] = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}
GATES: tuple[Category, ...] = ("essential", "pitfall")


class Verdict(StrEnum):
    """Possible verdicts of a judge; any other reply is ERROR."""

    MET = "MET"
    UNMET = "UNMET"
    UNSURE = "UNSURE"
    NA = "NA"
    ERROR = "ERROR"


def verdict_column(criterion: str, meaning: str) -> Column:
    """The filter column of the verdicts on a criterion, such as `grade_verb` for VERB.

    Args:
        criterion: Its id.
        meaning: The condition for MET.
    """
    choices = tuple(verdict.value for verdict in Verdict)
    return Column(name=_column_name(criterion), type="string", meaning=meaning, choices=choices)


def _column_name(criterion: str) -> str:
    return f"{_VERDICT_PREFIX}{criterion.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """One verdict on one criterion, with its evidence.

    Attributes:
        criterion: Id of the criterion.
        verdict: The verdict.
        source: Code ("hard"), what was observed before anything was known of a caption ("observation"), a model of
            texts that compared two values ("comparison"), a blind choice or question with the frames ("choice"), one
            among given phrases ("probe"), the outcome that the source or another annotation states ("stored"), the
            votes of several judges ("panel"), or a person.
        slot: What of the caption it is about; "" for its whole.
        claimed: What the caption states in that slot.
        observed: What was seen, in the words of the judge or the check.
        evidence: Times of the frames used, in seconds.
        judge: Portable name of the model, or "" for code.
        reason: The reason, from a small set of phrases that can be counted.
        reply: The unchanged reply of the model, for a choice.
        margin: How sure the ruling is, 0 to 1: what the model says of its observation or choice, 1 for code and labels.
        contested: Why the frames were asked although there was an observation; "" where they were not.
    """

    criterion: str
    verdict: Verdict
    source: Literal["hard", "probe", "observation", "comparison", "choice", "stored", "panel", "person"]
    slot: str = ""
    claimed: str = ""
    observed: str = ""
    evidence: tuple[float, ...] = ()
    judge: str = ""
    reason: str = ""
    reply: str = ""
    margin: float = 1.0
    contested: str = ""

    def to_json(self) -> dict[str, Json]:
        """The ruling as stored JSON."""
        document = asdict(self)
        document |= {"verdict": self.verdict.value, "evidence": list(self.evidence)}
        return {name: value for name, value in document.items() if value or name != "contested"}


def make_grade_value(rulings: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The grade that follows from the rulings on all criteria of a rubric, as the value of an annotation.

    A gate (essential criterion or pitfall) that is UNMET makes the caption not acceptable. Otherwise a gate in
    ERROR makes it "error" and a gate in doubt "unsure". It is acceptable when every gate that applies is MET and
    at least one applies.

    Args:
        rulings: One per criterion, as stored: `Ruling.to_json` and the "category" of the criterion.

    Returns:
        grade, acceptable (None for "unsure" and "error"), grade_score (the weighted share of MET over the criteria
        that apply, None where none does), grade_margin, the verdict on each criterion under the name of its column,
        grade_verdicts, the rulings themselves, and "why": the grade in one sentence.

    Raises:
        ValueError: A criterion has several rulings, or a ruling lacks its criterion, verdict or category, or has an
            unknown one.
    """
    names = [_ruling_field(ruling, "criterion") for ruling in rulings]
    if len({*names}) < len(names):
        raise ValueError(f"one ruling per criterion is needed, but got {sorted(names)}")
    categories = [_check_category(_ruling_field(ruling, "category")) for ruling in rulings]
    verdicts = [Verdict(_ruling_field(ruling, "verdict")) for ruling in rulings]
    gates = [
        (name, verdict.value, str(ruling.get("source", "")), str(ruling.get("reason", "")))
        for name, verdict, category, ruling in zip(names, verdicts, categories, rulings, strict=True)
        if category in GATES
    ]
    grade = decide_grade_from_gates(verdict for _, verdict, _, _ in gates)
    return {
        "grade": grade,
        "acceptable": _ACCEPTABLE.get(grade),
        "grade_score": _weighted_score(categories, verdicts),
        "grade_margin": min(map(_margin_of, filter(_is_decided_gate, rulings)), default=None),
        **{_column_name(name): verdict.value for name, verdict in zip(names, verdicts, strict=True)},
        VERDICTS_COLUMN: format_gate_verdicts(gates),
        "rulings": [dict(ruling) for ruling in rulings],
        "why": explain_grade(grade, rulings),
    }


# The others decide nothing.
_ACCEPTABLE: Mapping[GradeName, bool] = {"acceptable": True, "not_acceptable": False}


def _weighted_score(categories: Sequence[Category], verdicts: Sequence[Verdict]) -> float | None:
    applicable = [
        (WEIGHTS[category], verdict)
        for category, verdict in zip(categories, verdicts, strict=True)
        if verdict is not Verdict.NA
    ]
    total = sum(weight for weight, _ in applicable)
    met = sum(weight for weight, verdict in applicable if verdict is Verdict.MET)
    return round(met / total, 6) if total else None


def _is_decided_gate(ruling: Mapping[str, Json]) -> bool:
    return ruling["category"] in GATES and ruling["verdict"] in (Verdict.MET, Verdict.UNMET)


def _margin_of(ruling: Mapping[str, Json]) -> float:
    margin = ruling.get("margin")
    return float(margin) if isinstance(margin, int | float) else 1.0


# The verdict on a gate that each grade rests on.
_DECISIVE: Mapping[GradeName, tuple[str, str]] = {
    "not_acceptable": ("UNMET", "refused"),
    "error": ("ERROR", "no grade"),
    "unsure": ("UNSURE", "unsure"),
}


def explain_grade(grade: GradeName, rulings: Sequence[Mapping[str, Json]]) -> str:
    """The grade in one sentence: what it rests on, and what would settle a doubt.

    Args:
        grade: The grade.
        rulings: The rulings that it follows from, as stored.
    """
    if grade == "acceptable":
        decided = [ruling for ruling in rulings if _is_decided_gate(ruling)]
        least = min(decided, key=_margin_of)
        return (
            f"acceptable: {len(decided)} criteria that decide are met; the least sure is {least['criterion']}"
            f" ({_margin_of(least):.2f})"
        )
    verdict, word = _DECISIVE[grade]
    gates = [ruling for ruling in rulings if ruling["category"] in GATES and ruling["verdict"] == verdict]
    # What was not asked because of another criterion explains nothing.
    gates.sort(key=lambda ruling: str(ruling.get("reason", "")).startswith("not asked"))
    if not gates:
        return f"{word}: no criterion that decides applies"
    first, *rest = gates
    others = f", and {len(rest)} more" if rest and grade != "not_acceptable" else ""
    return f"{word} because {first['criterion']}: {_explain_ruling(first, _thing_of(rulings))}{others}"


def _explain_ruling(ruling: Mapping[str, Json], thing: str) -> str:
    claimed, observed = str(ruling.get("claimed") or ""), str(ruling.get("observed") or "")
    evidence = ruling.get("evidence")
    seconds = [f"{float(str(second)):.1f} s" for second in evidence] if isinstance(evidence, list) else []
    frames = f" (frames {', '.join(seconds)})" if seconds else ""
    reason = str(ruling.get("reason") or "no reason is stored")
    source = ruling.get("source")
    if source not in ("observation", "comparison", "choice", "stored", "probe"):
        return reason + (f" ({observed})" if observed and observed not in reason else "")
    if ruling["verdict"] == Verdict.UNMET and claimed and observed:
        shown = "the source says" if source == "stored" else "the frames show"
        return f"the caption says {claimed!r}, but {shown} {observed!r}{frames}"
    if ruling["verdict"] == Verdict.UNSURE and source in ("observation", "choice") and observed:
        settled = f"a camera that shows {thing}, or a person, would settle it"
        return f"the observation says {observed!r}{frames}, and {reason}; {settled}"
    return f"{reason}{frames}"


def _thing_of(rulings: Sequence[Mapping[str, Json]]) -> str:
    """What a caption is about, for people."""
    things = (str(ruling.get("claimed") or "") for ruling in rulings if ruling.get("slot") == "object")
    return next((f"the {thing.removeprefix('the ')}" for thing in things if thing), "it")


# A grade by a rubric of an earlier version, which has no sentence for it, in one line.
OLDER_GRADE = (
    "{grade} by an earlier rubric ({rubric} {rubric_version}); "
    "what grading again costs: `ares annotate grade --dry-run`"
)


def correct_grade(value: Mapping[str, Json], corrections: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The grade of a caption with the rulings of people in place of those of its judge.

    Args:
        value: Value of the judge's annotation; without "rulings" the caption was not judged, and people can refuse it
            but not accept it, because they have not ruled on all criteria.
        corrections: Rulings of people, the newest last; they need criterion, verdict and category. One of the category
            `WHOLE` is of the caption itself: it decides, unless a criterion was refuted or doubted after it. One of
            the category `EPISODE_OUTCOME` has "success" and "judge": it rules on what the caption says of the outcome.

    Raises:
        ValueError: A ruling lacks its criterion, verdict or category, or has an unknown one.
    """
    wholes = [number for number, ruling in enumerate(corrections) if ruling.get("category") == WHOLE]
    corrected = _correct_criteria(value, [item for item in corrections if item.get("category") != WHOLE])
    later = corrections[wholes[-1] + 1 :] if wholes else ()
    if not wholes or any(_decides_against(ruling) for ruling in later):
        return corrected
    return corrected | _decide_whole(corrections[wholes[-1]])


def _decides_against(ruling: Mapping[str, Json]) -> bool:
    return ruling.get("category") in GATES and ruling.get("verdict") != Verdict.MET


def _decide_whole(ruling: Mapping[str, Json]) -> dict[str, Json]:
    """What a grade becomes by the word of a person on the caption as a whole."""
    verdict = Verdict(_ruling_field(ruling, "verdict"))
    grade = decide_grade_from_gates([verdict])
    gate = (_ruling_field(ruling, "criterion"), verdict.value, "person", "")
    reason = str(ruling.get("reason") or "no reason is stored")
    return {
        "grade": grade,
        "acceptable": _ACCEPTABLE.get(grade),
        VERDICTS_COLUMN: format_gate_verdicts([gate]),
        "why": f"{grade.replace('_', ' ')}, as {ruling.get('judge') or 'a person'} says: {reason}",
    }


def _correct_criteria(
    value: Mapping[str, Json], corrections: Sequence[Mapping[str, Json]]
) -> dict[str, Json]:
    rulings = read_rulings(value)
    by_criterion: dict[str, dict[str, Json]] = {}
    outcomes = [ruling for item in corrections for ruling in _rule_by_outcome(item, rulings)]
    others = (item for item in corrections if item.get("category") != EPISODE_OUTCOME)
    for ruling in (*rulings, *outcomes, *others):
        name = _ruling_field(ruling, "criterion")
        by_criterion[name] = {**by_criterion.get(name, {}), **ruling}
    corrected = make_grade_value(list(by_criterion.values()))
    if not rulings and corrected["grade"] == "acceptable":
        why = "unsure: no judge has ruled on the other criteria"
        corrected |= {"grade": "unsure", "acceptable": None, "why": why}
    return corrected


def _rule_by_outcome(
    correction: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]
) -> Iterator[dict[str, Json]]:
    """The rulings on what a caption says of the outcome, where a person says how its episode ended."""
    if correction.get("category") == EPISODE_OUTCOME:
        observed = COMPLETED if correction["success"] else NOT_COMPLETED
        for ruling in rulings:
            claimed = ruling.get("claimed")
            if ruling.get("slot") == "outcome" and claimed in (COMPLETED, NOT_COMPLETED):
                verdict = Verdict.MET if claimed == observed else Verdict.UNMET
                stated = Ruling(
                    criterion=_ruling_field(ruling, "criterion"),
                    verdict=verdict,
                    source="person",
                    slot="outcome",
                    claimed=str(claimed),
                    observed=observed,
                    judge=str(correction["judge"]),
                    reason=PEOPLE_SAY_SO,
                )
                yield {**stated.to_json(), "category": ruling.get("category")}


def _ruling_field(ruling: Mapping[str, Json], name: str) -> str:
    if name not in ruling:
        raise ValueError(f"a ruling has no {name}, but {', '.join(ruling) or 'nothing'}")
    return str(ruling[name])


def _check_category(name: object) -> Category:
    if name not in WEIGHTS:
        raise ValueError(f"no category {name!r}; there are: {', '.join(WEIGHTS)}")
    return name
