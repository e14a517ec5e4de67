"""Of every format: the spec that is shown reads the same, one that is edited decides, and a wrong one is one line."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.episode import Record, Signal
from ares.errors import RequestError, SourceError
from ares_ingest.base import SourceOptions
from ares_ingest.discovery import discover
from ares_ingest.operation import show_specs
from tests.ingest.agibot.conftest import (
    arrays as agibot_arrays,
    write_agibot,
    write_episode as write_agibot_episode,
)
from tests.ingest.conftest import write_rlds
from tests.ingest.image_folders.conftest import write_episode as write_table_episode, write_table
from tests.ingest.recordings.rosbag.conftest import write_ros1, write_ros2
from tests.ingest.zarr.conftest import write_store
from tests.ingesting import open_sources, request_for
from tests.thinning import some_by_day

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


SAMPLES = (
    "aloha_hdf5",
    "robosuite_hdf5",
    "so101_chess_lerobot_v21",
    "gr1_sim_lerobot_v20",
    "g1_bottle_lerobot_v30",
    "irregular/so101_record_test",
    "mcap/g1_bottle_episode_0.mcap",
    "openvla_rollout_videos",
    "bridge_rlds",
    "demo/video",
    "demo/rlds",
)


def load(path: Path, spec: str = "", reads_unknown: bool = False) -> list[Record]:
    """The records among the first items."""
    options = SourceOptions(spec=spec, reads_unknown=reads_unknown)
    (source,) = open_sources([str(path)], options)
    records = []
    for item, _ in zip(source.items, range(4), strict=False):
        with contextlib.suppress(SourceError):
            records.append(item.load())
    return records


def assert_same_signal(left: Signal | None, right: Signal | None) -> None:
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        assert left.names == right.names
        np.testing.assert_array_equal(left.values, right.values)


def assert_same(left: Record, right: Record) -> None:
    assert left.episode == right.episode
    assert set(left.warnings) == set(right.warnings)
    for name in ("state", "action"):
        assert_same_signal(getattr(left.trajectory, name), getattr(right.trajectory, name))
    assert list(left.trajectory.extra) == list(right.trajectory.extra)
    for name, signal in left.trajectory.extra.items():
        assert_same_signal(signal, right.trajectory.extra[name])
    np.testing.assert_array_equal(left.trajectory.timestamps, right.trajectory.timestamps)
    np.testing.assert_array_equal(left.trajectory.reward, right.trajectory.reward)


def load_strictly(path: Path, spec: str) -> Record:
    """The first record, or its error."""
    (source,) = open_sources([str(path)], SourceOptions(spec=spec))
    return next(iter(source.items)).load()


def written(folder: Path, text: str) -> str:
    spec = folder / "spec.yaml"
    spec.write_text(text)
    return str(spec)


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Layout, Path]:
    written_layout = LAYOUTS[request.param]
    written_layout.write(tmp_path / "data")
    return written_layout, tmp_path / "data"


def test_the_spec_that_is_shown_reads_the_same(layout: tuple[Layout, Path], tmp_path: Path) -> None:
    _, path = layout
    spec = written(tmp_path, show_specs(request_for([str(path)])))
    plain = load(path, reads_unknown=True)
    assert plain
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


FAULTS = {
    "state: [{key: NONE, names: [a]}]": r"state names 'NONE'|NONE does not exist",
    "action: [{key: STATE, start: 1, stop: 999, names: [a]}]": "999|numbers",
    "cameras: {front: {key: NONE}}": "cameras names 'NONE'",
    "timestamps: NONE": "timestamps",
}


def test_what_does_not_fit_is_one_line(layout: tuple[Layout, Path], tmp_path: Path) -> None:
    parts, path = layout
    for line, fault in FAULTS.items():
        spec = written(tmp_path, f"reference: me\n{line.replace('STATE', parts.state)}\n")
        with pytest.raises(SourceError, match=fault) as caught:
            load_strictly(path, spec)
        assert "\n" not in str(caught.value)


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
        load_strictly(path, written(tmp_path, f"reference: me\ntimestamps: {key.replace('clock', 'clok')}\n"))


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
        load_strictly(path, written(tmp_path, "reference: me\nstate: [{key: actions/cmb, names: [a]}]\n"))


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


@pytest.mark.parametrize("name", some_by_day(SAMPLES, 2))
def test_the_spec_that_is_shown_of_a_sample_reads_the_same(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    path = shared_data / name
    if not path.exists():
        path = next(iter(sorted(path.parent.glob("*.mcap"))))
    spec = written(tmp_path, show_specs(request_for([str(path)])))
    for plain, mapped in zip(load(path), load(path, spec), strict=True):
        assert_same(plain, mapped)


def test_a_spec_decides_over_the_columns_of_lerobot(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "gr1_sim_lerobot_v20"
    plain = load(path)[0]
    assert plain.trajectory.state is not None and plain.trajectory.action is not None
    spec = written(
        tmp_path,
        """
