"""Which captions get controls: a calibration once a dataset, a fifth afterwards, the same whoever works on them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from annotators.base import Work
from annotators.grade import load_rubric
from annotators.grade.control_plan import (
    AttackControls,
    Control,
    ControlPlan,
    DatasetControls,
    make_control_value,
)
from annotators.grade.grading import GradedText
from annotators.grade.judge import Judgement
from ares.annotation import Annotation, Cost
from ares.episode import Episode, Json
from ares.rubric import parse_known_text

PHRASES = ["wipe the table", "put the spoon in the pot", "open the red microwave", "open the drawer"]
OWN = parse_known_text("push the green drawer closed")


@pytest.fixture
def works(
    episodes: dict[str, Episode], work_for: Callable[..., Work], caption_of: Callable[..., Annotation]
) -> Callable[[int], list[Work]]:
    """Works about captions of many episodes: only their ids differ."""
    episode = episodes["drawer-close_000"]
    work = work_for(episode, [], caption_of(episode, OWN.text))

    def make(count: int) -> list[Work]:
        ids = (
            hashlib.blake2b(bytes([number % 256, number // 256]), digest_size=8) for number in range(count)
        )
        others = (replace(episode, episode_id=key.hexdigest()) for key in ids)
        return [replace(work, subject=replace(work.subject, episode=other)) for other in others]

    return make


def _plan(works: list[Work], *, calibrates: bool = True) -> ControlPlan:
    own = DatasetControls(
        episodes=len(works),
        calibrates=calibrates,
        successes=len(works),
        texts=[parse_known_text(phrase) for phrase in PHRASES],
    )
    return ControlPlan(datasets={works[0].episode.dataset: own})


def _draw(plan: ControlPlan, works: list[Work], *, slot_by_slot: bool = False) -> list[Control]:
    drawn = [plan.draw(work, OWN.slots, OWN.text, slot_by_slot=slot_by_slot) for work in works]
    return [control for controls in drawn for control in controls]


@pytest.mark.parametrize("count", [30, 100, 1_000])
def test_a_calibration_has_enough_of_each_kind_or_all_captions(
    works: Callable[[int], list[Work]], count: int
) -> None:
    members = works(count)
    kinds = Counter((control.kind, control.slot) for control in _draw(_plan(members), members))
    least = min(count, 70)
    for kind in ("injected", "blank", "scrambled"):
        assert least <= kinds[kind, ""] <= 150
    # Up to three of a slot where there are fewer than 74 captions.
    for slot in ("action", "object", "attributes"):
        assert least <= kinds["near_miss", slot] <= 3 * 73
    assert kinds["foreign", ""] >= 3 * min(count, 46)
    assert kinds["outcome", ""] >= min(count, 46)


def test_a_near_miss_is_wrong_in_its_slot_and_in_the_sentence_alone(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(3)
    misses = [control for control in _draw(_plan(members), members) if control.kind == "near_miss"]
    for control in misses:
        assert {key for key in OWN.slots if control.slots[key] != OWN.slots[key]} == {control.slot}
        wrong = next(value for slot, value in control.slots.items() if slot == control.slot)
        assert wrong.split()[-1] in control.text
        assert control.text != OWN.text


def test_a_wrong_outcome_hides_the_label_and_a_note_stands_in_the_sentence_alone(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(3)
    controls = _draw(_plan(members), members)
    (outcome, *_) = [control for control in controls if control.kind == "outcome"]
    assert (outcome.hides_label, outcome.slots["outcome"]) == (True, "not completed")
    assert outcome.text == "fail to push the green drawer closed"
    for control in controls:
        if control.kind == "injected":
            assert len(control.text) > 1.3 * len(" ".join(control.slots.values()))
            assert (
                control.slots["object"] != OWN.slots["object"]
                or control.slots["action"] != OWN.slots["action"]
            )


def test_after_the_calibration_controls_are_a_fifth_of_the_captions(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(2_000)
    plan = _plan(members, calibrates=False)
    assert len(_draw(plan, members)) < 0.3 * len(members)
    assert plan.calibrated_datasets == []


def test_a_calibration_is_as_large_as_it_was_said_to_be(works: Callable[[int], list[Work]]) -> None:
    members = works(100)
    plan = _plan(members)
    assert len(plan.calibrated_datasets) == 1
    drawn = _draw(plan, members, slot_by_slot=True)
    assert 0.6 < len(drawn) / sum(plan.expected(work.subject) for work in members) < 1.4


def test_a_near_miss_of_one_slot_stands_beside_the_claim_of_the_caption(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(3)
    single = [control for control in _draw(_plan(members), members, slot_by_slot=True) if control.only]
    assert {control.only for control in single} == {"action", "object", "attributes"}
    for control in single:
        assert list(control.slots) == [control.only] == [control.slot]
        is_own = control.slots[control.slot] == OWN.slots[control.slot]  # type: ignore[index]
        assert (control.kind == "claim") == is_own == (not control.known_false)
    claims = {control.slot for control in single if control.kind == "claim"}
    assert claims == {control.slot for control in single if control.kind == "near_miss"}


def test_the_controls_of_a_caption_are_as_many_as_its_dataset_says(
    works: Callable[[int], list[Work]],
) -> None:
    """Those of near misses and claims vary with what a caption states: three to four of four slots here."""
    members = works(1)
    plan = _plan(members)
    (own,) = plan.datasets.values()
    controls = [control for control in _draw(plan, members) if control.kind not in ("outcome", "near_miss")]
    assert len(controls) == own.controls_per_caption - 4 * (own.near_misses + 1)


def test_the_same_caption_has_the_same_controls(works: Callable[[int], list[Work]]) -> None:
    members = works(1)
    first, second = ([control.text for control in _draw(_plan(members), members)] for _ in range(2))
    assert first == second and len(first) > 8


def test_another_seed_draws_other_controls(works: Callable[[int], list[Work]]) -> None:
    members = works(3)
    unseeded, first, again, second = (
        [control.text for control in _draw(replace(_plan(members), seed=seed), members)]
        for seed in (None, 1, 1, 2)
    )
    assert first == again and unseeded != first != second != unseeded


def test_outside_a_run_nothing_is_controlled(works: Callable[[int], list[Work]]) -> None:
    assert not ControlPlan().draw(works(1)[0], OWN.slots, OWN.text)


def test_what_an_instruction_says_by_a_verb_of_the_lab_is_no_near_miss(
    works: Callable[[int], list[Work]],
) -> None:
    verbs = {"push closed": "close by pushing", "grasp": "hold a thing"}
    (work,) = works(1)
    episode = replace(work.episode, instructions=(OWN.text,))
    work = replace(work, subject=replace(work.subject, episode=episode))
    texts = [parse_known_text("push the red lid closed", verbs)]
    own = DatasetControls(episodes=1, calibrates=True, texts=texts)
    plan = ControlPlan(datasets={work.episode.dataset: own}, verbs=verbs)
    drawn = plan.draw(work, {**OWN.slots, "action": "grasp"}, "grasp the green drawer")
    wrong = {control.slots["action"] for control in drawn if control.slot == "action"}
    assert wrong and "push closed" not in wrong


def test_an_attack_has_more_of_each_kind_and_notes_that_hardly_occur_twice(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(20)
    texts = [parse_known_text(phrase) for phrase in PHRASES]
    own = AttackControls(episodes=20, calibrates=False, successes=20, texts=texts, per_kind=4)
    drawn = _draw(ControlPlan(datasets={members[0].episode.dataset: own}), members)
    kinds = Counter(control.kind for control in drawn)
    assert kinds["foreign"] == kinds["injected"] == 4 * 20
    assert kinds["blank"] == kinds["scrambled"] == kinds["outcome"] == 20
    usual = Counter(control.kind for control in _draw(_plan(members), members))
    assert kinds["near_miss"] > usual["near_miss"]
    notes = Counter(control.text for control in drawn if control.kind == "injected")
    assert len(notes) > 0.95 * kinds["injected"]
    fixed = Counter(
        control.text for control in _draw(_plan(members * 4), members * 4) if control.kind == "injected"
    )
    assert not notes.keys() & fixed.keys()


def test_the_gates_of_controls_are_the_criteria_that_decide() -> None:
    rubric = load_rubric("caption")
    graded: dict[str, Json] = {"grade": "acceptable", "grade_verdicts": "VERB=MET"}
    own = GradedText(value=graded, rulings=(), judgement=Judgement(rulings=[], cost=Cost()))
    value = make_control_value(own, [], [], rubric, "demo", slots_from="tables")
    deciding = [item for item in rubric.criteria if item.category in ("essential", "pitfall")]
    assert 0 < len(deciding) < len(rubric.criteria)
    assert value == {
        "gradings": [{"kind": "own", "grade": "acceptable", "gates": "VERB=MET"}],
        "gates": [{"gate": item.id, "slot": item.slot or ""} for item in deciding],
        "label": "demo",
        "slots": "tables",
    }
    assert not {"label", "slots"} & make_control_value(own, [], [], rubric, "").keys()
