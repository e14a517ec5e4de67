"""Loads HDF5 episodes of known projects: ALOHA, ManiSkill, RoboMIND, RoboTwin, EgoDex."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ares.episode import Channels, Json, Record, Role
from ares.errors import SourceError
from ares.input import open_hdf5, open_hdf5_object
from ares.io import FileState, describe_os_error, file_state, parse_path
from ares.media import has_encoded_images, read_encoded_image
from ingest.base import FileUse
from ingest.files import read_json_object
from ingest.hdf5.episode import (
    ArrayRoles,
    EpisodeDetails,
    HDF5Entry,
    count_steps,
    make_record,
    make_video_camera,
)
from ingest.hdf5.reader import (
    HDF5EpisodeReader,
    find_datasets,
    keep_small_values,
    natural_key,
    parse_json_object,
    read_attributes,
    read_small,
    read_texts,
)
from ingest.signals import resolve_rate

RATE_HZ = 50.0
# Two arms with seven joints each; Mobile ALOHA appends the two velocities of its base.
WIDTHS = (14, 16)
_ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
JOINTS = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in _ARM)
_BASE = ("base_linear", "base_angular")
_LANGUAGE_KEYS = ("language_instruction", "instruction", "language_raw", "task")


def has_aloha_action_width(action: Any) -> bool:
    """Whether an action is as wide as ALOHA's, so that the rate and the joint names are known."""
    return bool(action.ndim == 2 and action.shape[1] in WIDTHS)


def load_aloha(entry: HDF5Entry) -> Record:
    """Read the episode of a file. Raises SourceError when the file is damaged or has no action."""
    with open_hdf5(entry.path) as file:
        datasets, attributes = find_datasets(file), read_attributes(file)
        steps = count_steps(datasets, ["action"], entry.path)
        is_known = has_aloha_action_width(datasets["action"])
        rate_hz, rate_source = resolve_rate(entry.rate_hz, RATE_HZ if is_known else None, "format")
        reader = HDF5EpisodeReader(entry.path, entry.group, steps, rate_hz)
        reader.warnings += _compression_warnings(datasets, attributes)
        width = int(datasets["action"].shape[1]) if is_known else 0
        roles = ArrayRoles(
            action=("action",),
            state=("observations/qpos",),
            action_names=(*JOINTS, *_BASE)[:width],
            state_names=JOINTS,
            left_out=frozenset({"compress_len", *_LANGUAGE_KEYS}),
        )
        details = EpisodeDetails(
            rate_source=rate_source,
            robot="ALOHA" if is_known else "",
            instructions=_stored_instructions(datasets, attributes),
            metadata=keep_small_values(
                {name: value for name, value in attributes.items() if name not in _LANGUAGE_KEYS}
            ),
        )
        return make_record(entry, reader, datasets, roles, details)


