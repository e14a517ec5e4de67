"""Reads one folder of numbered images, with or without tables, as an episode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ares.console import count_of
from ares.episode import Camera, Episode, FramePairing, Json, MediaRef, NotRead, Record, Trajectory
from ares.errors import SourceError
from ares.input import read_input
from ares.media import IMAGE_SUFFIXES
from ares_ingest.base import EpisodeEntry, make_episode
from ares_ingest.depth import add_depth
from ares_ingest.files import add_missing_cameras
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.image_folders.descriptions import (
    EpisodeDescription,
    find_description_files,
    list_table_paths,
    read_episode_description,
    select_small_values,
)
from ares_ingest.image_folders.pictures import CameraImageList, list_camera_images, make_image_camera
from ares_ingest.image_folders.rows import TableRows
from ares_ingest.image_folders.tables import (
    EpisodeTables,
    describe_table_columns,
    find_text_segments,
    hash_table_contents,
    make_column_signals,
    make_trajectory,
    read_tables,
)
from ares_ingest.signals import NO_TIME, SpecTimeArray, StepTimes, compute_step_times
from ares_ingest.source_words import VideoRow

IMAGES, TABLES = "images", "csv"
# Stamps of images and steps that lie further apart than this are of two clocks.
_LARGEST_OFFSET_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry(EpisodeEntry):
    """One episode, before it is read.

    Attributes:
        folder: Absolute path of its folder.
        time: The column of the times by the spec of the user.
        rows: The rows of a table that are the episode; None where the tables of the folder are it.
    """

    folder: str
    time: SpecTimeArray = NO_TIME
    rows: TableRows | None = None


def load_episode(entry: FolderEntry) -> Record:
    """Read an episode. Raises SourceError when it has no images or tables, or a file of it cannot be read."""
    folder = Path(entry.folder)
    described = read_episode_description(folder) if entry.rows is None else EpisodeDescription(row=VideoRow())
    read = _read_images_and_tables if entry.format == TABLES else _read_images_only
    return read(entry, folder, described)


def _read_images_only(entry: FolderEntry, folder: Path, described: EpisodeDescription) -> Record:
    """An episode whose steps are the images of its first camera."""
    warnings, depth = dict[str, None](), dict[str, Json]()
    images = list(list_camera_images(folder, warnings, depth))
    if not images:
        raise SourceError("episode holds no numbered images", str(folder))
    times = _times_of_images(entry, images[0], described, warnings)
    digest = hashlib.blake2b(digest_size=16)
    for path in find_description_files(folder):
        digest.update(read_input(str(path)))
    cameras = tuple(_cameras_of_images(images, times, digest, warnings))
    for name in described.pickles:
        warnings[NotRead(f"{name} is not read (a pickle can run code): signals in it are not stored")] = None
    trajectory = Trajectory(timestamps=times.seconds)
    episode = _make_episode(
        entry,
        trajectory,
        described,
        times,
        cameras,
        texts=described.texts,
        source=cameras[0].media.uri,
        content_hash=digest.hexdigest(),
        metadata=add_depth(described.row.metadata, depth),
        frame_pairing="stamp" if times.has_stamps else "index",
    )
    all_warnings = (*warnings, *described.row.warnings)
    return Record(episode=episode, trajectory=trajectory, warnings=all_warnings, has_stamps=times.has_stamps)


def _times_of_images(
    entry: FolderEntry, first: CameraImageList, described: EpisodeDescription, warnings: dict[str, None]
) -> StepTimes:
    """The times of the steps: the stamps in the names of the images, or evenly spaced."""
    import numpy as np

    stamps = first.images.seconds
    return compute_step_times(
        None if stamps is None else np.array(stamps) - stamps[0],
        len(first.images.names),
        warnings,
        name=f"the numbers of the images of {first.name}",
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=described.row.fps,
    )


def _cameras_of_images(
    cameras: list[CameraImageList], times: StepTimes, digest: Any, warnings: dict[str, None]
) -> Iterator[Camera]:
    """Cameras with an image for each step, or with stamps in the names; another is left out."""
    start = next((camera.images.seconds[0] for camera in cameras if camera.images.seconds), 0.0)
    for camera in cameras:
        count, has_stamps = len(camera.images.names), camera.images.seconds is not None
        if not has_stamps and count != len(times.seconds):
            text = f"camera {camera.name} is left out: it has not as many images as {cameras[0].name}"
            warnings[NotRead(text)] = None
            digest.update(f"{count} of {len(times.seconds)}".encode())
            continue
        media = camera.media(start if has_stamps else 0.0, times.rate_hz)
        digest.update(f"{camera.name} {count}".encode())
        yield make_image_camera(camera.name, media, camera.folder, camera.images.names, digest)


def _read_images_and_tables(entry: FolderEntry, folder: Path, described: EpisodeDescription) -> Record:
    """An episode whose steps are the rows of a table."""
    rows = entry.rows
    table, numbers = rows.read() if rows else (None, None)
    paths = [Path(rows.paths[0])] if rows else list_table_paths(folder)
    tables = read_tables(paths, entry.time, described.row.fps, table)
    times = compute_step_times(
        tables.main.seconds,
        tables.num_steps,
        tables.warnings,
        name=tables.main.roles.time,
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=described.row.fps,
    )
    digest, depth = hash_table_contents(tables), dict[str, Json]()
    missing: list[NotRead] = []
    if rows and table and numbers is not None:
        digest = hashlib.blake2b(repr(table.columns.to_pydict()).encode(), digest_size=16)
        columns = list(rows.find_cameras(table, numbers, times.rate_hz, digest))
        cameras = tuple(part for part in columns if isinstance(part, Camera))
        missing = [part for part in columns if isinstance(part, NotRead)]
        tables.warnings |= dict.fromkeys(missing)
    else:
        cameras = tuple(_cameras_of_columns(tables, times.rate_hz, digest)) or tuple(
            _cameras_beside_tables(folder, tables, times.rate_hz, digest, depth)
        )
    trajectory = make_trajectory(tables, signals := make_column_signals(tables), times.seconds)
    episode = _make_episode(
        entry,
        trajectory,
        described,
        times,
        cameras,
        texts=tuple(map(tables.constant_text, read_folder_layout("tables").texts)),
        source=str(tables.main.path),
        content_hash=digest.hexdigest(),
        metadata=add_missing_cameras(
            add_depth({**select_small_values(described.row.metadata), **_constant_texts(tables)}, depth),
            (part.key for part in missing),
        ),
        frame_pairing=_frame_pairing(cameras, times.rate_hz),
    )
    return Record(
        episode=episode,
        trajectory=trajectory,
        warnings=(*tables.warnings, *described.row.warnings),
        has_stamps=times.has_stamps,
        arrays=tuple(describe_table_columns(tables, signals)),
        segments=tuple(find_text_segments(tables, times.seconds)),
    )


def _cameras_beside_tables(
    folder: Path, tables: EpisodeTables, rate_hz: float, digest: Any, depth: dict[str, Json]
) -> Iterator[Camera]:
    """Cameras with stamps in the names of their images, else with one image for each step.

    Raises SourceError for a camera with neither, or an image that cannot be read or decoded.
    """
    for camera in list_camera_images(folder, tables.warnings, depth):
        images = camera.images
        if images.seconds is None and len(images.names) != tables.num_steps:
            raise SourceError(
                "camera has no image for each step, and no stamps in its names",
                f"{camera.folder}: {count_of(len(images.names), 'image')} for {count_of(tables.num_steps, 'step')}",
            )
        start = 0.0 if images.seconds is None else _clock_start(camera.name, images.seconds, tables)
        yield make_image_camera(
            camera.name, camera.media(start, rate_hz), camera.folder, images.names, digest
        )


def _clock_start(name: str, seconds: tuple[float, ...], tables: EpisodeTables) -> float:
    """Start of the episode on the clock of the images' names."""
    stamps = tables.main.stamps
    if stamps is not None and abs(float(stamps[0]) - seconds[0]) <= _LARGEST_OFFSET_SECONDS:
        return float(stamps[0])
    tables.warnings[f"images of camera {name} have a separate clock: the first one starts the episode"] = None
    return seconds[0]


