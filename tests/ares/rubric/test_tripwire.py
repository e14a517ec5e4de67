"""When controls refute a judge: chances by exact sums, and what holds of any controls."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ares.rubric import BATTERY, CONTROL_KINDS, describe_tripwire
from ares.rubric.tripwire import (
    ControlGrading,
    decide_tripwire,
    find_cutoff,
    read_controls,
    tripwire_to_json,
)
from tests.judges.exact import chance_of_battery, chance_of_controls

controls = st.lists(
    st.builds(
        ControlGrading,
        kind=st.sampled_from(CONTROL_KINDS),
        is_accepted=st.booleans(),
        is_of_battery=st.booleans(),
        time=st.integers(1, 40).map(float),
    ),
    max_size=60,
).map(lambda rows: sorted(rows, key=lambda row: row.time))


def test_a_battery_has_48_texts() -> None:
    assert sum(BATTERY.values()) == 48 and BATTERY["note"] == 12


@pytest.mark.parametrize(
    ("shares", "chance"),
    [
        ({}, 0.0),
        ({"all": 0.05}, 0.0155),
        *(({kind: 0.85}, 0.994) for kind in CONTROL_KINDS if kind != "note"),
        ({"note": 0.5}, 0.927),
        ({"all": 1.0}, 1.0),
    ],
)
def test_chances_of_a_battery(shares: dict[str, float], chance: float) -> None:
    assert chance_of_battery(shares) == pytest.approx(chance, abs=5e-4)


@pytest.mark.parametrize(
    ("share", "captions", "chance"),
    [(0.05, 2_000, 0.004), (0.8, 150, 0.901), (0.3, 2_000, 0.877), (1.0, 100, 1.0)],
)
def test_chances_of_later_controls(share: float, captions: int, chance: float) -> None:
    """The last four may be the first four: a judge that accepts everything is refuted by them."""
    assert chance_of_controls(share, captions) == pytest.approx(chance, abs=5e-3)


@given(controls)
def test_one_more_refused_control_refutes_nobody_and_the_first_refutation_stands(
    rows: list[ControlGrading],
) -> None:
    before = decide_tripwire(rows)
    refused = ControlGrading("object", is_accepted=False, is_of_battery=False, time=99.0)
    after = decide_tripwire([*rows, refused])
    assert (after.reason, after.refuted) == (before.reason, before.refuted)
    assert bool(before.reason) == (before.refuted is not None) == (before.first_wrong is not None)
    if before.first_wrong is not None and before.refuted is not None:
        assert before.first_wrong <= before.refuted
        assert any(row.is_accepted and row.time == before.first_wrong for row in rows)


@given(controls)
def test_a_judge_that_accepts_nothing_is_never_refuted(rows: list[ControlGrading]) -> None:
    assert not decide_tripwire([row._replace(is_accepted=False) for row in rows]).reason


@given(controls, st.randoms(use_true_random=False))
def test_the_order_within_a_battery_changes_nothing(rows: list[ControlGrading], dice: random.Random) -> None:
    battery = [row._replace(is_of_battery=True, time=1.0) for row in rows]
    shuffled = dice.sample(battery, len(battery))
    assert decide_tripwire(shuffled).reason == decide_tripwire(battery).reason


def test_two_processes_that_both_tested_a_judge_allow_twice_as_many() -> None:
    rows = [
        ControlGrading("place", is_accepted=number < 4, is_of_battery=True, time=1.0) for number in range(12)
    ]
    assert not decide_tripwire(rows).reason
    rows += [ControlGrading("place", is_accepted=True, is_of_battery=True, time=1.0)]
    assert decide_tripwire(rows).reason == "accepts 5 of 13 wrong places"


@given(st.lists(st.floats(0, 1e9), max_size=400).map(sorted), st.floats(0, 1e9))
def test_the_cutoff_leaves_at_most_150_grades_before_the_first_wrong_control(
    times: list[float], first_wrong: float
) -> None:
    since = find_cutoff(times, first_wrong)
    before = [time for time in times if time < first_wrong]
    assert since in (0.0, *times)
    if len(before) < 150:
        assert since == 0.0, "none of its grades counts"
    else:
        assert since == before[-150]


def test_controls_are_read_with_what_they_are_of_and_when() -> None:
    row = {"kind": "object", "grade": "unsure", "battery": True}
    values: list[dict[str, Any]] = [
        {"time": 9, "gradings": [{**row, "battery": False, "grade": "acceptable"}]},
        {"time": 3, "gradings": [row, {**row, "grade": "error"}]},
        {"gradings": [{"kind": "foreign", "grade": "acceptable"}]},
    ]
    assert read_controls(values) == [
        ControlGrading("object", is_accepted=False, is_of_battery=True, time=3.0),
        ControlGrading("object", is_accepted=True, is_of_battery=False, time=9.0),
    ]


@pytest.mark.parametrize(
    ("accepted", "since", "line"),
    [
        (0, None, "not refuted: accepts 0 of 6 false captions; how many are true people measure"),
        (2, None, "not refuted: accepts 2 of 6 false captions (2 of 6 look-alikes); how many are true people measure"),
        (3, 0.0, "REFUTED on 1970-01-01T00:00:05+00:00: accepts 3 of 6 look-alikes; none of its grades counts"),
        (6, 4.0, "REFUTED on 1970-01-01T00:00:05+00:00: accepts 6 of 6 look-alikes; those since "
         "1970-01-01T00:00:04+00:00 do not count, earlier ones do"),
    ],
)  # fmt: skip
def test_one_line_says_it(accepted: int, since: float | None, line: str) -> None:
    rows = [
        ControlGrading("look_alike", is_accepted=number < accepted, is_of_battery=True, time=5.0)
        for number in range(6)
    ]
    document: Any = tripwire_to_json(decide_tripwire(rows), since)
    assert describe_tripwire(document) == line and document["controls"] == 6
    labelled: Any = tripwire_to_json(decide_tripwire([], "demo judge"), None)
    assert describe_tripwire(labelled) == ("demo judge, not tested yet: its first captions of a run test it")
