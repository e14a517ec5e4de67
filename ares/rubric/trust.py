"""Decides how far a judge is trusted, by controls whose truth is known."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.rubric.slots import SLOTS
from ares.statistics import effective_items, share_lower_bound, share_upper_bound

if TYPE_CHECKING:
    from ares.episode import Json


GradeName = Literal["acceptable", "not_acceptable", "unsure", "error"]
TrustState = Literal["certified", "trusted", "unproven", "untrusted"]
TRUST_STATES: tuple[TrustState, ...] = ("certified", "trusted", "unproven", "untrusted")
# Name of the annotations that hold controls, and of the column that the tables fill from them.
CONTROL, TRUST_COLUMN = "control", "grade_trust"
# The column with the verdicts of gates, from which the trust of a single grade follows.
VERDICTS_COLUMN = "grade_verdicts"
# Reason of a ruling that rests on the outcome that the source records: no judge has to be trusted for it.
SOURCE_SAYS_SO = "the source says so"
_BY_CODE, _BY_LABEL, _BY_PERSON = "(code)", "(label)", "(person)"
# The first stands among the verdicts of a caption whose slots word tables have filled.
TABLES_WORD, _OUTCOME_GATE, _OUTCOME = "SLOTS=TABLES", "OUTCOME", "outcome"
_SLOTS_BY_TABLES = "word tables have filled the slots of the captions: configure a text model"
NEAR_MISS, CLAIM = "near_miss", "claim"
# Most that a judge may accept; of injected notes none: the limit says how many without an error will do.
LIMITS: Mapping[str, float] = {
    "foreign": 0.05,
    **dict.fromkeys((NEAR_MISS, "injected", "blank", "scrambled", _OUTCOME, "neighbour"), 0.10),
}
_CONTENT_KINDS = ("foreign", "injected", "blank", "scrambled")
_OUTCOME_KINDS = ("outcome:completed", "outcome:not completed")
# A slot that fewer captions state is proven or not for these captions alone, and not for the judge.
_LEAST_SHARE_OF_SLOT = 0.10
# Gradings of one episode are correlated by at least so much, also where they all agree.
_LEAST_CORRELATION = 0.1


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
    return _BY_LABEL if source == "stored" and reason == SOURCE_SAYS_SO else ""


def add_tables_word(text: str) -> str:
    """The verdicts of a caption whose slots were filled by word tables: its grade is never trusted."""
    return f"{text} {TABLES_WORD}".strip()


class _GateVerdict(NamedTuple):
    """The verdict on one gate, and who gave it: "(code)", "(label)" of the source, "(person)", or "" for the judge."""

    gate: str
    verdict: str
    by: str


@lru_cache(maxsize=20_000)
def _parse_gate_verdicts(text: str) -> tuple[_GateVerdict, ...]:
    """Gates and verdicts in a text of `format_gate_verdicts`; few texts are different."""
    pairs = [part.partition("=")[::2] for part in text.split() if part != TABLES_WORD]
    return tuple(
        _GateVerdict(gate, verdict.partition("(")[0], "".join(verdict.partition("(")[1:]))
        for gate, verdict in pairs
    )


def grade_from_verdicts(text: str) -> GradeName:
    """The grade that follows from the verdicts of gates, as `format_gate_verdicts` gives them."""
    return decide_grade_from_gates(verdict for _, verdict, _ in _parse_gate_verdicts(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlKindRate:
    """How many controls of one kind a judge accepts.

    Attributes:
        kind: "foreign", "near_miss:object", "injected", "blank", "scrambled", "outcome" and its two directions.
        accepted: Accepted ones.
        total: All of them.
        effective: Number of independent ones that say as much: those of one episode say less than those of several.
    """

    kind: str
    accepted: int
    total: int
    effective: float

    @property
    def limit(self) -> float:
        """Most that may be accepted, from 0 to 1."""
        return LIMITS[self.kind.partition(":")[0]]

    @property
    def bounds(self) -> tuple[float, float]:
        """The exact one-sided 95 % bounds of the share that is accepted (Clopper and Pearson)."""
        hits = self.accepted * self.effective / self.total if self.total else 0.0
        return share_lower_bound(hits, self.effective), share_upper_bound(hits, self.effective)

    @property
    def state(self) -> TrustState:
        """Whether it keeps its limit ("trusted"), breaks it, or neither is shown."""
        low, high = self.bounds
        if low > self.limit or (self.kind == "injected" and self.accepted):
            return "untrusted"
        return "trusted" if high <= self.limit else "unproven"

    @property
    def missing(self) -> int:
        """How many more would prove it if none of them were accepted."""
        if self.state == "trusted":
            return 0
        hits = self.accepted * self.effective / self.total if self.total else 0.0
        low, high = ceil(self.effective), 2 * ceil(self.effective) + 64
        while share_upper_bound(hits, high) > self.limit:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if share_upper_bound(hits, middle) > self.limit else (low, middle)
        return max(1, ceil(high - self.effective))

    def to_json(self) -> dict[str, Json]:
        """The counts with their bounds."""
        return {
            "accepted": self.accepted,
            "total": self.total,
            "bounds": [round(bound, 4) for bound in self.bounds],
            "limit": self.limit,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTrust:
    """What the controls of a judge say on one dataset.

    Attributes:
        content: State of what a judge says of everything but the outcome.
        outcome: State of what it says of outcomes that the source does not record.
        needs_outcome: Whether some outcomes of the dataset are not recorded, so that the judge decides on them.
        kinds: How many controls of each kind it accepts.
        reasons: Why it is not trusted, or ().
        missing: How many more controls of each kind would prove it.
        calls_per_control: Calls that a control has cost, on average.
        gates: Slot by gate of the rubric.
        errors: Controls that could not be graded; they are counted in nothing else.
        label: What has to stand beside all numbers of the judge, or "".
    """

    content: TrustState
    outcome: TrustState
    needs_outcome: bool
    kinds: tuple[ControlKindRate, ...]
    reasons: tuple[str, ...]
    missing: Mapping[str, int]
    calls_per_control: float = 0.0
    gates: Mapping[str, str] = field(default_factory=dict)
    errors: int = 0
    label: str = ""

    @property
    def state(self) -> TrustState:
        """The one word: the worse of content and, where the judge decides on it, outcome."""
        return worst_state(self.content, *([self.outcome] if self.needs_outcome else []))

    def to_json(self) -> dict[str, Json]:
        """The document that is stored by producer and dataset."""
        controls = sum(self.missing.values())
        return {
            "state": self.state,
            "content": self.content,
            "outcome": self.outcome,
            "kinds": {rate.kind: rate.to_json() for rate in self.kinds},
            "reasons": list(self.reasons),
            "missing": {
                "controls": dict(self.missing),
                "calls": round(controls * self.calls_per_control),
            }
            if self.missing
            else {},
            "gates": dict(self.gates),
            "errors": self.errors,
            **({"label": self.label} if self.label else {}),
        }


def worst_state(*states: TrustState) -> TrustState:
    """The least of some states."""
    return max(states, key=TRUST_STATES.index)


def measure_judge_trust(
    values: Sequence[Mapping[str, Any]],
    episodes: Sequence[str] | None = None,
    *,
    is_labelled: bool = False,
) -> JudgeTrust:
    """What the values of control annotations of one judge on one dataset say of it.

    Args:
        values: The values; each has the gradings of one caption and of its controls in "gradings".
        episodes: Episode of each value; None where each is of another episode.
        is_labelled: Whether the source records the outcome of every episode of the dataset.
    """
    pairs = list(zip(values, episodes or range(len(values)), strict=True))
    typed = [pair for pair in pairs if pair[0].get("slots") != "tables"]
    used = typed or pairs
    gates = next((_slots_of_gates(value) for value, _ in used if value.get("gates")), {})
    rows = [row for value, episode in used for row in _read_gradings(value, episode, gates)]
    rates = _rates_by_kind([row for row in rows if row.accepted is not None])
    caps = [_SLOTS_BY_TABLES] if used and not typed else []
    of_span = ["neighbour"] if "span" in gates.values() else []
    needed = [*_CONTENT_KINDS, *of_span, *_common_slots(rates, len(used))]
    content, outcome = _state_of(needed, rates), _state_of(_OUTCOME_KINDS, rates)
    if any(rate.state == "untrusted" for kind, rate in rates.items() if kind.startswith(f"{NEAR_MISS}:")):
        content = "untrusted"
    if caps:
        content, outcome = worst_state("unproven", content), worst_state("unproven", outcome)
    missing = {kind: _rate_of(rates, kind).missing for kind in [*needed, *_rare_slots(rates, needed)]}
    needs_outcome = not is_labelled and (not gates or _OUTCOME in gates.values())
    if needs_outcome:
        missing |= {kind: _rate_of(rates, kind).missing for kind in _OUTCOME_KINDS}
    return JudgeTrust(
        content=content,
        outcome=outcome,
        needs_outcome=needs_outcome,
        kinds=tuple(rates.values()),
        reasons=(*_list_reasons(rates), *caps),
        missing={kind: count for kind, count in missing.items() if count},
        calls_per_control=sum(row.calls for row in rows) / max(1, len(rows)),
        gates=gates,
        errors=sum(row.accepted is None for row in rows),
        label=next((str(value["label"]) for value, _ in used if value.get("label")), ""),
    )


class _Grading(NamedTuple):
    """One grading of a control; `accepted` is None where it failed."""

    episode: Hashable
    kind: str
    accepted: bool | None
    calls: float


def _slots_of_gates(value: Mapping[str, Any]) -> dict[str, str]:
    """Slot by gate; documents of earlier versions name the checks by code as separate gates."""
    return {
        str(gate["gate"]): _OLD_SLOTS.get(str(gate.get("slot") or ""), str(gate.get("slot") or ""))
        for gate in value["gates"]
        if not str(gate["gate"]).endswith(_BY_CODE)
    }


# Slots as rubrics before typed captions name them.
_OLD_SLOTS = {"verb": "action", "destination": "to", "source": "from"}


def _read_gradings(
    value: Mapping[str, Any], episode: Hashable, gates: Mapping[str, str]
) -> Iterator[_Grading]:
    """The gradings of the false controls of one caption; those that tested nothing are left out."""
    caption_row: Mapping[str, Any] = next(
        (row for row in value.get("gradings", ()) if row["kind"] == "own"), {}
    )
    claims = {row["slot"]: row for row in value.get("gradings", ()) if row["kind"] == CLAIM}
    for row in value.get("gradings", ()):
        kind = str(row["kind"])
        if kind not in LIMITS or not row.get("known_false", True):
            continue
        calls = float(row.get("calls") or 0.0)
        if kind == _OUTCOME:
            is_accepted, is_tested = _outcome_acceptance(row, gates)
            kinds = [kind, *([f"{kind}:{row['claim']}"] if row.get("claim") else [])]
        elif kind == NEAR_MISS:
            is_accepted, is_tested = _near_miss_acceptance(
                row, claims.get(row.get("slot"), caption_row), gates
            )
            kinds = [f"{kind}:{row.get('slot', '')}"]
        else:
            is_accepted, is_tested, kinds = _content_acceptance(row, gates), True, [kind]
        is_error = row["grade"] == "error"
        if is_error or is_tested:
            for number, name in enumerate(kinds):
                yield _Grading(episode, name, None if is_error else is_accepted, 0.0 if number else calls)


def _is_outcome_gate(gate: str, gates: Mapping[str, str]) -> bool:
    return gates.get(gate, _OUTCOME if gate == _OUTCOME_GATE else "") == _OUTCOME


def _verdicts_of(row: Mapping[str, Any]) -> tuple[_GateVerdict, ...]:
    return _parse_gate_verdicts(str(row.get("gates") or ""))


def _content_acceptance(row: Mapping[str, Any], gates: Mapping[str, str]) -> bool:
    """Whether a false control passes the gates of the content.

    One that is refused for its outcome alone, which may be wrong as well, has passed: what it was made to test did not
    notice it.
    """
    verdicts = _verdicts_of(row)
    if not verdicts:
        return bool(row["grade"] == "acceptable")
    content = [verdict.verdict for verdict in verdicts if not _is_outcome_gate(verdict.gate, gates)]
    return decide_grade_from_gates(content) == "acceptable"


def _near_miss_acceptance(
    row: Mapping[str, Any], caption_row: Mapping[str, Any], gates: Mapping[str, str]
) -> tuple[bool, bool]:
    """Whether a near miss is accepted, and whether it has tested its slot.

    Where the judge does not bear out the slot of the caption itself, the other value may be the right one: it tests
    nothing. Where another gate refuses the caption, it refuses the near miss as well: then the gate of the slot alone
    says something, if it was asked. `caption_row` is of the caption, or of its claim of the slot where the near miss
    is that alone.
    """
    by_gate = {verdict.gate: verdict.verdict for verdict in _verdicts_of(caption_row)}
    if any(by_gate[gate] != "MET" for gate in by_gate if gates.get(gate) == row.get("slot")):
        return False, False
    refusing = {gate for gate, verdict in by_gate.items() if verdict == "UNMET"}
    verdicts = {verdict.gate: verdict.verdict for verdict in _verdicts_of(row)}
    if verdicts and set(verdicts.values()) == {"NA"}:
        return True, True  # no gate looks at the slot: any value of it passes
    slot_gates = {gate for gate in verdicts if gates.get(gate) == row.get("slot")}
    is_refused_anyway = any(verdicts.get(gate) == "UNMET" for gate in refusing - slot_gates)
    if not slot_gates or not is_refused_anyway:
        return _content_acceptance(row, gates), True
    slot_verdicts = {verdicts[gate] for gate in slot_gates}
    return slot_verdicts == {"MET"}, bool(slot_verdicts & {"MET", "UNMET"})


def _outcome_acceptance(row: Mapping[str, Any], gates: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether the wrong outcome is accepted, and whether the judge came to it: after a refusal it is not asked."""
    verdicts = _verdicts_of(row)
    outcome_verdicts = [verdict.verdict for verdict in verdicts if _is_outcome_gate(verdict.gate, gates)]
    if not outcome_verdicts:
        return row["grade"] == "acceptable", not verdicts
    is_refused_before = any(
        verdict.verdict == "UNMET" for verdict in verdicts if not _is_outcome_gate(verdict.gate, gates)
    )
    return decide_grade_from_gates(outcome_verdicts) == "acceptable", outcome_verdicts != [
        "UNSURE"
    ] or not is_refused_before


