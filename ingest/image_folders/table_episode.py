"""Reads one folder of tables and images as an episode: its cameras, signals and JSON file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.console import count_are, count_of
from ares.episode import Camera, FramePairing, Json, MediaRef, Record
from ares.errors import MediaError, SourceError
from ares.input import check_pixels, check_relative_path, decode_image, parse_image_header, read_input
from ares.io import FolderEntries, describe_os_error, list_folder
from ares.media import IMAGE_SUFFIXES, CameraImageFiles, group_images
from ingest.base import EpisodeEntry, make_episode
from ingest.depth import DEPTH_SUFFIXES, add_depth, find_depth_of_files
from ingest.files import describe_camera, read_json_object
from ingest.image_folders.tables import (
    EpisodeTables,
    describe_table_columns,
    hash_table_contents,
    make_column_signals,
    make_trajectory,
    read_tables,
)
from ingest.signals import NO_TIME, SpecTimeArray, StepTimes, compute_step_times
from ingest.source_words import InvalidRowError, VideoRow, parse_video_row

_HEADER_BYTES = 2**28
# Stamps of images and steps that lie further apart than this are of two clocks.
_LARGEST_OFFSET_SECONDS = 60.0


def image_folders(folder: Path) -> Iterator[FolderEntries]:
    """An episode's folder and those at most two levels below it that hold images."""
    waiting = [(list_folder(folder), 0)]
    while waiting:
        entries, depth = waiting.pop()
        if holds_images(entries):
            yield entries
        if depth < 2:
            below = (
                name for name in reversed(entries.folders) if name[0] != "." and name not in entries.links
            )
            waiting += [(list_folder(entries.path / name), depth + 1) for name in below]


def holds_images(entries: FolderEntries) -> bool:
    """Whether images lie directly in a folder."""
    return not entries.suffixes.isdisjoint((*IMAGE_SUFFIXES, *DEPTH_SUFFIXES))


def count_images(entries: FolderEntries) -> int:
    """Images directly in a folder."""
    return sum(
        name.lower().endswith((*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)) and name[0] != "." for name in entries.files
    )


def read_cameras(
    folder: Path, tables: EpisodeTables, rate_hz: float, digest: Any, depth: dict[str, Json]
) -> tuple[Camera, ...]:
    """The cameras of an episode; of each, three images are read for its size and the content hash.

    `depth` receives where depth is, which is no camera.
    Raises SourceError for an image that cannot be read or decoded.
    """
    cameras = list(_column_cameras(folder, tables, rate_hz, digest))
    named = {camera.name for camera in cameras}
    for entries in () if cameras else image_folders(folder):
        groups = group_images(list(entries.files), (*IMAGE_SUFFIXES, *DEPTH_SUFFIXES))
        if left_out := count_images(entries) - sum(len(images.names) for images in groups.values()):
            where = entries.path.relative_to(folder).as_posix()
            tables.warnings[f"{count_are(left_out, 'image', where)} left out: their names hold no number"] = (
                None
            )
        for prefix, images in groups.items():
            name = name_camera_of_images(folder, entries.path, prefix)
            of_depth = find_depth_of_files(name, entries.path, prefix, images.names, tables.warnings)
            if of_depth is not None:
                depth[name] = of_depth
            elif name not in named:
                named.add(name)
                cameras.append(_folder_camera(name, entries.path, prefix, images, tables, rate_hz, digest))
    return tuple(cameras)


def name_camera_of_images(folder: Path, images: Path, prefix: str) -> str:
    """Name of the camera of some images: of "images/front/0001.jpg" it is "front", of "front_0001.jpg" as well."""
    parts = list(images.relative_to(folder).parts)
    if len(parts) > 1 and parts[0].lower() in (
        "images",
        "image",
        "imgs",
        "img",
        "cameras",
        "videos",
        "rgb",
        "frames",
    ):
        parts = parts[1:]
    label = prefix.strip("_-. ")
    if label and (
        not parts or label.lower() not in ("frame", "img", "image", "im", "rgb", "color", parts[-1].lower())
    ):
        parts.append(label)
    return ".".join(parts) or "images"


