"""Loads raw DROID folders: one episode each, of trajectory.h5, metadata_*.json and recordings/MP4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ares.episode import Camera, Record, Role
from ares.input import open_hdf5, read_input
from ares.io import parse_path
from ingest.hdf5.episode import (
    ArrayRoles,
    EpisodeDetails,
    HDF5Entry,
    count_steps,
    make_record,
    make_video_camera,
)
from ingest.hdf5.reader import HDF5EpisodeReader, find_datasets, keep_small_values, parse_json_object
from ingest.signals import resolve_rate

TRAJECTORY_FILE = "trajectory.h5"
RECORDINGS = "recordings"
RATE_HZ = 15.0
ROBOT = "Franka Panda"
# Action and state are those of the RLDS copy, see specs/droid.yaml.
ACTION = ("action/cartesian_velocity", "action/gripper_position")
STATE = (
    "observation/robot_state/cartesian_position",
    "observation/robot_state/gripper_position",
    "observation/robot_state/joint_positions",
)
ACTION_NAMES = ("vx", "vy", "vz", "vroll", "vpitch", "vyaw", "gripper")
STATE_NAMES = ("x", "y", "z", "roll", "pitch", "yaw", "gripper", *(f"joint_{number}" for number in range(7)))
_CLOCK_PREFIX = "observation/timestamp/"
_CAMERAS: tuple[tuple[str, str, Role], ...] = (
    ("wrist_cam_serial", "wrist", "wrist"),
    ("ext1_cam_serial", "ext1", "front"),
    ("ext2_cam_serial", "ext2", "side"),
)


def is_droid_folder(folder: Path) -> bool:
    """Whether a folder is a DROID episode, with or without its trajectory.h5."""
    return (folder / RECORDINGS).is_dir() and any(folder.glob("metadata_*.json"))


def load_droid(entry: HDF5Entry) -> Record:
    """Read the episode of a folder.

    Raises SourceError when its trajectory.h5 is missing or broken, or has no action.
    """
    folder = parse_path(entry.path).parent
    with open_hdf5(entry.path) as file:
        datasets = find_datasets(file)
        steps = count_steps(datasets, ACTION[:1], entry.path)
        rate_hz, rate_source = resolve_rate(entry.rate_hz, RATE_HZ, "format")
        reader = HDF5EpisodeReader(entry.path, entry.group, steps, rate_hz)
        metadata = _read_metadata(folder, reader)
        if metadata.get("trajectory_length", steps) != steps:
            reader.warnings.append("trajectory_length is not the number of actions")
        clocks = [label for label in datasets if _is_machine_clock(label)]
        if clocks:
            reader.warnings.append("observation/timestamp is not stored (clocks of the machines)")
        success, success_source = _episode_outcome(folder, metadata, reader)
        task = metadata.get("current_task")
        details = EpisodeDetails(
            rate_source=rate_source,
            robot=ROBOT,
            instructions=[task] if isinstance(task, str) else [],
            success=success,
            success_source=success_source,
            metadata=keep_small_values(metadata),
            cameras=tuple(_video_cameras(folder, metadata, reader)),
        )
        roles = ArrayRoles(
            action=ACTION,
            state=STATE,
            action_names=ACTION_NAMES,
            state_names=STATE_NAMES,
            left_out=frozenset(clocks),
        )
        return make_record(entry, reader, datasets, roles, details)


def _is_machine_clock(label: str) -> bool:
    return label.startswith(_CLOCK_PREFIX) and not label.endswith("skip_action")


def _read_metadata(folder: Path, reader: HDF5EpisodeReader) -> dict[str, Any]:
    """The JSON documents beside the trajectory as one; empty, and a warning, when there is none.

    Nothing says which of several is right: what they contradict each other in is left out, and named.
    """
    paths = sorted(folder.glob("metadata_*.json"))
    if not paths:
        reader.warnings.append("metadata_*.json is missing")
    documents = [parse_json_object(read_input(str(path)).decode("utf-8", "replace")) for path in paths]
    if None in documents:
        reader.warnings.append("metadata_*.json is no JSON object")
    values: dict[str, list[Any]] = {}
    for document in documents:
        for name, value in (document or {}).items():
            if value not in (known := values.setdefault(name, [])):
                known.append(value)
    disputed = [name for name, spread in values.items() if len(spread) > 1]
    if disputed:
        reader.warnings.append(
            f"{len(paths)} metadata_*.json contradict each other in {', '.join(disputed)}: left out"
        )
    return {name: spread[0] for name, spread in values.items() if len(spread) == 1}


def _episode_outcome(
    folder: Path, metadata: Mapping[str, Any], reader: HDF5EpisodeReader
) -> tuple[bool | None, str]:
    """Whether the episode succeeded, by the folder "success" or "failure", else by the metadata."""
    by_metadata = metadata.get("success") if isinstance(metadata.get("success"), bool) else None
    # success/2023-07-07/Fri_Jul__7_09:42:23_2023/trajectory.h5
    folder_names = [part.name for part in (folder, *folder.parents)][:4]
    by_folder = next((name == "success" for name in folder_names if name in ("success", "failure")), None)
    if by_folder is None:
        return by_metadata, "success" if by_metadata is not None else ""
    if by_metadata is not None and by_metadata != by_folder:
        reader.warnings.append("metadata and folder disagree on success; the folder is used")
    return by_folder, "folder"


def _video_cameras(folder: Path, metadata: Mapping[str, Any], reader: HDF5EpisodeReader) -> Iterator[Camera]:
    """A camera for each video, named by the entry of its serial number in the metadata."""
    videos = {path.stem: path for path in sorted((folder / RECORDINGS / "MP4").glob("*.mp4"))}
    mono_videos = {stem: path for stem, path in videos.items() if not stem.endswith("-stereo")}
    known_cameras = {str(metadata[key]): (name, role) for key, name, role in _CAMERAS if metadata.get(key)}
    for serial, (name, _) in known_cameras.items():
        if serial not in mono_videos:
            has_stereo = f"{serial}-stereo" in videos
            reader.warnings.append(f"camera {name} has {'only a stereo' if has_stereo else 'no'} video")
    serials = [serial for serial in known_cameras if serial in mono_videos]
    for serial in dict.fromkeys((*serials, *mono_videos)):
        name, role = known_cameras.get(serial, (serial, "other"))
        camera = make_video_camera(name, role, str(mono_videos[serial]), reader, hash_label=serial)
        if camera:
            yield camera
