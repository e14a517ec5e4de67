"""A spec corrects what the signals of a dataset mean; the ingestion stores both."""

from __future__ import annotations

from pathlib import Path

import pytest

import ares
from ares.contract import DatasetKey, read_contracts
from ares.errors import SourceError
from ingest.base import SourceOptions
from ingest.spec import ContractSpec, DatasetSpec, SliceSpec, read_spec, read_stated_contract
from tests.ingesting import ingest_paths


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


def test_ingestion_stores_the_contract_and_a_later_spec_corrects_it(
    tmp_path: Path, demo_samples: Path
) -> None:
    workspace = ares.open(tmp_path / "ws", create=True)
    source = str(demo_samples / "rlds")
    ingest_paths(workspace.stores, [source], SourceOptions(rate_hz=10.0), quiet=True)
    episode = next(iter(workspace.stores.tables.episodes.read(limit=1)))
    key = DatasetKey(episode.format, episode.dataset, episode.version)
    stored = read_contracts(workspace.stores.annotations, key)
    contract = stored.of_layout(episode.state_names, episode.action_names)
    assert contract is not None
    position = contract.signal("action.position")
    assert position is not None
    assert position.estimate("unit").value == "normalised"
    spec = tmp_path / "spec.yaml"
    spec.write_text("contract: {action.position: {unit: mm}}\nreference: a test\n")
    ingest_paths(workspace.stores, [source], SourceOptions(rate_hz=10.0, spec=str(spec)), quiet=True)
    corrected = read_contracts(workspace.stores.annotations, key).of_layout(
        episode.state_names, episode.action_names
    )
    assert corrected is not None
    stated = corrected.signal("action.position")
    assert stated is not None
    assert (stated.estimate("unit").value, stated.estimate("unit").origin) == ("mm", "spec")


def test_a_person_signs_that_two_datasets_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("contract: {state.arm: {same_as: g1}}\nreference: one driver\n")
    assert read_stated_contract(read_spec(path)) == {"state.arm": {"same_as": "g1"}}
