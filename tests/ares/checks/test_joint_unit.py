"""A015: an episode in degrees among radians is told, an episode of small motions is not."""

from __future__ import annotations

import numpy as np
import pytest

from ares.checks.conventions import check_joint_unit
from ares.signals import EpisodeSignals, TypicalSignal

NAMES = tuple(f"joint_{number}" for number in range(6))
HOME = np.array([0.4, -0.8, 1.2, 0.6, -1.4, 0.9])
SPANS = np.array([0.9, 1.1, 0.7, 1.3, 0.8, 1.0])


def typical() -> TypicalSignal:
    return TypicalSignal(
        range=SPANS,
        least_range=0.8 * SPANS,
        low=HOME - SPANS,
        high=HOME + SPANS,
        speed=SPANS,
        noise=np.full(6, 1e-4),
        largest_change=np.full(6, np.inf),
        fresh=np.ones(6),
        kinds=("arm",) * 6,
        scale=1.0,
    )


def episode(values: np.ndarray) -> EpisodeSignals:
    return EpisodeSignals(
        episode_id="a",
        seconds=np.arange(len(values)) / 20,
        state=values,
        action=values,
        state_names=NAMES,
        action_names=NAMES,
        rate_hz=20.0,
    )


def motion(share: np.ndarray | float) -> np.ndarray:
    """(100, 6): from home, each joint by a share of its usual range."""
    return HOME + share * SPANS * np.linspace(0, 1, 100)[:, None]


@pytest.mark.parametrize("factor", [180 / np.pi, np.pi / 180])
def test_another_unit_is_told(factor: float) -> None:
    assert [finding.code for finding in check_joint_unit(episode(factor * motion(0.9)), typical())] == [
        "A015"
    ]


@pytest.mark.parametrize("share", [0.02, np.array([0.03, 0.046, 0.08, 0.02, 0.04, 0.03])])
def test_a_small_motion_is_no_wrong_unit(share: np.ndarray | float) -> None:
    """A joint that is where it usually is, and hardly moves, is in the same unit."""
    assert not list(check_joint_unit(episode(motion(share)), typical()))