def _stored_instructions(datasets: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    """Instructions from attributes or datasets: ALOHA itself stores none, formats derived from it do."""
    instructions = [attributes[name] for name in _LANGUAGE_KEYS if isinstance(attributes.get(name), str)]
    return instructions + [
        text for name in _LANGUAGE_KEYS if name in datasets for text in read_texts(datasets[name])
    ]


def _compression_warnings(datasets: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    """Warnings where the images disagree with `compress` and `compress_len`."""
    cameras = {
        label: images
        for label, images in datasets.items()
        if label.startswith("observations/images/") and images.ndim and len(images)
    }
    encoded = {label: images for label, images in cameras.items() if has_encoded_images(images)}
    warnings = []
    if "compress" in attributes and bool(attributes["compress"]) != bool(encoded) and cameras:
        warnings.append("attribute compress does not match the images")
    lengths = datasets.get("compress_len")
    if lengths is not None and encoded and lengths.ndim == 2 and lengths.shape[1]:
        first_lengths = {length for length, *_ in read_small(lengths)}
        # compress_len lists cameras in the order of writing, which the file does not record.
        if any(len(read_encoded_image(images, 0)) not in first_lengths for images in encoded.values()):
            warnings.append("compress_len does not match the images")
    return warnings


# RoboTwin counts its "frequency" in steps of its simulation.
_ROBOTWIN_STEPS_HZ = 250
_OUTCOME_FOLDERS = {"success_episodes": True, "failure_episodes": False, "failure_data": False}
_ROBOTWIN_FAMILIES = ("RoboTwin", "XPolicyLab")
_LANGUAGE = ("language_raw", "language_instruction")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFileFacts:
    """What is said of an episode outside its arrays.

    Attributes:
        rate_hz: Steps per second as the source states them, or None.
        robot: Name of the robot, or "".
        channels: Order of colours where it differs from that of the family, or None.
        instructions: Instructions as written.
        success: Outcome from a field or folder that records it, or None.
        success_source: Name of that field, "folder", or "".
        metadata: Small values for the episode's metadata.
        videos: Videos beside the file: name, role and path.
        warnings: What is missing or contradictory.
    """

    rate_hz: float | None = None
    robot: str = ""
    channels: Channels | None = None
    instructions: tuple[str, ...] = ()
    success: bool | None = None
    success_source: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    videos: tuple[tuple[str, Role, Any], ...] = ()
    warnings: tuple[str, ...] = ()


def read_maniskill_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFileFacts:
    """The entry of an episode in the JSON of the same name, and the last value of `success`."""
    path = parse_path(entry.path).with_suffix(".json")
    warnings = []
    document: dict[str, Any] = {}
    try:
        document = _read_json_once(path)
    except SourceError as error:
        warnings.append(f"the JSON beside the file cannot be read ({error.reason})")
    episodes = document.get("episodes")
    number = int(entry.group.removeprefix("traj_"))
    stated = _maniskill_episode(episodes if isinstance(episodes, list) else [], number)
    if document and not stated:
        warnings.append("the JSON beside the file does not describe the episode")
    steps = len(_first_rows(datasets))
    if stated.get("elapsed_steps", steps) != steps:
        warnings.append("elapsed_steps is not the number of actions")
    success = _maniskill_success(datasets)
    by_json = stated.get("success")
    if isinstance(by_json, bool):
        if success is not None and by_json != success:
            warnings.append("the JSON and the array success disagree; the JSON is used")
        success = by_json
    environment = document.get("env_info")
    environment = environment if isinstance(environment, dict) else {}
    kwargs = environment.get("env_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    robot = stated.get("robot_uids") or kwargs.get("robot_uids")
    metadata = {**stated, "env_id": environment.get("env_id"), "source_type": document.get("source_type")}
    return EpisodeFileFacts(
        rate_hz=_control_frequency(kwargs),
        robot=robot if isinstance(robot, str) else "",
        success=success,
        success_source="" if success is None else "success",
        metadata=keep_small_values(
            {name: value for name, value in metadata.items() if name not in ("success", "fail")}
        ),
        warnings=tuple(warnings),
    )


def _first_rows(datasets: Mapping[str, Any]) -> Any:
    """The first array of actions, or nothing."""
    labels = [label for label in datasets if label == "actions" or label.startswith("actions/")]
    return datasets[labels[0]] if labels and datasets[labels[0]].ndim else ()


def _maniskill_episode(episodes: list[Any], number: int) -> dict[str, Any]:
    """The entry with an episode's number, which is nearly always at that index."""
    nearest = episodes[number : number + 1] if number < len(episodes) else []
    for episode in (*nearest, *episodes):
        if isinstance(episode, dict) and episode.get("episode_id") == number:
            return episode
    return {}


def _maniskill_success(datasets: Mapping[str, Any]) -> bool | None:
    values = datasets.get("success")
    if values is None or values.dtype.kind != "b" or values.ndim != 1 or not len(values):
        return None
    return bool(read_small(values)[-1])


def _control_frequency(env_kwargs: Mapping[str, Any]) -> float | None:
    sim_config = env_kwargs.get("sim_config")
    frequency = (sim_config if isinstance(sim_config, dict) else env_kwargs).get("control_freq")
    return _plausible_rate(frequency)


def _plausible_rate(value: object) -> float | None:
    """The value as a plausible rate, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1e-6 < value < 1e6 else None  # type: ignore[operator,arg-type]


def _read_json_once(path: Any) -> dict[str, Any]:
    """The object in a JSON file, read once for all the episodes that it describes. Raises SourceError."""
    try:
        state = file_state(str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError("file is missing", str(path)) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    return _read_json_cached(str(path), state)


@functools.lru_cache(maxsize=8)
def _read_json_cached(path: str, state: FileState) -> dict[str, Any]:
    return read_json_object(parse_path(path))


def read_robomind_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFileFacts:
    """Language of the file or of the folder of the task, outcome by folder, robot and colours by the joints.

    RoboMIND encodes RGB arrays of AgileX and Tien Kung with OpenCV, which takes them for BGR (`bgr2rgb: False` in its
    static/robomind.yaml); the images of Franka and UR are ordinary JPEG.
    """
    parts = parse_path(entry.path).parts
    folder = next((part for part in reversed(parts) if part in _OUTCOME_FOLDERS), "")
    texts = [text for name in _LANGUAGE if name in datasets for text in read_texts(datasets[name])]
    task = parts[parts.index(folder) - 1] if folder and parts.index(folder) else ""
    warnings = []
    if not texts and task:
        texts = [re.sub(r"^[\d_-]+|_\d+$", "", task).replace("_", " ")]
        warnings.append("the instruction is the name of the task's folder")
    robot, channels = _robomind_robot(datasets)
    return EpisodeFileFacts(
        robot=robot,
        channels=channels,
        instructions=tuple(texts),
        success=_OUTCOME_FOLDERS.get(folder),
        success_source="folder" if folder else "",
        metadata={**({"task": task} if task else {}), **keep_small_values(read_attributes(group))},
        warnings=tuple(warnings),
    )


def _robomind_robot(datasets: Mapping[str, Any]) -> tuple[str, Channels]:
    """Robot and order of colours, by the names and widths of the joint positions."""
    if any(label.endswith("/joint_position_left") for label in datasets):
        return "AgileX Cobot Magic", "bgr"
    joints = datasets.get("puppet/joint_position", datasets.get("master/joint_position"))
    width = joints.shape[1] if joints is not None and joints.ndim == 2 else 0
    if width == 16 and "puppet/end_effector" not in datasets:
        return "Tien Kung", "bgr"
    robots: dict[int, tuple[str, Channels]] = {
        7: ("UR5e", "rgb"),
        8: ("Franka Panda", "rgb"),
        14: ("Tien Kung", "bgr"),
        16: ("Franka FR3 dual", "rgb"),
    }
    return robots.get(width, ("Franka Panda" if "franka/joint_position" in datasets else "", "rgb"))


def read_robotwin_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFileFacts:
    """The instructions in `instructions/episodeN.json` beside the file's folder: those for training, else others."""
    path = parse_path(entry.path)
    try:
        document = read_json_object(path.parent.parent / "instructions" / f"{path.stem}.json")
    except SourceError as error:
        return EpisodeFileFacts(
            warnings=(f"instructions/episodeN.json cannot be read ({_short_reason(error, path)})",)
        )
    texts = document.get("seen") or document.get("unseen")
    return EpisodeFileFacts(instructions=_keep_texts(texts))


def _short_reason(error: SourceError, path: Any) -> str:
    """The reason of an error, the same for every episode."""
    return error.reason.replace(f"{path.stem}.json", "it")


def _keep_texts(values: object) -> tuple[str, ...]:
    values = values if isinstance(values, list) else [values]
    return tuple(text for text in values if isinstance(text, str))


def read_xpolicylab_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFileFacts:
    """The instructions and the frequency inside the file; RoboTwin writes the latter in steps of 1/250 s."""
    attributes = read_attributes(group)
    stated = datasets.get("additional_info/frequency")
    frequency = _plausible_rate(read_small(stated)) if stated is not None else None
    is_steps = attributes.get("source_format") == "RoboTwin"
    texts = read_texts(datasets["instructions"]) if "instructions" in datasets else []
    document = parse_json_object(f'{{"texts": {texts[0]}}}') if texts else None
    return EpisodeFileFacts(
        rate_hz=_ROBOTWIN_STEPS_HZ / frequency if frequency and is_steps else frequency,
        instructions=_keep_texts((document or {}).get("texts")) or tuple(texts),
        metadata=keep_small_values(attributes),
    )


def read_egodex_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFileFacts:
    """Language in the attributes, the second text for a task that is undone, and the mp4 of the same name."""
    attributes = read_attributes(group)
    path = parse_path(entry.path)
    prefix = "llm_" if "llm_description" in attributes else ""
    is_reversed = str(attributes.get(f"which_{prefix}description", "1")) == "2"
    instruction = attributes.get(f"{prefix}description{'2' if is_reversed else ''}")
    video = path.with_suffix(".mp4")
    return EpisodeFileFacts(
        instructions=(instruction,) if isinstance(instruction, str) else (),
        metadata={"task": path.parent.name, **keep_small_values(attributes)},
        videos=(("ego", "front", video),) if video.exists() else (),
        warnings=() if video.exists() else ("the mp4 beside the file is missing",),
    )


def list_companion_files(family: str, path: Path) -> Iterator[tuple[Path, FileUse]]:
    """The files that belong to the episodes of an HDF5 file alone, whether they exist or not, and their use."""
    if family == "ManiSkill":
        yield path.with_suffix(".json"), "metadata"
    elif family == "EgoDex":
        yield path.with_suffix(".mp4"), "data"
    elif family in _ROBOTWIN_FAMILIES:
        root = path.parent.parent
        yield root / "instructions" / f"{path.stem}.json", "metadata"
        # A preview of the head camera, whose pictures the HDF5 file holds, and the plan of the motion.
        yield root / "video" / f"{path.stem}.mp4", "metadata"
        yield root / "_traj_data" / f"{path.stem}.pkl", "metadata"


def shared_files(family: str, folder: Path) -> Iterator[Path]:
    """The files that describe all episodes in a folder, whether they exist or not."""
    if family in _ROBOTWIN_FAMILIES:
        yield folder.parent / "scene_info.json"
        yield folder.parent / "seed.txt"


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
    facts: Callable[[HDF5Entry, Any, Mapping[str, Any]], EpisodeFileFacts]


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
        left_out={"obs/*/segmentation": _SEGMENTATION, "obs/*/seg": _SEGMENTATION},
        image_names=frozenset({"rgb"}),
        rate_hz=20.0,
        has_final_observation=True,
        facts=read_maniskill_facts,
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
        left_out={"language_*": ""},
        rate_hz=30.0,
        splits=frozenset({"train", "val"}),
        facts=read_robomind_facts,
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
            "observation/*_segmentation": _SEGMENTATION,
            "pointcloud": "point clouds are not stored",
        },
        image_names=frozenset({"rgb"}),
        rate_hz=250 / 15,
        channels="bgr",
        facts=read_robotwin_facts,
    ),
    # Writer: RoboTwin since August 2026, the same file; state and action are paired there already.
    Family(
        name="XPolicyLab",
        groups=(frozenset({"state", "action", "vision"}),),
        action=(tuple(f"action/{side}_{part}_joint_states" for side in _SIDES for part in ("arm", "ee")),),
        state=(tuple(f"state/{side}_{part}_joint_states" for side in _SIDES for part in ("arm", "ee")),),
        left_out={
            "vision/*/shape": "",
            "instructions": "",
            "additional_info/*": "",
            "data_format_version": "",
        },
        image_names=frozenset({"colors"}),
        channels="bgr",
        facts=read_xpolicylab_facts,
    ),
    # Reader: Eventual-Inc/Daft daft/datasets/egodex.py; poses in metres in the frame of ARKit, 30 Hz.
    Family(
        name="EgoDex",
        groups=(frozenset({"transforms", "camera"}),),
        needs_action=False,
        state=(("transforms/leftHand", "transforms/rightHand"),),
        constants=("camera/intrinsic",),
        rate_hz=30.0,
        facts=read_egodex_facts,
    ),
)
BY_NAME = {family.name: family for family in FAMILIES}


