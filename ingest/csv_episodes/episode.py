"""Reads one folder of tables and images as an episode, with the JSON file that describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.episode import Camera, Episode, FramePairing, Json, Record, make_episode_id
from ares.errors import SourceError
from ares.io import list_folder
from ingest.csv_episodes.cameras import read_cameras
from ingest.csv_episodes.signals import column_signals, list_columns, make_trajectory
from ingest.csv_episodes.tables import EpisodeTables, hash_tables, read_tables
from ingest.json_files import read_json_object
from ingest.names import VideoRow, WrongRowError, distinct_texts, parse_row
from ingest.stamps import NO_TIME, SpecTime, StepTimes, time_steps

FORMAT = "csv"
TABLE_SUFFIXES = (".csv", ".tsv")
_TEXT_COLUMNS = ("instruction", "language_instruction", "task", "prompt", "language")
_LONGEST_LIST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvEntry:
    """One episode, before it is read.

    Attributes:
        folder: Absolute path of its folder.
        dataset: Name of the dataset.
        key: Path of the folder in the dataset.
        rate_hz: Rate set by the user, or None.
        time: The column of the times by the spec of the user.
    """

    folder: str
    dataset: str
    key: str
    rate_hz: float | None = None
    time: SpecTime = NO_TIME

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(format=FORMAT, dataset=self.dataset, version="", split="", key=self.key)


def load_episode(entry: CsvEntry) -> Record:
    """Read an episode. Raises SourceError when a table, its JSON file or an image cannot be read."""
    folder = Path(entry.folder)
    described = _read_description(folder)
    tables = read_tables(table_paths(folder), entry.time, described.fps)
    times = _step_times(entry, tables, described.fps)
    digest = hash_tables(tables)
    cameras = read_cameras(folder, tables, times.rate_hz, digest)
    trajectory = make_trajectory(tables, signals := column_signals(tables), times.seconds)
    constant_texts = (tables.constant_text(name) for name in _TEXT_COLUMNS)
    instructions = distinct_texts([described.instruction, *constant_texts])
    episode = Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=entry.dataset,
        version="",
        split=described.split,
        key=entry.key,
        source=str(tables.main.path),
        content_hash=digest.hexdigest(),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=described.robot,
        num_steps=tables.num_steps,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=described.success,
        success_source=described.success_source,
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
        metadata={**_small_values(described.metadata), **_constant_texts(tables)},
        frame_pairing=_pairing(cameras, times.rate_hz),
    )
    return Record(
        episode=episode,
        trajectory=trajectory,
        warnings=(*tables.warnings, *described.warnings),
        has_stamps=times.has_stamps,
        arrays=tuple(list_columns(tables, signals)),
    )


def _pairing(cameras: tuple[Camera, ...], rate_hz: float) -> FramePairing:
    """Images with stamps in their names have a clock of their own; the others are one for each step."""
    return "index" if all(camera.media.rate_hz == rate_hz for camera in cameras) else "stamp"


def _step_times(entry: CsvEntry, tables: EpisodeTables, stated_rate_hz: float | None) -> StepTimes:
    return time_steps(
        tables.main.seconds,
        tables.num_steps,
        tables.warnings,
        name=tables.main.roles.time,
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=stated_rate_hz,
    )


def table_paths(folder: Path) -> list[Path]:
    """The tables directly in a folder, sorted."""
    names = (name for name in list_folder(folder).files if name[0] != ".")
    return [folder / name for name in names if name.lower().endswith(TABLE_SUFFIXES)]


def description_paths(folder: Path) -> list[Path]:
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
    paths = description_paths(folder)
    for path in paths:
        document |= read_json_object(path)
    try:
        # The same names of fields as in tables about videos.
        return parse_row(
            {"video": folder.name, **{k: v for k, v in document.items() if k not in ("video", "videos")}}
        )
    except WrongRowError as error:
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