def _cameras_of_columns(tables: EpisodeTables, rate_hz: float, digest: Any) -> Iterator[Camera]:
    """Cameras whose images a column names, one for each step."""
    table, count = tables.main, tables.num_steps
    for column in table.table.names:
        names = table.table.texts(column)
        if not names or not names[0].lower().endswith(IMAGE_SUFFIXES):
            continue
        if not all(name.lower().endswith(IMAGE_SUFFIXES) for name in names):
            tables.warnings[NotRead(f"camera {column} is left out: a row names no image")] = None
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


def _frame_pairing(cameras: tuple[Camera, ...], rate_hz: float) -> FramePairing:
    """Images with stamps in their names have a separate clock; the others are one for each step."""
    return "index" if all(camera.media.rate_hz == rate_hz for camera in cameras) else "stamp"


def _constant_texts(tables: EpisodeTables) -> dict[str, Json]:
    """Columns of text that are the same in every row."""
    table = tables.main.table
    texts = {name: set(table.texts(name)) for name in table.names}
    instructions = read_folder_layout("tables").texts
    return {
        name: values.pop() for name, values in texts.items() if len(values) == 1 and name not in instructions
    }


def _make_episode(
    entry: FolderEntry,
    trajectory: Trajectory,
    described: EpisodeDescription,
    times: StepTimes,
    cameras: tuple[Camera, ...],
    *,
    texts: tuple[str, ...],
    **fields: Any,
) -> Episode:
    row = described.row if entry.rows is None else replace(described.row, split=entry.split)
    return make_episode(
        entry,
        trajectory,
        [row.instruction, *texts],
        split=row.split,
        robot=row.robot,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=row.success,
        success_source=row.success_source,
        **fields,
    )
