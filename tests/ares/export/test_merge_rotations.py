"""Rotations of two sources in other forms are converted to the same rotations, or asked for; halves of one are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ares import open as open_workspace
from ares.contract import find_contracts_of_episodes
from ares.errors import RequestError
from ares.export import MergePlan, OpenQuestionsError, open_questions, propose_merge_plan, read_merge_plan
from ares.export.merge_apply import MergeConverter
from ares.workspace import Workspace
from tests.generators.merged_sources import TurnedSources, turned_sources, write_rotations

# Seeds where names and values say both forms, where they say one, and where the names differ in their order alone.
NAMED, VAGUE, BY_NAME = 98, 2, 162


def propose(seed: int, folder: Path) -> tuple[TurnedSources, Workspace, MergePlan]:
    """Two drawn sources in a workspace, and the plan of their merge."""
    drawn = turned_sources(seed, folder)
    ws = open_workspace(folder / "ws", create=True)
    records = [*drawn.first, *drawn.second]
    ws.stores.tables.episodes.add(records)
    ws.sets.create("mix", [record.episode.episode_id for record in records], {})
    return drawn, ws, propose_merge_plan(ws.stores, ws.sets["mix"])


def largest_error(drawn: TurnedSources, ws: Workspace, plan: MergePlan) -> float:
    """By how much the numbers of the merged rotations are off, as rotation matrices."""
    records = [*drawn.first, *drawn.second]
    contracts = find_contracts_of_episodes(ws.stores, [record.episode.episode_id for record in records])
    converter, errors = MergeConverter(plan, contracts), []
    for record in records:
        _, trajectory = converter.convert(record.episode, record.trajectory)
        assert trajectory.state is not None
        numbers = [
            n for n, name in enumerate(trajectory.state.names) if name not in ("x", "y", "z", "gripper")
        ]
        own = trajectory.state.values[:, numbers]
        truth = write_rotations(drawn.rotations[record.episode.episode_id], drawn.forms[0])
        if drawn.forms[0] in ("xyzw", "wxyz"):
            own = own * np.sign((own * truth).sum(axis=1, keepdims=True))
        errors.append(float(np.abs(own - truth).max()))
    return max(errors)


def wrong_plans(seeds: range, folder: Path) -> dict[int, str]:
    """Seeds at which another form is neither converted nor asked for, or halves of one dataset are asked for."""
    wrong = {}
    for seed in seeds:
        (own := folder / str(seed)).mkdir()
        drawn, ws, plan = propose(seed, own)
        questions = list(open_questions(plan))
        is_one = drawn.forms[0] == drawn.forms[1]
        if questions if is_one else not questions and largest_error(drawn, ws, plan) > 1e-3:
            wrong[seed] = f"{drawn.forms}: {questions}"
    return wrong


@pytest.mark.slow
def test_rotations_in_other_forms_are_asked_for_and_halves_are_not(tmp_path: Path) -> None:
    assert not wrong_plans(range(8), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_rotations_of_200_pairs_are_asked_for_or_of_one_dataset(first: int, tmp_path: Path) -> None:
    assert not wrong_plans(range(first, first + 20), tmp_path)


def test_a_quaternion_becomes_the_angles_of_the_other_source(tmp_path: Path) -> None:
    drawn, ws, plan = propose(NAMED, tmp_path)
    assert (drawn.forms, [turn.form for turn in plan.sources[1].rotations]) == (
        ("euler", "xyzw"),
        ["xyzw", "xyzw"],
    )
    said = "\n".join(open_questions(plan))
    assert "the rotation qx, qy, qz, qw (xyzw) is converted to roll, pitch, yaw (euler) of first" in said
    assert largest_error(drawn, ws, plan) < 1e-5
    with pytest.raises(OpenQuestionsError):
        write(plan, tmp_path / "plan.yaml")
    read = write(plan, tmp_path / "again.yaml", ok=True)
    assert largest_error(drawn, ws, read) < 1e-5, "a plan that was written and read converts alike"


def write(plan: MergePlan, path: Path, *, ok: bool = False, **changes: Any) -> MergePlan:
    """The plan as a person saves it and the export reads it."""
    plan.write(path)
    document = yaml.safe_load(path.read_text())
    for entry in document.get("confirm", ()):
        entry["ok"] = ok
    document["sources"][1] |= changes
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return read_merge_plan(path)


def test_what_a_vague_name_is_has_to_be_answered(tmp_path: Path) -> None:
    drawn, ws, plan = propose(VAGUE, tmp_path)
    said = "\n".join(open_questions(plan))
    assert (
        "which rotation is state 'rot_0', 'rot_1', 'rot_2' of the merged dataset? one of: euler, euler deg"
        in said
    )
    with pytest.raises(OpenQuestionsError, match="which rotation is"):
        write(plan, tmp_path / "open.yaml", ok=True)
    turns = [turn.model_dump() for turn in plan.sources[1].rotations]
    answered = [turn | {"form": drawn.forms[1], "to_form": drawn.forms[0]} for turn in turns]
    read = write(plan, tmp_path / "answered.yaml", ok=True, rotations=answered)
    assert largest_error(drawn, ws, read) < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "rpy"}, "no rotation 'rpy'"),
        ({"form": "euler"}, "rotations of 4 numbers as euler are none of 3 as euler"),
        ({"names": ["qx", "qy", "qz"]}, "the state names of `rotations` are not those that become 'turn'"),
        ({"to": ["x", "pitch", "yaw"]}, "a rotation becomes 'x', which the state has besides"),
    ],
)
def test_a_rotation_that_contradicts_itself_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    _, _, plan = propose(NAMED, tmp_path)
    first, second = (turn.model_dump() for turn in plan.sources[1].rotations)
    with pytest.raises(RequestError, match=message):
        write(plan, tmp_path / "plan.yaml", ok=True, rotations=[first | change, second])


@pytest.mark.slow
def test_quaternions_of_the_same_names_in_another_order_are_mapped_by_name_alone(tmp_path: Path) -> None:
    drawn, ws, plan = propose(BY_NAME, tmp_path)
    assert (drawn.forms, plan.convert) == (("wxyz", "xyzw"), ())
    assert largest_error(drawn, ws, plan) < 1e-5
