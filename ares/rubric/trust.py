"""Decides how far a judge, its gates and a panel's votes are trusted, by texts of known truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.statistics import (
    difference_bounds,
    effective_items,
    share_lower_bound,
    share_upper_bound,
    wilson_interval,
)

if TYPE_CHECKING:
    from ares.episode import Json


# Controls whose right verdict is known, whatever the caption is worth.
_FALSE_CONTROL_KINDS, _TRUE_CONTROL_KINDS = ("foreign", "flipped", "blank", "scrambled"), ("instruction",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelControlErrors:
    """What the controls say of the judges of a panel.

    Attributes:
        errors: Wrong grades by judge, had it judged alone.
        controls: Controls that every judge was asked about and whose right grade is known.
        correlation: Mean correlation of the errors of two judges; None where no two judges erred.
    """

    errors: Mapping[str, int]
    controls: int
    correlation: float | None

    @property
    def effective(self) -> float | None:
        """Number of judges with independent errors that are worth as much (design effect; Kish, Survey Sampling, 1965).

        n / (1 + (n - 1) * correlation), at most n; None where the correlation is not known.
        """
        if self.correlation is None:
            return None
        count = len(self.errors)
        return count / (1 + (count - 1) * max(0.0, self.correlation))

    def to_json(self) -> dict[str, Json]:
        """The numbers as stored JSON."""
        correlation, effective = self.correlation, self.effective
        return {
            "judges": len(self.errors),
            "errors": dict(self.errors),
            "controls": self.controls,
            "error_correlation": None if correlation is None else round(correlation, 4),
            "effective_votes": None if effective is None else round(effective, 2),
        }


def count_panel_control_errors(values: Iterable[Mapping[str, Json]]) -> PanelControlErrors | None:
    """Count the errors of the judges of a panel on its controls; None where no panel has graded them.

    Args:
        values: Values of control annotations; each grading of a panel has the grade of every judge in "grades".
    """
    rows = [errors for value in values for errors in _judge_errors(value)]
    if not rows:
        return None
    judges = sorted(rows[0])
    columns = {judge: [row.get(judge, False) for row in rows] for judge in judges}
    correlations = [
        correlation
        for first, second in combinations(judges, 2)
        if (correlation := _binary_correlation(columns[first], columns[second])) is not None
    ]
    return PanelControlErrors(
        errors={judge: sum(column) for judge, column in columns.items()},
        controls=len(rows),
        correlation=sum(correlations) / len(correlations) if correlations else None,
    )


def describe_votes(document: Mapping[str, Json]) -> str:
    """One line for people about `PanelControlErrors.to_json`."""
    judges, effective = document["judges"], document["effective_votes"]
    if effective is None:
        return f"the errors of {judges} judges cannot be compared yet"
    correlation = document["error_correlation"]
    return f"{judges} judges count as {effective} votes (their errors correlate by {correlation})"


def _judge_errors(value: Mapping[str, Json]) -> list[dict[str, bool]]:
    """Whether each judge erred, of each control of a caption whose right grade is known."""
    members = value.get("gradings")
    rows = [row for row in members if isinstance(row, dict)] if isinstance(members, list) else []
    errors = []
    for row in rows:
        kind, grades = row.get("kind"), row.get("grades")
        is_false = kind in _FALSE_CONTROL_KINDS and bool(row.get("known_false"))
        if isinstance(grades, dict) and (is_false or kind in _TRUE_CONTROL_KINDS):
            errors.append({judge: (grade == "acceptable") == is_false for judge, grade in grades.items()})
    return errors


def _binary_correlation(first: Sequence[bool], second: Sequence[bool]) -> float | None:
    """Pearson's correlation of two binary sequences; None where one of them is constant."""
    count = len(first)
    share, other = sum(first) / count, sum(second) / count
    if share in (0.0, 1.0) or other in (0.0, 1.0):
        return None
    both = sum(a and b for a, b in zip(first, second, strict=True)) / count
    return (both - share * other) / sqrt(share * (1 - share) * other * (1 - other))


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
class GateFalseFailCount:
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
        return share_lower_bound(self.fails, self.texts), share_upper_bound(self.fails, self.texts)

    @property
    def state(self) -> GateState:
        """Whether its failure is a veto ("proven", "unproven") or only informs.

        It informs where the lower bound is above the limit, and where the upper bound is above the limit although so
        many texts without a false fail would have proven it. With fewer texts the rubric's word holds: it is a veto.
        """
        low, high = self.bounds
        if high <= self.limit:
            return "proven"
        is_enough = share_upper_bound(0, self.texts) <= self.limit
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
        """The grade that follows from the verdicts of gates, as `format_gate_verdicts` gives them.

        A gate that only informs is left out. A failed check by code that only informs leaves its criterion "UNSURE"
        where a judge could rule on it, because the judge was not asked.
        """
        verdicts = []
        for gate, verdict in _parse_gate_verdicts(text):
            criterion = gate.removesuffix(_BY_CODE)
            if gate not in self.informing:
                verdicts.append(verdict)
            elif gate != criterion and criterion in self.states:
                verdicts.append("UNSURE" if verdict == "UNMET" else verdict)
        return decide_grade_from_gates(verdicts)


