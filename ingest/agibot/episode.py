"""Reads one episode of AgiBot World: signals, videos and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ares.episode import Camera, Episode, Json, NotRead, Record, Trajectory
from ares.errors import SourceError
from ares.io import file_state
from ares.media import IMAGE_SUFFIXES, group_images
from ares_ingest.agibot.signals import AgibotSignals, read_agibot_signals
from ares_ingest.agibot.task_info import FAMILY, AgibotTaskInfo
from ares_ingest.base import EpisodeEntry, make_episode
from ares_ingest.depth import DEPTH_SUFFIXES, add_depth, find_depth_of_files
from ares_ingest.files import describe_camera, hash_media_file, probe_once, read_json_object, whole_video
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.labels import add_segments
from ares_ingest.signals import NO_TIME, SpecTimeArray, resolve_rate

FORMAT = "agibot"
PROPRIO_FILE = "proprio_stats.h5"
_LARGEST_PARAMETERS = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgibotEntry(EpisodeEntry):
    """One episode, before it is read; its key is the task and the episode, as their folders are named.

    Attributes:
        root: Absolute path of the dataset.
        info: What task_info says, or None where it does not name the episode.
        time: The array of the times, by the spec of the user.
    """

    format: str = FORMAT
    root: str
    info: AgibotTaskInfo | None = None
    time: SpecTimeArray = NO_TIME

    def folder(self, pattern: str) -> Path:
        """A folder of the episode by a pattern of its family: "observations/{episode}/depth"."""
        return Path(self.root, pattern.replace("{episode}", self.key))

    @property
    def signals(self) -> Path:
        """The file of its signals."""
        return self.folder("proprio_stats/{episode}") / PROPRIO_FILE


def load_episode(entry: AgibotEntry) -> Record:
    """Read an episode.

    Raises SourceError when a file of it is damaged or missing, or when it has neither signals nor videos.
    """
    path = entry.signals
    videos = list(video_paths(entry))
    cameras = [_video_camera(entry, video) for video in videos]
    if path.exists():
        proprio = read_agibot_signals(str(path), entry.rate_hz, entry.time)
    elif cameras and _should_have_signals(entry):
        raise SourceError(
            f"{PROPRIO_FILE} is missing", f"{path}; its folder or other episodes of the task are here"
        )
    elif cameras:
        proprio = _videos_only(entry, cameras[0])
    else:
        raise SourceError(
            "episode has neither signals nor videos", f"{path} and {entry.folder('observations/{episode}')}"
        )
    depth_warnings = dict[str, None]()
    depth = _find_depth(entry, depth_warnings)
    warnings = [*proprio.warnings, *_other_warnings(entry, cameras), *depth_warnings]
    source = path if path.exists() else videos[0]
    episode = _make_episode(entry, proprio, cameras, str(source), warnings)
    episode = replace(episode, metadata=add_depth(episode.metadata, depth))
    record = Record(episode=episode, trajectory=proprio.trajectory, warnings=tuple(dict.fromkeys(warnings)))
    record = replace(record, has_stamps=proprio.has_stamps, arrays=proprio.arrays)
    return add_segments(record, entry.info.spans if entry.info else (), "parts of label_info")


def _should_have_signals(entry: AgibotEntry) -> bool:
    """Whether the folder of the signals is here, or signals of another episode; a task may be here without any."""
    folder = entry.signals.parent
    return folder.is_dir() or next(folder.parent.glob(f"*/{PROPRIO_FILE}"), None) is not None


def video_paths(entry: AgibotEntry) -> Iterator[Path]:
    """The videos of an episode: its cameras, then its tactile sensors."""
    for folder in map(entry.folder, read_folder_layout(FAMILY).videos):
        if folder.is_dir():
            names = (child for child in folder.iterdir() if child.suffix.lower() == ".mp4")
            yield from sorted(child for child in names if not child.name.startswith("."))


def _video_camera(entry: AgibotEntry, path: Path) -> Camera:
    info = probe_once(str(path))
    return describe_camera(path.stem.removesuffix("_color"), info, whole_video(str(path), info))


def _videos_only(entry: AgibotEntry, camera: Camera) -> AgibotSignals:
    """The steps of an episode whose signals are not here: the frames of its first camera."""
    import numpy as np

    rate_hz, rate_source = resolve_rate(entry.rate_hz, camera.media.rate_hz, "source")
    return AgibotSignals(
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


def _find_depth(entry: AgibotEntry, warnings: dict[str, None]) -> dict[str, Json]:
    """The depth of each camera, which lies in numbered images of 16 bits: where it is, its range and its unit."""
    folder, depth = entry.folder(read_folder_layout(FAMILY).depth), dict[str, Json]()
    names = [child.name for child in folder.iterdir()] if folder.is_dir() else []
    for prefix, images in group_images(names, (*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)).items():
        name = prefix.rstrip("_") or "depth"
        try:
            depth[name] = find_depth_of_files(name, folder, prefix, images.names, warnings)
        except SourceError as error:
            warnings[NotRead(f"camera {name} left out: {error.reason}")] = None
    return depth


def _make_episode(
    entry: AgibotEntry, proprio: AgibotSignals, cameras: list[Camera], source: str, warnings: list[str]
) -> Episode:
    info = entry.info or AgibotTaskInfo()
    digest = hashlib.blake2b(proprio.content_hash.encode(), digest_size=16)
    for camera in cameras:
        digest.update(hash_media_file(camera.media.uri, file_state(camera.media.uri)).encode())
    return make_episode(
        entry,
        proprio.trajectory,
        [info.instruction],
        source=source,
        content_hash=digest.hexdigest(),
        robot=read_folder_layout(FAMILY).robot,
        rate_hz=proprio.rate_hz,
        rate_source=proprio.rate_source,
        cameras=tuple(cameras),
        metadata={"task_id": entry.key.split("/")[0], **info.metadata, **_read_intrinsics(entry, warnings)},
        frame_pairing="index",
    )


def _read_intrinsics(entry: AgibotEntry, warnings: list[str]) -> dict[str, Json]:
    """Focal lengths and centres of the cameras, from `parameters`; the poses at each frame stay in their files."""
    folders = map(entry.folder, read_folder_layout(FAMILY).intrinsics)
    folder = next((folder for folder in folders if folder.is_dir()), None)
    parameters: dict[str, Json] = {}
    for path in sorted(folder.glob("*_intrinsic_params.json")) if folder else ():
        try:
            if path.stat().st_size > _LARGEST_PARAMETERS:
                raise SourceError("file is too large", str(path))
            values = read_json_object(path).get("intrinsic")
        except SourceError:
            warnings.append(NotRead("parameters of a camera cannot be read and are left out"))
            continue
        if isinstance(values, dict):
            parameters[path.name.removesuffix("_intrinsic_params.json")] = {
                str(name): value for name, value in values.items() if isinstance(value, int | float)
            }
    return {"intrinsics": parameters} if parameters else {}