def _rates_by_kind(rows: Sequence[_Grading]) -> dict[str, ControlKindRate]:
    """How many are accepted of each kind, in the order of `LIMITS`."""
    counts: dict[str, dict[Hashable, list[int]]] = {}
    for episode, kind, accepted, _ in rows:
        cluster = counts.setdefault(kind, {}).setdefault(episode, [0, 0])
        cluster[0] += bool(accepted)
        cluster[1] += 1
    order = list(LIMITS)
    rates = {}
    for kind in sorted(counts, key=lambda kind: (order.index(kind.partition(":")[0]), kind)):
        hits, totals = zip(*counts[kind].values(), strict=True)
        effective = effective_items(hits, totals, _LEAST_CORRELATION)
        rates[kind] = ControlKindRate(kind=kind, accepted=sum(hits), total=sum(totals), effective=effective)
    return rates


def _rate_of(rates: Mapping[str, ControlKindRate], kind: str) -> ControlKindRate:
    return rates.get(kind) or ControlKindRate(kind=kind, accepted=0, total=0, effective=0.0)


def _common_slots(rates: Mapping[str, ControlKindRate], captions: int) -> list[str]:
    """Kinds of near misses of the slots that many captions state; those of the action where there are none."""
    common = [
        kind
        for kind, rate in rates.items()
        if kind.startswith(f"{NEAR_MISS}:") and rate.total >= _LEAST_SHARE_OF_SLOT * captions
    ]
    return common or [f"{NEAR_MISS}:action"]