reference: me
robot: other
state:
  - {key: action, start: 2, stop: 4, names: [x, y]}
  - {key: observation.state, start: 40, names: [tail]}
language: [{text: put it there}, {path: "gr1_sim_{text}_v20/*/*/*"}]
""",
    )
    mapped = load(path, spec)[0]
    assert mapped.trajectory.state is not None
    expected = np.hstack([plain.trajectory.action.values[:, 2:4], plain.trajectory.state.values[:, 40:]])
    np.testing.assert_array_equal(mapped.trajectory.state.values, expected)
    assert mapped.episode.state_names[:3] == ("x", "y", "tail_0")
    np.testing.assert_array_equal(
        mapped.trajectory.extra["observation.state"].values, plain.trajectory.state.values
    )
    assert mapped.episode.instructions[:2] == ("put it there", "lerobot")
    assert mapped.episode.instructions[2:] == plain.episode.instructions
    assert mapped.episode.robot == plain.episode.robot


def test_a_spec_names_cameras_turns_colours_and_leaves_out(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "metaworld_video"
    plain = load(path)[0].episode
    first, second = plain.cameras
    spec = written(
        tmp_path,
        f"reference: me\nrate_hz: 25\ncameras:\n  eye: {{key: {first.name}, role: wrist, channels: bgr}}\n"
        f"left_out: [{second.name}]\nsuccess: success\n",
    )
    mapped = load(path, spec)[0].episode
    assert [camera.name for camera in mapped.cameras] == ["eye"]
    assert (mapped.cameras[0].role, mapped.cameras[0].media.channels) == ("wrist", "bgr")
    assert (mapped.rate_hz, mapped.rate_source) == (25.0, "spec")
    assert (mapped.success, mapped.success_source) == (True, "success")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state: [{key: observation.stat, names: [a]}]", "did you mean 'observation.state'? it holds"),
        ("action: [{key: action, start: 2, stop: 999, names: [a]}]", "takes 2 to 999 of action, which has"),
        ("action: [{key: action, start: 2, stop: 4, names: [a, a]}]", "names 'a' twice"),
        ("action: [{key: action, names: [a, b]}]", "2 names for"),
        ("reward: action", "is not one number per step"),
        ("left_out: [acton]", "did you mean 'action'?"),
        ("cameras: {front: {key: nothing}}", "cameras names 'nothing'"),
        ("language: [task.description]", "language names 'task'"),
        ("success: succes", "success names 'succes'"),
        ("timestamps: timestamp", "timestamps names 'timestamp'"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused_before_anything_is_stored(
    shared_data: Path, tmp_path: Path, text: str, message: str
) -> None:
    spec = written(tmp_path, f"reference: me\n{text}\n")
    with pytest.raises(SourceError) as caught:
        open_sources([str(shared_data / "gr1_sim_lerobot_v20")], SourceOptions(spec=spec))
    assert message in str(caught.value).replace("Did", "did"), str(caught.value)


def test_the_specs_of_all_datasets_of_a_folder_are_shown(shared_data: Path, tmp_path: Path) -> None:
    for name, folder in (("gr1_sim_lerobot_v20", "lerobot"), ("demo/video", "clips")):
        shutil.copytree(shared_data / name, tmp_path / "lab" / folder)
    np.savez(tmp_path / "lab" / "lone.npz", alpha=np.zeros((4, 2)), beta=np.ones((4, 3)))
    lab = str(tmp_path / "lab")
    opened = open_sources([lab], SourceOptions(reads_unknown=True))
    shown = show_specs(request_for([lab]))
    assert {source.format for source in opened} == {"lerobot", "npz", "video"}
    for source in opened:
        assert f"({source.format})\n" in shown
    texts = shown.split("---\n")
    assert len(texts) == len(opened) and "--write-options FILE" in texts[0]
    spec = written(tmp_path, next(text for text in texts if "(lerobot)" in text))
    for plain, mapped in zip(
        load(tmp_path / "lab" / "lerobot"), load(tmp_path / "lab" / "lerobot", spec), strict=True
    ):
        assert_same(plain, mapped)
    for read in (discover, show_specs):
        with pytest.raises(
            RequestError, match=r"--spec is for one dataset, and there are [23].*use --options FILE"
        ):
            read(request_for([lab], SourceOptions(spec=spec)))
