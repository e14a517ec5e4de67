"""A set of degrees and radians, or of two gripper conventions, cannot be exported by accident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.contract import ClashError, find_contracts_of_episodes
from ares.episode import Record, Signal
from ares.errors import RequestError
from ares.registry import exporters
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.ares.export.made_episodes import make_record, make_set
from tests.thinning import some_by_day

JOINTS = tuple(f"joint_{number}" for number in range(6))


def arm_record(number: int, dataset: str, scale: float = 1.0, names: Sequence[str] = JOINTS) -> Record:
    """An arm that moves up to 2.6 rad, times the scale, and an action that leads it by two steps."""
    rng = np.random.default_rng(number)
    seconds = np.arange(200)[:, None] / 20
    state = scale * (np.linspace(-1.5, 2, 6) + 0.6 * np.sin(seconds * rng.uniform(0.3, 1.2, 6)))
    return record(number, dataset, tuple(names), state, np.roll(state, -2, axis=0))


def gripper_record(number: int, dataset: str, is_high_open: bool) -> Record:
    """A gripper that closes on something 0.3 wide, twice; in a tenth episode it misses that."""
    command = np.where(np.arange(200) % 100 < 50, 1.0, 0.0)[:, None]
    opening = np.maximum(command, 0.0 if number % 10 == 0 else 0.3)
    state, action = (opening, command) if is_high_open else (1 - opening, 1 - command)
    return record(number, dataset, ("gripper",), state, action)


def record(
    number: int, dataset: str, names: tuple[str, ...], state: np.ndarray, action: np.ndarray
) -> Record:
    made = make_record(number, len(state), reward=False, names=names, dataset=dataset, cameras=())
    own_state, own_action = (Signal(values.astype(np.float32), names) for values in (state, action))
    return replace(made, trajectory=replace(made.trajectory, state=own_state, action=own_action))


def exported_states(folder: Path) -> dict[str, np.ndarray]:
    """The state of every exported episode."""
    table = pq.read_table(folder / "steps.parquet", columns=["episode_id", "state"])
    ids = np.array(table["episode_id"].to_pylist())
    values = np.array(table["state"].to_pylist())
    return {str(episode): values[ids == episode] for episode in np.unique(ids)}


@pytest.mark.parametrize("format", some_by_day(exporters.names(), kept=("lerobot", "rlds")))
def test_degrees_and_radians_are_refused_until_a_conversion_is_named(
    ws: Workspace, tmp_path: Path, format: str
) -> None:
    records = [arm_record(1, "radians"), arm_record(2, "radians"), arm_record(3, "degrees", 180 / np.pi)]
    frozen = make_set(ws, records)
    out = tmp_path / "out"
    with pytest.raises(ClashError) as refusal:
        ws.export(frozen, out, format=format, quiet=True)
    assert refusal.value.lines == tuple(
        f"unit of {signal}.arm: deg in degrees; rad in radians; name the conversion "
        f"(--convert {signal}.arm=rad), or split the set by dataset; or sign that they mean the same "
        f'(--convert "radians/{signal}.arm: as in degrees")'
        for signal in ("state", "action")
    )
    with pytest.raises(ClashError, match=r"unit of action\.arm"):
        ws.export(frozen, out, format=format, convert=["state.arm=rad"], quiet=True)
    assert not out.exists()
    convert = ["state.arm=rad", "action.arm=rad"]
    report = ws.export(frozen, out, format=format, convert=convert, quiet=True)
    # Lines of texts have no signals that could be converted.
    converted = () if format == "jsonl" else ("action", "state")
    assert [dict(change) for change in report.changed] == [
        {"reason": f"{signal}.arm of degrees: rad, from deg", "episodes": 1} for signal in converted
    ]
    if format == "parquet":
        states = exported_states(out)
        for source in records:
            stored = source.trajectory.state
            assert stored is not None
            scale = np.pi / 180 if source.episode.dataset == "degrees" else 1
            np.testing.assert_allclose(states[source.episode.episode_id], stored.values * scale, rtol=1e-5)


def test_two_gripper_conventions_are_refused_until_a_conversion_is_named(
    ws: Workspace, tmp_path: Path
) -> None:
    records = [gripper_record(1, "opens", True), *(gripper_record(n, "closes", False) for n in (2, 3, 10))]
    frozen = make_set(ws, records)
    with pytest.raises(ClashError) as refusal:
        ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    assert len(refusal.value.lines) == 2
    assert "high is closed in closes; fraction, high is open in opens" in refusal.value.lines[0]
    assert "--convert state.gripper=open1" in refusal.value.lines[0]
    convert = ["state.gripper=open1", "action.gripper=open1"]
    ws.export(frozen, tmp_path / "out", format="parquet", convert=convert, quiet=True)
    first, second, *_ = (exported_states(tmp_path / "out")[part.episode.episode_id] for part in records)
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.slow
def test_one_episode_in_degrees_is_left_out_of_radians(ws: Workspace, tmp_path: Path) -> None:
    """The contract is of a sample: an episode that is not in it is looked at when it is exported."""
    ws.stores.tables.episodes.add([arm_record(number, "radians") for number in range(1, 70)])
    late = arm_record(0xFFFF, "radians", 180 / np.pi)
    ws.stores.tables.episodes.add([late])
    frozen = ws.sets.create("made", ws.stores.tables.episodes.ids(), {})
    report = ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    assert report.episodes == 69
    assert "another unit than its dataset" in str(report.failures)


def test_degrees_and_radians_within_one_dataset_are_refused(ws: Workspace, tmp_path: Path) -> None:
    records = [arm_record(1, "both"), arm_record(2, "both"), arm_record(3, "both", 180 / np.pi)]
    with pytest.raises(ClashError, match=r"unit of state\.arm: deg in both; rad in both"):
        ws.export(make_set(ws, records), tmp_path / "out", format="parquet", quiet=True)


def test_absolute_and_delta_actions_are_refused_and_converted(ws: Workspace, tmp_path: Path) -> None:
    absolute, moved = arm_record(1, "absolute"), arm_record(2, "delta")
    state = moved.trajectory.state
    assert state is not None
    changes = np.diff(state.values, axis=0, append=state.values[-1:])
    delta = replace(moved, trajectory=replace(moved.trajectory, action=Signal(changes, JOINTS)))
    frozen = make_set(ws, [absolute, delta])
    with pytest.raises(ClashError, match=r"mode of action.arm: absolute in absolute; delta in delta"):
        ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    ws.export(frozen, tmp_path / "out", format="parquet", convert=["action.arm=absolute"], quiet=True)
    table = pq.read_table(tmp_path / "out" / "steps.parquet").to_pandas()
    actions = np.stack(table[table.episode_id == delta.episode.episode_id].action)
    np.testing.assert_allclose(actions[:-1], state.values[1:], atol=1e-4)


def test_dimensions_in_another_order_are_refused_and_converted(ws: Workspace, tmp_path: Path) -> None:
    usual = arm_record(3, "turned").trajectory
    assert usual.state is not None and usual.action is not None
    turned = record(3, "turned", JOINTS[::-1], usual.state.values[:, ::-1], usual.action.values[:, ::-1])
    records = [arm_record(1, "usual"), arm_record(2, "usual"), turned]
    frozen = make_set(ws, records)
    with pytest.raises(ClashError, match=r"order of state: .*--convert state=order"):
        ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    convert = ["state=order", "action=order"]
    report = ws.export(frozen, tmp_path / "out", format="lerobot", convert=convert, quiet=True)
    assert len(report.datasets) == 1


def test_what_cannot_be_converted_or_is_unknown_is_told(ws: Workspace, tmp_path: Path) -> None:
    frozen = make_set(ws, [arm_record(1, "radians"), arm_record(2, "some", 0.0)])
    report = ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    assert "unit of state.arm: unknown in some" in report.unknown
    with pytest.raises(RequestError, match=r"the unit of state.arm in some is not known"):
        ws.export(frozen, tmp_path / "b", format="parquet", convert=["state.arm=deg"], quiet=True)
    with pytest.raises(RequestError, match=r"the set has no signal 'state\.gripper'"):
        ws.export(frozen, tmp_path / "b", format="parquet", convert=["state.gripper=open1"], quiet=True)


def test_the_set_is_made_and_the_command_warns(
    ws: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [arm_record(1, "radians"), arm_record(3, "degrees", 180 / np.pi)]
    ws.stores.tables.episodes.add(records)
    assert main(["set", "create", "mix", "-w", ws.path]) == 0
    printed = capsys.readouterr()
    assert "set mix@1: 2 episodes" in printed.out
    assert "warning: unit of state.arm: deg in degrees; rad in radians" in printed.err
    assert main(["export", "mix", str(tmp_path / "out"), "--format", "parquet", "-w", ws.path]) == 2
    refused = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ares export:")]
    assert len(refused) == 2


def test_sets_of_many_members_have_the_contracts_of_small_ones(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of many members are counted in a scan of the table, those of few are read by their ids."""
    records = [arm_record(1, "radians"), arm_record(2, "radians"), arm_record(3, "degrees", 180 / np.pi)]
    others = [arm_record(4, "radians"), arm_record(5, "others")]
    ws.stores.tables.episodes.add(others)
    frozen = make_set(ws, records)
    contracts = find_contracts_of_episodes(ws.stores, ws.sets.ids(frozen))
    assert [(layout.key.dataset, layout.num_episodes) for layout in contracts] == [
        ("degrees", 1),
        ("radians", 2),
    ]
    monkeypatch.setattr("ares.contract.set_contracts._READ_BY_ID", 2)
    assert find_contracts_of_episodes(ws.stores, ws.sets.ids(frozen)) == contracts
    assert find_contracts_of_episodes(ws.stores, []) == []


