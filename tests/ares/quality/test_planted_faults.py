"""Planted faults: each changes an episode as its strength says, and the generated robots differ."""

from __future__ import annotations

import numpy as np
import pytest

from ares.signals import paired_dimensions
from tests.generators.planting import ANGLES, PLANTERS, FaultSite
from tests.generators.robots import random_dataset, random_robot
from tests.generators.scoring import plant_fault
from tests.generators.strengths import STRENGTHS


@pytest.mark.parametrize("code", PLANTERS)
def test_every_code_has_a_fault_that_can_be_planted(code: str) -> None:
    planted = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        clean = random_dataset(robot, rng, episodes=1)[0]
        unit = robot.unit_scale if code in ANGLES else 1.0
        dim = robot.moving_joints[0]
        site = FaultSite(
            dim=dim, action_dim=dim, strength=STRENGTHS[code].size * unit, unit_scale=robot.unit_scale
        )
        before = clean.state.copy(), clean.action.copy()
        faulty = plant_fault(code, clean, site, rng)
        assert np.array_equal(before[0], clean.state) and np.array_equal(before[1], clean.action)
        if faulty is not None:
            planted += 1
            changed = (faulty.seconds, faulty.state, faulty.action)
            kept = (clean.seconds, clean.state, clean.action)
            assert not all(np.array_equal(new, old) for new, old in zip(changed, kept, strict=True))
    assert planted >= 4


def test_generated_episodes_are_finite_and_differ_between_seeds() -> None:
    robots = [random_robot(np.random.default_rng(seed)) for seed in range(40)]
    assert len({(robot.rate_hz, robot.joints) for robot in robots}) > 20
    assert {robot.unit_scale for robot in robots} == {1.0, 180 / np.pi}
    episode = random_dataset(robots[0], np.random.default_rng(1), episodes=1)[0]
    assert np.isfinite(episode.state).all() and np.isfinite(episode.action).all()
    assert episode.state.shape == (len(episode.seconds), len(robots[0].joints))


def test_dimensions_are_paired_by_name_and_bare_numbers_are_not() -> None:
    assert paired_dimensions(("x", "gripper.pos"), ("gripper.pos", "x")) == ((1, 0), (0, 1))
    assert paired_dimensions(("states_0", "states_1"), ("actions_0",)) == ()
