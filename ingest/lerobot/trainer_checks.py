"""Checks what a trainer reads beside the signals: statistics, modality, totals, indices, tasks and splits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ares.checks import (
    INDEX_GAP,
    MODALITY_KEY,
    STALE_STATISTICS,
    UNKNOWN_TASK,
    WRONG_SPLIT,
    WRONG_TOTAL,
    CheckCode,
    QualityFinding,
)
from ares.errors import SourceError
from ares.formats import EPISODE_STATS_PATH, INDEX_DTYPES, INFO_PATH, META_FOLDER, MODALITY_PATH, STATS_PATH
from ares.input import check_parquet_read, open_parquet
from ares.io import parse_path
from ares_ingest.base import SourceFinding
from ares_ingest.lerobot.episode_list import list_episode_list_files, read_episode_list
from ares_ingest.lerobot.metadata import (
    parse_count,
    read_json_lines,
    read_optional_json,
    read_table,
    read_task_texts,
)
from ares_ingest.lerobot.modality import find_wrong_modality_parts
from ares_ingest.lerobot.rows import decode_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.lerobot.episode import LeRobotDataset

# Statistics agree within this share of the deviation or of the range of the rows.
_TOLERANCE = 0.02
# Episodes whose statistics are compared, spread over the dataset.
_MOST_EPISODES = 512
_TASK_COLUMN = "task_index"


@dataclass(slots=True)
class Moments:
    """Count, mean, sum of squared differences from it, least and largest value of (T, D) rows."""

    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of_rows(cls, rows: NDArray[np.float64]) -> Moments:
        """The moments of (T, D) rows."""
        mean = rows.mean(axis=0)
        return cls(len(rows), mean, ((rows - mean) ** 2).sum(axis=0), rows.min(axis=0), rows.max(axis=0))

    def add(self, other: Moments) -> None:
        """Take further rows of the same width in (Chan, Golub and LeVeque, 1979)."""
        import numpy as np

        count, apart = self.count + other.count, other.mean - self.mean
        self.squares = self.squares + other.squares + apart**2 * self.count * other.count / count
        self.mean = self.mean + apart * other.count / count
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.count = count

    def value(self, name: str) -> NDArray[np.float64]:
        """(D,) mean, std, min or max."""
        import numpy as np

        values = {"mean": self.mean, "min": self.low, "max": self.high}
        return values[name] if name in values else np.sqrt(self.squares / self.count)


@dataclass(slots=True, kw_only=True)
class RowFacts:
    """What the rows of all data files say.

    Attributes:
        moments: Of each column of numbers.
        index_spans: First and last `index` of each run of rows in which it rises by one.
        episodes: First `index` and number of rows of each episode.
        frame_gaps: Episodes whose frame_index does not rise by one from 0.
        tasks: Numbers of tasks of each episode.
        episode_moments: Moments of each episode whose statistics are compared, which may lie in several row groups.
        stale: Columns and statistics of an episode that are not those of its rows.
    """

    moments: dict[str, Moments] = field(default_factory=dict)
    index_spans: list[tuple[int, int]] = field(default_factory=list)
    episodes: dict[int, tuple[int, int]] = field(default_factory=dict)
    frame_gaps: dict[int, None] = field(default_factory=dict)
    tasks: dict[int, set[int]] = field(default_factory=dict)
    episode_moments: dict[int, dict[str, Moments]] = field(default_factory=dict)
    stale: dict[int, list[str]] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Rows of all episodes."""
        return sum(count for _, count in self.episodes.values())