def match_hdf5_family(names: Iterable[str]) -> Family | None:
    """The family whose files hold these names at the top, or None."""
    names = set(names)
    for family in FAMILIES:
        if any(groups <= names for groups in family.groups) or (
            family.episodes and list_episode_groups(family, names)
        ):
            return family
    return None


def list_episode_groups(family: Family, names: Iterable[str]) -> list[str]:
    """The names at the top of a file that are episodes of the family, in natural order."""
    return sorted((name for name in names if re.fullmatch(family.episodes, name)), key=natural_key)


def choose_complete_labels(choices: Sequence[Sequence[str]], labels: Iterable[str]) -> list[str]:
    """The labels of the first choice that is complete, else of the first of which some are there."""
    ordered = sorted(labels, key=natural_key)
    matches = [[match_labels(pattern, ordered) for pattern in choice] for choice in choices]
    best = next((parts for parts in matches if all(parts)), None) or next(filter(any, matches), [])
    return [label for part in best for label in part]


def match_labels(pattern: str, labels: Iterable[str]) -> list[str]:
    """The labels that match a pattern."""
    return [label for label in labels if fnmatchcase(label, pattern)]


def load_family_episode(family_name: str, entry: HDF5Entry) -> Record:
    """Read an episode. Raises SourceError when it is damaged, or has no action where its project always has one."""
    import h5py  # type: ignore[import-untyped]

    family = BY_NAME[family_name]
    where = f"{entry.path} {entry.group}".strip()
    with open_hdf5(entry.path) as file:
        group = open_hdf5_object(file, entry.group)
        if not isinstance(group, h5py.Group):
            raise SourceError("episode is no group of the file", where)
        datasets = find_datasets(group)
        action = choose_complete_labels(family.action, datasets)
        state = choose_complete_labels(family.state, datasets)
        steps = count_steps(datasets, action if family.needs_action else [*action, *state], where)
        facts = family.facts(entry, group, datasets)
        rate_hz, rate_source = resolve_rate(
            entry.rate_hz, facts.rate_hz or family.rate_hz, "source" if facts.rate_hz else "format"
        )
        reader = HDF5EpisodeReader(
            entry.path,
            entry.group,
            steps,
            rate_hz,
            facts.channels or family.channels,
            family.has_final_observation,
        )
        reader.warnings += facts.warnings
        constants = _read_constants(family, datasets)
        roles = ArrayRoles(
            action=action,
            state=state,
            reward=family.reward,
            left_out=_left_out(family, datasets, {*action, *state}, reader) | frozenset(constants),
            image_names=family.image_names,
        )
        return make_record(
            entry, reader, datasets, roles, _episode_details(facts, rate_source, constants, reader)
        )


