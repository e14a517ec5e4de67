"""Reads one episode of AgiBot World as a record: its signals, its videos, and what task_info says about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ares.episode import Camera, Episode, Json, Record, Trajectory, make_episode_id
from ares.errors import SourceError
from ares.io import file_state
from ingest.agibot.proprio import Proprioception, read_proprioception
from ingest.agibot.tasks import TaskInfo
from ingest.json_files import read_json_object
from ingest.media_files import describe_camera, hash_media_file, probe_once, whole_video
from ingest.names import distinct_texts
from ingest.signals import resolve_rate
from ingest.stamps import NO_TIME, SpecTime

FORMAT = "agibot"
PROPRIO_FILE = "proprio_stats.h5"
ROBOT = "AgiBot G1"
_LARGEST_PARAMETERS = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgibotEntry:
    """One episode, before it is read.

    Attributes:
        root: Absolute path of the dataset.
        dataset: Name of the dataset.
        task: Number of the task, as its folder is named.
        episode: Number of the episode, as its folder is named.
        info: What task_info says, or None where it does not name the episode.
        rate_hz: Rate set by the user, or None.
        time: The array of the times, by the spec of the user.
    """

    root: str
    dataset: str
    task: str
    episode: str
    info: TaskInfo | None = None
    rate_hz: float | None = None
    time: SpecTime = NO_TIME

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(format=FORMAT, dataset=self.dataset, version="", split="", key=self.key)

    @property
    def key(self) -> str:
        """Task and episode."""
        return f"{self.task}/{self.episode}"

    def folder(self, part: str) -> Path:
        """Folder of the episode below "observations", "proprio_stats" or "parameters"."""
        return Path(self.root, part, self.task, self.episode)


def load_episode(entry: AgibotEntry) -> Record:
    """Read an episode. Raises SourceError when a file of it is damaged, or when it has neither signals nor videos."""
    path = entry.folder("proprio_stats") / PROPRIO_FILE
    videos = list(video_paths(entry))
    cameras = [_camera(entry, video) for video in videos]
    if path.exists():
        proprio = read_proprioception(str(path), entry.rate_hz, entry.time)
    elif cameras:
        proprio = _videos_only(entry, cameras[0])
    else:
        raise SourceError(
            "episode has neither signals nor videos", f"{path} and {entry.folder('observations')}"
        )
    warnings = [*proprio.warnings, *_other_warnings(entry, cameras)]
    source = path if path.exists() else videos[0]
    episode = _make_episode(entry, proprio, cameras, str(source), warnings)
    record = Record(episode=episode, trajectory=proprio.trajectory, warnings=tuple(dict.fromkeys(warnings)))
    return replace(record, has_stamps=proprio.has_stamps, arrays=proprio.arrays)


def video_paths(entry: AgibotEntry) -> Iterator[Path]:
    """The videos of an episode: its cameras, then its tactile sensors."""
    for part in ("videos", "tactile"):
        folder = entry.folder("observations") / part
        if folder.is_dir():
            names = (child for child in folder.iterdir() if child.suffix.lower() == ".mp4")
            yield from sorted(child for child in names if not child.name.startswith("."))


def _camera(entry: AgibotEntry, path: Path) -> Camera:
    info = probe_once(str(path))
    return describe_camera(path.stem.removesuffix("_color"), info, whole_video(str(path), info))


def _videos_only(entry: AgibotEntry, camera: Camera) -> Proprioception:
    """The steps of an episode whose signals are not here: the frames of its first camera."""
    import numpy as np

    rate_hz, rate_source = resolve_rate(entry.rate_hz, camera.media.rate_hz, "source")
    return Proprioception(
        trajectory=Trajectory(timestamps=np.arange(camera.media.num_frames) / rate_hz),
        rate_hz=rate_hz,
        rate_source=rate_source,
        content_hash="",
        warnings=(f"{PROPRIO_FILE} is missing: the episode has videos and no signals",),
    )


def _other_warnings(entry: AgibotEntry, cameras: list[Camera]) -> Iterator[str]:
    if entry.info is None:
        yield "task_info does not name the episode: it has no instruction"
    else:
        yield from entry.info.warnings
    if not cameras:
        yield "no videos of the episode are here"
    if (entry.folder("observations") / "depth").is_dir():
        yield "depth images are not stored"


def _make_episode(
    entry: AgibotEntry, proprio: Proprioception, cameras: list[Camera], source: str, warnings: list[str]
) -> Episode:
    trajectory, info = proprio.trajectory, entry.info or TaskInfo()
    instructions = distinct_texts([info.instruction])
    digest = hashlib.blake2b(proprio.content_hash.encode(), digest_size=16)
    for camera in cameras:
        digest.update(hash_media_file(camera.media.uri, file_state(camera.media.uri)).encode())
    return Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=entry.dataset,
        version="",
        split="",
        key=entry.key,
        source=source,
        content_hash=digest.hexdigest(),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=ROBOT,
        num_steps=len(trajectory.timestamps),
        rate_hz=proprio.rate_hz,
        rate_source=proprio.rate_source,
        cameras=tuple(cameras),
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
        metadata={"task_id": entry.task, **info.metadata, **_intrinsics(entry, warnings)},
        frame_pairing="index",
    )


def _intrinsics(entry: AgibotEntry, warnings: list[str]) -> dict[str, Json]:
    """Focal lengths and centres of the cameras, from `parameters`; the poses at each frame stay in their files."""
    folders = (entry.folder("parameters") / "parameters" / "camera", entry.folder("parameters") / "camera")
    folder = next((folder for folder in folders if folder.is_dir()), None)
    parameters: dict[str, Json] = {}
    for path in sorted(folder.glob("*_intrinsic_params.json")) if folder else ():
        try:
            if path.stat().st_size > _LARGEST_PARAMETERS:
                raise SourceError("file is too large", str(path))
            values = read_json_object(path).get("intrinsic")
        except SourceError:
            warnings.append("parameters of a camera cannot be read and are left out")
            continue
        if isinstance(values, dict):
            parameters[path.name.removesuffix("_intrinsic_params.json")] = {
                str(name): value for name, value in values.items() if isinstance(value, int | float)
            }
    return {"intrinsics": parameters} if parameters else {}
