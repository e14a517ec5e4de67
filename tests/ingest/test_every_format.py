"""Of every format: the spec that is shown reads the same, one that is edited decides, and a wrong one is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.episode import Record
from ares.errors import SourceError
from ingest.base import SourceOptions
from ingest.operation import show_specs
from tests.ingest.agibot.conftest import (
    arrays as agibot_arrays,
    write_agibot,
    write_episode as write_agibot_episode,
)
from tests.ingest.conftest import write_rlds
from tests.ingest.image_folders.conftest import write_episode as write_table_episode, write_table
from tests.ingest.recordings.rosbag.conftest import write_ros1, write_ros2
from tests.ingest.test_show_and_apply import assert_same
from tests.ingest.zarr.conftest import write_store
from tests.ingesting import open_sources, request_for

STEPS = 6
STAMPS = 1_700_000_000_000_000_000 + np.array([0, 50, 100, 170, 200, 250]) * 1_000_000


class Layout(NamedTuple):
    """How a format is written for a test, and the names of its parts.

    Attributes:
        write: Writes a dataset into a folder.
        state: Array, column or topic that is the state, or a part of it.
        action: The same of the action.
        camera: A camera, or "".
    """

    write: Callable[[Path], object]
    state: str
    action: str
    camera: str = ""


def arrays() -> dict[str, Any]:
    """Arrays of an episode with stamps in nanoseconds beside it."""
    random = np.random.default_rng(1)
    return {
        "state": random.random((STEPS, 3)).astype(np.float32),
        "action": random.random((STEPS, 2)).astype(np.float32),
        "eye": random.integers(0, 255, (STEPS, 8, 8, 3), np.uint8),
        "clock": STAMPS,
    }


def write_npz(folder: Path) -> None:
    folder.mkdir()
    np.savez(folder / "a.npz", **arrays())


def write_hdf5(folder: Path) -> None:
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as file:
        for key, values in arrays().items():
            file[key] = values


def write_demos(folder: Path) -> None:
    folder.mkdir()
    values = arrays()
    with h5py.File(folder / "a.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"], demo["obs/robot0_eef_pos"] = values["action"], values["state"]
        demo["obs/eye_image"], demo["obs/clock"] = values["eye"], values["clock"]


RLDS = {
    "steps/action": "float32 2",
    "steps/observation/state": "float32 3",
    "steps/observation/eye": "png 8 12 3",
    "steps/observation/clock": "int64",
}
LAYOUTS = {
    "npz": Layout(write_npz, "state", "action", "eye"),
    "hdf5": Layout(write_hdf5, "state", "action", "eye"),
    "robomimic": Layout(write_demos, "obs/robot0_eef_pos", "actions", "eye_image"),
    "zarr": Layout(lambda folder: write_store(folder / "a.zarr"), "state", "action", "img"),
    "ros1": Layout(lambda folder: write_ros1(folder / "a.bag"), "/joint_states", "/command", "front"),
    "ros2": Layout(lambda folder: write_ros2(folder / "run"), "/joint_states", "/command", "front"),
    "csv": Layout(lambda folder: write_table_episode(folder / "run"), "joint_0", "action_1", "front"),
    "agibot": Layout(write_agibot, "state/joint/position", "action/robot/velocity", "head"),
    "rlds": Layout(
        lambda folder: write_rlds(folder, "a", RLDS), "steps/observation/state", "steps/action", "eye"
    ),
}


def load(path: Path, spec: Path | None = None) -> list[Record]:
    (source,) = open_sources([str(path)], SourceOptions(spec=str(spec or "")))
    return [item.load() for item, _ in zip(source.items, range(3), strict=False)]


def written(folder: Path, text: str) -> Path:
    spec = folder / "spec.yaml"
    spec.write_text(text)
    return spec


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Layout, Path]:
    written_layout = LAYOUTS[request.param]
    written_layout.write(tmp_path / "data")
    return written_layout, tmp_path / "data"


def test_the_spec_that_is_shown_reads_the_same(layout: tuple[Layout, Path], tmp_path: Path) -> None:
    _, path = layout
    shown = show_specs(request_for([str(path)]))
    spec = written(tmp_path, shown)
    (plain_source,) = open_sources([str(path)], SourceOptions(reads_unknown=True))
    plain = [item.load() for item, _ in zip(plain_source.items, range(3), strict=False)]
    for record, mapped in zip(plain, load(path, spec), strict=True):
        assert_same(record, mapped)


def test_a_spec_swaps_state_and_action_and_says_rate_robot_and_text(
    layout: tuple[Layout, Path], tmp_path: Path
) -> None:
    parts, path = layout
    dropped = f"left_out: [{parts.camera}]\n" if parts.camera else ""
    spec = written(
        tmp_path,
        f"reference: me\nrate_hz: 7\nrobot: our arm\n{dropped}language: [{{text: lift it}}]\n"
        f"state: [{{key: {parts.action}, names: [command], unit: rad}}]\n"
        f"action: [{{key: {parts.state}, stop: 1, names: [measured], unit: m}}]\n",
    )
    mapped = load(path, spec)[0]
    assert mapped.trajectory.state is not None and mapped.trajectory.action is not None
    assert mapped.trajectory.state.names[0].startswith("command")
    assert mapped.trajectory.action.names == ("measured",)
    assert (mapped.episode.rate_hz, mapped.episode.rate_source) == (7.0, "spec")
    assert mapped.episode.instruction == "lift it" and mapped.episode.robot
    assert parts.camera not in [camera.name for camera in mapped.episode.cameras] or not parts.camera


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("state: [{key: NONE, names: [a]}]", "state names 'NONE'"),
        ("action: [{key: STATE, start: 1, stop: 999, names: [a]}]", "999"),
        ("cameras: {front: {key: NONE}}", "cameras names 'NONE'"),
        ("timestamps: NONE", "timestamps"),
        ("stat: [1]", "did you mean 'state'?"),
        ("rate_hz: fast", "rate_hz"),
    ],
)
def test_what_does_not_fit_is_one_line(
    layout: tuple[Layout, Path], tmp_path: Path, line: str, fault: str
) -> None:
    parts, path = layout
    spec = written(tmp_path, f"reference: me\n{line.replace('STATE', parts.state)}\n")
    with pytest.raises(SourceError) as caught:
        load(path, spec)
    text = str(caught.value)
    assert (fault in text or "has 1 numbers" in text or "numbers" in text) and "\n" not in text, text


def write_clock(path: Path, name: str, key: str) -> None:
    """An episode with the stamps under a key."""
    if name == "rlds":
        write_rlds(path, "a", RLDS, steps=STEPS, changed={key: STAMPS})
    elif name == "csv":
        path.mkdir()
        write_table(path / "states.csv", {"q": range(STEPS), "t": range(STEPS), "clock": STAMPS.tolist()})
        write_table(path / "actions.csv", {"cmd": range(STEPS), "t": range(STEPS)})
    elif name == "agibot":
        write_agibot_episode(path, changed={**agibot_arrays(STEPS), key: STAMPS})
    else:
        LAYOUTS[name].write(path)


@pytest.mark.parametrize("unit", ["time_unit: ns\n", ""])
@pytest.mark.parametrize("name", ["npz", "hdf5", "robomimic", "rlds", "csv", "agibot"])
def test_an_array_that_the_spec_names_is_the_clock(tmp_path: Path, name: str, unit: str) -> None:
    path = tmp_path / "data"
    keys = {"robomimic": "obs/clock", "rlds": "steps/observation/clock", "csv": "states/clock"}
    key = {**keys, "agibot": "state/joint/clock"}.get(name, "clock")
    write_clock(path, name, key)
    record = load(path, written(tmp_path, f"reference: me\ntimestamps: {key}\n{unit}"))[0]
    assert any("is in nanoseconds since 1970" in warning for warning in record.warnings) != bool(unit)
    expected = (STAMPS - STAMPS[0]) / 1e9
    np.testing.assert_allclose(record.trajectory.timestamps, expected, rtol=0, atol=1e-9)
    assert record.has_stamps and record.episode.rate_source == "measured"
    with pytest.raises(SourceError, match=r"timestamps names '(.*/)?clok'.*did you mean"):
        load(path, written(tmp_path, f"reference: me\ntimestamps: {key.replace('clock', 'clok')}\n"))


def test_a_spec_names_columns_of_several_tables(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_clock(path, "csv", "clock")
    shown = show_specs(request_for([str(path)]))
    assert "{key: actions/cmd, names: [cmd]}" in shown and "states/clock (T int64)" in shown
    spec = "reference: me\nstate: [{key: actions/cmd, names: [asked], unit: rad}]\n"
    spec += "action: [{key: states/q, names: [measured]}]\ntimestamps: states/clock\nleft_out: [states/t]\n"
    (record,) = load(path, written(tmp_path, spec))
    state, action = record.trajectory.state, record.trajectory.action
    assert state is not None and action is not None and not record.trajectory.extra
    assert (state.names, action.names) == (("asked",), ("measured",))
    assert state.values[:, 0].tolist() == action.values[:, 0].tolist() == list(range(STEPS))
    with pytest.raises(SourceError, match=r"state names 'actions/cmb'; did you mean 'actions/cmd'\?"):
        load(path, written(tmp_path, "reference: me\nstate: [{key: actions/cmb, names: [a]}]\n"))


def test_a_spec_names_the_arrays_of_agibot_world(tmp_path: Path) -> None:
    forces = np.random.default_rng(2).random((12, 6))
    write_agibot_episode(tmp_path / "data", changed={"sensor/force": forces})
    shown = show_specs(request_for([str(tmp_path / "data")]))
    assert (
        "timestamps: timestamp" in shown
        and "sensor/force (T x 6 float64): kept as a separate signal" in shown
    )
    spec = "reference: me\nstate: [{key: sensor/force, stop: 3, names: [fx, fy, fz], unit: N}]\n"
    spec += "action: [{key: action/head/position, names: [yaw, pitch]}]\nleft_out: [state/end/position]\n"
    (record,) = load(tmp_path / "data", written(tmp_path, spec))
    state, action = record.trajectory.state, record.trajectory.action
    assert state is not None and action is not None
    np.testing.assert_array_equal(state.values, forces[:, :3].astype(np.float32))
    assert (state.names, action.names) == (("fx", "fy", "fz"), ("yaw", "pitch"))
    extra = record.trajectory.extra
    assert "state.end.position" not in extra and extra["state/joint/position"].values.shape == (12, 14)
