"""The audit of a dataset: the catalogue is large and clear, and what is planted is counted truly."""

from __future__ import annotations

import numpy as np
import pytest

from ares.checks import CODES, FaultSite
from ares.reports import FAULTS
from tests.generators.robots import random_dataset, random_robot


def test_the_catalogue_has_forty_faults_and_names_the_codes_that_are_to_find_them() -> None:
    assert len(FAULTS) >= 40
    assert {fault.group for fault in FAULTS.values()} == {"signals", "time", "meaning", "metadata", "video"}
    assert {fault.code for fault in FAULTS.values()} <= {"", *CODES}
    assert all(fault.strength > 0 and fault.unit for fault in FAULTS.values())


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.plant is not None])
def test_a_planted_fault_changes_a_copy(name: str) -> None:
    fault, changes = FAULTS[name], 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        (clean,) = random_dataset(robot, rng, episodes=1)
        before = clean.state.copy(), clean.action.copy(), clean.seconds.copy()
        strength = fault.strength * (robot.unit_scale if fault.is_angle else 1)
        dim = robot.moving_joints[0]
        site = FaultSite(dim=dim, action_dim=dim, strength=strength, unit_scale=robot.unit_scale)
        faulty = fault.plant(clean, site, rng) if fault.plant else None
        assert all(map(np.array_equal, before, (clean.state, clean.action, clean.seconds)))
        if faulty is not None:
            after = (faulty.state, faulty.action, faulty.seconds)
            changes += not all(map(np.array_equal, before, after))
    assert changes >= 2
