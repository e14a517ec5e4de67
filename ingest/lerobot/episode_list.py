"""The list of episodes of a LeRobot dataset: its rows, and what all of them say about the videos."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.formats import DATA_FILE_COLUMNS, EPISODE_LINES_PATH, EPISODES_FOLDER, video_columns
from ares.io import parse_path
from ares_ingest.lerobot.metadata import LeRobotInfo, MetadataRow, parse_count, read_json_lines, read_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def arrow_to_numbers(array: pa.Array) -> NDArray[Any]:
    """The values (N,) of an array of integers, floating point numbers or booleans; not copied where none is missing.

    With missing values integers become float64, and NaN stands for what is missing; booleans become float32. Arrays of
    other types are converted by pyarrow.
    """
    import numpy as np
    import pyarrow.types as types

    kind = array.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        converted: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return converted
    values = _stored_values(array)
    if not array.null_count:
        return values
    wide = np.float32 if types.is_boolean(kind) else values.dtype if types.is_floating(kind) else np.float64
    return np.where(_stored_values(array.is_valid()), values.astype(wide), np.array(np.nan, wide))


def list_lengths(array: Any) -> NDArray[Any]:
    """Values of each list of an Arrow list array; 0 for a missing one."""
    import numpy as np

    if not array.null_count and hasattr(array, "offsets"):
        return np.diff(
            arrow_to_numbers(array.offsets).astype(np.int64)
        )  # pyarrow.compute takes 0.1 s to import
    import pyarrow.compute as pc

    lengths: NDArray[Any] = np.nan_to_num(arrow_to_numbers(pc.list_value_length(array)), nan=0)
    return lengths


def _stored_values(array: pa.Array) -> NDArray[Any]:
    """The values as they are stored, whatever stands where one is missing."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_boolean(array.type):
        return _stored_values(array.cast(pa.uint8())).view(np.bool_)
    if array.null_count:
        array = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    return np.asarray(np.from_dlpack(array))


# Where LeRobot itself writes the list; other files beside these repeat it or replace it.
_USUAL_FILE = re.compile(r"chunk-\d+/file-\d+\.parquet$")


@dataclass(frozen=True, slots=True)
class EpisodeListSurvey:
    """What the list of episodes says as a whole.

    Attributes:
        episodes: Different episodes, and entries that cannot be read.
        frames: Sum of their lengths.
        listed: (episodes,) their numbers, sorted.
        has_repeated: Whether an episode is listed more than once.
        has_empty: Whether an episode has the length 0.
        contradicted: Per camera, the episodes whose spans overlap those of others in one video.
        locations: The different files that its entries name, as entries without other columns.
    """

    episodes: int
    frames: int
    listed: NDArray[np.int64]
    has_repeated: bool
    has_empty: bool
    contradicted: Mapping[str, frozenset[int]]
    locations: tuple[MetadataRow, ...]


def list_episode_list_files(info: LeRobotInfo) -> list[Path]:
    """The files that list the episodes: those of LeRobot's layout first, each kind sorted by name."""
    root = parse_path(info.root)
    files = sorted((root / EPISODES_FOLDER).rglob("*.parquet")) if info.shared_files else []
    files.sort(key=lambda path: not _USUAL_FILE.search(path.as_posix()))
    lines = root / EPISODE_LINES_PATH
    return [*files, lines] if lines.is_file() else files


def read_episode_list(
    info: LeRobotInfo, *, only_locations: bool = False
) -> Iterator[tuple[str, MetadataRow | SourceError]]:
    """Yield the location and the metadata of each entry, without statistics; one file at a time is in memory.

    Of several entries for an episode only the first is given.

    Args:
        info: The dataset.
        only_locations: Whether columns of a Parquet list are left out that do not say where an episode is stored.
    """
    select = _says_location if only_locations else _is_no_statistic
    seen: set[int] = set()
    for path in list_episode_list_files(info):
        for location, row in _file_rows(path, select):
            episode = None if isinstance(row, SourceError) else parse_count(row.get("episode_index"))
            if episode is not None:
                if episode in seen:
                    continue
                seen.add(episode)
            yield location, row


def _is_no_statistic(column: str) -> bool:
    return not column.startswith("stats/")


def _says_location(column: str) -> bool:
    return column in ("episode_index", "length") or column.startswith(("data/", "videos/"))


def _file_rows(path: Path, select: Callable[[str], bool]) -> Iterator[tuple[str, MetadataRow | SourceError]]:
    if path.suffix != ".parquet":
        yield from ((f"{path}, line {number}", row) for number, row in read_json_lines(path))
        return
    try:
        table = read_table(path, select)
    except SourceError as error:
        yield str(path), error
        return
    rows = (row for batch in table.to_batches(max_chunksize=4096) for row in batch.to_pylist())
    yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))