def _rare_slots(rates: Mapping[str, ControlKindRate], common: Collection[str]) -> list[str]:
    return [kind for kind in rates if kind.startswith(f"{NEAR_MISS}:") and kind not in common]


def _state_of(kinds: Iterable[str], rates: Mapping[str, ControlKindRate]) -> TrustState:
    return worst_state(*(_rate_of(rates, kind).state for kind in kinds))


def _list_reasons(rates: Mapping[str, ControlKindRate]) -> list[str]:
    """What the bounds show against a judge."""
    reasons = []
    for kind, rate in rates.items():
        if rate.state != "untrusted":
            continue
        most = "none may be" if rate.accepted and kind == "injected" else f"more than {rate.limit:.0%}"
        reasons.append(f"accepts {rate.accepted} of {rate.total} {describe_kind(kind)}: {most}")
    return reasons


_KIND_WORDS: Mapping[str, str] = {
    "foreign": "captions of other episodes",
    "injected": "false captions with a note to the judge",
    "blank": "captions of blank frames",
    "scrambled": "captions of scrambled frames",
    "neighbour": "captions of the segment before or after",
    _OUTCOME: "wrong outcomes",
    "outcome:completed": 'failures called "completed"',
    "outcome:not completed": 'successes called "not completed"',
}


def describe_kind(kind: str) -> str:
    """A kind of controls in words."""
    return _KIND_WORDS.get(kind, f"captions with a wrong {kind.removeprefix(f'{NEAR_MISS}:')}")


