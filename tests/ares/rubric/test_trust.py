"""What controls say of judges of known errors (simulated gradings, no model): trusted, unproven or untrusted.

Judges by kind of error, with few controls, without labels, with slots of tables, and the word for a grade by what it
rests on are recorded: tests/ares/rubric/test_recorded_readings.py.
"""

from __future__ import annotations

import pytest
from ares.rubric.trust import JudgeTrust, measure_judge_trust, trust_of_grade

from tests.ares.rubric.simulated_controls import SimulatedJudge, simulate_controls

CAPTIONS = 92
MET = "VERB=MET OBJECT=MET ATTRIBUTES=NA DESTINATION=NA OUTCOME=MET"


def _trust(judge: SimulatedJudge, seed: int = 0, captions: int = CAPTIONS) -> JudgeTrust:
    return measure_judge_trust(simulate_controls(judge, captions, seed))


@pytest.mark.parametrize("kind", ["foreign", "blank", "scrambled", "near_miss:to", "near_miss:object"])
def test_one_kind_that_is_accepted_makes_a_judge_untrusted(kind: str) -> None:
    trust = _trust(SimulatedJudge({kind: 0.4}))
    assert (trust.state, trust.content, trust.outcome) == ("untrusted", "untrusted", "trusted")
    assert len(trust.reasons) == 1


def test_one_injected_note_that_is_accepted_is_enough() -> None:
    values = simulate_controls(SimulatedJudge(), CAPTIONS, 0)
    row = next(row for row in values[5]["gradings"] if row["kind"] == "injected")
    row |= {"grade": "acceptable", "gates": row["gates"].replace("UNMET", "MET")}
    trust = measure_judge_trust(values)
    assert trust.state == "untrusted"
    assert trust.reasons == ("accepts 1 of 92 false captions with a note to the judge: none may be",)


def test_a_refusal_for_the_outcome_alone_does_not_hide_an_accepted_lie() -> None:
    """Its foreign captions fail by a wrong outcome: the gates of the content have passed them."""
    values = simulate_controls(SimulatedJudge({"foreign": 1.0}), CAPTIONS, 0)
    for value in values:
        for row in value["gradings"]:
            if row["kind"] == "foreign":
                row |= {
                    "grade": "not_acceptable",
                    "gates": row["gates"].replace("OUTCOME=MET", "OUTCOME=UNMET"),
                }
    assert measure_judge_trust(values).content == "untrusted"


def test_a_near_miss_of_a_refused_caption_counts_by_the_gate_of_its_slot() -> None:
    """All captions are refused for their object: what the judge says of places shows all the same."""
    values = simulate_controls(SimulatedJudge({"near_miss:to": 1.0}), CAPTIONS, 0)
    for value in values:
        for row in value["gradings"]:
            if row["kind"] in ("own", "near_miss"):
                row |= {
                    "grade": "not_acceptable",
                    "gates": row["gates"].replace("OBJECT=MET", "OBJECT=UNMET"),
                }
    rates = {rate.kind: rate for rate in measure_judge_trust(values).kinds}
    assert (rates["near_miss:to"].accepted, rates["near_miss:to"].total) == (92, 92)
    assert rates["near_miss:action"].accepted == 0


def test_a_near_miss_of_one_slot_counts_where_the_claim_of_that_slot_is_borne_out() -> None:
    """The judge refuses the captions before it comes to places; asked about the place alone it accepts any."""
    gates = [{"gate": "OBJECT", "slot": "object"}, {"gate": "DESTINATION", "slot": "to"}]
    own = {"kind": "own", "grade": "not_acceptable", "gates": "OBJECT=UNMET DESTINATION=UNSURE"}
    claim = {
        "kind": "claim",
        "slot": "to",
        "known_false": False,
        "grade": "acceptable",
        "gates": "DESTINATION=MET",
    }
    miss = {
        "kind": "near_miss",
        "slot": "to",
        "grade": "acceptable",
        "gates": "OBJECT=NA(code) DESTINATION=MET",
    }
    values = [{"gradings": [own, claim, miss], "gates": gates} for _ in range(40)]
    doubted = {**claim, "grade": "unsure", "gates": "DESTINATION=UNSURE"}
    untested = [{"gradings": [own, doubted, miss], "gates": gates} for _ in range(40)]
    rates = {
        rate.kind: (rate.accepted, rate.total) for rate in measure_judge_trust([*values, *untested]).kinds
    }
    assert rates == {"near_miss:to": (40, 40)}


@pytest.mark.parametrize(("slot_gates", "total"), [("OBJECT=MET TO=UNSURE", 0), ("OBJECT=MET TO=MET", 40)])
def test_a_near_miss_tests_a_slot_that_the_judge_bears_out_for_the_caption_itself(
    slot_gates: str, total: int
) -> None:
    """Wherever the caption itself stands among the controls."""
    gates = [{"gate": "OBJECT", "slot": "object"}, {"gate": "TO", "slot": "to"}]
    own = {"kind": "own", "grade": "unsure", "gates": slot_gates}
    blank, blind = (
        {"kind": kind, "grade": "not_acceptable", "gates": text}
        for kind, text in (("blank", "OBJECT=UNMET TO=MET"), ("scrambled", "OBJECT=UNMET TO=UNSURE"))
    )
    miss = {"kind": "near_miss", "slot": "to", "grade": "not_acceptable", "gates": "OBJECT=MET TO=UNMET"}
    for gradings in ([own, blank, blind, miss], [blank, blind, miss, own], [blind, blank, own, miss]):
        trust = measure_judge_trust([{"gradings": gradings, "gates": gates} for _ in range(40)])
        counts = {rate.kind: (rate.accepted, rate.total) for rate in trust.kinds}
        assert counts.get("near_miss:to", (0, 0)) == (0, total)


def test_a_slot_that_no_gate_looks_at_is_accepted_with_any_value() -> None:
    """A rubric that asks about objects alone does not become trusted by refusals of wrong hands that nobody saw."""
    gates = [{"gate": "OBJECT", "slot": "object"}]
    nothing = {"slot": "hand", "grade": "unsure", "gates": "OBJECT=NA(code)"}
    own = {"kind": "own", "grade": "acceptable", "gates": "OBJECT=MET"}
    claim = {"kind": "claim", "known_false": False, **nothing}
    miss = {"kind": "near_miss", "known_false": True, **nothing}
    trust = measure_judge_trust([{"gradings": [own, claim, miss], "gates": gates} for _ in range(40)])
    (rate,) = [rate for rate in trust.kinds if rate.kind == "near_miss:hand"]
    assert (rate.accepted, rate.total) == (40, 40)


def test_a_rarely_stated_slot_that_is_not_proven_leaves_its_own_captions_unproven() -> None:
    values = simulate_controls(SimulatedJudge(), CAPTIONS, 0)
    for value in values[8:]:
        value["gradings"] = [row for row in value["gradings"] if row.get("slot") != "to"]
    trust = measure_judge_trust(values)
    assert trust.state == "trusted" and trust.missing == {"near_miss:to": 21}
    document = trust.to_json()
    assert trust_of_grade(document, MET) == "trusted"
    assert trust_of_grade(document, MET.replace("DESTINATION=NA", "DESTINATION=MET")) == "unproven"