def survey_episode_list(info: LeRobotInfo, camera_keys: Sequence[str], fps: float) -> EpisodeListSurvey:
    """Read the numbers, lengths, files and video spans of all episodes.

    Args:
        info: The dataset.
        camera_keys: Keys of the cameras with videos.
        fps: Frames per second.
    """
    import numpy as np

    spans = {key: video_columns(key)[:3] for key in camera_keys} if info.shared_files else {}
    span_columns = [name for names in spans.values() for name in names]
    columns = ("episode_index", "length", *span_columns, *DATA_FILE_COLUMNS)
    files = [_file_numbers(path, columns) for path in list_episode_list_files(info)]
    numbers = np.concatenate([*files, np.empty((0, len(columns)))])
    is_valid = (numbers[:, 0] >= 0) & (numbers[:, 0] < 2**53) & (numbers[:, 0] == np.floor(numbers[:, 0]))
    listed, first_rows = np.unique(numbers[is_valid, 0], return_index=True)
    valid = numbers[is_valid][first_rows]
    lengths = np.nan_to_num(valid[:, 1], nan=0, posinf=0, neginf=0)
    broken = int((~is_valid).sum())
    return EpisodeListSurvey(
        episodes=len(listed) + broken,
        frames=int(lengths.clip(0, 2**53).sum()),
        listed=listed.astype(np.int64),
        has_repeated=bool(is_valid.sum() > len(listed)),
        has_empty=bool((valid[:, 1] == 0).any()),
        contradicted={
            key: _overlapping_episodes(
                valid[:, 0], lengths / fps, valid[:, 2 + 3 * number : 5 + 3 * number], fps
            )
            for number, key in enumerate(spans)
        },
        locations=tuple(_different_locations(valid, columns)),
    )


def _different_locations(entries: NDArray[np.float64], columns: Sequence[str]) -> Iterator[MetadataRow]:
    """The different files that (N, columns) numbers of entries name, without what is missing."""
    import numpy as np

    locations = [
        number for number, name in enumerate(columns) if name.endswith(("/chunk_index", "/file_index"))
    ]
    rows = np.nan_to_num(entries[:, locations], nan=-1, posinf=-1, neginf=-1)
    # Entries of one file follow each other in most lists: few are left to compare.
    is_new = np.any(np.diff(rows, axis=0, prepend=-2) != 0, axis=1)
    for row in np.unique(rows[is_new], axis=0).tolist():
        yield {columns[number]: value for number, value in zip(locations, row, strict=True) if value >= 0}


def _file_numbers(path: Path, columns: Sequence[str]) -> NDArray[np.float64]:
    """(entries, columns) numbers of a file; NaN for what is missing, and one such row for a file that is damaged."""
    import numpy as np

    if path.suffix != ".parquet":
        entries = [
            [np.nan, np.nan]
            if isinstance(row, SourceError)
            else [_count_or_nan(row.get(name)) for name in columns[:2]]
            for _, row in read_json_lines(path)
        ]
        lines = np.full((len(entries), len(columns)), np.nan)
        lines[:, :2] = np.array(entries, np.float64).reshape(-1, 2)
        return lines
    try:
        table = read_table(path, set(columns).__contains__)
    except SourceError:
        return np.full((1, len(columns)), np.nan)
    return np.stack([_column_numbers(table, name) for name in columns], axis=1)


def _count_or_nan(value: object) -> float:
    count = parse_count(value)
    return float("nan") if count is None else float(count)


def _column_numbers(table: pa.Table, name: str) -> NDArray[Any]:
    """(rows,) float64; NaN where the column is missing or holds no number."""
    import numpy as np
    import pyarrow.types as types

    if name in table.column_names:
        kind = table.schema.field(name).type
        if types.is_integer(kind) or types.is_floating(kind):
            parts = [arrow_to_numbers(part) for part in table.column(name).chunks]
            return np.concatenate([np.empty(0), *parts])
    return np.full(table.num_rows, np.nan)


def _overlapping_episodes(
    episodes: NDArray[np.float64], seconds: NDArray[np.float64], spans: NDArray[np.float64], fps: float
) -> frozenset[int]:
    """The episodes whose spans overlap another one in the same video.

    Args:
        episodes: (N,) numbers.
        seconds: (N,) durations.
        spans: (N, 3) chunk and number of the video, and the second in it at which the episode begins.
        fps: Frames per second; spans that share less than half a frame do not overlap.
    """
    import numpy as np

    known = np.isfinite(spans[:, :2]).all(axis=1)
    episodes, seconds, spans = episodes[known], seconds[known], spans[known]
    starts = np.nan_to_num(spans[:, 2]).clip(-1e9, 1e9)
    order = np.lexsort((starts, spans[:, 1], spans[:, 0]))
    start, stop = starts[order], (starts + seconds.clip(0, 1e9))[order]
    same_file = (np.diff(spans[order, :2], axis=0) == 0).all(axis=1)
    # The end of every file is moved past that of the file before, so that one running maximum serves for all.
    shift = np.cumsum(np.concatenate([[0], ~same_file])[: len(order)]) * 4e9
    last_stop = np.maximum.accumulate(stop + shift)
    owner = np.maximum.accumulate(np.where(stop + shift == last_stop, np.arange(len(order)), 0))
    clash = np.flatnonzero(same_file & ((start + shift)[1:] < last_stop[:-1] - 0.5 / fps))
    has_clash = np.zeros(len(order), bool)
    has_clash[owner[clash]] = has_clash[clash + 1] = True
    return frozenset(episodes[order][has_clash].astype(np.int64).tolist())
