"""Reads one episode of arrays in .npz or .npy files as a record, with the JSON file beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.episode import Camera, Episode, Json, MediaRef, Record, SourceArray, Trajectory, make_episode_id
from ares.errors import SourceError
from ares.input import ImageInfo
from ares.media.readers import image_size, translate_npy_errors
from ingest.arrays import (
    ArrayReader,
    SignalKeys,
    guess_roles,
    list_arrays,
    make_trajectory,
    signal_widths,
    step_times,
    unknown_family_error,
)
from ingest.media_files import describe_camera
from ingest.names import VideoRow, WrongRowError, distinct_texts, parse_row
from ingest.npz.files import NpyMember, json_file, open_arrays, read_document, read_ends
from ingest.stamps import StepTimes, missing_time_error

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

FORMAT = "npz"
_ALL_ROWS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzEntry:
    """One episode, before it is read.

    Attributes:
        dataset: Name of the dataset.
        key: Path of its file or folder in the dataset, and its number where a file holds several.
        path: The .npz file, or the folder of .npy files.
        start: First row of the episode.
        stop: End of its rows, half open; -1 for all rows.
        ends_key: Array that cuts the rows into episodes, or "".
        rate_hz: Rate set by the user, or None.
        spec: What the user knows of the dataset, or None.
        reads_unknown: Whether arrays without a known role are read.
    """

    dataset: str
    key: str
    path: str
    start: int = 0
    stop: int = _ALL_ROWS
    ends_key: str = ""
    rate_hz: float | None = None
    spec: DatasetSpec | None = None
    reads_unknown: bool = False

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(format=FORMAT, dataset=self.dataset, version="", split="", key=self.key)


def load_episode(entry: NpzEntry) -> Record:
    """Read an episode: signals as numbers, images by reference.

    Raises SourceError when its files cannot be read, or when no array is of a known name and there is no spec.
    """
    with open_arrays(entry.path) as members:
        reader = _read_arrays(entry, members)
        roles = _roles(entry, reader)
        row = _read_row(entry, reader)
        times = _step_times(entry, reader, roles, row)
        cameras = tuple(_camera(reader, key, members[key], times.rate_hz) for key in reader.images)
        reader.hash_images()
    arrays = tuple(list_arrays(reader, roles))
    if not (roles.state or roles.action or cameras or entry.spec or entry.reads_unknown):
        raise unknown_family_error(entry.path, arrays)
    if not reader.numbers and not cameras:
        raise SourceError("episode holds no array that can be read", entry.path)
    trajectory = make_trajectory(reader, roles, times.seconds)
    instructions = distinct_texts([row.instruction])
    episode = Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=entry.dataset,
        version="",
        split="",
        key=entry.key,
        source=next(iter(members.values())).path,
        content_hash=reader.hash.hexdigest(),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=row.robot,
        num_steps=reader.stop - reader.start,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=row.success,
        success_source=row.success_source,
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
        metadata=row.metadata,
        frame_pairing="index",
    )
    warnings = tuple(dict.fromkeys((*reader.warnings, *row.warnings)))
    return _record(episode, trajectory, warnings, arrays, times)


def _record(
    episode: Episode,
    trajectory: Trajectory,
    warnings: tuple[str, ...],
    arrays: tuple[SourceArray, ...],
    times: StepTimes,
) -> Record:
    return Record(
        episode=episode, trajectory=trajectory, warnings=warnings, arrays=arrays, has_stamps=times.has_stamps
    )


def _read_arrays(entry: NpzEntry, members: Mapping[str, NpyMember]) -> ArrayReader:
    """Read the arrays; texts and single numbers become fields."""
    whole = entry.stop == _ALL_ROWS
    stop = _count_steps(entry, members) if whole else entry.stop
    reader = ArrayReader(entry.path, entry.start, stop, translate_errors=translate_npy_errors)
    if not whole and entry.ends_key:
        read_ends(members, entry.ends_key, entry.path)
    for key, member in members.items():
        array = member.array
        if isinstance(array, SourceError):
            reader.leave_out(key, f"is not stored ({array.reason})")
        elif array.dtype.kind in "SU" or not array.ndim:
            reader.add_field(key, array)
        elif key == entry.ends_key:
            reader.shapes[key] = (array.shape, str(array.dtype))
        else:
            reader.add(key, array)
            if whole and array.shape[0] > stop:
                reader.warnings[f"{key} has more rows than there are steps; the first are used"] = None
    return reader


def _count_steps(entry: NpzEntry, members: Mapping[str, NpyMember]) -> int:
    """Steps of an episode: the rows of its action, else of its state, else the most frequent number of rows.

    The observations may have one row more than there are actions. Raises SourceError for no array with rows.
    """
    rows = {
        key: member.array.shape[0]
        for key, member in members.items()
        if not isinstance(member.array, SourceError)
        and member.array.ndim
        and member.array.dtype.kind in "biuf"
    }
    roles = guess_roles(dict.fromkeys(rows, 2))
    slices = (*entry.spec.action, *entry.spec.state) if entry.spec else ()
    keys = [key for key in (*(part.key for part in slices), *roles.action, *roles.state) if rows.get(key)]
    if keys:
        return rows[keys[0]]
    counts = Counter(count for count in rows.values() if count > 0)
    if not counts:
        arrays = ", ".join(
            f"{key} ({member.array})"[:200]
            for key, member in members.items()
            if isinstance(member.array, SourceError)
        )
        raise SourceError("episode holds no array with rows", f"{entry.path}: {arrays or 'there is none'}")
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0]


def _roles(entry: NpzEntry, reader: ArrayReader) -> SignalKeys:
    roles = guess_roles(signal_widths(reader), entry.ends_key)
    key = entry.spec.timestamps if entry.spec else ""
    if key and key not in reader.numbers:
        raise missing_time_error(key, reader.shapes, entry.path)
    return replace(roles, time=key) if key else roles


def _step_times(entry: NpzEntry, reader: ArrayReader, roles: SignalKeys, row: VideoRow) -> StepTimes:
    unit = entry.spec.time_unit if entry.spec else None
    return step_times(reader, roles.time, entry.rate_hz, unit=unit, known_hz=row.fps)


def _read_row(entry: NpzEntry, reader: ArrayReader) -> VideoRow:
    """Instruction, outcome, robot and rate, from the JSON file and from the texts of the file itself."""
    document: dict[str, Json] = {key.rpartition("/")[2]: value for key, value in reader.fields.items()}
    document |= read_document(json_file(entry.path))
    nested = {key: value for key, value in document.items() if isinstance(value, Mapping | list)}
    flat = {key: value for key, value in document.items() if key not in nested and key != "video"}
    try:
        row = parse_row({"video": entry.path, **flat})  # the row of a video names its file
        return replace(row, metadata={**row.metadata, **nested})
    except WrongRowError as error:
        raise SourceError("JSON file of an episode has a wrong form", f"{entry.path}: {error}") from None


def _camera(reader: ArrayReader, key: str, member: NpyMember, rate_hz: float) -> Camera:
    """A camera whose images are rows of an array."""
    height, width = image_size(reader.images[key])
    media = MediaRef(
        kind="npy",
        uri=member.path,
        start_seconds=reader.start / rate_hz,
        stop_seconds=reader.stop / rate_hz,
        num_frames=reader.stop - reader.start,
        rate_hz=rate_hz,
        key=member.name,
    )
    return describe_camera(key.replace("/", "."), ImageInfo(width, height, "raw"), media)
