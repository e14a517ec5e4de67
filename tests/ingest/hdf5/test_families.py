"""HDF5 ingestion of generated files of each family gives the values of h5py and the metadata of the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.media import all_frames, encode_mp4, frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.hdf5 import hdf5
from ares_ingest.mapping import open_with_spec
from ares_ingest.show_spec import show_spec

STEPS = 9


@pytest.fixture
def robomimic(h5: Any) -> dict[str, Any]:
    return {
        "obs__robot0_gripper_qpos": h5.numbers(STEPS, 2, dtype="float64"),
        "obs__robot0_eef_pos": h5.numbers(STEPS, 3, dtype="float64"),
        "obs__robot0_eef_quat": h5.numbers(STEPS, 4),
        "obs__object": h5.numbers(STEPS, 10),
        "obs__agentview_image": h5.pictures(),
        "obs__robot0_eye_in_hand_image": h5.pictures(),
        "obs__agentview_depth": h5.numbers(STEPS, 24, 32, 1),
        "next_obs__object": h5.numbers(STEPS, 10),
        "states": h5.numbers(STEPS, 32, dtype="float64"),
        "rewards": np.eye(STEPS)[-1],
        "dones": np.eye(STEPS, dtype=np.int64)[-1],
    }


def test_robomimic(h5: Any, robomimic: dict[str, Any], tmp_path: Path) -> None:
    arrays = robomimic
    env = {"env_name": "Lift", "type": 1, "env_kwargs": {"control_freq": 20, "robots": ["Panda"]}}
    path = h5.demo(
        tmp_path / "ph.hdf5",
        {"data": {"env_args": json.dumps(env), "total": STEPS}, "data/demo_0": {"num_samples": STEPS}},
        **arrays,
    )
    record = h5.only(path)
    episode, trajectory = record.episode, record.trajectory
    order = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")
    state = np.concatenate([arrays[f"obs__{name}"] for name in order], axis=1)
    assert np.array_equal(h5.values(trajectory.state), state.astype(np.float32))
    assert episode.state_names[:4] == (*(f"robot0_eef_pos_{n}" for n in range(3)), "robot0_eef_quat_0")
    assert np.array_equal(h5.values(trajectory.extra["object"]), arrays["obs__object"])
    assert np.array_equal(h5.values(trajectory.extra["states"]), arrays["states"].astype(np.float32))
    assert np.array_equal(h5.values(trajectory.extra["dones"])[:, 0], arrays["dones"])
    assert trajectory.reward is not None and trajectory.reward.tolist() == arrays["rewards"].tolist()
    assert (episode.rate_hz, episode.rate_source, episode.robot) == (20.0, "source", "Panda")
    assert [(camera.name, camera.role) for camera in episode.cameras] == [
        ("agentview_image", "front"),
        ("robot0_eye_in_hand_image", "wrist"),
    ]
    for camera in episode.cameras:
        assert np.array_equal(np.stack(list(all_frames(camera.media))), arrays[f"obs__{camera.name}"])
    assert episode.success is None  # rewards and dones say nothing of it
    assert set(record.warnings) == {
        "next_obs is not stored (it is obs one step on)",
        "camera agentview_depth left out: it holds depth, not colour",
    }


def test_libero_has_language_and_its_own_rate(h5: Any, tmp_path: Path) -> None:
    problem = {"problem_name": "libero_kitchen", "language_instruction": list("open the drawer")}
    path = h5.demo(
        tmp_path / "a_demo.hdf5",
        {"data": {"problem_info": json.dumps(problem), "num_demos": 50}},
        obs__agentview_rgb=h5.pictures(),
        obs__ee_pos=h5.numbers(STEPS, 3),
        obs__ee_ori=h5.numbers(STEPS, 3),
        obs__ee_states=h5.numbers(STEPS, 6),
        obs__gripper_states=h5.numbers(STEPS, 2),
        obs__joint_states=h5.numbers(STEPS, 7),
    )
    source = h5.opened(path)
    record = next(source.items).load()
    assert record.episode.instruction == "open the drawer"
    assert (record.episode.rate_hz, record.episode.rate_source) == (20.0, "format")
    assert [name for name in record.episode.state_names if name.endswith("_0")] == [
        "joint_states_0",
        "ee_pos_0",
        "ee_ori_0",
        "gripper_states_0",
    ]
    assert set(record.trajectory.extra) == {"ee_states"}
    assert source.warnings == ("num_demos is not the number of demonstrations in the file",)


def libero_attributes(**named: str) -> dict[str, Any]:
    """The attributes that LIBERO's own writer gives the group `data`, and others."""
    env = {"type": 1, "env_name": "Libero_Tabletop", "bddl_file": "put_the_bowl.bddl", "env_kwargs": {}}
    problem = {"language_instruction": "put the bowl on the plate"}
    return {"data": {"env_args": json.dumps(env), "problem_info": json.dumps(problem), **named}}