def _folder_camera(
    name: str,
    folder: Path,
    prefix: str,
    images: CameraImageFiles,
    tables: EpisodeTables,
    rate_hz: float,
    digest: Any,
) -> Camera:
    """A camera whose images are timed by the stamps in their names, else one image for each step."""
    count, start = len(images.names), 0.0
    if images.seconds is not None:
        start = _clock_start(name, images.seconds, tables)
        span = images.seconds[-1] - images.seconds[0]
        rate_hz = (count - 1) / span if count > 1 else rate_hz
    elif count != tables.num_steps:
        raise SourceError(
            "camera has no image for each step, and no stamps in its names",
            f"{folder}: {count_of(count, 'image')} for {count_of(tables.num_steps, 'step')}",
        )
    media = MediaRef(
        kind="images",
        uri=f"{folder}/",
        start_seconds=start,
        stop_seconds=start + count / rate_hz,
        num_frames=count,
        rate_hz=rate_hz,
        key=prefix,
    )
    return make_image_camera(name, media, folder, images.names, digest)


def _clock_start(name: str, seconds: tuple[float, ...], tables: EpisodeTables) -> float:
    """Start of the episode on the clock of the images' names."""
    stamps = tables.main.stamps
    if stamps is not None and abs(float(stamps[0]) - seconds[0]) <= _LARGEST_OFFSET_SECONDS:
        return float(stamps[0])
    tables.warnings[
        f"images of camera {name} have a clock of their own: the first one starts the episode"
    ] = None
    return seconds[0]


def _column_cameras(folder: Path, tables: EpisodeTables, rate_hz: float, digest: Any) -> Iterator[Camera]:
    table, count = tables.main, tables.num_steps
    for column in table.table.names:
        names = table.table.texts(column)
        if not names or not names[0].lower().endswith(IMAGE_SUFFIXES):
            continue
        if not all(name.lower().endswith(IMAGE_SUFFIXES) for name in names):
            tables.warnings[f"camera {column} is left out: a row names no image"] = None
            continue
        media = MediaRef(
            kind="images",
            uri=str(table.path),
            start_seconds=0.0,
            stop_seconds=count / rate_hz,
            num_frames=count,
            rate_hz=rate_hz,
            key=column,
        )
        yield make_image_camera(column, media, table.path.parent, tuple(names), digest)