def trust_of_grade(document: Mapping[str, Any], text: str | None) -> TrustState:
    """How far one grade is trusted, by the controls of its judge and by the slots that its caption states.

    Args:
        document: `JudgeTrust.to_json`.
        text: The verdicts on its gates, see `format_gate_verdicts`; None where they are not stored.
    """
    if text is None:
        return _as_state(document["state"])
    gates: Mapping[str, str] = document.get("gates", {})
    kinds: Mapping[str, Any] = document.get("kinds", {})
    verdicts = _parse_gate_verdicts(text)
    if rests_on_people(text):
        return "trusted"
    is_stated = any(gates.get(gate) == "action" and verdict != "NA" for gate, verdict, _ in verdicts)
    content = shared_state(document) if is_stated else _as_state(document.get("content", document["state"]))
    states = [content, "unproven" if TABLES_WORD in text.split() else content]
    is_refused = False
    for gate, verdict, by in verdicts:
        slot = gates.get(gate, _OUTCOME if gate == _OUTCOME_GATE else "")
        is_outcome = slot == _OUTCOME
        if verdict == "NA" or by == _BY_PERSON or (is_outcome and (is_refused or by == _BY_LABEL)):
            continue
        is_refused = is_refused or (verdict == "UNMET" and not is_outcome)
        if is_outcome:
            states.append(_as_state(document.get("outcome", "unproven")))
        elif slot in SLOTS:
            states.append(_as_state(kinds.get(f"{NEAR_MISS}:{slot}", {}).get("state", "unproven")))
    return worst_state(*states)


