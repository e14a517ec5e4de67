"""HDF5 episodes of ManiSkill, RoboMIND, RoboTwin, XPolicyLab and EgoDex are read as their writers meant them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.media import all_frames, encode_mp4

STEPS, HEIGHT, WIDTH = 9, 24, 32
# After JPEG or H.264 of smooth pictures; red and blue differ by 190.
LARGEST_CODING_ERROR = 12


class Written(NamedTuple):
    """What an episode of a project holds; cameras are (T, H, W, 3) RGB by name."""

    file: Path
    action: NDArray[Any] | None
    state: NDArray[Any]
    cameras: dict[str, NDArray[np.uint8]]
    extra: set[str]
    facts: dict[str, Any]


def pictures(steps: int = STEPS) -> NDArray[np.uint8]:
    """One colour each with red, green and blue of their own, so that a swap shows after JPEG."""
    shades = np.arange(steps)[:, None] * 4 + np.array([200, 100, 10])
    return np.broadcast_to(shades[:, None, None].astype(np.uint8), (steps, HEIGHT, WIDTH, 3))


def jpegs(images: NDArray[np.uint8], swapped: bool) -> list[bytes]:
    """JPEG as `cv2.imencode` writes the RGB arrays themselves (which swaps red and blue) or properly."""
    arrays = images if swapped else images[..., ::-1]
    best = [cv2.IMWRITE_JPEG_QUALITY, 100]
    return [bytes(cv2.imencode(".jpg", np.ascontiguousarray(array), best)[1].tobytes()) for array in arrays]


def padded(images: list[bytes]) -> NDArray[np.bytes_]:
    return np.array(images, dtype=f"S{max(map(len, images))}")


def write_maniskill(h5: Any, folder: Path) -> Written:
    """`traj_N` groups with T actions and T + 1 observations, and a JSON of the same name."""
    file = folder / "trajectory.rgbd.pd_joint_delta_pos.h5"
    images, depth = pictures(STEPS + 1), np.full((STEPS + 1, HEIGHT, WIDTH, 1), 400, np.int16)
    arrays: dict[str, Any] = {
        "obs/agent/qpos": h5.numbers(STEPS + 1, 9),
        "obs/agent/qvel": h5.numbers(STEPS + 1, 9),
        "obs/extra/tcp_pose": h5.numbers(STEPS + 1, 7),
        "obs/sensor_param/base_camera/intrinsic_cv": h5.numbers(STEPS + 1, 3, 3),
        "actions": h5.numbers(STEPS, 8),
        "terminated": np.arange(STEPS) == STEPS - 1,
        "truncated": np.zeros(STEPS, bool),
        "success": np.arange(STEPS) == STEPS - 1,
        "env_states/actors/cube": h5.numbers(STEPS + 1, 13),
        "env_states/articulations/panda": h5.numbers(STEPS + 1, 31),
    }
    camera = {"rgb": images, "depth": depth, "segmentation": np.zeros_like(depth)}
    seen = {f"obs/sensor_data/base_camera/{name}": values for name, values in camera.items()}
    everything = {**arrays, **seen, "rewards": h5.numbers(STEPS)}
    h5.write(file, **{f"traj_0/{name}": values for name, values in everything.items()})
    kwargs = {"obs_mode": "rgbd", "robot_uids": "panda", "sim_config": {"control_freq": 25}}
    episode = {"episode_id": 0, "episode_seed": 7, "elapsed_steps": STEPS, "success": True}
    document = {"env_info": {"env_id": "PickCube-v1", "env_kwargs": kwargs}, "episodes": [episode]}
    file.with_suffix(".json").write_text(json.dumps(document))
    state = [arrays.pop(f"obs/agent/{name}")[:STEPS] for name in ("qpos", "qvel")]
    action = arrays.pop("actions")
    return Written(
        file, action, np.concatenate(state, axis=1), {"base_camera": images[:STEPS]},
        {name.removeprefix("obs/") for name in arrays},
        {"rate_hz": 25.0, "rate_source": "source", "robot": "panda", "success": True},
    )  # fmt: skip


# Width of the joints of an arm, by the robot.
ROBOMIND_ROBOTS = {"AgileX Cobot Magic": 7, "Franka Panda": 8, "UR5e": 7, "Tien Kung": 16}


def write_robomind(h5: Any, folder: Path, robot: str, outcome: str, text: str) -> Written:
    """Master and puppet joints, images as bytes of varying length, task and outcome in the folders."""
    ends = ("_left", "_right") if robot.startswith("AgileX") else ("",)
    file = folder / f"h5_robot/10_packplate_2/{outcome}_episodes/train/0918_104022/data/trajectory.hdf5"
    width, images = ROBOMIND_ROBOTS[robot], pictures()
    joints = {
        f"{arm}/joint_position{end}": h5.numbers(STEPS, width) for arm in ("master", "puppet") for end in ends
    }
    h5.write(file, {"/": {"sim": False, "compress": True}}, **joints)
    depth = cv2.imencode(".png", np.full((HEIGHT, WIDTH), 400, np.uint16))[1].tobytes()
    coded = {
        "rgb": jpegs(images, swapped=robot in ("AgileX Cobot Magic", "Tien Kung")),
        "depth": [depth] * STEPS,
    }
    with h5py.File(file, "a") as opened:
        for kind, rows in coded.items():
            name, dtype = f"observations/{kind}_images/camera_top", h5py.vlen_dtype(np.uint8)
            opened.create_dataset(name, (STEPS,), dtype)[:] = [np.frombuffer(row, np.uint8) for row in rows]
        if text != "packplate":
            opened["language_raw"] = np.array([text.encode()])
    action, state = (
        np.concatenate([values for name, values in joints.items() if name.startswith(arm)], axis=1)
        for arm in ("master", "puppet")
    )
    facts = {
        "rate_hz": 30.0,
        "robot": robot,
        "success": outcome == "success",
        "split": "train",
        "instruction": text,
    }
    return Written(file, action, state, {"camera_top": images}, set(), facts)


def write_robotwin(h5: Any, folder: Path) -> Written:
    """Drive targets of the joints, poses of the ends, RGB arrays encoded as if they were BGR."""
    for name in ("data", "instructions", "video"):
        (folder / name).mkdir()
    sides = ("left", "right")
    parts = {
        f"{side}_{part}": h5.numbers(STEPS, 6 if part == "arm" else 1)
        for side in sides
        for part in ("arm", "gripper")
    }
    poses = {
        f"{side}_{part}": h5.numbers(STEPS, 7 if part == "endpose" else 1)
        for side in sides
        for part in ("endpose", "gripper")
    }
    vector = np.concatenate([*parts.values()], axis=1)
    cameras = {"head_camera": pictures(), "left_camera": pictures() // 2}
    arrays: dict[str, Any] = {"joint_action/vector": vector, "pointcloud": np.zeros((STEPS, 0))}
    for group, named in (("joint_action", parts), ("endpose", poses)):
        arrays |= {f"{group}/{name}": values.squeeze() for name, values in named.items()}
    for camera, images in cameras.items():
        arrays[f"observation/{camera}/rgb"] = padded(jpegs(images, swapped=True))
        arrays[f"observation/{camera}/intrinsic_cv"] = h5.numbers(STEPS, 3, 3)
        arrays[f"observation/{camera}/mesh_segmentation"] = np.zeros((STEPS, HEIGHT, WIDTH, 3), np.uint8)
    texts = {"seen": ["Lift the hammer.", "Beat the block."], "unseen": ["Never seen."]}
    (folder / "instructions" / "episode3.json").write_text(json.dumps(texts))
    (folder / "scene_info.json").write_text("{}")
    (folder / "video" / "episode3.mp4").write_bytes(b"preview")
    file = h5.write(folder / "data" / "episode3.hdf5", **arrays)
    return Written(
        file, vector, np.concatenate([*poses.values()], axis=1), cameras,
        {f"{camera}/intrinsic_cv" for camera in cameras},
        {"rate_hz": 250 / 15, "instructions": ("Lift the hammer.", "Beat the block.")},
    )  # fmt: skip


def write_xpolicylab(h5: Any, folder: Path) -> Written:
    """RoboTwin since August 2026: states and the actions one step on, "frequency" in steps of the simulation."""
    texts = ("Lift it.", "Hebe es auf – größer")
    widths = {"left_arm": 6, "left_ee": 1, "right_arm": 6, "right_ee": 1}
    joints = {name: h5.numbers(STEPS + 1, width) for name, width in widths.items()}
    file = h5.write(
        folder / "episode0.hdf5",
        {"/": {"source_format": "RoboTwin", "source_path": "native_collection"}},
        data_format_version="v1.0",
        instructions=json.dumps(texts, ensure_ascii=True),
        additional_info__frequency=np.int32(15),
        vision__cam_head__colors=padded(jpegs(pictures(), swapped=True)),
        vision__cam_head__shape=np.array([HEIGHT, WIDTH, 3], np.int32),
        vision__cam_head__depths=h5.numbers(STEPS, HEIGHT, WIDTH),
        **{f"state/{name}_joint_states": values[:-1] for name, values in joints.items()},
        **{f"action/{name}_joint_states": values[1:] for name, values in joints.items()},
    )
    values = np.concatenate([*joints.values()], axis=1)
    facts = {"rate_hz": 250 / 15, "rate_source": "source", "instructions": texts}
    return Written(file, values[1:], values[:-1], {"cam_head": pictures()}, set(), facts)


def write_egodex(h5: Any, folder: Path, prefix: str = "llm_", which: int = 1) -> Written:
    """Poses of the joints as 4 x 4 matrices, an mp4 of the same name, texts in the attributes; older without "llm_"."""
    poses = {name: h5.numbers(STEPS, 4, 4) for name in ("camera", "leftHand", "rightHand", "leftThumbTip")}
    confidences = {"confidences/leftHand": h5.numbers()} if prefix else {}
    texts = {f"{prefix}description": "stack the cups", f"{prefix}description2": "unstack the cups"}
    file = h5.write(
        folder / "part1" / "stack_cups" / "0.hdf5",
        {"/": {**texts, f"which_{prefix}description": str(which)}},
        camera__intrinsic=np.diag([736.6, 736.6, 1.0]).astype(np.float32),
        **{f"transforms/{name}": values for name, values in poses.items()},
        **confidences,
    )
    encode_mp4(pictures(), file.with_suffix(".mp4"), 30.0)
    state = np.concatenate([poses[name].reshape(STEPS, 16) for name in ("leftHand", "rightHand")], axis=1)
    facts = {"rate_hz": 30.0, "instruction": [*texts.values()][which - 1]}
    extra = {"transforms/camera", "transforms/leftThumbTip", *confidences}
    return Written(file, None, state, {"ego": pictures()}, extra, facts)


WRITERS: dict[str, Callable[[Any, Path], Written]] = {
    "ManiSkill": write_maniskill,
    "AgileX": partial(write_robomind, robot="AgileX Cobot Magic", outcome="success", text="pack the plate"),
    "Franka": partial(write_robomind, robot="Franka Panda", outcome="failure", text="packplate"),
    "UR5e": partial(write_robomind, robot="UR5e", outcome="success", text="packplate"),
    "Tien Kung": partial(write_robomind, robot="Tien Kung", outcome="failure", text="pack the plate"),
    "RoboTwin": write_robotwin,
    "XPolicyLab": write_xpolicylab,
    "EgoDex": write_egodex,
    "EgoDex of before": partial(write_egodex, prefix="", which=2),
}


@pytest.mark.parametrize("project", WRITERS)
def test_an_episode_has_the_values_and_colours_that_were_written(
    h5: Any, tmp_path: Path, project: str
) -> None:
    written = WRITERS[project](h5, tmp_path)
    source = h5.opened(tmp_path)
    uses = {file.path: file.use for file in source.files()}
    assert set(uses) == {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert uses[str(written.file)] == "data" and set(uses.values()) <= {"data", "metadata"}
    (item,) = source.items
    episode, trajectory = (record := item.load()).episode, record.trajectory
    assert episode.num_steps == STEPS
    assert np.array_equal(h5.values(trajectory.state), written.state)
    if written.action is None:
        assert trajectory.action is None
    else:
        assert np.array_equal(h5.values(trajectory.action), written.action)
    assert set(trajectory.extra) == written.extra
    assert {name: getattr(episode, name) for name in written.facts} == written.facts
    np.testing.assert_array_equal(trajectory.timestamps, np.arange(STEPS) / episode.rate_hz)
    assert {camera.name for camera in episode.cameras} == set(written.cameras)
    for camera in episode.cameras:
        frames = np.stack(list(all_frames(camera.media))).astype(int)
        assert np.abs(frames - written.cameras[camera.name]).max() <= LARGEST_CODING_ERROR


def test_what_is_left_out_is_said(h5: Any, tmp_path: Path) -> None:
    write_maniskill(h5, tmp_path)
    assert set(h5.only(tmp_path).warnings) == {
        "camera sensor_data.base_camera.depth left out: it holds depth, not colour",
        "segmentation is not stored",
        "the observation after the last action is not stored",
    }


def test_the_json_of_maniskill_wins_over_the_array(h5: Any, tmp_path: Path) -> None:
    written = write_maniskill(h5, tmp_path)
    path = written.file.with_suffix(".json")
    document = json.loads(path.read_text())
    document["episodes"][0].update(success=False, elapsed_steps=99)
    path.write_text(json.dumps(document))
    record = h5.only(tmp_path)
    assert record.episode.success is False
    assert {
        "*.json and success disagree on success; *.json is used",
        "elapsed_steps is not the number of actions",
    } <= set(record.warnings)


@pytest.mark.parametrize(
    "text", ["", "[", "[1]", '{"episodes": 3}', '{"episodes": [{"episode_id": 9}], "env_info": 1}']
)
def test_maniskill_without_a_usable_json(h5: Any, tmp_path: Path, text: str) -> None:
    written = write_maniskill(h5, tmp_path)
    path = written.file.with_suffix(".json")
    if text:
        path.write_text(text)
    else:
        path.unlink()
    record = h5.only(tmp_path)
    assert record.episode.rate_hz == 20.0 and record.episode.rate_source == "format"
    assert isinstance(record.episode.success, bool)  # by the array
    assert any("*.json beside the file" in warning for warning in record.warnings)


def test_missing_videos_of_a_folder_are_one_warning(h5: Any, tmp_path: Path) -> None:
    """Each episode named the files of the others in a separate warning."""
    first = write_egodex(h5, tmp_path).file
    first.with_suffix(".mp4").unlink()
    for number in range(1, 12):
        shutil.copy(first, first.with_name(f"{number}.hdf5"))
    records = [item.load() for item in h5.opened(tmp_path).items]
    assert {warning for record in records for warning in record.warnings if "video" in warning} == {
        "camera ego has no video"
    }


def test_trajectories_are_in_the_order_of_their_numbers(h5: Any, tmp_path: Path) -> None:
    written = write_maniskill(h5, tmp_path)
    with h5py.File(written.file, "a") as file:
        for number in (10, 2):
            file.copy("traj_0", f"traj_{number}")
    source = h5.opened(tmp_path)
    keys = [item.load().episode.key.rpartition("/")[2] for item in source.items]
    assert keys == ["traj_0", "traj_2", "traj_10"] and source.total == 3