def make_image_camera(
    name: str, media: MediaRef, folder: Path, names: tuple[str, ...], digest: Any
) -> Camera:
    """The camera, by the header of its first image; the first is decoded, and three are part of the content hash."""
    data = [_read_image(folder, names[number]) for number in (0, len(names) // 2, len(names) - 1)]
    for image in data:
        digest.update(image)
    info = parse_image_header(data[0])
    where = f"{folder / names[0]}"
    if info is None:
        raise SourceError("image is neither JPEG nor PNG", where)
    check_pixels(info.width, info.height, where)
    try:
        decode_image(data[0], where)
    except MediaError as error:
        raise SourceError(error.reason, error.detail) from None
    return describe_camera(name, info, media)


def _read_image(folder: Path, name: str) -> bytes:
    path = folder / check_relative_path(name, str(folder))
    try:
        return read_input(str(path), _HEADER_BYTES)
    except OSError as error:
        raise SourceError("image cannot be read", f"{path}: {describe_os_error(error)}") from None


FORMAT = "csv"
TABLE_SUFFIXES = (".csv", ".tsv")
_TEXT_COLUMNS = ("instruction", "language_instruction", "task", "prompt", "language")
_LONGEST_LIST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvEntry(EpisodeEntry):
    """One episode, before it is read.

    Attributes:
        folder: Absolute path of its folder.
        time: The column of the times by the spec of the user.
    """

    format: str = FORMAT
    folder: str
    time: SpecTimeArray = NO_TIME


def load_episode(entry: CsvEntry) -> Record:
    """Read an episode. Raises SourceError when a table, its JSON file or an image cannot be read."""
    folder = Path(entry.folder)
    described = _read_description(folder)
    tables = read_tables(list_table_paths(folder), entry.time, described.fps)
    times = _step_times(entry, tables, described.fps)
    digest = hash_table_contents(tables)
    depth = dict[str, Json]()
    cameras = read_cameras(folder, tables, times.rate_hz, digest, depth)
    trajectory = make_trajectory(tables, signals := make_column_signals(tables), times.seconds)
    episode = make_episode(
        entry,
        trajectory,
        [described.instruction, *map(tables.constant_text, _TEXT_COLUMNS)],
        split=described.split,
        source=str(tables.main.path),
        content_hash=digest.hexdigest(),
        robot=described.robot,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=described.success,
        success_source=described.success_source,
        metadata=add_depth({**_small_values(described.metadata), **_constant_texts(tables)}, depth),
        frame_pairing=_frame_pairing(cameras, times.rate_hz),
    )
    return Record(
        episode=episode,
        trajectory=trajectory,
        warnings=(*tables.warnings, *described.warnings),
        has_stamps=times.has_stamps,
        arrays=tuple(describe_table_columns(tables, signals)),
    )


def _frame_pairing(cameras: tuple[Camera, ...], rate_hz: float) -> FramePairing:
    """Images with stamps in their names have a clock of their own; the others are one for each step."""
    return "index" if all(camera.media.rate_hz == rate_hz for camera in cameras) else "stamp"


def _step_times(entry: CsvEntry, tables: EpisodeTables, stated_rate_hz: float | None) -> StepTimes:
    return compute_step_times(
        tables.main.seconds,
        tables.num_steps,
        tables.warnings,
        name=tables.main.roles.time,
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=stated_rate_hz,
    )


def list_table_paths(folder: Path) -> list[Path]:
    """The tables directly in a folder, sorted."""
    names = (name for name in list_folder(folder).files if name[0] != ".")
    return [folder / name for name in names if name.lower().endswith(TABLE_SUFFIXES)]


def list_description_paths(folder: Path) -> list[Path]:
    """The JSON files that describe an episode: those in its folder, else the one of its name beside it."""
    inside = [
        folder / name
        for name in list_folder(folder).files
        if name[0] != "." and name.lower().endswith(".json")
    ]
    beside = folder.with_name(f"{folder.name}.json")
    return inside or ([beside] if beside.is_file() else [])


def _read_description(folder: Path) -> VideoRow:
    """Instruction, outcome, rate and robot from the JSON files. Raises SourceError for one that is not an object."""
    document: dict[str, Any] = {}
    paths = list_description_paths(folder)
    for path in paths:
        document |= read_json_object(path)
    try:
        # The same names of fields as in tables about videos.
        return parse_video_row(
            {"video": folder.name, **{k: v for k, v in document.items() if k not in ("video", "videos")}}
        )
    except InvalidRowError as error:
        raise SourceError("JSON file has a wrong form", f"{', '.join(map(str, paths))}: {error}") from None


def _small_values(values: Mapping[str, Json]) -> dict[str, Json]:
    """Values that are small enough for the metadata of an episode."""
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, list | Mapping) or (isinstance(value, list) and len(value) <= _LONGEST_LIST)
    }


def _constant_texts(tables: EpisodeTables) -> dict[str, Json]:
    """Columns of text that are the same in every row; others are told."""
    result: dict[str, Json] = {}
    for name in tables.main.table.names:
        texts = set(tables.main.table.texts(name))
        if len(texts) == 1 and name not in _TEXT_COLUMNS:
            result[name] = texts.pop()
        elif len(texts) > 1 and not next(iter(texts)).lower().endswith((".jpg", ".jpeg", ".png")):
            tables.warnings[f"column {name} is not stored (texts that differ from row to row)"] = None
    return result
