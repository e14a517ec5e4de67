"""What projects say of an HDF5 episode outside its arrays: JSON and videos beside it, attributes, folder names."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ares.episode import Channels, Json, Role
from ares.errors import SourceError
from ares.io import FileState, file_state, parse_path
from ingest.base import FileUse
from ingest.hdf5.episode import HDF5Entry
from ingest.hdf5.reader import parse_json_object, read_attributes, read_small, read_texts, small_values
from ingest.json_files import read_json_object

# RoboTwin counts its "frequency" in steps of its simulation.
_ROBOTWIN_STEPS_HZ = 250
_OUTCOME_FOLDERS = {"success_episodes": True, "failure_episodes": False, "failure_data": False}
_ROBOTWIN_FAMILIES = ("RoboTwin", "XPolicyLab")
_LANGUAGE = ("language_raw", "language_instruction")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFacts:
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


def maniskill_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
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
    return EpisodeFacts(
        rate_hz=_control_frequency(kwargs),
        robot=robot if isinstance(robot, str) else "",
        success=success,
        success_source="" if success is None else "success",
        metadata=small_values(
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
    return _positive(frequency)


def _positive(value: object) -> float | None:
    """The value as a plausible rate, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1e-6 < value < 1e6 else None  # type: ignore[operator,arg-type]


def _read_json_once(path: Any) -> dict[str, Any]:
    """The object in a JSON file, read once for all the episodes that it describes. Raises SourceError."""
    try:
        state = file_state(str(path))
    except OSError:
        raise SourceError("file is missing", str(path)) from None
    return _read_json_cached(str(path), state)


@functools.lru_cache(maxsize=8)
def _read_json_cached(path: str, state: FileState) -> dict[str, Any]:
    return read_json_object(parse_path(path))


def robomind_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
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
    return EpisodeFacts(
        robot=robot,
        channels=channels,
        instructions=tuple(texts),
        success=_OUTCOME_FOLDERS.get(folder),
        success_source="folder" if folder else "",
        metadata={**({"task": task} if task else {}), **small_values(read_attributes(group))},
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


def robotwin_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
    """The instructions in `instructions/episodeN.json` beside the file's folder: those for training, else others."""
    path = parse_path(entry.path)
    try:
        document = read_json_object(path.parent.parent / "instructions" / f"{path.stem}.json")
    except SourceError as error:
        return EpisodeFacts(warnings=(f"instructions/episodeN.json cannot be read ({_short(error, path)})",))
    texts = document.get("seen") or document.get("unseen")
    return EpisodeFacts(instructions=_texts(texts))


def _short(error: SourceError, path: Any) -> str:
    """The reason of an error, the same for every episode."""
    return error.reason.replace(f"{path.stem}.json", "it")


def _texts(values: object) -> tuple[str, ...]:
    values = values if isinstance(values, list) else [values]
    return tuple(text for text in values if isinstance(text, str))


def xpolicylab_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
    """The instructions and the frequency inside the file; RoboTwin writes the latter in steps of 1/250 s."""
    attributes = read_attributes(group)
    stated = datasets.get("additional_info/frequency")
    frequency = _positive(read_small(stated)) if stated is not None else None
    is_steps = attributes.get("source_format") == "RoboTwin"
    texts = read_texts(datasets["instructions"]) if "instructions" in datasets else []
    document = parse_json_object(f'{{"texts": {texts[0]}}}') if texts else None
    return EpisodeFacts(
        rate_hz=_ROBOTWIN_STEPS_HZ / frequency if frequency and is_steps else frequency,
        instructions=_texts((document or {}).get("texts")) or tuple(texts),
        metadata=small_values(attributes),
    )


def egodex_facts(entry: HDF5Entry, group: Any, datasets: Mapping[str, Any]) -> EpisodeFacts:
    """Language in the attributes, the second text for a task that is undone, and the mp4 of the same name."""
    attributes = read_attributes(group)
    path = parse_path(entry.path)
    prefix = "llm_" if "llm_description" in attributes else ""
    is_reversed = str(attributes.get(f"which_{prefix}description", "1")) == "2"
    instruction = attributes.get(f"{prefix}description{'2' if is_reversed else ''}")
    video = path.with_suffix(".mp4")
    return EpisodeFacts(
        instructions=(instruction,) if isinstance(instruction, str) else (),
        metadata={"task": path.parent.name, **small_values(attributes)},
        videos=(("ego", "front", video),) if video.exists() else (),
        warnings=() if video.exists() else ("the mp4 beside the file is missing",),
    )


def companion_files(family: str, path: Path) -> Iterator[tuple[Path, FileUse]]:
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
