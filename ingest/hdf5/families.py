"""The HDF5 files of ManiSkill, RoboMIND, RoboTwin, XPolicyLab and EgoDex as a table: which array is what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ares.episode import Channels
from ingest.hdf5.companions import (
    EpisodeFacts,
    egodex_facts,
    maniskill_facts,
    robomind_facts,
    robotwin_facts,
    xpolicylab_facts,
)
from ingest.hdf5.episode import HDF5Entry
from ingest.hdf5.reader import natural_key

_DEPTH = "depth is not stored"
_SEGMENTATION = "segmentation is not stored"
_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Where the files of a project keep what an episode consists of.

    Labels are paths of datasets below the group of the episode, with the wildcards of `fnmatch`.

    Attributes:
        name: The project.
        groups: Sets of names of which all lie at the top of a file; any of the sets will do.
        episodes: Pattern of the groups at the top that are an episode, or "" where the file is one.
        action: Choices of the labels that are the action, side by side; the first that is complete is used.
        needs_action: Whether an episode without an action is broken.
        state: The same for the state.
        reward: Label of the reward, or "".
        constants: Labels that hold for the whole episode and become metadata.
        left_out: Labels that are not stored, with a warning that says so; "" where the values are stored elsewhere.
        image_names: Last parts of labels that every camera has; the camera is named after the folder.
        rate_hz: Steps per second where neither the file nor the user says it.
        channels: Order of colours as OpenCV writes it: "bgr" for projects that encode RGB arrays with `cv2.imencode`.
        has_final_observation: Whether the observations include that after the last action.
        splits: Names of folders that are splits.
        facts: Reads what is said of an episode outside its arrays.
    """

    name: str
    groups: tuple[frozenset[str], ...]
    episodes: str = ""
    action: tuple[tuple[str, ...], ...] = ()
    needs_action: bool = True
    state: tuple[tuple[str, ...], ...] = ()
    reward: str = ""
    constants: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    image_names: frozenset[str] = frozenset()
    rate_hz: float | None = None
    channels: Channels = "rgb"
    has_final_observation: bool = False
    splits: frozenset[str] = frozenset()
    facts: Callable[[HDF5Entry, Any, Mapping[str, Any]], EpisodeFacts]


FAMILIES = (
    # Writer: haosulab/ManiSkill mani_skill/utils/wrappers/record.py; 20 Hz is the default of SimConfig.control_freq.
    Family(
        name="ManiSkill",
        groups=(),
        episodes=r"traj_\d{1,18}",
        action=(("actions",), ("actions/*",)),
        state=(
            ("obs/agent/qpos", "obs/agent/qvel"),
            ("obs/agent/*/qpos", "obs/agent/*/qvel"),
            ("obs",),
            ("env_states/articulations/*",),
            ("env_states",),
        ),
        reward="rewards",
        left_out={"obs/*/depth": _DEPTH, "obs/*/segmentation": _SEGMENTATION, "obs/*/seg": _SEGMENTATION},
        image_names=frozenset({"rgb"}),
        rate_hz=20.0,
        has_final_observation=True,
        facts=maniskill_facts,
    ),
    # Layout: x-humanoid-robomind/x-humanoid-robomind.github.io static/all_robot_h5_info.md; 30 Hz by its FAQ.
    Family(
        name="RoboMIND",
        groups=tuple(frozenset({arm, "observations"}) for arm in ("puppet", "master", "franka")),
        action=(tuple(f"master/joint_position_{side}" for side in _SIDES), ("master/joint_position",)),
        needs_action=False,
        state=(
            tuple(f"puppet/joint_position_{side}" for side in _SIDES),
            ("puppet/joint_position",),
            ("franka/joint_position",),
        ),
        left_out={"observations/depth_images/*": _DEPTH, "language_*": ""},
        rate_hz=30.0,
        splits=frozenset({"train", "val"}),
        facts=robomind_facts,
    ),
    # Writer: RoboTwin-Platform/RoboTwin envs/utils/pkl2hdf5.py; a sample every 15 steps of 1/250 s.
    Family(
        name="RoboTwin",
        groups=(frozenset({"joint_action", "observation"}),),
        action=(
            tuple(f"joint_action/{side}_{part}" for side in _SIDES for part in ("arm", "gripper")),
            ("joint_action/vector",),
        ),
        state=(
            tuple(f"endpose/{side}_{part}" for side in _SIDES for part in ("endpose", "gripper")),
            ("endpose",),
        ),
        left_out={
            "joint_action/vector": "",
            "observation/*/depth": _DEPTH,
            "observation/*_segmentation": _SEGMENTATION,
            "pointcloud": "point clouds are not stored",
        },
        image_names=frozenset({"rgb"}),
        rate_hz=250 / 15,
        channels="bgr",
        facts=robotwin_facts,
    ),
    # Writer: RoboTwin since August 2026, the same file; state and action are paired there already.
    Family(
        name="XPolicyLab",
        groups=(frozenset({"state", "action", "vision"}),),
        action=(tuple(f"action/{side}_{part}_joint_states" for side in _SIDES for part in ("arm", "ee")),),
        state=(tuple(f"state/{side}_{part}_joint_states" for side in _SIDES for part in ("arm", "ee")),),
        left_out={
            "vision/*/depths": _DEPTH,
            "vision/*/shape": "",
            "instructions": "",
            "additional_info/*": "",
            "data_format_version": "",
        },
        image_names=frozenset({"colors"}),
        channels="bgr",
        facts=xpolicylab_facts,
    ),
    # Reader: Eventual-Inc/Daft daft/datasets/egodex.py; poses in metres in the frame of ARKit, 30 Hz.
    Family(
        name="EgoDex",
        groups=(frozenset({"transforms", "camera"}),),
        needs_action=False,
        state=(("transforms/leftHand", "transforms/rightHand"),),
        constants=("camera/intrinsic",),
        rate_hz=30.0,
        facts=egodex_facts,
    ),
)
BY_NAME = {family.name: family for family in FAMILIES}


def family_of(names: Iterable[str]) -> Family | None:
    """The family whose files hold these names at the top, or None."""
    names = set(names)
    for family in FAMILIES:
        if any(groups <= names for groups in family.groups) or (
            family.episodes and episode_groups(family, names)
        ):
            return family
    return None


def episode_groups(family: Family, names: Iterable[str]) -> list[str]:
    """The names at the top of a file that are episodes of the family, in natural order."""
    return sorted((name for name in names if re.fullmatch(family.episodes, name)), key=natural_key)


def choose_labels(choices: Sequence[Sequence[str]], labels: Iterable[str]) -> list[str]:
    """The labels of the first choice that is complete, else of the first of which some are there."""
    ordered = sorted(labels, key=natural_key)
    matches = [[matching(pattern, ordered) for pattern in choice] for choice in choices]
    best = next((parts for parts in matches if all(parts)), None) or next(filter(any, matches), [])
    return [label for part in best for label in part]


def matching(pattern: str, labels: Iterable[str]) -> list[str]:
    """The labels that match a pattern."""
    return [label for label in labels if fnmatchcase(label, pattern)]
