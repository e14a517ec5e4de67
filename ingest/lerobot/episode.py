"""Builds the record of a LeRobot episode: signals, cameras, instructions, outcome, warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ares.clock import are_timestamps_even, read_stamps
from ares.episode import (
    DEPTH_CAMERAS,
    Camera,
    Episode,
    Json,
    NotRead,
    RateSource,
    Record,
    Signal,
    Trajectory,
    make_episode_id,
)
from ares.errors import SourceError
from ares.formats import ARES_PREFIX, DATA_FILE_COLUMNS, ROW_RANGE_COLUMNS
from ares.io import FileState
from ares_ingest.base import stamp_labels
from ares_ingest.files import add_missing_cameras, add_unread, hash_media_file
from ares_ingest.lerobot.cameras import (
    VideoSearch,
    image_cameras,
    packet_sizes,
    take_stated_hash,
    video_cameras,
)
from ares_ingest.lerobot.feature_map import (
    INDICES,
    LeRobotFeatureMap,
    NumericColumn,
    is_instruction,
    source_arrays,
)
from ares_ingest.lerobot.file_contents import DatasetFileContents, read_file_contents
from ares_ingest.lerobot.language import make_frame_clock, read_segments
from ares_ingest.lerobot.metadata import (
    LeRobotInfo,
    MetadataRow,
    fill_data_path,
    parse_count,
    read_exported_rate_source,
    read_task_texts,
)
from ares_ingest.lerobot.modality import dimension_names, short_name
from ares_ingest.lerobot.rows import (
    EpisodeRows,
    episode_lengths_in_file,
    file_state_or_none,
    find_frame_range,
    in_order,
    read_episode_file,
    read_from_shared_file,
)
from ares_ingest.source_words import distinct_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Fields of the metadata that say where the data of an episode are.
_LOCATION_PREFIXES = ("data/", "videos/", "meta/", "stats/", *ROW_RANGE_COLUMNS)
_USED_FIELDS = ("episode_index", "tasks", "length")
# Longest list that is stored as a note.
_LONGEST_NOTE = 64
# Fields that the exporter of ARES writes, so that an exported episode is read back unchanged.
_EXPORTED_INSTRUCTION, _EXPORTED_OUTCOME = f"{ARES_PREFIX}instruction", f"{ARES_PREFIX}success"


def collect_instructions(
    root: str, feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow, warnings: list[str]
) -> tuple[str, ...]:
    """Distinct instructions: first those that the rows refer to, in order, then others that the metadata lists.

    A text that only an annotation such as "annotation.human.validity" refers to is no instruction.
    """
    if isinstance(row.get(_EXPORTED_INSTRUCTION), str):
        return distinct_texts([row[_EXPORTED_INSTRUCTION]])
    row_tasks = list(_referenced_texts(root, rows, "task_index"))
    instruction_texts = [
        text
        for key in feature_map.annotation_columns
        if is_instruction(key)
        for text in _referenced_texts(root, rows, key)
    ]
    instruction_texts += [
        text for key in feature_map.text_columns if is_instruction(key) for text in rows.texts.get(key, ())
    ]
    annotation_key_by_text = {
        text: key
        for key in feature_map.annotation_columns
        if not is_instruction(key)
        for text in _referenced_texts(root, rows, key)
    }
    metadata_tasks = list(_metadata_tasks(root, row))
    for key in dict.fromkeys(
        annotation_key_by_text[text]
        for text in metadata_tasks
        if text in annotation_key_by_text and text not in row_tasks + instruction_texts
    ):
        warnings.append(f"a task of the metadata is an annotation ({key}), not an instruction")
    if row_tasks and metadata_tasks and not set(row_tasks) & set(metadata_tasks):
        warnings.append("the task of the rows is not among those of the metadata")
    remaining_tasks = [text for text in metadata_tasks if text not in annotation_key_by_text]
    return distinct_texts([*row_tasks, *instruction_texts, *remaining_tasks])


def _metadata_tasks(root: str, row: MetadataRow) -> Iterator[str]:
    """Tasks of the metadata, which may be texts or indices, single or in a list."""
    tasks_field = row.get("tasks")
    for task in tasks_field if isinstance(tasks_field, list) else [tasks_field]:
        number = parse_count(task)
        if isinstance(task, str):
            yield task
        elif number is not None and number in read_task_texts(root):
            yield read_task_texts(root)[number]


def _referenced_texts(root: str, rows: EpisodeRows, key: str) -> Iterator[str]:
    """Texts that a column of task indices refers to, in order of appearance."""
    values = rows.numbers.get(key)
    if values is None or values.size == 0:
        return
    first = values.flat[0]
    numbers = [first] if (values == first).all() else dict.fromkeys(values.ravel().tolist())
    texts = read_task_texts(root)
    for number in numbers:
        text = texts.get(number)
        if text is not None:
            yield text


def stamp_list_entry(row: MetadataRow, sure_tasks: Collection[str], tasks_stamp: str) -> str:
    """A hash of what the lists of episodes and tasks say of an episode.

    Args:
        row: Its entry in the list of episodes.
        sure_tasks: Listed tasks; an episode whose entry names some of them, and no others, has those alone.
        tasks_stamp: A hash of all tasks, for any other episode: its rows name them.
    """
    skipped = ("episode_index", "length", *_LOCATION_PREFIXES)
    values = {name: value for name, value in row.items() if not name.startswith(skipped)}
    named = row.get("tasks")
    texts = named if isinstance(named, list) else []
    is_sure = bool(texts) and all(isinstance(text, str) and text in sure_tasks for text in texts)
    return stamp_labels(values, "" if is_sure else tasks_stamp)


def find_stated_outcome(
    feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow
) -> tuple[bool | None, str]:
    """Whether the episode succeeded, and the field that says so; reward and done are not used."""
    values = rows.numbers.get(feature_map.outcome_column)
    if values is not None and values.size and not (values != values).any():
        return bool((values != 0).any()), feature_map.outcome_column
    for name in ("success", _EXPORTED_OUTCOME):
        if row.get(name) in (True, False, 0, 1):
            source = str(row.get(f"{ARES_PREFIX}success_source") or name)
            # "person" is what people of this workspace say.
            return bool(row[name]), "person of the source" if source == "person" else source
    return None, ""


def collect_episode_metadata(
    root: str, feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow
) -> dict[str, Json]:
    """Small values for the metadata: other fields of the list of episodes, annotations and texts of the steps."""
    notes: dict[str, Json] = {}
    for name, value in row.items():
        if name not in _USED_FIELDS and not name.startswith(_LOCATION_PREFIXES) and _is_note(value):
            notes[name] = value
    texts_by_key: dict[str, list[str]] = {
        key: list(_referenced_texts(root, rows, key)) for key in feature_map.annotation_columns
    }
    texts_by_key |= {key: list(rows.texts.get(key, ())) for key in feature_map.text_columns}
    for key, texts in texts_by_key.items():
        if texts and not is_instruction(key) and len(texts) <= _LONGEST_NOTE:
            notes[key] = texts[0] if len(texts) == 1 else list[Json](texts)
    return notes


def _is_note(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= _LONGEST_NOTE and all(_is_note(part) for part in value)
    if isinstance(value, Mapping):
        return False
    return isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < float("inf"))


FORMAT = "lerobot"

# Seconds stored as float32 are this coarse after about an hour.
_TOLERANCE_SECONDS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeRobotDataset:
    """What the loading of an episode needs to know about its dataset.

    Attributes:
        name: Name that is stored with the episodes.
        info: Content of info.json.
        feature_map: Roles of the columns.
        fps: Frames per second by info.json, else `rate_hz`.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        splits: Name, first episode and end (half open) of each split.
        has_data: Whether there is any data file.
        total: Episodes in the list.
    """

    name: str
    info: LeRobotInfo
    feature_map: LeRobotFeatureMap
    fps: float
    rate_hz: float
    rate_source: RateSource
    splits: tuple[tuple[str, int, int], ...]
    has_data: bool
    total: int = 0

    @property
    def evidence(self) -> DatasetFileContents:
        """What the files of the dataset hold."""
        return read_file_contents(self.info, [camera.key for camera in self.feature_map.video_cameras])

    def identity(self, key: str) -> str:
        """Identity of an episode. It leaves out the split: splits move as a dataset grows, episode numbers do not."""
        return make_episode_id(format=FORMAT, dataset=self.name, version=self.info.version, split="", key=key)


def load_episode(dataset: LeRobotDataset, row: MetadataRow, contradicted: Mapping[str, str]) -> Record:
    """Read an episode listed in the metadata.

    Args:
        dataset: The dataset.
        row: Its entry in the list of episodes.
        contradicted: Why the metadata about a camera cannot be right, by the camera's key.

    Raises:
        SourceError: It has neither data nor video, or its data cannot be read.
    """
    index = int(row["episode_index"])
    warnings: list[str] = []
    source, rows = _read_rows(dataset, index, row, warnings)
    declared_length = parse_count(row.get("length")) or 0
    steps = rows.count if rows else declared_length
    frames = find_frame_range(rows, declared_length) if rows else (0, steps)
    search = make_video_search(dataset, index, row, frames, contradicted)
    depth: dict[str, Json] = {}
    cameras = tuple(video_cameras(dataset.feature_map.video_cameras, search, warnings, depth))
    if rows and rows.is_sorted:
        warnings.extend(
            NotRead(f"camera {camera.name} left out: its rows are not in the order of frame_index")
            for camera in dataset.feature_map.image_cameras
        )
    elif rows and rows.count:
        cameras += tuple(
            image_cameras(dataset.feature_map.image_cameras, source, rows, dataset.rate_hz, warnings)
        )
    if rows is None and not cameras:
        raise SourceError(
            "episode has neither data nor video",
            f"{dataset.info.root}: episode {index}; {'; '.join(warnings)}",
        )
    if rows is None:
        media = cameras[0].media
        steps = max(round(media.num_frames / media.rate_hz * dataset.rate_hz), 1)
        source = media.uri
    elif declared_length and declared_length != steps:
        warnings.append("length in the metadata is not that of the data")
    if not steps:
        raise SourceError("episode holds no step", f"{source}: episode {index}")
    record = _make_record(dataset, row, source, rows or EpisodeRows(steps, {}, {}), cameras, warnings)
    metadata = _note_lost_and_depth(record.episode, dataset.feature_map, depth)
    if rows is None:
        metadata = add_unread(metadata, ["data file is missing"])
    return replace(record, episode=replace(record.episode, metadata=metadata))


def _note_lost_and_depth(
    episode: Episode, feature_map: LeRobotFeatureMap, depth: Mapping[str, Json]
) -> Mapping[str, Json]:
    """The metadata with where depth lies, by camera, and with the cameras that info.json names and files lack."""
    named = [camera.name for camera in (*feature_map.video_cameras, *feature_map.image_cameras)]
    present = {*depth, *(camera.name for camera in episode.cameras)}
    missing = (name for name in (*feature_map.lost_cameras, *named) if name not in present)
    metadata = {**episode.metadata, **({DEPTH_CAMERAS: dict(depth)} if depth else {})}
    return add_missing_cameras(metadata, missing)


def make_video_search(
    dataset: LeRobotDataset,
    episode: int,
    row: MetadataRow,
    frames: tuple[int, int],
    contradicted: Mapping[str, str],
) -> VideoSearch:
    """The search for the videos of an episode, whose steps are the frames [first, end) of it."""
    return VideoSearch(
        info=dataset.info,
        evidence=dataset.evidence,
        episode=episode,
        row=row,
        first_frame=frames[0],
        steps=frames[1],
        fps=dataset.fps,
        rate_hz=dataset.rate_hz,
        contradicted=contradicted,
    )


def load_unlisted_episode(
    dataset: LeRobotDataset, index: int, contradicted: Mapping[str, str], *, has_list: bool
) -> Record:
    """Read an episode that only the files hold, with a warning where there is a list.

    Raises SourceError like `load_episode`.
    """
    record = load_episode(dataset, {"episode_index": index}, contradicted)
    if not has_list:
        return record
    warning = "the metadata does not list the episode: read from its files"
    return replace(record, warnings=(*record.warnings, warning))


def _read_rows(
    dataset: LeRobotDataset, index: int, row: MetadataRow, warnings: list[str]
) -> tuple[str, EpisodeRows | None]:
    """The data file of an episode and its rows, or None in a dataset without data files. Raises SourceError."""
    path = find_claimed_data_path(dataset.info, index, row)
    rows = _read_claimed_rows(dataset, path, index, warnings)
    if rows is None and dataset.has_data:
        path, rows = _find_rows(dataset, path, index, row, warnings)
    if rows is None and dataset.has_data:
        raise _no_rows_error(path, index)
    if rows is None:
        warnings.append("data file is missing: no signals")
    else:
        rows = in_order(rows, warnings)
        warnings.extend(rows.warnings)
    return path, rows


def _no_rows_error(path: str, index: int) -> SourceError:
    """The error for an episode of which no data file has a row, by the file that should."""
    exists = file_state_or_none(path) is not None
    reason = "data file holds no row of the episode" if exists else "data file is missing"
    return SourceError(reason, f"{path}: episode {index}")


def find_no_rows_error(dataset: LeRobotDataset, index: int, row: MetadataRow) -> SourceError | None:
    """Why an episode that no readable data file holds fails; None where reading its file would tell more."""
    path = find_claimed_data_path(dataset.info, index, row)
    try:
        episode_lengths_in_file(path)
    except SourceError:
        return None
    return _no_rows_error(path, index)


def find_claimed_data_path(info: LeRobotInfo, index: int, row: MetadataRow) -> str:
    """Where info.json and the list of episodes place the data of an episode."""
    chunk, file = (parse_count(row.get(name)) or 0 for name in DATA_FILE_COLUMNS)
    if info.data_path.has("episode"):
        chunk = index // info.chunk_size
        return fill_data_path(info.root, info.data_path, index, chunk, file)
    return fill_data_path(info.root, info.data_path, 0, chunk, file)


def _read_claimed_rows(
    dataset: LeRobotDataset, path: str, index: int, warnings: list[str]
) -> EpisodeRows | None:
    """The rows of an episode in the file that the metadata names; None when it does not hold the episode.

    A file of one episode whose column episode_index has a number of no episode, or the number of all files, is taken
    by its name.
    """
    columns = dataset.feature_map.columns
    if not dataset.info.data_path.has("episode"):
        return read_from_shared_file(path, index, columns)
    rows = read_episode_file(path, columns)
    if rows is None or "episode_index" not in rows.numbers or not rows.count:
        return rows
    episodes = rows.numbers["episode_index"]
    if (episodes == index).all():
        return rows
    if (episodes == index).any():
        return read_from_shared_file(path, index, columns)
    number = parse_count(episodes.flat[0].item())
    if dataset.evidence.files_with_episode(index):
        return None
    holders = () if number is None else dataset.evidence.files_with_episode(number)
    is_of_another = holders == (path,) or len(dataset.evidence.data_lengths) > 1
    if number is not None and number < dataset.total and path in holders and is_of_another:
        raise SourceError("its data file holds another episode", f"{path}: episode_index {number}")
    warnings.append("episode_index in the data is not that of the file")
    return rows


def _find_rows(
    dataset: LeRobotDataset, claimed: str, index: int, row: MetadataRow, warnings: list[str]
) -> tuple[str, EpisodeRows | None]:
    """The rows of an episode in the one data file that holds it by its column episode_index."""
    paths = dataset.evidence.files_with_episode(index)
    if not paths:
        return claimed, None
    if len(paths) > 1:
        raise SourceError("several data files hold the episode", ", ".join(paths[:3]))
    if dataset.info.names_data_file(row):
        warnings.append("the metadata names another data file than the one that holds the episode")
    return paths[0], read_from_shared_file(paths[0], index, dataset.feature_map.columns)


def _make_record(
    dataset: LeRobotDataset,
    row: MetadataRow,
    source: str,
    rows: EpisodeRows,
    cameras: tuple[Camera, ...],
    warnings: list[str],
) -> Record:
    feature_map, index = dataset.feature_map, int(row["episode_index"])
    state, action = (_join_columns(rows, part, warnings) for part in (feature_map.state, feature_map.action))
    hashes = _content_hashes(rows, cameras, (*feature_map.state, *feature_map.action))
    content_hash, earlier_hash = take_stated_hash(row, rows, cameras, hashes)
    episode = Episode(
        episode_id=dataset.identity(str(index)),
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.info.version,
        split=next((name for name, start, stop in dataset.splits if start <= index < stop), ""),
        key=str(index),
        source=source,
        content_hash=content_hash,
        num_steps=rows.count,
        rate_hz=dataset.rate_hz,
        rate_source=read_exported_rate_source(row, dataset.rate_source),
        cameras=cameras,
        state_names=state.names if state else (),
        action_names=action.names if action else (),
        **_descriptive_fields(dataset, rows, row, warnings),
    )
    seconds, has_stamps = _step_seconds(dataset, rows, warnings)
    clock = make_frame_clock(rows, seconds, dataset.fps / dataset.rate_hz)
    return Record(
        episode=episode,
        trajectory=_make_trajectory(dataset, rows, seconds, state, action, warnings),
        segments=tuple(read_segments(dataset.info, feature_map, rows, row, clock, warnings)),
        warnings=tuple(warnings),
        arrays=tuple(source_arrays(feature_map, rows)),
        has_stamps=has_stamps and episode.rate_source != "assumed",
        earlier_hash=earlier_hash,
    )


def _descriptive_fields(
    dataset: LeRobotDataset, rows: EpisodeRows, row: MetadataRow, warnings: list[str]
) -> dict[str, Any]:
    """The fields of an episode that say what was done, how it ended and what else is noted."""
    root, feature_map = dataset.info.root, dataset.feature_map
    texts = collect_instructions(root, feature_map, rows, row, warnings)
    success, success_source = find_stated_outcome(feature_map, rows, row)
    warnings += [
        NotRead(f"column {key} has other texts at other steps: which step has which is left out", key)
        for key in feature_map.text_columns
        if len(rows.texts.get(key, ())) > 1 and not is_instruction(key)
    ]
    return {
        "robot": str(dataset.info.document.get("robot_type") or ""),
        "frame_pairing": "index",
        "instruction": texts[0] if texts else "",
        "instructions": texts,
        "success": success,
        "success_source": success_source,
        "metadata": collect_episode_metadata(root, feature_map, rows, row),
    }


def _make_trajectory(
    dataset: LeRobotDataset,
    rows: EpisodeRows,
    seconds: NDArray[np.float64],
    state: Signal | None,
    action: Signal | None,
    warnings: list[str],
) -> Trajectory:
    reward = rows.numbers.get(dataset.feature_map.reward_column)
    extra = [column for column in dataset.feature_map.extra_signals if column.key in rows.numbers]
    return Trajectory(
        timestamps=seconds,
        state=state,
        action=action,
        reward=None if reward is None else reward[:, 0].astype("float32"),
        extra={
            short_name(column.key): _make_signal(rows.numbers[column.key], column, warnings, column.shape)
            for column in extra
        },
    )


def _join_columns(rows: EpisodeRows, columns: Sequence[NumericColumn], warnings: list[str]) -> Signal | None:
    """Join columns side by side as one signal; None when the rows have none of them."""
    import numpy as np

    parts = [
        _make_signal(rows.numbers[column.key], column, warnings)
        for column in columns
        if column.key in rows.numbers
    ]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    names = tuple(name for part in parts for name in part.names)
    if len(set(names)) < len(names):
        keys = [column.key for column in columns if column.key in rows.numbers]
        names = tuple(
            f"{short_name(key)}.{name}" for key, part in zip(keys, parts, strict=True) for name in part.names
        )
    return Signal(np.concatenate([part.values for part in parts], axis=1), names)


def _make_signal(
    values: NDArray[Any], column: NumericColumn, warnings: list[str], shape: tuple[int, ...] = ()
) -> Signal:
    """A column as a signal, with the names of a table where a shape is given."""
    import numpy as np

    if values.dtype.kind == "f" and not np.isfinite(values).all():
        warnings.append(f"column {column.key} holds numbers that are not finite")
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):
            stored = values.astype(np.float32)
        if values.dtype.kind in "iu" and (stored.astype(np.float64) != values).any():
            warnings.append(f"column {column.key} holds integers that float32 rounds")
        values = stored
    return Signal(values, dimension_names(short_name(column.key), column.names, values.shape[1], shape))


def _step_seconds(
    dataset: LeRobotDataset, rows: EpisodeRows, warnings: list[str]
) -> tuple[NDArray[np.float64], bool]:
    """(T,) seconds from the first step, and whether they are by stamps.

    They are exactly step / rate where the stored seconds agree with that, else as stored.
    """
    import numpy as np

    clock = np.arange(rows.count, dtype=np.float64) / dataset.rate_hz
    stored = rows.numbers.get("timestamp")
    if stored is None or stored.shape[1] != 1:
        return clock, False
    if stored.dtype.kind not in "iuf":
        warnings.append("timestamps are not numbers, fps is used")
        return clock, False
    if dataset.fps == dataset.rate_hz and are_timestamps_even(stored[:, 0], dataset.fps):
        return clock, True
    stamps = read_stamps(stored[:, 0], dataset.fps)
    warnings.extend(stamps.warnings)
    if stamps.seconds is None:
        return clock, False
    seconds = stamps.seconds * (dataset.fps / dataset.rate_hz)
    tolerance = max(_TOLERANCE_SECONDS, float(np.spacing(np.float32(stamps.seconds.max()))))
    if np.abs(seconds - clock).max() <= tolerance:
        return clock, True
    warnings.append("timestamps are not even")
    return seconds, True


def _content_hashes(
    rows: EpisodeRows, cameras: Sequence[Camera], signal_columns: Sequence[NumericColumn]
) -> tuple[str, str]:
    """Hash of the rows without their index columns and of the videos, and the one of earlier versions or "".

    What the source says in texts is not hashed: a dataset that is labelled later, or again, holds the same recordings.
    Each is 32 hex digits. Of a video the size of each packet counts, which stays the same where packets are copied
    into another layout. The hash of earlier versions had the videos only where no signal varies.
    """
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(rows.numbers):
        if key in INDICES:
            continue
        values = rows.numbers[key]
        digest.update(f"{key}\x1f{values.dtype.str}\x1f{values.shape}\x1f".encode())
        digest.update(values.tobytes())
    if not cameras:
        return digest.hexdigest(), ""
    columns = [rows.numbers[column.key] for column in signal_columns if column.key in rows.numbers]
    signals_vary = any(bool((values != values[0]).any()) for values in columns)
    for camera in cameras:
        digest.update(f"{camera.name}\x1f{camera.media.num_frames}\x1f".encode())
        if not signals_vary:
            state = file_state_or_none(camera.media.uri)
            digest.update(f"{camera.media.start_seconds:.6f}".encode())
            digest.update(hash_media_file(camera.media.uri, state or FileState(0, "")).encode())
    earlier_hash = digest.hexdigest()
    if not signals_vary:
        return earlier_hash, ""
    for camera in cameras:
        digest.update(packet_sizes(camera).tobytes())
    return digest.hexdigest(), earlier_hash