@pytest.mark.slow
def test_a_person_states_what_nothing_infers(ws: Workspace, tmp_path: Path) -> None:
    """The factor shows, the unit does not: 35 is degrees or a percentage."""
    records = [arm_record(1, "radians"), arm_record(2, "radians"), arm_record(3, "other", 10.0)]
    frozen = make_set(ws, records)
    with pytest.raises(ClashError) as refusal:
        ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    assert "or sign that they mean the same" in refusal.value.lines[0]
    convert = [f"other/{signal}.arm: times 0.1" for signal in ("state", "action")]
    report = ws.export(frozen, tmp_path / "out", format="parquet", convert=convert, quiet=True)
    assert [change["episodes"] for change in report.changed] == [1, 1]
    states = exported_states(tmp_path / "out")
    assert max(np.abs(values).max() for values in states.values()) < 4
    stated = [f"other/{signal}.arm: as in radians" for signal in ("state", "action")]
    ws.export(frozen, tmp_path / "signed", format="parquet", convert=stated, quiet=True)
    assert max(np.abs(values).max() for values in exported_states(tmp_path / "signed").values()) > 10


def test_a_stated_unit_converts_only_the_dataset_that_may_have_it(ws: Workspace, tmp_path: Path) -> None:
    records = [arm_record(1, "radians"), arm_record(2, "degrees", 180 / np.pi / 1.5)]
    frozen = make_set(ws, records)
    convert = [f"{signal}.arm: deg -> rad" for signal in ("state", "action")]
    ws.export(frozen, tmp_path / "out", format="parquet", convert=convert, quiet=True)
    states = exported_states(tmp_path / "out")
    stored = records[0].trajectory.state
    assert stored is not None
    np.testing.assert_allclose(states[records[0].episode.episode_id], stored.values, rtol=1e-5)
    assert np.abs(states[records[1].episode.episode_id]).max() < 3


@pytest.mark.slow
def test_one_odd_episode_does_not_turn_the_unit_and_is_left_out(ws: Workspace, tmp_path: Path) -> None:
    records = [arm_record(number, "radians") for number in range(1, 56)]
    records[30] = arm_record(31, "radians", 600.0)
    frozen = make_set(ws, records)
    contract = find_contracts_of_episodes(ws.stores, ws.sets.ids(frozen))[0].contract
    assert contract is not None
    arm = contract.signal("state.arm")
    assert arm is not None and arm.estimate("unit").value == "rad"
    assert contract.outlier_episodes == (records[30].episode.episode_id,)
    report = ws.export(frozen, tmp_path / "out", format="parquet", quiet=True)
    assert report.episodes == 54 and "another unit than its dataset" in str(report.failures)