def check_trainer_metadata(dataset: LeRobotDataset) -> Iterator[SourceFinding]:
    """Findings of a dataset, and of single episodes, in what a trainer reads beside the signals.

    Data files that cannot be read are left out: their episodes fail.
    """
    facts, features = RowFacts(), dataset.info.features
    episode_statistics = _read_episode_statistics(dataset)
    for columns in _read_columns(dataset):
        _add_rows(facts, columns, episode_statistics.keys())
    for number, moments in facts.episode_moments.items():
        if stale := _stale_parts(episode_statistics[number], moments):
            facts.stale[number] = stale
    yield from _check_modality(dataset)
    yield from _check_splits(dataset)
    if not facts.episodes:
        return
    numeric = {key for key in facts.moments if key in features}
    yield from _check_statistics(dataset, facts, numeric)
    yield from _check_totals(dataset, facts)
    yield from _check_indices(dataset, facts)
    yield from _check_tasks(dataset, facts)


def _make_finding(
    dataset: LeRobotDataset,
    check: CheckCode,
    path: str,
    dimension: str,
    size: float,
    episode: int | None = None,
) -> SourceFinding:
    """A finding of the whole dataset, or of one of its episodes."""
    finding = QualityFinding(
        code=check.code,
        signal="dataset",
        dimension=dimension,
        seconds=0.0,
        size=round(size, 6),
        confidence=1.0,
    )
    key = "" if episode is None else str(episode)
    return SourceFinding(
        finding=finding,
        location=f"{dataset.info.root}/{path}" + (f": episode {key}" if key else ""),
        episode_id=dataset.identity(key) if key else "",
        key=key,
    )


def _read_columns(dataset: LeRobotDataset) -> Iterator[dict[str, NDArray[Any]]]:
    """(T, D) of each column of numbers of each row group; unequally wide and nested ones are left out."""
    import pyarrow as pa

    for path in dataset.info.data_files():
        try:
            with open_parquet(path) as file:
                names = [
                    name
                    for name in file.schema_arrow.names
                    if _is_numeric(file.schema_arrow.field(name).type)
                ]
                for group in range(file.metadata.num_row_groups):
                    check_parquet_read(file, [group], names, path)
                    table = file.read_row_group(group, names)
                    decoded = decode_table(table)
                    rows = {name: column.rows(0, len(table)) for name, column in decoded.items()}
                    yield {name: part for name, part in rows.items() if part is not None and part.size}
        except (pa.ArrowException, OSError, SourceError):
            continue


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _add_rows(facts: RowFacts, columns: Mapping[str, NDArray[Any]], compared: Collection[int]) -> None:
    """Take the rows of a row group in, episode by episode; of some the moments are kept."""
    import numpy as np

    numbers = columns.get("episode_index")
    if numbers is None or numbers.shape[1] != 1 or numbers.dtype.kind not in "iu":
        return
    for name, rows in columns.items():
        _add_moments(facts.moments, name, rows.astype(np.float64))
    flat = numbers[:, 0]
    bounds = [0, *(np.flatnonzero(np.diff(flat)) + 1).tolist(), len(flat)]
    for start, stop in pairwise(bounds):
        part = {name: rows[start:stop] for name, rows in columns.items()}
        _add_episode(facts, int(flat[start]), part)
        if int(flat[start]) in compared:
            moments = facts.episode_moments.setdefault(int(flat[start]), {})
            for name, rows in part.items():
                _add_moments(moments, name, rows.astype(np.float64))
    if "index" in columns:
        index = columns["index"][:, 0].astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), len(index)]
        facts.index_spans += [(int(index[start]), int(index[stop - 1])) for start, stop in pairwise(cuts)]


def _add_moments(moments: dict[str, Moments], name: str, rows: NDArray[np.float64]) -> None:
    added = Moments.of_rows(rows)
    if name not in moments:
        moments[name] = added
    elif moments[name].mean.shape == added.mean.shape:
        moments[name].add(added)


def _add_episode(facts: RowFacts, episode: int, part: Mapping[str, NDArray[Any]]) -> None:
    import numpy as np

    count = len(part["episode_index"])
    first, before = facts.episodes.get(episode, (int(part["index"][0, 0]) if "index" in part else -1, 0))
    facts.episodes[episode] = (first, before + count)
    frames = part.get("frame_index")
    if frames is not None and (frames[:, 0] != np.arange(before, before + count)).any():
        facts.frame_gaps[episode] = None
    if _TASK_COLUMN in part:
        facts.tasks.setdefault(episode, set()).update(part[_TASK_COLUMN][:, 0].astype(int).tolist())


