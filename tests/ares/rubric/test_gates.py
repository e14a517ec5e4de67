"""Gates that fail true texts too often inform, and their failure is no veto (made-up verdicts, no model)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ares.episode import Json
from ares.rubric import Gates, describe_trust
from ares.rubric.trust import GateFalseFailCount, count_gate_false_fails, measure_judge_trust

MET = "VERB=MET OUTCOME=MET PITFALLS=MET(code)"
WRONG_OUTCOME = "VERB=MET OUTCOME=UNMET PITFALLS=MET(code)"
WRONG_VERB = "VERB=UNMET OUTCOME=MET PITFALLS=MET(code)"
WRONG_BY_CODE = "VERB=UNMET(code) OUTCOME=MET PITFALLS=MET(code)"
GATES: list[Json] = [
    {"gate": "VERB(code)", "limit": 0.01},
    {"gate": "VERB", "limit": 0.25, "needs_outcome": False},
    {"gate": "OUTCOME", "limit": 0.25, "needs_outcome": True},
    {"gate": "PITFALLS(code)", "limit": 0.01},
]


@pytest.mark.parametrize(
    ("fails", "texts", "limit", "state"),
    [
        (0, 299, 0.01, "proven"),
        (0, 298, 0.01, "unproven"),
        (1, 299, 0.01, "informs"),
        (1, 20, 0.25, "proven"),
        (2, 20, 0.25, "informs"),
        # Too few texts to prove any gate: the rubric's word holds, until the failures themselves are shown.
        (3, 10, 0.25, "unproven"),
        (8, 10, 0.25, "informs"),
        (3, 3, 0.01, "informs"),
        (0, 0, 0.25, "unproven"),
    ],
)
def test_a_veto_is_earned_by_the_upper_bound(fails: int, texts: int, limit: float, state: str) -> None:
    assert GateFalseFailCount(gate="VERB", limit=limit, fails=fails, texts=texts).state == state


def _values(instructions: Sequence[str], known_outcome: bool = True) -> list[dict[str, Json]]:
    """Controls of one caption each, whose instruction gets these verdicts; its other texts are judged rightly."""

    def row(kind: str, text: str) -> dict[str, Json]:
        grade = Gates({}).grade(text)
        known: dict[str, Json] = {"known_false": kind == "flipped", "known_outcome": known_outcome}
        return {"kind": kind, "grade": grade, "gates": text, **known}

    others = [("foreign", WRONG_VERB)] * 3 + [("flipped", WRONG_OUTCOME)]
    without_content = [("blank", WRONG_VERB), ("scrambled", WRONG_VERB)]
    return [
        {
            "gates": GATES,
            "gradings": [
                row(kind, text)
                for kind, text in [("own", MET), *others, ("instruction", instruction), *without_content]
            ],
        }
        for instruction in instructions
    ]


def _states(values: Sequence[dict[str, Json]]) -> dict[str, str]:
    return {record.gate: record.state for record in count_gate_false_fails(values)}


def test_a_judge_that_fails_no_true_text_keeps_its_vetoes_and_is_trusted() -> None:
    trust = measure_judge_trust(_values([MET] * 30))
    assert trust.state == "trusted" and trust.counts.false_captions == (0, 120)
    assert {gate.gate: (gate.fails, gate.texts) for gate in trust.gates} == dict.fromkeys(
        ("VERB(code)", "VERB", "OUTCOME", "PITFALLS(code)"), (0, 30)
    )
    assert "informs" not in describe_trust(trust.to_json())


def test_without_its_veto_a_gate_lets_false_texts_through_and_the_trust_says_so() -> None:
    values = _values([WRONG_OUTCOME] * 12 + [MET] * 18)
    trust = measure_judge_trust(values)
    assert {gate.gate: gate.state for gate in trust.gates}["OUTCOME"] == "informs"
    assert trust.counts.accepted_of("instruction") == (30, 30), "no true text is refused any more"
    assert trust.counts.accepted_of("flipped") == (30, 30), "and no turned outcome either"
    assert trust.counts.accepted_of("foreign") == (0, 90)
    assert trust.state == "untrusted"
    line = describe_trust(trust.to_json())
    assert "OUTCOME informs only: it fails 12 of 30 true texts (0.2" in line and "limit 0.25)" in line


def test_an_outcome_that_the_source_does_not_state_is_no_true_text() -> None:
    values = _values([WRONG_OUTCOME] * 30, known_outcome=False)
    records = {record.gate: record for record in count_gate_false_fails(values)}
    assert (records["OUTCOME"].texts, records["OUTCOME"].state) == (0, "unproven")
    assert records["VERB"].texts == 30


def test_code_and_judge_are_gates_of_their_own() -> None:
    records = {
        record.gate: record for record in count_gate_false_fails(_values([WRONG_BY_CODE] * 5 + [MET] * 25))
    }
    assert (records["VERB(code)"].fails, records["VERB(code)"].texts) == (5, 30)
    assert (records["VERB"].fails, records["VERB"].texts) == (0, 25), "what code refused, no judge saw"
    assert records["VERB(code)"].state == "informs" and records["VERB"].state == "proven"


def test_what_code_must_not_refuse_and_no_judge_saw_is_unsure() -> None:
    states = _states(_values([WRONG_BY_CODE] * 5 + [MET] * 25))
    assert Gates({}).grade(WRONG_BY_CODE) == "not_acceptable"
    assert Gates(states).grade(WRONG_BY_CODE) == "unsure"
    assert Gates(states).grade(WRONG_OUTCOME) == "not_acceptable"


def test_a_check_without_a_judge_is_left_out() -> None:
    gates = Gates({"PITFALLS(code)": "informs"})
    assert gates.grade("VERB=MET PITFALLS=UNMET(code)") == "acceptable"
    assert gates.grade("PITFALLS=UNMET(code)") == "unsure", "nothing else says that it is true"


def test_controls_of_an_older_version_leave_every_veto() -> None:
    values: list[dict[str, Any]] = _values([WRONG_OUTCOME] * 30)
    for value in values:
        del value["gates"]
    trust = measure_judge_trust(values)
    assert trust.gates == () and trust.counts.accepted_of("flipped") == (0, 30)