def _episode_details(
    facts: EpisodeFileFacts, rate_source: Any, constants: Mapping[str, Json], reader: HDF5EpisodeReader
) -> EpisodeDetails:
    cameras = [make_video_camera(name, role, str(path), reader) for name, role, path in facts.videos]
    return EpisodeDetails(
        rate_source=rate_source,
        robot=facts.robot,
        instructions=facts.instructions,
        success=facts.success,
        success_source=facts.success_source,
        metadata={**facts.metadata, **constants},
        cameras=tuple(camera for camera in cameras if camera),
    )


def _read_constants(family: Family, datasets: Mapping[str, Any]) -> dict[str, Json]:
    labels = [label for pattern in family.constants for label in match_labels(pattern, datasets)]
    return keep_small_values({label: read_small(datasets[label]) for label in labels})


def _left_out(
    family: Family, datasets: Mapping[str, Any], used: set[str], reader: HDF5EpisodeReader
) -> frozenset[str]:
    """The labels that are not stored; warns of those that hold values which are nowhere else."""
    labels: set[str] = set()
    for pattern, warning in family.left_out.items():
        matches = set(match_labels(pattern, datasets)) - used
        if warning and any(datasets[label].size for label in matches):
            reader.warnings.append(warning)
        labels |= matches
    return frozenset(labels)