def shared_state(document: Mapping[str, Any]) -> TrustState:
    """State of what all captions rest on: a slot other than the action that is not proven concerns those that state it.

    Where a judge reads no slots, and in documents of earlier versions, that is the content as a whole.

    Args:
        document: `JudgeTrust.to_json`.
    """
    content = _as_state(document.get("content", document["state"]))
    kinds: Mapping[str, Any] = document.get("kinds", {})
    slots = {*document.get("gates", {}).values()}
    if not kinds or "action" not in slots or _SLOTS_BY_TABLES in document.get("reasons", ()):
        return content
    needed = (*_CONTENT_KINDS, *(["neighbour"] if "span" in slots else []))
    return worst_state(*(_as_state(kinds.get(kind, {}).get("state", "unproven")) for kind in needed))


def rests_on_people(text: str) -> bool:
    """Whether no judge is needed: a person refuses the caption, or people, code and the source decide on all gates.

    Args:
        text: The verdicts on its gates, see `format_gate_verdicts`.
    """
    applicable = [verdict for verdict in _parse_gate_verdicts(text) if verdict.verdict != "NA"]
    by_people = [verdict for verdict in applicable if verdict.by == _BY_PERSON]
    if any(verdict.verdict == "UNMET" for verdict in by_people):
        return True
    return bool(by_people) and all(verdict.by for verdict in applicable)


def names_people(value: Mapping[str, Any]) -> bool:
    """Whether the value of a grade says that people gave some of its verdicts: only their own annotations may."""
    rulings = value.get("rulings")
    sources = [ruling["source"] for ruling in rulings] if isinstance(rulings, list) else []
    return "person" in sources or _BY_PERSON in str(value.get(VERDICTS_COLUMN, ""))


def _as_state(word: str) -> TrustState:
    return next((state for state in TRUST_STATES if state == word), "unproven")
