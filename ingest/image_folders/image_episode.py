"""Reads one folder of numbered images without a table, and the texts beside them, as an episode."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ares.episode import Camera, Episode, Json, MediaRef, Record, Trajectory
from ares.errors import SourceError
from ares.input import read_input
from ares.io import describe_os_error, list_folder
from ares.media import IMAGE_SUFFIXES, CameraImageFiles, group_images
from ingest.base import EpisodeEntry, make_episode
from ingest.depth import DEPTH_SUFFIXES, add_depth, find_depth_of_files
from ingest.files import read_json_object
from ingest.image_folders.table_episode import image_folders, make_image_camera, name_camera_of_images
from ingest.signals import StepTimes, compute_step_times
from ingest.source_words import InvalidRowError, VideoRow, parse_video_row

PICKLE_SUFFIXES = (".pkl", ".pickle")
PICKLE_REASON = "reading a pickle can run code, so none is read: save its arrays as npz or HDF5"
_TEXT_STEMS = frozenset({"lang", "language", "instruction", "instructions", "task", "prompt", "description"})
_JSON_STEMS = frozenset({"episode", "meta", "metadata", *_TEXT_STEMS})
# The recorder of BridgeData V2: DATE/raw/traj_group0/traj0.
_BRIDGE_EPISODE, _BRIDGE_GROUP = re.compile(r"traj\d+"), re.compile(r"traj_group\d+")
_BRIDGE_SESSION_FILE = "collection_metadata.json"
_TEXT_BYTES, _LONGEST_TEXT, _MOST_TEXTS = 2**16, 1000, 16
_LONGEST_LIST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEpisodeDescription:
    """What is said about an episode of images.

    Attributes:
        row: Instruction, outcome, rate and robot of the JSON files.
        texts: Instructions of the text files.
        session: What BridgeData V2 says of the session that the episode belongs to.
        pickles: Names of the pickles beside the images.
    """

    row: VideoRow
    texts: tuple[str, ...]
    session: dict[str, Json]
    pickles: tuple[str, ...]


def is_bridge_folder(folder: Path) -> bool:
    """Whether a folder is an episode of raw BridgeData V2, by its name and that of the folder around it."""
    return bool(_BRIDGE_EPISODE.fullmatch(folder.name) and _BRIDGE_GROUP.fullmatch(folder.parent.name))


def choose_description_files(names: Collection[str], label: str) -> list[str]:
    """Of the files of a folder, those that describe an episode: named for that, or as the episode is."""
    selected = []
    for name in names:
        stem, _, suffix = name.lower().rpartition(".")
        stems = {"txt": _TEXT_STEMS, "json": _JSON_STEMS}.get(suffix)
        if stems is not None and (stem in stems or stem == label.lower()):
            selected.append(name)
    return sorted(selected)


def find_description_files(folder: Path) -> list[Path]:
    """The files that describe an episode, in its folder and under its name beside it."""
    inside = [folder / name for name in choose_description_files(list_folder(folder).files, folder.name)]
    files = list_folder(folder.parent).files
    beside = (f"{folder.name}.json", f"{folder.name}.txt")
    return [*inside, *(folder.parent / name for name in beside if name in files)]


def find_bridge_session_file(folder: Path) -> Path | None:
    """What BridgeData V2 says of the session of an episode, three folders above it; None where it is missing."""
    path = folder.parent.parent.parent / _BRIDGE_SESSION_FILE
    return path if is_bridge_folder(folder) and path.is_file() else None


def read_episode_description(folder: Path, key: str) -> ImageEpisodeDescription:
    """Read what is said about an episode.

    Args:
        folder: Its folder.
        key: Its path in the dataset; what lies above the dataset is not read.

    Raises:
        SourceError: A file cannot be read, or is no JSON object.
    """
    paths = find_description_files(folder)
    document: dict[str, Any] = {}
    for path in (path for path in paths if path.suffix.lower() == ".json"):
        document |= read_json_object(path)
    try:
        # The same names of fields as in tables about videos.
        fields = {name: value for name, value in document.items() if name not in ("video", "videos")}
        row = parse_video_row({"video": folder.name, **fields})
    except InvalidRowError as error:
        raise SourceError("JSON file has a wrong form", f"{', '.join(map(str, paths))}: {error}") from None
    session = find_bridge_session_file(folder) if key.count("/") >= 3 else None
    return ImageEpisodeDescription(
        row=row,
        texts=tuple(text for path in paths if path.suffix.lower() == ".txt" for text in _read_texts(path)),
        session=_small_values(read_json_object(session)) if session else {},
        pickles=tuple(name for name in list_folder(folder).files if name.lower().endswith(PICKLE_SUFFIXES)),
    )


def _read_texts(path: Path) -> list[str]:
    """The lines of a text file; BridgeData V2 writes the confidence of an annotator as a line of its own."""
    try:
        text = read_input(str(path), _TEXT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise SourceError("text file cannot be read", f"{path}: {describe_os_error(error)}") from None
    lines = (line.strip()[:_LONGEST_TEXT] for line in text.splitlines())
    return [line for line in lines if line and not line.lower().startswith("confidence")][:_MOST_TEXTS]


def _small_values(document: dict[str, Any]) -> dict[str, Json]:
    """Texts, numbers and short lists."""
    return {
        name: value
        for name, value in document.items()
        if isinstance(value, bool | int | float | str)
        or (isinstance(value, list) and len(value) <= _LONGEST_LIST)
    }


FORMAT = "images"
# The recorder of BridgeData V2 runs at 5 Hz; its stamps lie in a pickle.
BRIDGE_RATE_HZ = 5.0
BRIDGE_ROBOT = "WidowX 250"


class CameraImageList(NamedTuple):
    """The images of one camera.

    Attributes:
        name: Name of the camera.
        folder: Where they lie.
        prefix: What stands before the numbers in their names.
        images: The images, in order.
    """

    name: str
    folder: Path
    prefix: str
    images: CameraImageFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEntry(EpisodeEntry):
    """One episode, before it is read.

    Attributes:
        folder: Absolute path of its folder.
    """

    format: str = FORMAT
    folder: str


def load_episode(entry: ImageEntry) -> Record:
    """Read an episode. Raises SourceError when it has no images, or a file of it cannot be read."""
    folder, warnings = Path(entry.folder), dict[str, None]()
    described = read_episode_description(folder, entry.key)
    depth = dict[str, Json]()
    cameras_images = list(list_camera_images(folder, warnings, depth))
    if not cameras_images:
        raise SourceError("episode holds no numbered images", str(folder))
    times = _step_times(entry, folder, cameras_images[0], described, warnings)
    digest = _hash_texts(folder)
    cameras = tuple(_image_cameras(cameras_images, times, digest, warnings))
    for name in described.pickles:
        warnings[f"{name} is not read (a pickle can run code): signals in it are not stored"] = None
    episode = _make_episode(entry, described, cameras, times, digest.hexdigest())
    episode = replace(episode, metadata=add_depth(episode.metadata, depth))
    trajectory = Trajectory(timestamps=times.seconds)
    all_warnings = (*warnings, *described.row.warnings)
    return Record(episode=episode, trajectory=trajectory, warnings=all_warnings, has_stamps=times.has_stamps)


def list_camera_images(
    folder: Path, warnings: dict[str, None], depth: dict[str, Json]
) -> Iterator[CameraImageList]:
    """The cameras of an episode in order; `depth` receives where depth is, which is no camera."""
    names: set[str] = set()
    for entries in image_folders(folder):
        for prefix, images in group_images(list(entries.files), (*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)).items():
            name = name_camera_of_images(folder, entries.path, prefix)
            of_depth = find_depth_of_files(name, entries.path, prefix, images.names, warnings)
            if of_depth is not None:
                depth[name] = of_depth
            elif name not in names:
                names.add(name)
                yield CameraImageList(name, entries.path, prefix, images)


def _step_times(
    entry: ImageEntry,
    folder: Path,
    first: CameraImageList,
    described: ImageEpisodeDescription,
    warnings: dict[str, None],
) -> StepTimes:
    """The steps are the images of the first camera, at the stamps in their names or evenly spaced."""
    import numpy as np

    stamps = first.images.seconds
    return compute_step_times(
        None if stamps is None else np.array(stamps) - stamps[0],
        len(first.images.names),
        warnings,
        name=f"the numbers of the images of {first.name}",
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=described.row.fps,
        usual_rate_hz=BRIDGE_RATE_HZ if is_bridge_folder(folder) else None,
    )


def _image_cameras(
    cameras: list[CameraImageList], times: StepTimes, digest: Any, warnings: dict[str, None]
) -> Iterator[Camera]:
    """Cameras with an image for each step, or with stamps in the names; another is left out."""
    start = next((camera.images.seconds[0] for camera in cameras if camera.images.seconds), 0.0)
    for camera in cameras:
        count, seconds = len(camera.images.names), camera.images.seconds
        if seconds is None and count != len(times.seconds):
            steps = len(times.seconds)
            warnings[f"camera {camera.name} is left out: it has not as many images as {cameras[0].name}"] = (
                None
            )
            digest.update(f"{count} of {steps}".encode())
            continue
        rate_hz = times.rate_hz
        if seconds is not None and count > 1:
            rate_hz = (count - 1) / (seconds[-1] - seconds[0])
        first_second = start if seconds is not None else 0.0
        media = MediaRef(
            kind="images",
            uri=f"{camera.folder}/",
            start_seconds=first_second,
            stop_seconds=first_second + count / rate_hz,
            num_frames=count,
            rate_hz=rate_hz,
            key=camera.prefix,
        )
        digest.update(f"{camera.name} {count}".encode())
        yield make_image_camera(camera.name, media, camera.folder, camera.images.names, digest)


def _hash_texts(folder: Path) -> Any:
    """Hash of the files that describe the episode, to be continued with the images."""
    from ares.input import read_input

    digest = hashlib.blake2b(digest_size=16)
    for path in find_description_files(folder):
        digest.update(read_input(str(path)))
    return digest


def _make_episode(
    entry: ImageEntry,
    described: ImageEpisodeDescription,
    cameras: tuple[Camera, ...],
    times: StepTimes,
    content_hash: str,
) -> Episode:
    row = described.row
    metadata: dict[str, Json] = {**described.session, **row.metadata}
    is_bridge = is_bridge_folder(Path(entry.folder))
    return make_episode(
        entry,
        Trajectory(timestamps=times.seconds),
        [row.instruction, *described.texts],
        split=row.split,
        source=cameras[0].media.uri,
        content_hash=content_hash,
        robot=row.robot or (BRIDGE_ROBOT if is_bridge else ""),
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=row.success,
        success_source=row.success_source,
        metadata=metadata,
        frame_pairing="stamp" if times.has_stamps else "index",
    )
