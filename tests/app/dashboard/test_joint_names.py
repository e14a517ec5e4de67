"""Dimensions of a humanoid are grouped by side and part of the body, however a dataset spells them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ares
from ares.episode import Signal
from ares_app.dashboard.player_data import (
    find_body_part,
    group_dimensions,
    make_signal_plots,
    paired_dimensions,
    short_name,
)

_PARTS = ("shoulder", "elbow", "wrist", "hand", "hip", "knee", "ankle")
_LIMBS = {part: "arm" if part in _PARTS[:3] else "hand" if part == "hand" else "leg" for part in _PARTS}
_AXES = ("pitch", "roll", "yaw")
# How datasets spell side, part and axis; "l" stands for the first letter of the side.
_SPELLINGS: tuple[Callable[[str, str, str], str], ...] = (
    lambda side, part, axis: f"k{side.title()}{part.title()}{axis.title()}",
    lambda side, part, axis: f"{side}_{part}_{axis}_joint",
    lambda side, part, axis: f"{side[0].upper()}_{part.upper()}_{axis.upper()}",
    lambda side, part, axis: f"{side[0].upper()}{part.title()}{axis.title()}",
    lambda side, part, axis: f"{part}_{side[0]}_{axis}",
    lambda side, part, axis: f"observation.state.{side}_arm_{part}.{axis}",
    lambda side, part, axis: f"{side[0]}{part}_{axis}.pos",
    lambda side, part, axis: f"{side}{part.title()}{axis.title()}",
)


@pytest.mark.parametrize("number", range(len(_SPELLINGS)))
def test_every_spelling_has_the_same_groups(number: int) -> None:
    random_state = random.Random(number)
    joints = [(side, part, axis) for side in ("left", "right") for part in _PARTS for axis in _AXES]
    joints = random_state.sample(joints, 25)
    names = [_SPELLINGS[number](*joint) for joint in joints]
    groups = group_dimensions(names)
    assert sorted(position for _, positions in groups for position in positions) == list(range(25))
    for group, positions in groups:
        assert {f"{joints[position][0]} {_LIMBS[joints[position][1]]}" for position in positions} == {group}
        for position in positions:
            assert short_name(names[position], group).split()[-1] == joints[position][2]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("kLeftHandThumbBend", "left hand"),
        ("right_index_proximal", "right hand"),
        ("waist_yaw_joint", "torso"),
        ("neck_pitch", "head"),
        ("main_gripper", "gripper"),
        ("left_arm_joint_3", "left arm"),
        ("motor_3", ""),
        ("r", ""),
        ("index", ""),
        ("ee_pos_x", ""),
    ],
)
def test_parts_of_single_names(name: str, part: str) -> None:
    assert find_body_part(name) == part


def test_names_of_no_body_are_grouped_by_their_first_word() -> None:
    assert group_dimensions(["kBaseX", "kBaseY", "speed"]) == [("base", [0, 1]), ("", [2])]
    assert group_dimensions(["motor_0", "motor_1"]) == [("", [0, 1])]


def test_the_action_is_drawn_over_the_state_only_where_it_commands_the_same_numbers() -> None:
    rng = np.random.default_rng(3)
    values = (np.cumsum(rng.normal(size=(80, 3)), axis=0) / 10 + 4).astype(np.float32)
    state = Signal(values=values, names=("joint_a.pos", "joint_b.pos", "joint_c.pos"))
    names = ("action.c", "action.a", "gripper")
    order = [2, 0, 1]
    commanded = np.asarray(values[:, order] + 0.01, dtype=np.float32)
    assert paired_dimensions(state, Signal(values=commanded, names=names)) == {0: 1, 2: 0}
    deltas = np.diff(values[:, order], axis=0, prepend=values[:1, order]).astype(np.float32)
    assert paired_dimensions(state, Signal(values=deltas, names=names)) == {}


def test_the_joints_of_a_g1_are_in_groups_with_their_commands(shared_data: Path, tmp_path: Path) -> None:
    with ares.open(tmp_path / "w", create=True) as workspace:
        workspace.ingest(str(shared_data / "g1_bottle_lerobot_v30"))
        (trajectory, *_) = [
            workspace.stores.tables.trajectories.get(episode_id)
            for episode_id in sorted(workspace.stores.tables.episodes.ids())
        ]
        (plot,) = make_signal_plots(trajectory)
    assert isinstance(plot, dict) and plot["title"] == "State and action"
    groups = {group["name"]: [line["label"] for line in group["lines"]] for group in plot["groups"]}
    assert groups["left arm"][:3] == ["shoulder pitch", "shoulder roll", "shoulder yaw"]
    assert groups["right hand"] == ["pinky", "ring", "middle", "index", "thumb bend", "thumb rotation"]
    assert sorted(groups) == ["left arm", "left hand", "right arm", "right hand"]
    assert all(line["action"] for group in plot["groups"] for line in group["lines"])
