"""Ingester for LeRobot datasets (v2.0, v2.1, v3.0, GR00T); data files and videos are referred to, not copied."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import RateSource
from ares.errors import SourceError
from ares.formats import (
    EPISODE_LINES_PATH,
    EPISODES_FOLDER,
    INFO_PATH,
    META_FOLDER,
    MODALITY_PATH,
)
from ares.input import open_parquet
from ares.io import FolderEntries, absolute_path, list_folder, parse_path, walk_folders
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFinding,
    SourceOptions,
    failing_item,
    stamp_labels,
)
from ares_ingest.lerobot.consistency import (
    VideoContradictions,
    check_dataset,
    check_episode_list,
    drop_cameras_without_video,
    find_misplaced_files,
    find_video_contradictions,
    list_files,
)
from ares_ingest.lerobot.episode import (
    FORMAT,
    LeRobotDataset,
    find_no_rows_error,
    load_episode,
    load_unlisted_episode,
    stamp_list_entry,
)
from ares_ingest.lerobot.episode_list import (
    EpisodeListSurvey,
    read_episode_list,
    survey_episode_list,
)
from ares_ingest.lerobot.feature_map import LeRobotFeatureMap, map_features
from ares_ingest.lerobot.file_contents import (
    episodes_without_rows,
    find_unlisted_episodes,
    measure_rate_of_files,
)
from ares_ingest.lerobot.metadata import (
    LeRobotInfo,
    parse_count,
    read_info,
    read_optional_json,
    read_subtask_texts,
    read_task_list,
)
from ares_ingest.signals import resolve_rate

if TYPE_CHECKING:
    import pyarrow as pa


# Folder levels below the path that are searched: OWNER/NAME.
_SEARCH_DEPTH = 2


def _has_episodes_folder(folder: FolderEntries) -> bool:
    meta, name = EPISODES_FOLDER.split("/")
    return meta in folder.folders and name in list_folder(folder.path / meta).folders


def _dataset_folders(path: Path, depth: int) -> Iterator[Path]:
    for folder, subfolders, _ in walk_folders(path, follow_links=True):
        subfolders.sort()
        if META_FOLDER in subfolders and lerobot.claims(list_folder(folder)):
            yield folder
            subfolders.clear()
        elif len(folder.relative_to(path).parts) == depth:
            subfolders.clear()


def _dataset_name(folder: Path) -> str:
    """Name of a dataset: its folder, or the repository name in a cache of the Hugging Face Hub."""
    snapshot = re.fullmatch(r"datasets--(?:.+--)?(.+)", folder.parent.parent.name)
    return snapshot[1] if snapshot and folder.parent.name == "snapshots" else folder.name


def _open_dataset(folder: Path, name: str, options: SourceOptions) -> Source:
    info = read_info(folder)
    feature_map, has_data = _map_features(info, warnings := list[str]())
    fps, rate_hz, rate_source = _frame_and_step_rate(info, feature_map, options, warnings)
    if rate_source == "assumed":
        warnings.append(f"fps in info.json is not known, {rate_hz:g} Hz assumed (give --rate)")
    dataset = LeRobotDataset(
        name=name,
        info=info,
        feature_map=feature_map,
        fps=fps,
        rate_hz=rate_hz,
        rate_source=rate_source,
        splits=_read_splits(info),
        has_data=has_data,
    )
    listed = survey_episode_list(info, [camera.key for camera in feature_map.video_cameras], fps)
    unlisted = find_unlisted_episodes(info, dataset.evidence, listed.listed, listed.frames)
    dataset = replace(dataset, total=listed.episodes + len(unlisted))
    contradictions = find_video_contradictions(dataset, listed, unlisted)
    warnings += find_misplaced_files(dataset)
    warnings += check_episode_list(info, listed, len(unlisted))
    warnings += check_dataset(dataset, listed.frames or None)
    others = _unlisted_items(dataset, unlisted, contradictions, has_list=listed.episodes > 0)
    return Source(
        format=FORMAT,
        dataset=name,
        version=info.version,
        total=dataset.total,
        items=chain(_episode_items(dataset, listed, contradictions), others),
        warnings=tuple(dict.fromkeys((*warnings, *contradictions.warnings))),
        folder=str(folder),
        files=functools.partial(list_files, dataset, listed.locations, contradictions, unlisted),
        check_metadata=functools.partial(_check_metadata, dataset),
        rate_hz=rate_hz,
        cameras=tuple(camera.name for camera in (*feature_map.video_cameras, *feature_map.image_cameras)),
    )


def _check_metadata(dataset: LeRobotDataset) -> Iterator[SourceFinding]:
    from ares_ingest.lerobot.trainer_checks import check_trainer_metadata

    return check_trainer_metadata(dataset)


def _map_features(info: LeRobotInfo, warnings: list[str]) -> tuple[LeRobotFeatureMap, bool]:
    """The roles of the columns of a dataset, and whether it has any data file."""
    schema, has_data = _first_schema(info)
    try:
        modality = read_optional_json(parse_path(info.root) / MODALITY_PATH)
    except SourceError as error:
        warnings.append(f"{error.reason}, its names are not used")
        modality = None
    has_subtasks = bool(_read_subtasks(info, warnings))
    feature_map, feature_warnings = map_features(
        info.features, schema, modality or {}, has_subtasks=has_subtasks
    )
    feature_map, camera_warnings = drop_cameras_without_video(info, feature_map)
    warnings += [*feature_warnings, *camera_warnings]
    if not has_data:
        warnings.append("there are no data files: episodes have no signals")
    return feature_map, has_data


def _read_subtasks(info: LeRobotInfo, warnings: list[str]) -> Mapping[int, str]:
    """The subtasks that the dataset lists; none, and a warning, where the list cannot be read."""
    try:
        return read_subtask_texts(info.root, info.opened_at)
    except SourceError as error:
        warnings.append(f"{error.reason}, its texts are not used")
        return {}


def _first_schema(info: LeRobotInfo) -> tuple[pa.Schema | None, bool]:
    """The schema of the first readable data file, and whether there is any data file."""
    import pyarrow as pa

    has_data = False
    for path in info.data_files():
        has_data = True
        try:
            with open_parquet(path) as file:
                return file.schema_arrow, has_data
        except (pa.ArrowException, OSError, SourceError):
            continue  # the episodes of a damaged file report it when they are loaded
    return None, has_data


# A higher fps would place every frame of a camera at once: the stamps are asked.
_FASTEST_CAMERA_HZ = 1_000


def _frame_and_step_rate(
    info: LeRobotInfo, feature_map: LeRobotFeatureMap, options: SourceOptions, warnings: list[str]
) -> tuple[float, float, RateSource]:
    """Frames per second of the dataset, steps per second, and where that rate comes from."""
    stored_fps = info.document.get("fps")
    is_valid = (
        isinstance(stored_fps, int | float)
        and not isinstance(stored_fps, bool)
        and 0 < stored_fps < float("inf")
    )
    fps = stated = float(stored_fps) if is_valid and stored_fps else None
    if stated is None or stated > _FASTEST_CAMERA_HZ:
        measured, source = measure_rate_of_files(info, [camera.key for camera in feature_map.video_cameras])
        if measured is not None and not math.isclose(measured, stated or 0.0, rel_tol=0.01):
            known = f"{stated:g}" if stated else "not known"
            warnings.append(f"fps in info.json is {known}: {measured:g} Hz by the {source}")
            fps, stated = measured, None
    rate_hz, rate_source = resolve_rate(options.rate_hz, fps, "source" if stated else "measured")
    return fps or rate_hz, rate_hz, rate_source


def _read_splits(info: LeRobotInfo) -> tuple[tuple[str, int, int], ...]:
    """Name, first episode and end (half open) of each split; malformed ones are left out."""
    ranges = info.document.get("splits")
    splits = []
    for name, bounds in ranges.items() if isinstance(ranges, dict) else ():
        match = re.fullmatch(r"(\d{1,15}):(\d{1,15})", str(bounds))
        if match:
            splits.append((str(name), int(match[1]), int(match[2])))
    return tuple(splits)


def _episode_items(
    dataset: LeRobotDataset, listed: EpisodeListSurvey, contradictions: VideoContradictions
) -> Iterator[Item]:
    """Yield one item for each listed episode; a broken line, or no row, makes an item whose load raises."""
    empty = episodes_without_rows(dataset.info, dataset.evidence, listed)
    tasks, is_whole = read_task_list(dataset.info.root)
    others = bool(dataset.feature_map.annotation_columns or dataset.feature_map.subtask_columns)
    sure_tasks = frozenset[str]() if others else frozenset(tasks.values())
    tasks_stamp = stamp_labels(tasks, _read_subtasks(dataset.info, faults := list[str]()))
    is_whole &= not faults
    for number, (location, row) in enumerate(read_episode_list(dataset.info), start=1):
        if not isinstance(row, SourceError) and parse_count(row.get("episode_index")) is None:
            row = SourceError("metadata has no episode_index", f"{location}: {row.get('episode_index')!r}")
        if isinstance(row, SourceError):
            yield failing_item(dataset.identity(f"line {number}"), location, row)
            continue
        index = parse_count(row["episode_index"]) or 0
        identity, where = dataset.identity(str(index)), f"{location}: episode {index}"
        error = find_no_rows_error(dataset, index, row) if index in empty else None
        if error is not None:
            yield failing_item(identity, where, error)
            continue
        load = functools.partial(load_episode, dataset, row, contradictions.of_episode(index))
        stamp = stamp_list_entry(row, sure_tasks, tasks_stamp) if is_whole else None
        yield Item(episode_id=identity, location=where, load=load, key=str(index), label_stamp=stamp)


def _unlisted_items(
    dataset: LeRobotDataset, episodes: Sequence[int], contradictions: VideoContradictions, *, has_list: bool
) -> Iterator[Item]:
    """Yield one item for each episode that only the files hold; where there is a list, its record warns of that."""
    for index in episodes:
        load = functools.partial(
            load_unlisted_episode, dataset, index, contradictions.of_episode(index), has_list=has_list
        )
        yield Item(
            episode_id=dataset.identity(str(index)),
            location=f"{dataset.info.root}: episode {index}",
            load=load,
            key=str(index),
            label_stamp=None,
        )


class LeRobotIngester(FolderIngester):
    """Opens datasets of the format `lerobot`."""

    name = FORMAT

    def recognises(self, path: str) -> bool:
        """Whether a folder, or one up to two levels below it, is a LeRobot dataset."""
        return next(_dataset_folders(absolute_path(path), _SEARCH_DEPTH), None) is not None

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is a dataset: by its info.json, else its list of episodes."""
        is_dataset = folder.has_file(INFO_PATH) or folder.has_file(EPISODE_LINES_PATH)
        return "dataset" if is_dataset or _has_episodes_folder(folder) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open every dataset in a folder or up to two levels below it.

        Raises:
            SourceError: There is none, an info.json is not valid, or one name is given for several datasets.
        """
        root = absolute_path(path)
        folders = list(_dataset_folders(root, _SEARCH_DEPTH))
        if not folders:
            raise SourceError(
                "folder holds no LeRobot dataset", f"{path}: no {INFO_PATH} in it or up to two levels below"
            )
        if options.dataset and len(folders) > 1:
            raise SourceError(
                "one name for several datasets", f"{options.dataset!r} for {len(folders)} under {path}"
            )
        names = [_dataset_name(folder) for folder in folders]
        if len(set(names)) < len(names):
            names = [folder.relative_to(root).as_posix() for folder in folders]
        return [
            _open_dataset(folder, options.dataset or name, options)
            for folder, name in zip(folders, names, strict=True)
        ]


lerobot = LeRobotIngester()
