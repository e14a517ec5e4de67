"""Raw DROID folders: trajectory.h5 with metadata_*.json and recordings/MP4 beside it, one folder per episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ares import files
from ares.episode import Camera, Record, Role
from ares.errors import SourceError
from ares.media.hdf5 import opened
from ares.media.probe import VideoInfo, probe
from ares.media.ref import MediaRef
from ares.media.still import still_flags
from ingest.hdf5_record import About, Entry, Layout, count_steps, make_record, rate
from ingest.hdf5_values import Reader, arrays, document, notes
from ingest.video_record import content_hash

FILE = "trajectory.h5"
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
_CLOCKS = "observation/timestamp/"
_CAMERAS: tuple[tuple[str, str, Role], ...] = (
    ("wrist_cam_serial", "wrist", "wrist"),
    ("ext1_cam_serial", "ext1", "front"),
    ("ext2_cam_serial", "ext2", "side"),
)
# A video as long as the episode keeps its own rate; any other has one frame for each step.
_SAME_LENGTH = 0.05


def is_folder(folder: Path) -> bool:
    """Whether a folder is an episode of DROID, with or without its trajectory.h5."""
    return (folder / RECORDINGS).is_dir() and any(folder.glob("metadata_*.json"))


def load_droid(entry: Entry) -> Record:
    """Read the episode of a folder.

    Raises SourceError when its trajectory.h5 is missing or broken, or has no action.
    """
    folder = files.place(entry.path).parent
    with opened(entry.path) as file:
        named = arrays(file)
        steps = count_steps(named, ACTION[:1], entry.path)
        rate_hz, rate_source = rate(entry.rate_hz, RATE_HZ)
        reader = Reader(entry.path, entry.group, steps, rate_hz)
        said = _metadata(folder, reader)
        if said.get("trajectory_length", steps) != steps:
            reader.warnings.append("trajectory_length is not the number of actions")
        clocks = [label for label in named if label.startswith(_CLOCKS) and not label.endswith("skip_action")]
        if clocks:
            reader.warnings.append("observation/timestamp is not stored (clocks of the machines)")
        success, success_source = _outcome(folder, said, reader)
        task = said.get("current_task")
        about = About(
            rate_source=rate_source,
            robot=ROBOT,
            instructions=[task] if isinstance(task, str) else [],
            success=success,
            success_source=success_source,
            metadata=notes(said),
            cameras=tuple(_cameras(folder, said, reader)),
        )
        layout = Layout(
            action=ACTION,
            state=STATE,
            action_names=ACTION_NAMES,
            state_names=STATE_NAMES,
            left_out=frozenset(clocks),
        )
        return make_record(entry, reader, named, layout, about)


def _metadata(folder: Path, reader: Reader) -> dict[str, Any]:
    """The document beside the trajectory; empty, and a warning, when there is none."""
    path = next(iter(sorted(folder.glob("metadata_*.json"))), None)
    if path is None:
        reader.warnings.append("metadata_*.json is missing")
        return {}
    said = document(path.read_bytes().decode("utf-8", "replace"))
    if said is None:
        reader.warnings.append("metadata_*.json is no JSON object")
    return said or {}


def _outcome(folder: Path, said: Mapping[str, Any], reader: Reader) -> tuple[bool | None, str]:
    """Whether the episode succeeded, from the folder it was put into, else from the metadata."""
    claim = said.get("success") if isinstance(said.get("success"), bool) else None
    # success/2023-07-07/Fri_Jul__7_09:42:23_2023/trajectory.h5
    above = [part.name for part in (folder, *folder.parents)][:4]
    place = next((name == "success" for name in above if name in ("success", "failure")), None)
    if place is None:
        return claim, "success" if claim is not None else ""
    if claim is not None and claim != place:
        reader.warnings.append("metadata and folder do not agree on success; the folder is believed")
    return place, "folder"


def _cameras(folder: Path, said: Mapping[str, Any], reader: Reader) -> Iterator[Camera]:
    """A camera for each video, named as the metadata names its serial number."""
    videos = {path.stem: path for path in sorted((folder / RECORDINGS / "MP4").glob("*.mp4"))}
    plain = {stem: path for stem, path in videos.items() if not stem.endswith("-stereo")}
    known = {str(said[key]): (name, role) for key, name, role in _CAMERAS if said.get(key)}
    for serial, (name, _) in known.items():
        if serial not in plain:
            stereo = f"{serial}-stereo" in videos
            reader.warnings.append(f"camera {name} has {'only a stereo' if stereo else 'no'} video")
    order = sorted(
        plain, key=lambda serial: (serial not in known, list(known).index(serial) if serial in known else 0)
    )
    for serial in order:
        name, role = known.get(serial, (serial, "other"))
        try:
            info = probe(str(plain[serial]))
        except SourceError as error:
            reader.warnings.append(f"camera {name} is not stored ({error.reason})")
            continue
        reader.add(serial, content_hash([str(plain[serial])]).encode())
        yield _camera(name, role, str(plain[serial]), info, reader)


def _camera(name: str, role: Role, path: str, info: VideoInfo, reader: Reader) -> Camera:
    rate_hz, length = reader.rate_hz, reader.steps / reader.rate_hz
    if info.num_frames != reader.steps:
        reader.warnings.append(f"camera {name} has not one frame for each step")
        if abs(info.duration_seconds - length) <= _SAME_LENGTH * length:
            rate_hz = info.rate_hz
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=0.0,
        stop_seconds=info.duration_seconds,
        num_frames=info.num_frames,
        rate_hz=rate_hz,
    )
    return Camera(
        name=name,
        role=role,
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=still_flags(media, info.quiet, 0),
    )
