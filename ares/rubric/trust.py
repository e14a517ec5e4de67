"""Whether a judge may be trusted on a dataset, by what it made of texts and frames whose truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.rubric.gates import GateRecord, Gates, measure_gates
from ares.rubric.votes import PanelVotes, count_votes, describe_votes
from ares.statistics import difference_bounds, effective_items, lower_bound, upper_bound, wilson_interval

if TYPE_CHECKING:
    from ares.episode import Json

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
_FALSE_KINDS = ("foreign", "flipped")
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
    votes: PanelVotes | None = None
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
        return self.accepted_of(*_FALSE_KINDS)

    @property
    def independent_false_captions(self) -> tuple[float, float]:
        """As `false_captions`, in numbers of independent gradings."""
        return self.independent(*_FALSE_KINDS)

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
    gates: tuple[GateRecord, ...] = ()
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
                for bound in (lower_bound, upper_bound)
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


def judge_controls(values: Sequence[Mapping[str, Json]], episodes: Sequence[str] | None = None) -> JudgeTrust:
    """What the values of control annotations of one judge on one dataset say of it.

    First the gates lose their veto that fail true texts too often. The judge is then trusted, or not, by what it
    accepts without them.

    Args:
        values: The values.
        episodes: Episode of each value; None where each is of another episode.
    """
    records = measure_gates(values)
    gates = Gates({record.gate: record.state for record in records})
    label = next((str(value["label"]) for value in values if value.get("label")), "")
    return replace(decide_trust(count_controls(values, episodes, gates)), gates=records, label=label)


def count_controls(
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
        graded = _gradings(value, episode, gates)
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
        votes=count_votes(values),
        by_episode=[_by_kind(members) for members in by_episode.values()],
    )


class _Grading(NamedTuple):
    """One grading of a control, or of the caption itself."""

    episode: Hashable
    kind: str
    is_accepted: bool
    own_is_accepted: bool


def _gradings(value: Mapping[str, Json], episode: Hashable, gates: Gates | None) -> list[_Grading | None]:
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
    against = _against(counts)
    if against:
        return JudgeTrust(state="untrusted", reasons=tuple(against), counts=counts)
    missing = _missing(counts)
    return JudgeTrust(state="unproven" if missing else "trusted", reasons=tuple(missing), counts=counts)


def _against(counts: ControlCounts) -> list[str]:
    """What the intervals show against a judge."""
    reasons = []
    if lower_bound(*counts.independent_false_captions) > MAX_FALSE_ACCEPTS:
        reasons.append(f"more than {MAX_FALSE_ACCEPTS:.0%} of false captions are accepted")
    enough = counts.total >= MIN_CONTROLS_WITHOUT_DIFFERENCE
    for kind, label in _LOWERED.items():
        low, high = _difference(counts, kind)
        if high < 0 or (enough and low <= 0):
            reasons.append(f"{label} are accepted as often as {_true_texts(counts, kind)[1]}")
    return reasons


def _missing(counts: ControlCounts) -> list[str]:
    """What is not shown yet."""
    _, false_captions = counts.false_captions
    reasons = []
    if false_captions < MIN_FALSE_CAPTIONS:
        reasons.append(f"{false_captions} of {MIN_FALSE_CAPTIONS} false captions graded")
    elif upper_bound(*counts.independent_false_captions) > MAX_FALSE_ACCEPTS:
        reasons.append(f"false accepts may be more than {MAX_FALSE_ACCEPTS:.0%}")
    not_lower = [label for kind, label in _LOWERED.items() if _difference(counts, kind)[0] <= 0]
    if not_lower:
        reasons.append(f"not shown to be accepted less often than true ones: {', '.join(not_lower)}")
    return reasons


def _difference(counts: ControlCounts, kind: str) -> tuple[float, float]:
    true_kind, _ = _true_texts(counts, kind)
    return difference_bounds(*counts.independent(true_kind), *counts.independent(kind))


def _true_texts(counts: ControlCounts, kind: str) -> tuple[str, str]:
    """What others are compared with, and how it is called; changed frames with the caption itself."""
    if kind == "foreign" and counts.accepted_of("instruction")[1] >= _MIN_INSTRUCTIONS:
        return "instruction", "the instructions of the episodes"
    return "own", "the captions themselves"
