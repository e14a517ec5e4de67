"""Built-in specs are valid, and a wrong spec is refused with its field."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.hdf5.source import known_layouts, match_layout
from ares_ingest.spec import (
    ContractSpec,
    DatasetSpec,
    SliceSpec,
    builtin_layouts,
    find_builtin_spec,
    read_spec,
    read_stated_contract,
)

SPECS = sorted((Path(__file__).parents[2] / "ingest" / "specs").glob("*.yaml"))


FAMILIES, FOLDERS = (
    sorted((Path(__file__).parents[2] / "ingest" / "specs" / name).glob("*.yaml"))
    for name in ("families", "folders")
)


@pytest.mark.parametrize("path", [*SPECS, *FAMILIES], ids=lambda path: path.stem)
def test_every_shipped_spec_is_valid_and_says_where_it_is_from(path: Path) -> None:
    assert read_spec(path).reference


# Control frequencies of the Open X-Embodiment overview, which lists them beside the registered names.
RATES = {
    "nyu_rot_dataset": 3, "ucsd_kitchen_dataset": 2, "cmu_franka_exploration_dataset": 10,
    "berkeley_fanuc_manipulation": 10, "cmu_stretch": 10, "cmu_play_fusion": 5, "jaco_play": 10,
    "dlr_edan_shared_control": 5, "imperialcollege_sawyer_wrist_cam": 10, "tokyo_u_lsmo": 10,
    "ucsd_pick_and_place_dataset": 3, "asu_table_top": 12.5, "viola": 20, "kaist_nonprehensile": 10,
    "berkeley_mvp": 5, "utokyo_saytap": 50, "droid": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_the_overview(name: str) -> None:
    spec = find_builtin_spec(name) or find_builtin_spec(f"{name}_converted_externally_to_rlds")
    assert spec is not None and spec.rate_hz == RATES[name]


def test_only_specs_that_were_held_against_records_say_so() -> None:
    assert {path.stem for path in SPECS if read_spec(path).verified} == {"bridge_dataset", "metaworld_sawyer"}


# Groups at the top of a file of each family.
GROUPS = {
    "aloha": ["observations"], "droid": ["action", "observation"], "egodex": ["transforms", "camera"],
    "maniskill": ["traj_0", "traj_1"], "minari": ["episode_0", "episode_1"], "robomimic": ["data", "mask"],
    "robomind": ["puppet", "observations", "master"],
    "robotwin": ["joint_action", "observation", "endpose"], "xpolicylab": ["state", "action", "vision"],
}  # fmt: skip


def recognise(groups: list[str]) -> str:
    """The family of a file with these groups, or ""."""
    layouts = known_layouts()
    found = match_layout(groups, layouts)
    return next((name for name, layout in layouts.items() if layout is found), "")


def test_every_family_is_recognised_by_its_layout() -> None:
    assert {*builtin_layouts()} == {path.stem for path in FAMILIES} == {*GROUPS, "diffusion_policy"}
    assert {name: recognise(groups) for name, groups in GROUPS.items()} == {name: name for name in GROUPS}
    assert recognise(["weights"]) == ""


@pytest.mark.parametrize("family", ["robomimic", "maniskill"])
def test_a_file_with_groups_of_episodes_is_not_one_episode_of_another_family(family: str) -> None:
    """`data/demo_0` beside `observations` was read as one episode of ALOHA, by the order of the alphabet."""
    for other in {*GROUPS} - {"robomimic", "maniskill", "minari"}:
        assert recognise([*GROUPS[other], *GROUPS[family]]) == family


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.stem)
def test_every_layout_of_folders_is_valid_and_says_where_it_is_from(path: Path) -> None:
    assert read_folder_layout(path.stem).reference


def test_known_and_unknown_datasets() -> None:
    droid = find_builtin_spec("droid")
    assert droid is not None and (droid.rate_hz, droid.cameras["wrist_image_left"]) == (15.0, "wrist")
    assert (
        find_builtin_spec("nobody_knows") is None
        and find_builtin_spec("") is None
        and find_builtin_spec("../spec") is None
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rate_hz: -1", "a.yaml: rate_hz"),
        ("rate_hz: fast", "a.yaml: rate_hz"),
        ("stat: []", "id you mean 'state'"),
        ("language: [{text: a, path: b}]", "give either text or path"),
        ("cameras: {front: {key: a, channels: gbr}}", "cameras.front"),
        ("contract: {state.arms: {unit: rad}}", "contract names 'state.arms'"),
        ("contract: {state.arm: {unit: radians}}", "unit 'radians' is none of rad, deg"),
        ("contract: {state.arm: {units: rad}}", "did you mean 'unit'"),
        ("kinematics: {urdf: a.urdf}", "kinematics: .*; it is gone, delete it: .*ws.set_values"),
        ("{", "dataset spec is not YAML"),
        ("layout: {match: [[a]], stat: [[b]]}", "layout.stat"),
        ("layout: {path: ['(']}", "'\\('.* is no regular expression"),
        ("layout: {variants: [{robot: UR5e}]}", "layout.variants.0.when"),
        ("layout: {variants: [{when: {'re:(': 3}}]}", "'\\('.* is no regular expression"),
        ("layout: {action: [['re:(']]}", "layout: .*'\\('.* is no regular expression"),
        ("layout: {left_out: {'re:[': x}}", "'\\['.* is no regular expression"),
        ("layout: {robots: 'a.*'}", "robots 'a.\\*' does not name the groups"),
        ("layout: {folder: [notes]}", "give folder and file together"),
        ("layout: {ends: meta/ends}", "needs ends and arrays"),
        ("layout: {time: clock}", "needs ends and arrays"),
        ("layout: {ends: a, arrays: b, robot: UR5e, rate_hz: 3}", "rate_hz, robot is for HDF5 files"),
    ],
)
def test_wrong_specs_name_the_field(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"reference: x\n{text}\n")
    with pytest.raises(SourceError, match=reason):
        read_spec(path)


def test_slices_and_the_contract_of_a_spec_are_stated() -> None:
    spec = DatasetSpec(
        state=(
            SliceSpec(key="a", names=("x", "y", "z"), unit="m"),
            SliceSpec(key="b", names=("roll", "pitch", "yaw"), unit="rad", convention="euler xyz"),
            SliceSpec(key="c", names=("gripper",), convention="1 is closed"),
        ),
        action=(SliceSpec(key="d", names=("vx_joint_0",), unit="rad/s"),),
        contract={"state.gripper": ContractSpec(gripper="high is open")},
        reference="a test",
    )
    assert read_stated_contract(spec) == {
        "state.position": {"unit": "m"},
        "state.rotation": {"unit": "rad", "rotation": "euler"},
        "state.gripper": {"gripper": "high is open"},
        "action.arm": {"unit": "rad", "mode": "velocity"},
    }


def test_a_person_signs_that_two_datasets_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("contract: {state.arm: {same_as: g1}}\nreference: one driver\n")
    assert read_stated_contract(read_spec(path)) == {"state.arm": {"same_as": "g1"}}
