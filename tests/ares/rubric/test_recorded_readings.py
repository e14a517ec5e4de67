"""What captions and grades come to, line by line: slots, checks, wrong texts and sentences; recorded.

The lines are in tests/fixtures/recorded/rubric-*.text; what a line says is what a person reads in a grade or a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product, takewhile
from random import Random
from typing import Any

import numpy as np
import pytest

from ares.episode import Signal, Trajectory
from ares.rubric import (
    CHECKS,
    CheckInput,
    SlotName,
    Verdict,
    choose_foreign_text,
    invent_note,
    make_grade_value,
    make_near_miss,
    make_slot_columns,
    normalize_caption,
    parse_known_text,
)
from ares.rubric.caption_parser import read_action_and_outcome
from ares.rubric.control_texts import are_different_actions
from ares.rubric.gate_verdicts import decide_grade_from_gates, parse_gate_verdicts, rests_on_people
from ares.rubric.verdict import correct_grade
from tests.recordings import RECORDED, compare_with_recording

_LINES = RECORDED.with_name("captions.text").read_text("utf-8").splitlines()
# The texts of the first part, with which other recordings are made.
CAPTIONS = [json.loads(line) for line in takewhile(lambda line: line[0] == '"', _LINES[2:])]
SLOTS_OF_TEXTS: tuple[dict[SlotName, str], ...] = (
    {"action": "other: juggle", "object": "the Red ball", "hand": "the left hand", "count": "Two"},
    {"action": "Pick up", "object": "mug", "from": "from inside the cupboard", "to": "onto the table"},
    {"from": "out of the box", "hand": "robot"},
    {"action": "move", "to": "the table", "manner": "slowly", "outcome": "not completed"},
    {
        "action": "close",
        "count": "3",
        "attributes": "small, green",
        "object": "a box",
        "hand": "with both arms",
    },
    {"object": "an apple", "outcome": "completed"},
    {},
)
ACTIONS = (
    "pick up",
    "lift",
    "place",
    "other: juggle",
    "close",
    "open",
    "push",
    "pull",
    "grab",
    "turn on",
    "turn off",
)


def _record(name: str, lines: Iterable[Any]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
    compare_with_recording(f"rubric-{name}.text", text)


def _trajectory(motion: float, grip: float, steps: int = 20) -> Trajectory:
    ramp = np.linspace(0.0, 1.0, steps)
    values = np.stack([5 + motion * ramp, grip * ramp], axis=1).astype(np.float32)
    return Trajectory(timestamps=np.arange(steps) / 10.0, state=Signal(values, ("x", "Gripper")))


def _checks(caption: CheckInput) -> dict[str, list[str]]:
    results = {name: check(caption) for name, check in CHECKS.items()}
    return {name: [str(part) for part in result if part] for name, result in results.items() if any(result)}


def test_captions_have_their_slots_columns_and_checks() -> None:
    """What is to be seen of the texts stands above them: wordings of one claim have equal lines, and so on."""
    lines: list[Any] = []
    for line in _LINES[1:]:
        if line.startswith("#"):
            lines.append(line)
            continue
        text = json.loads(line)
        form, known = normalize_caption(text), parse_known_text(text)
        caption = CheckInput(text=text, slots=known.slots, trajectory=None)
        said = [form.phrase, form.outcome]
        lines.append([text[:60], said, known.slots, make_slot_columns(known.slots), _checks(caption)])
    _record("captions", lines)


def test_a_lab_with_verbs_of_its_own_has_them_in_the_slots() -> None:
    verbs = {"spin down": "centrifuge", "take": "hold", "shut": "close", "turn on": "switch"}
    _record("own-verbs", ([text[:60], read_action_and_outcome(text, verbs)] for text in CAPTIONS[:40]))


def test_slots_make_columns() -> None:
    _record("slots", ([slots, make_slot_columns(slots)] for slots in SLOTS_OF_TEXTS))


def test_actions_are_different_or_not() -> None:
    _record("actions", ([*pair, are_different_actions(*pair)] for pair in product(ACTIONS, ACTIONS)))


@pytest.mark.parametrize("claimed", ["completed", "not completed"])
def test_signals_contradict_what_they_cannot_have_done(claimed: str) -> None:
    least = 0.01  # of the largest value
    signals = [
        _trajectory(motion, grip, steps)
        for motion, grip, steps in product(
            (0.0, 0.5 * least, 5.0), (0.0, 0.5 * least, 1.5 * least), (1, 2, 20)
        )
    ]
    broken = _trajectory(0.0, 0.0)
    assert broken.state is not None
    broken.state.values[3] = np.nan
    lines = []
    for action, trajectory in product(("pick up", "grasp", "push"), [None, *signals, broken]):
        caption = CheckInput(text="x y", slots={"action": action, "outcome": claimed}, trajectory=trajectory)
        checks = {
            name: found
            for name, found in _checks(caption).items()
            if name in ("grasp_without_close", "still_arm")
        }
        lines.append([action, checks])
    _record(f"signals-{claimed.replace(' ', '-')}", lines)


def test_wrong_texts_are_made_of_slots() -> None:
    texts = [parse_known_text(text) for text in CAPTIONS[:36]]
    lines: list[Any] = []
    for others in ([], texts[:12]):
        for number, own in enumerate(texts):
            random, statements = Random(number), texts[number : number + 2]
            miss = make_near_miss("action", statements, others, random)
            other = choose_foreign_text(statements, others, random)
            lines.append([own.text, miss.slots["action"] if miss else "", miss.text if miss else ""])
            lines.append(f"foreign: {other.text} ({other.slots['outcome']})")
    _record("wrong-texts", lines)


def test_notes_are_made() -> None:
    _record("notes", (invent_note(Random(seed)).replace("{}", "press the button") for seed in range(24)))


GATE_TEXTS = (
    "VERB=MET OBJECT=MET OUTCOME=MET",
    "VERB=MET OBJECT=MET OUTCOME=MET(label)",
    "VERB=MET OBJECT=UNMET(code) OUTCOME=UNSURE",
    "VERB=MET(person) OBJECT=MET(code) OUTCOME=MET(label)",
    "VERB=MET(person) OBJECT=MET OUTCOME=MET",
    "VERB=UNMET(person) OBJECT=MET OUTCOME=MET",
    "VERB=MET DESTINATION=MET OUTCOME=NA",
    "VERB=MET ATTRIBUTES=UNSURE",
    "VERB=ERROR OBJECT=MET",
    "OUTCOME=UNMET VERB=MET",
    "OTHER=MET",
    "VERB=NA",
    "",
)


def _ruling(criterion: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"criterion": criterion, "verdict": verdict, "category": "essential", "source": "choice", **more}


_MET = _ruling("VERB", "MET", margin=0.8, slot="action", claimed="close")
_THING: dict[str, Any] = {
    "slot": "object",
    "claimed": "the drawer",
    "observed": "door",
    "evidence": [1.0, 2.25],
}


def test_rulings_come_to_a_grade_with_its_sentence() -> None:
    tables: list[list[dict[str, Any]]] = [
        [_MET],
        [
            _MET,
            _ruling("OBJECT", "MET", margin=0.6, source="hard"),
            _ruling("FORM", "UNMET", category="optional"),
        ],
        [
            _MET,
            _ruling("PITFALLS", "MET", category="pitfall"),
            _ruling("STYLE", "UNMET", category="important"),
        ],
        [_ruling("FORM", "MET", category="optional")],
        [_MET, _ruling("OBJECT", "NA")],
        [],
    ]
    sources = ("observation", "comparison", "choice", "stored", "probe", "hard", "person", "panel")
    for verdict, source, observed in product(("UNMET", "UNSURE", "ERROR"), sources, ("door", "")):
        own = {**_THING, "observed": observed, "source": source, "reason": "the door is red", "margin": 0.5}
        tables.append([_ruling("OBJECT", verdict, **own), _MET])
    tables.append(
        [
            _ruling("HAND", "UNSURE", reason="not asked, OBJECT is not met"),
            _ruling("OBJECT", "UNSURE", **_THING),
            _MET,
        ]
    )
    tables.append([_ruling("OBJECT", "UNMET", **_THING), _ruling("TO", "UNMET", reason="not there"), _MET])
    tables.append(
        [_ruling("OBJECT", "ERROR"), _ruling("TO", "ERROR", reason="no reply"), _ruling("HAND", "UNSURE")]
    )
    lines: list[Any] = []
    for rulings in tables:
        value = make_grade_value(rulings)
        lines.append({name: item for name, item in value.items() if name != "rulings"})
    for text in GATE_TEXTS:
        grade = decide_grade_from_gates(gate.verdict for gate in parse_gate_verdicts(text))
        lines.append([text, grade, rests_on_people(text)])
    _record("grades", lines)


def test_a_person_has_the_last_word_on_a_grade() -> None:
    lines: list[Any] = []
    by_person = _ruling("OBJECT", "MET", source="person")
    cases: list[tuple[Any, list[Any]]] = [
        (make_grade_value([_MET, _ruling("OBJECT", "UNMET", **_THING)]), [by_person]),
        ({}, [by_person]),
        ({}, [{**by_person, "verdict": "UNMET"}]),
        ({"rulings": "none"}, [by_person, {**by_person, "verdict": "UNSURE"}]),
    ]
    for graded, corrections in cases:
        corrected = correct_grade(graded, corrections)
        lines.append([corrected["grade"], corrected["acceptable"], corrected["why"]])
    _record("corrected-grades", lines)


@pytest.mark.parametrize("lacks", ["criterion", "verdict", "category"])
def test_a_ruling_that_lacks_a_part_is_no_ruling(lacks: str) -> None:
    ruling = {name: item for name, item in _ruling("OBJECT", Verdict.MET).items() if name != lacks}
    with pytest.raises(ValueError, match=f"a ruling has no {lacks}"):
        make_grade_value([ruling])
    with pytest.raises(ValueError, match="one ruling per criterion is needed"):
        make_grade_value([_ruling("OBJECT", "MET"), _ruling("OBJECT", "MET")])
    with pytest.raises(ValueError, match="no category 'vital'"):
        make_grade_value([_ruling("OBJECT", "MET", category="vital")])
