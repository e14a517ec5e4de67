"""Writes HDF5 episodes as ManiSkill, RoboMIND, RoboTwin, XPolicyLab and EgoDex do, and says what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from ares.media import encode_mp4

HEIGHT, WIDTH = 24, 32


@dataclass
class Written:
    """What an episode of a project holds: the truth that reading it is compared with.

    Attributes:
        path: The folder to ingest.
        file: The HDF5 file itself.
        cameras: (T, H, W, 3) RGB by the name of the camera; encoded ones lose a little.
        extra: Names of extra signals.
        facts: Attributes of the episode.
    """

    path: Path
    file: Path
    steps: int
    action: NDArray[Any] | None
    state: NDArray[Any] | None
    cameras: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    extra: frozenset[str] = frozenset()
    facts: dict[str, Any] = field(default_factory=dict)


def pictures(rng: np.random.Generator, steps: int) -> NDArray[np.uint8]:
    """Smooth pictures with red, green and blue of their own, so that a swap of colours shows after JPEG."""
    images: NDArray[np.uint8] = np.empty((steps, HEIGHT, WIDTH, 3), np.uint8)
    images[...] = np.array([220, 120, 30]) + rng.integers(-20, 20, (steps, 1, 1, 3))
    return images


def jpeg_of(image: NDArray[np.uint8], swapped: bool) -> bytes:
    """A JPEG as `cv2.imencode` writes it, of the RGB array itself (which swaps red and blue) or properly."""
    array = image if swapped else np.ascontiguousarray(image[..., ::-1])
    data: bytes = cv2.imencode(".jpg", array, [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    return data


def padded(images: list[bytes]) -> NDArray[np.bytes_]:
    """Fixed-length byte strings, padded with zeros."""
    return np.array(images, dtype=f"S{max(map(len, images))}")


def numbers(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> NDArray[Any]:
    return rng.normal(size=shape).astype(dtype)


def maniskill(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    """ManiSkill: `traj_N` groups with T actions and T + 1 observations, and a JSON of the same name."""
    file = folder / "trajectory.rgbd.pd_joint_delta_pos.h5"
    arrays, images = _maniskill_arrays(rng, steps), pictures(rng, steps + 1)
    with h5py.File(file, "w") as h5:
        group = h5.create_group("traj_0", track_order=True)
        for name, values in arrays.items():
            group[name] = values
        depth = rng.integers(0, 999, (steps + 1, HEIGHT, WIDTH, 1), np.int16)
        for name, values in {"rgb": images, "depth": depth, "segmentation": np.zeros_like(depth)}.items():
            group.create_dataset(f"obs/sensor_data/base_camera/{name}", data=values, compression="gzip")
    success = bool(arrays["success"][-1])
    described = {"episode_id": 0, "episode_seed": 7, "control_mode": "pd_joint_delta_pos"}
    described |= {"elapsed_steps": steps, "reset_kwargs": {"options": {}, "seed": 7}, "success": success}
    document = {"episodes": [described], "source_type": "motionplanning"}
    kwargs = {"obs_mode": "rgbd", "robot_uids": "panda", "sim_config": {"control_freq": 25}}
    environment = {"env_info": {"env_id": "PickCube-v1", "env_kwargs": kwargs}}
    file.with_suffix(".json").write_text(json.dumps({**environment, **document}))
    state = [arrays[f"obs/agent/{name}"][:steps] for name in ("qpos", "qvel")]
    signals = {"actions", "rewards", "obs/agent/qpos", "obs/agent/qvel"}
    return Written(
        path=folder,
        file=file,
        steps=steps,
        action=arrays["actions"],
        state=np.concatenate(state, axis=1),
        cameras={"base_camera": images[:steps]},
        extra=frozenset(name.removeprefix("obs/") for name in arrays.keys() - signals),
        facts={"rate_hz": 25.0, "rate_source": "source", "robot": "panda", "success": success},
    )


def _maniskill_arrays(rng: np.random.Generator, steps: int) -> dict[str, NDArray[Any]]:
    success = np.zeros(steps, bool)
    success[-1] = rng.random() < 0.5
    return {
        "obs/agent/qpos": numbers(rng, steps + 1, 9),
        "obs/agent/qvel": numbers(rng, steps + 1, 9),
        "obs/extra/tcp_pose": numbers(rng, steps + 1, 7),
        "obs/sensor_param/base_camera/intrinsic_cv": numbers(rng, steps + 1, 3, 3),
        "actions": numbers(rng, steps, 8),
        "terminated": success,
        "truncated": np.zeros(steps, bool),
        "success": success,
        "env_states/actors/cube": numbers(rng, steps + 1, 13),
        "env_states/articulations/panda": numbers(rng, steps + 1, 31),
        "rewards": numbers(rng, steps),
    }


# Width of the joints of an arm, by the robot.
ROBOMIND_ROBOTS = {"AgileX Cobot Magic": 7, "Franka Panda": 8, "UR5e": 7, "Tien Kung": 16}


def robomind(folder: Path, rng: np.random.Generator, steps: int, robot: str = "") -> Written:
    """RoboMIND: master and puppet joints, images as bytes of varying length, task and outcome in the folders."""
    robot = robot or tuple(ROBOMIND_ROBOTS)[rng.integers(4)]
    ends = ("_left", "_right") if robot.startswith("AgileX") else ("",)
    width = ROBOMIND_ROBOTS[robot]
    is_success = bool(rng.random() < 0.7)
    outcome = "success_episodes" if is_success else "failure_episodes"
    episode = f"h5_robot/10_packplate_2/{outcome}/train/0918_104022"
    file = folder / episode / "data" / "trajectory.hdf5"
    file.parent.mkdir(parents=True)
    joints = {
        arm: [numbers(rng, steps, width, dtype="float64") for _ in ends] for arm in ("master", "puppet")
    }
    images = pictures(rng, steps)
    text = ("pack the plate", "packplate")[rng.integers(2)]
    with h5py.File(file, "w") as h5:
        h5.attrs.update(sim=False, compress=True)
        for arm, parts in joints.items():
            for end, values in zip(ends, parts, strict=True):
                h5[f"{arm}/joint_position{end}"] = values
        _write_robomind_images(h5, images, swapped=robot in ("AgileX Cobot Magic", "Tien Kung"))
        if text == "pack the plate":
            h5["language_raw"] = np.array([text.encode()])
    return Written(
        path=folder,
        file=file,
        steps=steps,
        action=np.concatenate(joints["master"], axis=1),
        state=np.concatenate(joints["puppet"], axis=1),
        cameras={"camera_top": images},
        facts={"rate_hz": 30.0, "robot": robot, "success": is_success, "split": "train", "instruction": text},
    )


def _write_robomind_images(h5: Any, images: NDArray[np.uint8], swapped: bool) -> None:
    rows = h5.create_dataset("observations/rgb_images/camera_top", (len(images),), h5py.vlen_dtype(np.uint8))
    depth = h5.create_dataset(
        "observations/depth_images/camera_top", (len(images),), h5py.vlen_dtype(np.uint8)
    )
    millimetres = np.full((HEIGHT, WIDTH), 400, np.uint16)
    for number, image in enumerate(images):
        rows[number] = np.frombuffer(jpeg_of(image, swapped), np.uint8)
        depth[number] = np.frombuffer(cv2.imencode(".png", millimetres)[1].tobytes(), np.uint8)


def robotwin(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    """RoboTwin: drive targets of the joints, poses of the ends, RGB arrays encoded as if they were BGR."""
    file = folder / "data" / "episode3.hdf5"
    for name in ("data", "instructions", "video"):
        (folder / name).mkdir()
    widths = {"left_arm": 6, "left_gripper": 1, "right_arm": 6, "right_gripper": 1}
    parts = {name: numbers(rng, steps, width, dtype="float64") for name, width in widths.items()}
    poses = {
        name: numbers(rng, steps, 7 if name.endswith("endpose") else 1, dtype="float64")
        for name in ("left_endpose", "left_gripper", "right_endpose", "right_gripper")
    }
    vector = np.concatenate(list(parts.values()), axis=1)
    cameras = {name: pictures(rng, steps) for name in ("head_camera", "left_camera")}
    with h5py.File(file, "w") as h5:
        for name, values in {**parts, "vector": vector}.items():
            h5[f"joint_action/{name}"] = values.squeeze(1) if "gripper" in name else values
        for name, values in poses.items():
            h5[f"endpose/{name}"] = values.squeeze(1) if "gripper" in name else values
        h5["pointcloud"] = np.zeros((steps, 0))
        for camera, images in cameras.items():
            h5[f"observation/{camera}/rgb"] = padded([jpeg_of(image, swapped=True) for image in images])
            h5[f"observation/{camera}/intrinsic_cv"] = numbers(rng, steps, 3, 3)
            h5[f"observation/{camera}/mesh_segmentation"] = np.zeros((steps, HEIGHT, WIDTH, 3), np.uint8)
    texts = {"seen": ["Lift the hammer.", "Beat the block."], "unseen": ["Never seen."]}
    (folder / "instructions" / "episode3.json").write_text(json.dumps(texts))
    (folder / "scene_info.json").write_text("{}")
    (folder / "video" / "episode3.mp4").write_bytes(b"preview")
    return Written(
        path=folder,
        file=file,
        steps=steps,
        action=vector,
        state=np.concatenate(list(poses.values()), axis=1),
        cameras=cameras,
        extra=frozenset(f"{camera}/intrinsic_cv" for camera in cameras),
        facts={"rate_hz": 250 / 15, "instructions": ("Lift the hammer.", "Beat the block.")},
    )


def xpolicylab(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    """RoboTwin since August 2026: states and the actions one step on, "frequency" in steps of the simulation."""
    file = folder / "episode0.hdf5"
    joints = {name: numbers(rng, steps + 1, 6 if "arm" in name else 1) for name in _XPOLICY_JOINTS}
    images = pictures(rng, steps)
    with h5py.File(file, "w") as h5:
        h5.attrs.update(source_format="RoboTwin", source_path="native_collection")
        text = h5py.string_dtype("utf-8")
        h5.create_dataset("data_format_version", data="v1.0", dtype=text)
        h5.create_dataset("instructions", data=json.dumps(["Lift it.", "Hebe es auf – größer"]), dtype=text)
        h5["additional_info/frequency"] = np.int32(15)
        for name, values in joints.items():
            h5[f"state/{name}_joint_states"] = values[:-1]
            h5[f"action/{name}_joint_states"] = values[1:]
        h5["vision/cam_head/colors"] = padded([jpeg_of(image, swapped=True) for image in images])
        h5["vision/cam_head/shape"] = np.array([HEIGHT, WIDTH, 3], np.int32)
        h5["vision/cam_head/depths"] = numbers(rng, steps, HEIGHT, WIDTH)
    values = np.concatenate(list(joints.values()), axis=1)
    return Written(
        path=folder,
        file=file,
        steps=steps,
        action=values[1:],
        state=values[:-1],
        cameras={"cam_head": images},
        facts={
            "rate_hz": 250 / 15,
            "rate_source": "source",
            "instructions": ("Lift it.", "Hebe es auf – größer"),
        },
    )


_XPOLICY_JOINTS = ("left_arm", "left_ee", "right_arm", "right_ee")


def egodex(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    """EgoDex: poses of the joints as 4 x 4 matrices, an mp4 of the same name, texts in the attributes."""
    file = folder / "part1" / "stack_cups" / "0.hdf5"
    file.parent.mkdir(parents=True)
    names = ("camera", "leftHand", "rightHand", "leftThumbTip")
    poses = {name: numbers(rng, steps, 4, 4) for name in names}
    is_reversed, is_new = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    prefix = "llm_" if is_new else ""
    with h5py.File(file, "w") as h5:
        for name, values in poses.items():
            h5[f"transforms/{name}"] = values
        if is_new:
            h5["confidences/leftHand"] = rng.random(steps).astype(np.float32)
        h5["camera/intrinsic"] = np.diag([736.6, 736.6, 1.0]).astype(np.float32)
        h5.attrs.update(
            {f"{prefix}description": "stack the cups", f"{prefix}description2": "unstack the cups"}
        )
        h5.attrs[f"which_{prefix}description"] = "2" if is_reversed else "1"
    images = pictures(rng, steps)
    encode_mp4(images, file.with_suffix(".mp4"), 30.0)
    return Written(
        path=folder,
        file=file,
        steps=steps,
        action=None,
        state=np.concatenate([poses[name].reshape(steps, 16) for name in ("leftHand", "rightHand")], axis=1),
        cameras={"ego": images},
        extra=frozenset({"transforms/camera", "transforms/leftThumbTip"})
        | (frozenset({"confidences/leftHand"}) if is_new else frozenset()),
        facts={"rate_hz": 30.0, "instruction": "unstack the cups" if is_reversed else "stack the cups"},
    )


WRITERS: dict[str, Callable[[Path, np.random.Generator, int], Written]] = {
    "ManiSkill": maniskill,
    "RoboMIND": robomind,
    "RoboTwin": robotwin,
    "XPolicyLab": xpolicylab,
    "EgoDex": egodex,
}