ROBOMIMIC = {"data": {"env_args": json.dumps({"type": 1, "env_name": "Lift", "env_kwargs": {}})}}
FLAG = "macros_image_convention"


@pytest.mark.parametrize(
    ("attributes", "is_turned", "remark"),
    [
        (libero_attributes(**{FLAG: "opengl"}), True, "pictures are stored with their bottom row first"),
        (libero_attributes(**{FLAG: "opencv"}), False, ""),
        (libero_attributes(), False, "whether its pictures stand upright is not known"),
        (libero_attributes(**{FLAG: "directx"}), False, "whether its pictures stand upright is not known"),
        ({}, False, "whether its pictures stand upright is not known"),
        (ROBOMIMIC, False, ""),
    ],
    ids=["opengl", "opencv", "LIBERO without the flag", "another flag", "no writer", "robomimic"],
)
def test_pictures_stand_upright_by_what_the_file_says_or_are_asked_about(
    h5: Any, tmp_path: Path, attributes: dict[str, Any], is_turned: bool, remark: str
) -> None:
    pictures = h5.pictures()
    record = h5.only(h5.demo(tmp_path / "a.hdf5", attributes, obs__agentview_rgb=pictures))
    (camera,) = record.episode.cameras
    assert np.array_equal(
        np.stack(list(all_frames(camera.media))), pictures[:, ::-1] if is_turned else pictures
    )
    told = [warning for warning in record.warnings if "pictures" in warning]
    assert [warning[: len(remark)] for warning in told] == ([remark] if remark else [])


def test_the_shown_spec_of_libero_reads_its_pictures_as_they_were_read(h5: Any, tmp_path: Path) -> None:
    pictures = h5.pictures()
    folder, spec = tmp_path / "in", tmp_path / "spec.yaml"
    h5.demo(folder / "a.hdf5", libero_attributes(**{FLAG: "opengl"}), obs__agentview_rgb=pictures)
    spec.write_text(show_spec(hdf5, str(folder), SourceOptions()))
    assert "turn: vertical flip" in spec.read_text() and "bottom row first" in spec.read_text()
    (source,) = open_with_spec(hdf5, str(folder), SourceOptions(spec=str(spec)))
    record = next(iter(source.items)).load()
    assert np.array_equal(np.stack(list(all_frames(record.episode.cameras[0].media))), pictures[:, ::-1])


def test_isaac_lab(h5: Any, tmp_path: Path) -> None:
    env = {"env_name": "Isaac-Stack-Cube", "type": 2, "sim_args": {"dt": 0.01, "decimation": 5}}
    attrs = {"data": {"env_args": json.dumps(env)}, "data/demo_0": {"success": True, "seed": 3}}
    arrays: dict[str, Any] = {
        "obs__eef_pos": h5.numbers(STEPS, 3),
        "obs__gripper_pos": h5.numbers(STEPS, 2),
        "obs__table_cam": h5.pictures(),
        "obs__datagen_info__eef_pose__franka": h5.numbers(STEPS, 4, 4),
        "states__articulation__robot__joint_position": h5.numbers(STEPS, 9),
        "initial_state__articulation__robot__joint_position": h5.numbers(1, 9),
    }
    record = h5.only(h5.demo(tmp_path / "annotated.hdf5", attrs, **arrays))
    episode, extra = record.episode, record.trajectory.extra
    assert (episode.success, episode.success_source, episode.metadata["seed"]) == (True, "success", 3)
    assert (episode.rate_hz, episode.rate_source) == (20.0, "source")
    assert np.array_equal(
        h5.values(extra["datagen_info/eef_pose/franka"]),
        arrays["obs__datagen_info__eef_pose__franka"].reshape(STEPS, 16),
    )
    assert "states/articulation/robot/joint_position" in extra and len(episode.state_names) == 5
    initial: Any = episode.metadata["initial_state/articulation/robot/joint_position"]
    assert np.array_equal(
        np.array(initial, np.float32), arrays["initial_state__articulation__robot__joint_position"]
    )
    failed = h5.only(h5.demo(tmp_path / "failed.hdf5", {"data/demo_0": {"success": False}}, **arrays))
    assert failed.episode.success is False