def decide_grade_from_gates(verdicts: Iterable[str]) -> GradeName:
    """The grade that follows from the verdicts of gates; those that do not apply ("NA") count nothing."""
    applicable = {verdict for verdict in verdicts if verdict != "NA"}
    if "UNMET" in applicable:
        return "not_acceptable"
    if "ERROR" in applicable:
        return "error"
    return "acceptable" if applicable == {"MET"} else "unsure"


def format_gate_verdicts(rulings: Iterable[tuple[str, str, str]]) -> str:
    """The verdicts of gates as one text ("VERB=MET OBJECT=UNMET(code)"), from criterion, verdict and source of each."""
    return " ".join(
        f"{criterion}={verdict}{_BY_CODE if source == 'hard' else ''}"
        for criterion, verdict, source in rulings
    )


def _parse_gate_verdicts(text: str) -> list[tuple[str, str]]:
    """Gates and verdicts in a text of `format_gate_verdicts`."""
    pairs = (part.split("=", 1) for part in text.split())
    return [
        (f"{criterion}{_BY_CODE if verdict.endswith(_BY_CODE) else ''}", verdict.removesuffix(_BY_CODE))
        for criterion, verdict in pairs
    ]


def count_gate_false_fails(values: Sequence[Mapping[str, Json]]) -> tuple[GateFalseFailCount, ...]:
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


