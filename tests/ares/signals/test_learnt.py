"""Kinds of dimensions by names, and by values where names say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from ares.signals import DimensionKind, classify_by_name, paired_dimensions, parse_arm_name
from ares.signals.dimension_kinds import classify_by_values, learn_kinds, value_evidence
from ares.signals.statistics import switch_like
from tests.generators.robots import random_dimensions


@pytest.mark.parametrize(
    ("name", "kind", "arm"),
    [
        ("kLeftWristYaw", "arm", "left"),
        ("kRightHandThumbBend", "hand", "right"),
        ("shoulder_pan.pos", "arm", ""),
        ("right_gripper", "gripper", "right"),
        ("gripper_x", "position", ""),
        ("left_ee_z", "position", "left"),
        ("ee_roll", "rotation", ""),
        ("robot0_eef_pos_1", "position", "robot0"),
        ("qw", "rotation", ""),
        ("joint_3_vel", "other", ""),
        ("object_x", "other", ""),
        ("base_x", "base", ""),
        ("arm_3", "arm", ""),
        ("arm1_joint_2", "arm", "arm1"),
        ("states_17", "unknown", ""),
        ("", "unknown", ""),
    ],
)
def test_a_name_says_kind_and_arm(name: str, kind: DimensionKind, arm: str) -> None:
    assert (classify_by_name((name,))[0], parse_arm_name(name)) == (kind, arm)


def _claims(values: list[np.ndarray], rate_hz: float, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    ranges = np.median([np.ptp(part, axis=0) for part in values], axis=0)
    largest = np.max([np.abs(part).max(axis=0) for part in values], axis=0)
    switches = np.mean([switch_like(part) for part in values], axis=0) > 0.5
    evidence = [value_evidence(part, rate_hz) for part in values]
    if names:
        return learn_kinds(names, evidence, ranges, largest, switches)
    return classify_by_values(evidence, ranges, largest, switches)


def test_values_claim_nothing_wrong_in_any_order() -> None:
    right = wrong = 0
    for seed in range(500_000, 500_040):
        truth, values, rate_hz = random_dimensions(np.random.default_rng(seed))
        claims = _claims(values, rate_hz)
        right += sum(claim == kind for claim, kind in zip(claims, truth, strict=True))
        wrong += sum(claim not in (kind, "unknown") for claim, kind in zip(claims, truth, strict=True))
    assert wrong <= 0.01 * right, f"{wrong} wrong, {right} right"
    assert right > 350


def test_names_stand_above_values_and_few_episodes_say_nothing() -> None:
    truth, values, rate_hz = random_dimensions(np.random.default_rng(3))
    hidden = tuple(f"states_{number}" for number in range(len(truth)))
    named = ("wheel", *hidden[1:])
    assert _claims(values, rate_hz, named)[0] == "base"
    assert _claims(values, rate_hz, named)[1:] == _claims(values, rate_hz, hidden)[1:]
    assert set(_claims(values[:2], rate_hz, hidden)) == {"unknown"}


def test_dimensions_are_paired_by_name_and_bare_numbers_are_not() -> None:
    assert paired_dimensions(("x", "gripper.pos"), ("gripper.pos", "x")) == ((1, 0), (0, 1))
    assert paired_dimensions(("states_0", "states_1"), ("actions_0",)) == ()
