"""A spec corrects what the signals of a dataset mean; the ingestion stores both."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ingest.spec import ContractSpec, DatasetSpec, SliceSpec, read_spec, read_stated_contract


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contract: {state.arms: {unit: rad}}", "contract names 'state.arms'"),
        ("contract: {state.arm: {unit: radians}}", "unit 'radians' is none of rad, deg"),
        ("contract: {state.arm: {units: rad}}", "did you mean 'unit'"),
    ],
)
def test_a_wrong_contract_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{text}\nreference: a test\n")
    with pytest.raises(SourceError) as error:
        read_spec(path)
    assert message in str(error.value)


def test_a_person_signs_that_two_datasets_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("contract: {state.arm: {same_as: g1}}\nreference: one driver\n")
    assert read_stated_contract(read_spec(path)) == {"state.arm": {"same_as": "g1"}}