def _measure_gate(gate: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> GateFalseFailCount:
    name = str(gate["gate"])
    known = [row for row in rows if row.get("known_outcome") or not gate.get("needs_outcome")]
    rulings = [ruling for ruling in (_ruling_of(name, row["gates"]) for row in known) if ruling is not None]
    return GateFalseFailCount(gate=name, limit=float(gate["limit"]), fails=sum(rulings), texts=len(rulings))


def _ruling_of(gate: str, text: str) -> bool | None:
    """Whether a gate failed a text; None where it did not rule on it."""
    criterion = gate.removesuffix(_BY_CODE)
    for by, verdict in _parse_gate_verdicts(text):
        if by.removesuffix(_BY_CODE) != criterion:
            continue
        is_code = by != criterion
        if gate == criterion:
            return None if is_code or verdict not in ("MET", "UNMET", "UNSURE") else verdict == "UNMET"
        # A text that goes on to the judge has passed the checks.
        return None if is_code and verdict == "UNSURE" else is_code and verdict == "UNMET"
    return None


TrustState = Literal["trusted", "unproven", "untrusted"]
TRUST_STATES: tuple[TrustState, ...] = ("trusted", "unproven", "untrusted")
# Name of the annotations that hold controls, and of the column that the tables fill from them.
CONTROL, TRUST_COLUMN = "control", "grade_trust"
# Of 59 false captions none may be accepted for an upper bound of 0.05: 0.95 ** 59 < 0.05.
MIN_FALSE_CAPTIONS = 59
MAX_FALSE_ACCEPTS = 0.05
# From so many controls on, no difference between true and false is a finding, and not a lack of data.
MIN_CONTROLS_WITHOUT_DIFFERENCE = 200
# Gradings of one episode are correlated by at least so much, also where they all agree.
_LEAST_CORRELATION = 0.1
# False whatever the frames show.
_FALSE_CAPTION_KINDS = ("foreign", "flipped")
# So many instructions stand for the true texts of a dataset; with fewer the captions do, true or not.
_MIN_INSTRUCTIONS = 10
# What must be accepted less often than other texts, and how it is called in messages.
_LOWERED: Mapping[str, str] = {
    "foreign": "captions of other tasks",
    "blank": "captions of blank frames",
    "scrambled": "captions of scrambled frames",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCounts:
    """Gradings of controls by one judge on one dataset.

    Attributes:
        gradings: Number of gradings by kind of control: "own" (the caption itself), "foreign" (of another task),
            "flipped" (its outcome turned round), "blank" and "scrambled" (itself, on such frames), "paraphrase",
            "instruction" (the episode's, with the outcome that the source states).
        accepted: Number of them by kind that were accepted; for "paraphrase" those of which the caption itself was.
        errors: Gradings that failed; they are counted in nothing else.
        paraphrased: Paraphrases of captions that were accepted themselves.
        votes: What the judges of a panel are worth together; None for a single judge.
        by_episode: Accepted gradings and all gradings by kind, of each episode.
    """

    gradings: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    paraphrased: int = 0
    votes: PanelControlErrors | None = None
    by_episode: Sequence[Mapping[str, tuple[int, int]]] = ()

    def accepted_of(self, *kinds: str) -> tuple[int, int]:
        """Accepted gradings and all gradings of some kinds."""
        return sum(self.accepted.get(kind, 0) for kind in kinds), sum(
            self.gradings.get(kind, 0) for kind in kinds
        )

    def independent(self, *kinds: str) -> tuple[float, float]:
        """As `accepted_of`, in numbers of independent gradings: those of one episode say less than those of several."""
        members = [[counts[kind] for kind in kinds if kind in counts] for counts in self.by_episode]
        hits, totals = ([sum(pair[side] for pair in pairs) for pairs in members] for side in (0, 1))
        effective, total = effective_items(hits, totals, _LEAST_CORRELATION), sum(totals)
        return (sum(hits) * effective / total, effective) if total else (0.0, 0.0)

    @property
    def false_captions(self) -> tuple[int, int]:
        """Accepted false captions, and all of them."""
        return self.accepted_of(*_FALSE_CAPTION_KINDS)

    @property
    def independent_false_captions(self) -> tuple[float, float]:
        """As `false_captions`, in numbers of independent gradings."""
        return self.independent(*_FALSE_CAPTION_KINDS)

    @property
    def total(self) -> int:
        """Number of gradings that were made for control alone."""
        return sum(count for kind, count in self.gradings.items() if kind != "own")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTrust:
    """What the controls of a judge say on one dataset.

    Attributes:
        state: "trusted", "unproven" or "untrusted".
        reasons: Why it is not trusted, or [].
        counts: The gradings, by the gates as they stand.
        gates: What the gates made of texts that are true.
        label: What has to stand beside all numbers of the judge, or "".
    """

    state: TrustState
    reasons: tuple[str, ...]
    counts: ControlCounts
    gates: tuple[GateFalseFailCount, ...] = ()
    label: str = ""

    def to_json(self) -> dict[str, Json]:
        """The state, and the rates with their intervals: false accepts by Clopper and Pearson (90 % in all)."""
        accepted, false_captions = self.counts.false_captions
        refused = self.counts.paraphrased - self.counts.accepted.get("paraphrase", 0)
        instructions_accepted, instructions = self.counts.accepted_of("instruction")
        return {
            "state": self.state,
            "reasons": list(self.reasons),
            "false_accepts": accepted,
            "false_captions": false_captions,
            "independent_false_captions": round(self.counts.independent_false_captions[1], 1),
            "false_accept_bounds": [
                round(bound(*self.counts.independent_false_captions), 4)
                for bound in (share_lower_bound, share_upper_bound)
            ],
            "false_refusals": refused,
            "paraphrases": self.counts.paraphrased,
            "false_refusal_bounds": [
                round(bound, 4) for bound in wilson_interval(refused, self.counts.paraphrased)
            ],
            "instructions_refused": instructions - instructions_accepted,
            "instructions": instructions,
            "instruction_refusal_bounds": [
                round(bound, 4)
                for bound in wilson_interval(instructions - instructions_accepted, instructions)
            ],
            "gradings": dict(self.counts.gradings),
            "accepted": dict(self.counts.accepted),
            "errors": self.counts.errors,
            "gates": [gate.to_json() for gate in self.gates],
            **({"panel": self.counts.votes.to_json()} if self.counts.votes else {}),
            **({"label": self.label} if self.label else {}),
        }


def measure_judge_trust(
    values: Sequence[Mapping[str, Json]], episodes: Sequence[str] | None = None
) -> JudgeTrust:
    """What the values of control annotations of one judge on one dataset say of it.

    First the gates lose their veto that fail true texts too often. The judge is then trusted, or not, by what it
    accepts without them.

    Args:
        values: The values.
        episodes: Episode of each value; None where each is of another episode.
    """
    records = count_gate_false_fails(values)
    gates = Gates({record.gate: record.state for record in records})
    label = next((str(value["label"]) for value in values if value.get("label")), "")
    return replace(decide_trust(count_control_gradings(values, episodes, gates)), gates=records, label=label)


def count_control_gradings(
    values: Iterable[Mapping[str, Json]], episodes: Iterable[str] | None = None, gates: Gates | None = None
) -> ControlCounts:
    """Count the values of control annotations, each of which has the gradings of one caption in "gradings".

    Where the source does not state the outcome, the caption may be wrong itself: its flipped text is then accepted
    falsely only where both are accepted.

    Args:
        values: The values.
        episodes: Episode of each value; None where each is of another episode.
        gates: Gates that may have lost their veto; None where all have theirs.
    """
    values = list(values)
    rows: list[_Grading] = []
    errors = 0
    keys: Iterable[Hashable] = count() if episodes is None else episodes
    for value, episode in zip(values, keys, strict=episodes is not None):
        graded = _read_gradings(value, episode, gates)
        errors += sum(grading is None for grading in graded)
        rows += [grading for grading in graded if grading]
    by_episode: dict[Hashable, Counter[tuple[str, bool]]] = {}
    for row in rows:
        by_episode.setdefault(row.episode, Counter())[row.kind, row.is_accepted] += 1
    return ControlCounts(
        gradings=Counter(row.kind for row in rows),
        accepted=Counter(row.kind for row in rows if row.is_accepted),
        errors=errors,
        paraphrased=sum(row.kind == "paraphrase" and row.own_is_accepted for row in rows),
        votes=count_panel_control_errors(values),
        by_episode=[_by_kind(members) for members in by_episode.values()],
    )


class _Grading(NamedTuple):
    """One grading of a control, or of the caption itself."""

    episode: Hashable
    kind: str
    is_accepted: bool
    own_is_accepted: bool


def _read_gradings(
    value: Mapping[str, Json], episode: Hashable, gates: Gates | None
) -> list[_Grading | None]:
    """The gradings of one caption; None for those that failed."""
    members = value.get("gradings")
    rows = [row for row in members if isinstance(row, dict)] if isinstance(members, list) else []
    grades = [_grade_of(row, gates) for row in rows]
    pairs = list(zip(rows, grades, strict=True))
    own = any(row["kind"] == "own" and grade == "acceptable" for row, grade in pairs)
    gradings: list[_Grading | None] = []
    for row, grade in pairs:
        kind = str(row["kind"])
        needs_own = kind == "paraphrase" or (kind == "flipped" and not row.get("known_false"))
        is_accepted = grade == "acceptable" and (own or not needs_own)
        gradings.append(None if grade == "error" else _Grading(episode, kind, is_accepted, own))
    return gradings


def _by_kind(counts: Counter[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Accepted and all gradings by kind, from numbers by kind and by whether they were accepted."""
    return {kind: (counts[kind, True], counts[kind, True] + counts[kind, False]) for kind, _ in counts}


def _grade_of(row: Mapping[str, Json], gates: Gates | None) -> str:
    """The grade of a control; by its stored verdicts where a gate has lost its veto."""
    text = row.get("gates")
    return gates.grade(text) if gates and gates.informing and isinstance(text, str) else str(row["grade"])


def describe_trust(document: Mapping[str, Any]) -> str:
    """One line for people about `JudgeTrust.to_json`."""
    low, high = document["false_accept_bounds"]
    parts = [
        f"accepts {document['false_accepts']} of {document['false_captions']} false captions"
        f" ({low:.3f} to {high:.3f})"
    ]
    for part, whole, bounds, label in (
        ("instructions_refused", "instructions", "instruction_refusal_bounds", "true instructions"),
        ("false_refusals", "paraphrases", "false_refusal_bounds", "accepted captions in other words"),
    ):
        if document[whole]:
            low, high = document[bounds]
            parts.append(f"refuses {document[part]} of {document[whole]} {label} ({low:.3f} to {high:.3f})")
    if "panel" in document:
        parts.append(describe_votes(document["panel"]))
    lines = [*parts, *document["reasons"], *describe_gates(document)]
    label = f"{document['label']}, " if document.get("label") else ""
    return f"{label}{document['state'].upper()}: {'; '.join(lines)}"


def describe_gates(document: Mapping[str, Any]) -> list[str]:
    """A line for each gate without veto in `JudgeTrust.to_json`."""
    return [
        f"{gate['gate']} informs only: it fails {gate['fails']} of {gate['texts']} true texts"
        f" ({gate['bounds'][0]:.3f} to {gate['bounds'][1]:.3f}, limit {gate['limit']:g})"
        for gate in document.get("gates", ())
        if gate["state"] == "informs"
    ]


def decide_trust(counts: ControlCounts) -> JudgeTrust:
    """The state that follows from the gradings of controls.

    Untrusted where an interval shows that a judge accepts more than 5 % of false captions, or that it accepts no more
    true than false ones, or where 200 controls show no difference. Trusted where at least 59 false captions bound its
    false accepts by 5 %, and every difference is shown by its interval. Unproven otherwise.
    """
    against = _reasons_against(counts)
    if against:
        return JudgeTrust(state="untrusted", reasons=tuple(against), counts=counts)
    missing = _missing_evidence(counts)
    return JudgeTrust(state="unproven" if missing else "trusted", reasons=tuple(missing), counts=counts)


def _reasons_against(counts: ControlCounts) -> list[str]:
    """What the intervals show against a judge."""
    reasons = []
    if share_lower_bound(*counts.independent_false_captions) > MAX_FALSE_ACCEPTS:
        reasons.append(f"more than {MAX_FALSE_ACCEPTS:.0%} of false captions are accepted")
    enough = counts.total >= MIN_CONTROLS_WITHOUT_DIFFERENCE
    for kind, label in _LOWERED.items():
        low, high = _difference_to_true_texts(counts, kind)
        if high < 0 or (enough and low <= 0):
            reasons.append(f"{label} are accepted as often as {_true_texts(counts, kind)[1]}")
    return reasons


def _missing_evidence(counts: ControlCounts) -> list[str]:
    """What is not shown yet."""
    _, false_captions = counts.false_captions
    reasons = []
    if false_captions < MIN_FALSE_CAPTIONS:
        reasons.append(f"{false_captions} of {MIN_FALSE_CAPTIONS} false captions graded")
    elif share_upper_bound(*counts.independent_false_captions) > MAX_FALSE_ACCEPTS:
        reasons.append(f"false accepts may be more than {MAX_FALSE_ACCEPTS:.0%}")
    not_lower = [label for kind, label in _LOWERED.items() if _difference_to_true_texts(counts, kind)[0] <= 0]
    if not_lower:
        reasons.append(f"not shown to be accepted less often than true ones: {', '.join(not_lower)}")
    return reasons


def _difference_to_true_texts(counts: ControlCounts, kind: str) -> tuple[float, float]:
    true_kind, _ = _true_texts(counts, kind)
    return difference_bounds(*counts.independent(true_kind), *counts.independent(kind))


def _true_texts(counts: ControlCounts, kind: str) -> tuple[str, str]:
    """What others are compared with, and how it is called; changed frames with the caption itself."""
    if kind == "foreign" and counts.accepted_of("instruction")[1] >= _MIN_INSTRUCTIONS:
        return "instruction", "the instructions of the episodes"
    return "own", "the captions themselves"