def test_isaac_lab_without_observations_has_the_joints_of_its_states(h5: Any, tmp_path: Path) -> None:
    joints = h5.numbers(STEPS, 9)
    record = h5.only(
        h5.demo(
            tmp_path / "a.hdf5",
            states__articulation__robot__joint_position=joints,
            states__rigid_object__cube__root_pose=h5.numbers(STEPS, 7),
        )
    )
    assert np.array_equal(h5.values(record.trajectory.state), joints)
    flat = h5.only(h5.demo(tmp_path / "b.hdf5", obs=joints, states=h5.numbers(STEPS, 40)))
    assert np.array_equal(h5.values(flat.trajectory.state), joints)


def test_two_robots_in_turn(h5: Any, tmp_path: Path) -> None:
    keys = ("robot1_eef_pos", "robot0_gripper_qpos", "robot0_eef_pos", "robot10_eef_pos")
    record = h5.only(h5.demo(tmp_path / "a.hdf5", **{f"obs__{key}": h5.numbers(STEPS, 1) for key in keys}))
    assert record.episode.state_names == (
        "robot0_eef_pos",
        "robot0_gripper_qpos",
        "robot1_eef_pos",
        "robot10_eef_pos",
    )


def test_mobile_aloha_and_its_descendants(h5: Any, tmp_path: Path) -> None:
    arrays = {"observations__qpos": h5.numbers(STEPS, 14), "observations__images__cam_high": h5.pictures()}
    mobile = h5.only(
        h5.write(
            tmp_path / "episode_0.hdf5",
            {"/": {"language_instruction": "wipe the table"}},
            action=h5.numbers(STEPS, 16),
            base_action=h5.numbers(STEPS, 2),
            **arrays,
        )
    )
    assert mobile.episode.action_names[-2:] == ("base_linear", "base_angular")
    assert mobile.episode.instruction == "wipe the table" and set(mobile.trajectory.extra) == {"base_action"}
    source = h5.opened(
        h5.write(
            tmp_path / "other" / "episode_0.hdf5", action=h5.numbers(STEPS, 7), language_raw=b"go", **arrays
        )
    )
    other = next(source.items).load()
    assert (other.episode.rate_source, other.episode.robot) == ("assumed", "")
    assert other.episode.instruction == "go"
    assert source.warnings == ("rate is not known, 10 Hz assumed (give --rate)",)


