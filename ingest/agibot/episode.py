"""Reads one episode of AgiBot World: signals, videos, and what the task's JSON file says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ares.episode import Camera, Episode, Json, Record, Trajectory
from ares.errors import SourceError
from ares.input import NamedSpan, read_json
from ares.io import describe_os_error, file_state
from ares.media import IMAGE_SUFFIXES, group_images
from ingest.agibot.signals import AgibotSignals, read_agibot_signals
from ingest.base import EpisodeEntry, make_episode
from ingest.depth import DEPTH_SUFFIXES, add_depth, find_depth_of_files
from ingest.files import describe_camera, hash_media_file, probe_once, read_json_object, whole_video
from ingest.folder_layouts import read_folder_layout
from ingest.labels import add_segments
from ingest.signals import NO_TIME, SpecTimeArray, resolve_rate

FAMILY = "agibot_world"
_LONGEST_TEXT = 1000
# The field of the labels, as the files spell it and as the first description of the format did.
_LABEL_FIELDS = ("label_info", "lable_info")
_LARGEST_FRAME = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class AgibotTaskInfo:
    """What task_info says about one episode.

    Attributes:
        instruction: Name of the task, or "".
        metadata: The scene.
        spans: Subtasks and key frames.
        warnings: Reasons to warn.
    """

    instruction: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    spans: tuple[NamedSpan, ...] = ()
    warnings: tuple[str, ...] = ()


def read_agibot_task_file(path: Path) -> dict[str, AgibotTaskInfo]:
    """What a file of task_info says, by episode. Raises SourceError when it is not a list of episodes."""
    try:
        document = read_json(str(path))
    except OSError as error:
        raise SourceError("task file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("task file is not JSON", f"{path}: {error}") from None
    if not isinstance(document, list):
        raise SourceError("task file is no list of episodes", f"{path}: {type(document).__name__}")
    return {
        str(row["episode_id"]): _parse_row(row)
        for row in document
        if isinstance(row, dict) and isinstance(row.get("episode_id"), int | str)
    }


def _parse_row(row: Mapping[str, Any]) -> AgibotTaskInfo:
    scene = _trimmed_text(row.get("init_scene_text"))
    spans, warnings = list[NamedSpan](), dict[str, None]()
    labels: Mapping[str, Any] = next(
        (row[name] for name in _LABEL_FIELDS if isinstance(row.get(name), Mapping)), {}
    )
    for name in read_folder_layout(FAMILY).spans:
        parts = labels.get(name) or []
        for part in parts if isinstance(parts, list) else [None]:
            span = _parse_span(part, name)
            if isinstance(span, NamedSpan):
                spans.append(span)
            else:
                warnings[f"some parts of {name} {span} and are left out"] = None
    return AgibotTaskInfo(
        instruction=_trimmed_text(row.get("task_name")),
        metadata={"init_scene_text": scene} if scene else {},
        spans=tuple(spans),
        warnings=tuple(warnings),
    )


def _parse_span(part: Any, name: str) -> NamedSpan | str:
    """Frames [start, end), text and skill of one part; or why it is none.

    Who wrote it stays unknown: the format does not say it.
    """
    style, start_name, stop_name, text_name = read_folder_layout(FAMILY).spans[name]
    if not isinstance(part, Mapping):
        return "have a wrong form"
    start, stop, text = part.get(start_name), part.get(stop_name), _trimmed_text(part.get(text_name))
    if type(start) is not int or type(stop) is not int or max(abs(start), abs(stop)) > _LARGEST_FRAME:
        return "have a wrong form"
    if stop < start:
        return "end before they start"
    if not text:
        return "have no text"
    used = (start_name, stop_name, text_name)
    more = {key: value for key, value in part.items() if key not in used and isinstance(value, str) and value}
    return NamedSpan(names=(), start=start, stop=stop, unit="frames", text=text, style=style, fields=more)


def _trimmed_text(value: Any) -> str:
    return value.strip()[:_LONGEST_TEXT] if isinstance(value, str) else ""


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
            warnings[f"camera {name} left out: {error.reason}"] = None
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
            warnings.append("parameters of a camera cannot be read and are left out")
            continue
        if isinstance(values, dict):
            parameters[path.name.removesuffix("_intrinsic_params.json")] = {
                str(name): value for name, value in values.items() if isinstance(value, int | float)
            }
    return {"intrinsics": parameters} if parameters else {}