def _read_episode_statistics(dataset: LeRobotDataset) -> dict[int, Mapping[str, Any]]:
    """Statistics of single episodes by number: of v2.1 from JSON lines, of v3.0 from the list of episodes."""
    stride = max(1, -(-dataset.total // _MOST_EPISODES))
    statistics_by_episode: dict[int, Mapping[str, Any]] = {}
    for number, statistics in _list_episode_statistics(dataset, stride):
        if statistics:
            statistics_by_episode[number] = statistics
    return statistics_by_episode


def _list_episode_statistics(dataset: LeRobotDataset, stride: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Statistics of the episodes whose numbers are multiples of a stride."""
    root = parse_path(dataset.info.root)
    for _, row in read_json_lines(root / EPISODE_STATS_PATH):
        if not isinstance(row, SourceError) and isinstance(row.get("stats"), Mapping):
            number = parse_count(row.get("episode_index"))
            if number is not None and number % stride == 0:
                yield number, row["stats"]
    for path in list_episode_list_files(dataset.info):
        if path.suffix != ".parquet":
            continue
        try:
            table = read_table(path, lambda name: name == "episode_index" or name.startswith("stats/"))
        except SourceError:
            continue
        if "episode_index" not in table.column_names:
            continue
        numbers = map(parse_count, table.column("episode_index").to_pylist())
        for index, number in enumerate(numbers):
            if number is not None and number % stride == 0:
                yield number, _nested_statistics(table.slice(index, 1).to_pylist()[0])


def _nested_statistics(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The columns "stats/KEY/NAME" of a row as an object by key and name."""
    nested: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        if column.startswith("stats/") and value is not None:
            key, _, name = column.removeprefix("stats/").rpartition("/")
            nested.setdefault(key, {})[name] = value
    return nested


def _stale_parts(statistics: Mapping[str, Any], moments: Mapping[str, Moments]) -> list[str]:
    """Columns, and which of their statistics, that are not those of the rows: "action mean"."""
    return [
        f"{key} {name}"
        for key, of_rows in moments.items()
        if isinstance(statistics.get(key), Mapping)
        for name in ("min", "max", "mean", "std")
        if name in statistics[key] and not _statistics_agree(statistics[key][name], of_rows, name)
    ]


def _statistics_agree(stored: Any, of_rows: Moments, name: str) -> bool:
    """Whether stored statistics are those of rows; rows that are not finite are left to other checks."""
    import numpy as np

    right = of_rows.value(name)
    try:
        values = np.asarray(stored, np.float64).reshape(-1)
    except (TypeError, ValueError):
        return False
    if values.shape != right.shape:
        return False
    scale = of_rows.value("std") if name in ("mean", "std") else of_rows.high - of_rows.low
    allowed = _TOLERANCE * scale + 1e-4 * np.maximum(np.abs(right), 1e-3)
    is_known = np.isfinite(right) & np.isfinite(scale)
    return bool((np.abs(values - right) <= allowed)[is_known].all())


def _check_statistics(dataset: LeRobotDataset, facts: RowFacts, numeric: set[str]) -> Iterator[SourceFinding]:
    try:
        document = read_optional_json(parse_path(dataset.info.root) / STATS_PATH)
    except SourceError:
        document = None  # the ingestion reports it
    moments = {key: facts.moments[key] for key in sorted(numeric)}
    for part in _stale_parts(document, moments) if document else ():
        yield _make_finding(dataset, _code_of_part(part), STATS_PATH, part, len(facts.episodes))
    path = META_FOLDER if dataset.info.shared_files else EPISODE_STATS_PATH
    for episode, parts in facts.stale.items():
        for part in parts:
            yield _make_finding(dataset, _code_of_part(part), path, part, 1, episode)


def _code_of_part(part: str) -> CheckCode:
    """The code of a statistic; no trainer normalises the numbers of rows, whose statistics tools leave as they were."""
    return WRONG_TOTAL if part.split(" ")[0] in INDEX_DTYPES else STALE_STATISTICS


def _check_modality(dataset: LeRobotDataset) -> Iterator[SourceFinding]:
    try:
        modality = read_optional_json(parse_path(dataset.info.root) / MODALITY_PATH)
    except SourceError:
        return
    widths = {key: parse_count(_width_of(feature)) for key, feature in dataset.info.features.items()}
    for part, size in find_wrong_modality_parts(modality or {}, widths):
        yield _make_finding(dataset, MODALITY_KEY, MODALITY_PATH, part, size)


def _width_of(feature: Mapping[str, Any]) -> object:
    shape = feature.get("shape")
    return shape[0] if isinstance(shape, list) and len(shape) == 1 else None


def _check_splits(dataset: LeRobotDataset) -> Iterator[SourceFinding]:
    """Splits that name episodes which are not there, or that share episodes."""
    for name, start, stop in dataset.splits:
        if stop > dataset.total or start >= stop:
            size = max(stop - dataset.total, 1)
            yield _make_finding(dataset, WRONG_SPLIT, INFO_PATH, name, size)
    ordered = sorted(dataset.splits, key=lambda split: split[1:])
    for (_, _, stop), (name, start, end) in pairwise(ordered):
        if start < stop:
            yield _make_finding(dataset, WRONG_SPLIT, INFO_PATH, name, min(stop, end) - start)


def _check_totals(dataset: LeRobotDataset, facts: RowFacts) -> Iterator[SourceFinding]:
    totals = {
        "total_episodes": dataset.total,
        "total_frames": facts.num_rows,
        "total_tasks": len(read_task_texts(dataset.info.root)),
    }
    for name, right in totals.items():
        declared = dataset.info.count(name)
        if declared not in (None, right):
            yield _make_finding(dataset, WRONG_TOTAL, INFO_PATH, name, abs((declared or 0) - right))


def _check_indices(dataset: LeRobotDataset, facts: RowFacts) -> Iterator[SourceFinding]:
    """Gaps and repeats of `index`, `episode_index` and `frame_index`, and ranges of rows that are not those of rows."""
    path = "data"
    spans = sorted(facts.index_spans)
    ends = [-1, *(stop for _, stop in spans)]
    broken = sum(start != end + 1 for (start, _), end in zip(spans, ends, strict=False))
    if broken:
        yield _make_finding(dataset, INDEX_GAP, path, "index", broken)
    missing = (
        len(set(range(max(facts.episodes) + 1)) - set(facts.episodes)) if max(facts.episodes) < 10**7 else 1
    )
    if missing:
        yield _make_finding(dataset, INDEX_GAP, path, "episode_index", missing)
    for episode in facts.frame_gaps:
        yield _make_finding(dataset, INDEX_GAP, path, "frame_index", 1, episode)
    for _, row in read_episode_list(dataset.info):
        if isinstance(row, SourceError) or (number := parse_count(row.get("episode_index"))) is None:
            continue
        start, stop = (parse_count(row.get(f"dataset_{end}_index")) for end in ("from", "to"))
        first, count = facts.episodes.get(number, (-1, 0))
        if start is not None and stop is not None and first >= 0 and (start, stop) != (first, first + count):
            yield _make_finding(
                dataset, INDEX_GAP, META_FOLDER, "dataset_from_index", abs(start - first) or 1, number
            )


def _check_tasks(dataset: LeRobotDataset, facts: RowFacts) -> Iterator[SourceFinding]:
    known = set(read_task_texts(dataset.info.root))
    for episode, tasks in facts.tasks.items():
        unknown = tasks - known
        if unknown and known:
            yield _make_finding(dataset, UNKNOWN_TASK, "data", _TASK_COLUMN, len(unknown), episode)
    if not known and facts.tasks:
        yield _make_finding(dataset, UNKNOWN_TASK, META_FOLDER, "tasks", len(facts.tasks))