@pytest.fixture
def droid(h5: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "droid" / "success" / "2023-07-07" / "Fri_Jul__7_09:42:23_2023"
    state = {
        f"observation__robot_state__{name}": h5.numbers(STEPS, width) if width > 1 else h5.numbers(STEPS)
        for name, width in (("joint_positions", 7), ("cartesian_position", 6), ("gripper_position", 1))
    }
    h5.write(
        folder / "trajectory.h5",
        action__cartesian_velocity=h5.numbers(STEPS, 6, dtype="float64"),
        action__gripper_position=h5.numbers(STEPS, dtype="float64"),
        action__joint_velocity=h5.numbers(STEPS, 7),
        observation__timestamp__control__step_start=np.arange(STEPS) + 1_688_000_000_000,
        observation__timestamp__skip_action=np.zeros(STEPS, bool),
        **state,
    )
    document = {"current_task": "close the drawer", "success": True, "trajectory_length": STEPS}
    document |= {"lab": "AUTOLab"}
    serials = {"wrist_cam_serial": "13062452", "ext1_cam_serial": "20036094", "ext2_cam_serial": "24013089"}
    (folder / "metadata_AUTOLab+1.json").write_text(json.dumps({**document, **serials}))
    (folder / "recordings" / "MP4").mkdir(parents=True)
    for serial in serials.values():
        encode_mp4(h5.pictures(), folder / "recordings" / "MP4" / f"{serial}.mp4", 60.0)
    shutil.copy(
        folder / "recordings" / "MP4" / "13062452.mp4", folder / "recordings" / "MP4" / "13062452-stereo.mp4"
    )
    return folder


def test_droid(h5: Any, droid: Path) -> None:
    source = h5.opened(droid.parents[2])
    record = next(source.items).load()
    episode, trajectory = record.episode, record.trajectory
    with h5py.File(droid / "trajectory.h5") as file:
        named = {name: file[name][()].astype(np.float32) for name in ("action/cartesian_velocity",)}
        gripper = file["action/gripper_position"][()].astype(np.float32)
        joints = file["observation/robot_state/joint_positions"][()]
    assert np.array_equal(h5.values(trajectory.action)[:, :6], named["action/cartesian_velocity"])
    assert np.array_equal(h5.values(trajectory.action)[:, 6], gripper)
    assert np.array_equal(h5.values(trajectory.state)[:, 7:], joints)
    assert set(trajectory.extra) == {"action/joint_velocity", "timestamp/skip_action"}
    assert (episode.success, episode.success_source) == (True, "folder")
    assert episode.instruction == "close the drawer"
    assert (episode.rate_hz, episode.rate_source, episode.robot) == (15.0, "format", "Franka Panda")
    assert [(camera.name, camera.role) for camera in episode.cameras] == [
        ("wrist", "wrist"),
        ("ext1", "front"),
        ("ext2", "side"),
    ]
    film = list(all_frames(episode.cameras[1].media))
    assert np.array_equal(frames_at(episode.cameras[1].media, [0.0, 3.5 / 15]), np.stack([film[0], film[3]]))
    assert record.warnings == ("observation/timestamp is not stored (clocks of the machines)",)


def test_droid_that_lacks_things(h5: Any, droid: Path) -> None:
    videos = droid / "recordings" / "MP4"
    (videos / "13062452.mp4").unlink()
    (videos / "20036094.mp4").write_bytes(b"")
    encode_mp4(h5.pictures(2 * STEPS), videos / "24013089.mp4", 30.0)
    failure = droid.parents[2] / "failure" / droid.parent.name / droid.name
    shutil.move(droid, failure)
    record = h5.only(failure.parents[2])
    assert (record.episode.success, record.episode.success_source) == (False, "folder")
    (camera,) = record.episode.cameras
    assert (camera.name, camera.media.rate_hz, camera.media.num_frames) == ("ext2", 30.0, 2 * STEPS)
    assert set(record.warnings) >= {
        "camera wrist has no video",
        "camera ext1 is not stored (video file is empty)",
        "the folder and metadata_*.json disagree on success; the folder is used",
    }
    (failure / "metadata_AUTOLab+1.json").write_text("[")
    assert (
        "metadata_*.json beside the file cannot be read (it is not JSON)"
        in h5.only(failure.parents[2]).warnings
    )
    (failure / "metadata_AUTOLab+1.json").unlink()
    without = h5.only(failure.parents[2])
    assert "metadata_*.json is missing" in without.warnings and without.episode.cameras[0].name == "24013089"


def test_the_metadata_of_droid_name_no_video_outside_the_dataset(
    h5: Any, droid: Path, tmp_path: Path
) -> None:
    encode_mp4(h5.pictures(), tmp_path / "private.mp4", 15.0)
    document = droid / "metadata_AUTOLab+1.json"
    serial = f"{'../' * 6}private"
    assert (droid / "recordings" / "MP4" / f"{serial}.mp4").resolve() == tmp_path / "private.mp4"
    document.write_text(json.dumps({**json.loads(document.read_text()), "wrist_cam_serial": serial}))
    record = h5.only(droid.parents[2])
    assert all(Path(camera.media.uri).is_relative_to(droid) for camera in record.episode.cameras)
    assert "camera wrist has no video" in record.warnings


def test_droid_with_several_metadata_files_believes_what_all_of_them_say(h5: Any, droid: Path) -> None:
    first = droid / "metadata_AUTOLab+1.json"
    alone = h5.only(droid.parents[2])
    shutil.copy(first, droid / "metadata_AUTOLab+2.json")
    assert h5.only(droid.parents[2]).warnings == alone.warnings
    other = {**json.loads(first.read_text()), "current_task": "open the drawer", "wrist_cam_serial": "9"}
    (droid / "metadata_AUTOLab+2.json").write_text(json.dumps(other))
    record = h5.only(droid.parents[2])
    named = "2 metadata_*.json contradict each other in current_task, wrist_cam_serial: left out"
    assert set(record.warnings) - set(alone.warnings) == {named}
    assert alone.episode.instruction and not record.episode.instruction
    assert "current_task" in alone.episode.metadata and "current_task" not in record.episode.metadata
    assert "wrist" in [camera.name for camera in alone.episode.cameras]
    assert "wrist" not in [camera.name for camera in record.episode.cameras]


def test_droid_folder_without_its_trajectory(h5: Any, droid: Path) -> None:
    (droid / "trajectory.h5").unlink()
    assert hdf5.recognises(str(droid.parents[2]))
    source = h5.opened(droid.parents[2])
    assert [h5.outcome(item) for item in source.items] == ["the file of an episode is missing"]
