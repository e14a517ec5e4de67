"""Appends a set to an export: its files stay as they are, new episodes get the next numbers, statistics are of all.

The episodes are exported into a folder of their own. Then a third folder gets links to the files of both, the rows of
the new episodes with their numbers moved on, and the documents over all; it changes places with the export in one step.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ares.curation import Sets
from ares.episode import Episode, Span, Trajectory
from ares.errors import RequestError, StoreError, is_disk_full
from ares.export.base import (
    ANSWERS_FILE,
    EPISODES_FILE,
    FAILURES_FILE,
    MANIFEST_FILE,
    PLAN_FILE,
    TIMES_FILE,
    ExportFailures,
    ExportReport,
    ExportRequest,
)
from ares.export.dataset_card import write_dataset_card
from ares.export.layout_groups import plan_datasets, rewrite_every_episode
from ares.export.lerobot.tables import (
    QUANTILES,
    FileNumber,
    RunningStats,
    column_stats,
    data_features,
    stats_to_lists,
    write_json,
    write_numbered_texts,
    write_subtasks,
)
from ares.export.retime import join_measured_rates
from ares.export.rlds.exporter import join_rlds
from ares.export.run import (
    ExportJoin,
    bring_back_folder,
    exchange_folders,
    export_set,
    leave_out,
    open_reader,
    refuse_other,
)
from ares.formats import (
    CHUNK_FILES,
    DATA_FILE_COLUMNS,
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    EPISODES_FILE_COLUMNS,
    INFO_PATH,
    MODALITY_PATH,
    ROW_RANGE_COLUMNS,
    SEGMENTS_PATH,
    STATS_PATH,
    SUBTASK_INDEX,
    SUBTASK_TEXT_COLUMN,
    SUBTASKS_PATH,
    TASK_LINES_PATH,
    TASK_TEXT_COLUMN,
    TASKS_PATH,
    V2_DATA_PATH,
    V2_VIDEO_PATH,
    V3_DATA_PATH,
    V3_EPISODES_PATH,
    V3_VIDEO_PATH,
    camera_key,
    video_columns,
)
from ares.io import expanded_path

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.contract import SetConverter
    from ares.export.run import ExportReader
    from ares.store import Stores


_INDEX, _EPISODE_INDEX, _TASK_INDEX = "index", "episode_index", "task_index"
_Document = dict[str, Any]


class _SkipConverter:
    """The conversion of a set, but for episodes that the export has: they are left out with this reason."""

    def __init__(self, conversion: Any, present: frozenset[str]) -> None:
        self._conversion, self._present = conversion, present

    def apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory] | None:
        """The converted episode. Raises RequestError for one that the export has."""
        if episode.episode_id in self._present:
            raise RequestError("the export has the episode already", episode.episode_id)
        return cast("tuple[Episode, Trajectory] | None", self._conversion.apply(episode, trajectory))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conversion, name)


def append_set(request: ExportRequest, stores: Stores, progress: Callable[[int], None]) -> ExportReport:
    """Append a set to an export; the report is of what was appended.

    Args:
        request: The set, the export as destination, its format, and what else a user chose.
        stores: Stores of the workspace.
        progress: Called with a number of episodes whenever some are finished.

    Raises:
        RequestError: There is no export of this format, it cannot be appended to, or the set does not fit it.
        MediaError: No episode can be appended, or with `strict` one cannot.
        StoreError: The disk is full.
    """
    old = Path(expanded_path(request.destination)).resolve()
    try:
        return _append_to(old, request, stores, progress)
    except OSError as error:
        if is_disk_full(error):
            raise StoreError("the disk is full", f"{old} is as it was; run the same command again") from error
        raise


def _append_to(
    old: Path, request: ExportRequest, stores: Stores, progress: Callable[[int], None]
) -> ExportReport:
    """Append a set to the export in a folder."""
    bring_back_folder(old)
    join_folders = _find_join(request, old)
    new, both = old.with_name(f"{old.name}.append"), old.with_name(f"{old.name}.joined")
    for folder in (new, both):  # of an append that was killed after its export
        if (folder / MANIFEST_FILE).exists() or folder == both:
            shutil.rmtree(folder, ignore_errors=True)
    reader = open_reader(request, stores)
    conversion = _skip_present(request, reader, old)
    _check_layout(request, replace(reader, conversion=conversion), old)
    report = export_set(replace(request, destination=new), stores, progress, conversion)
    join = ExportJoin(old, new, both)
    try:
        both.mkdir()
        join_folders(join)
        _join_manifests(join)
        exchange_folders(both, old)
    finally:
        shutil.rmtree(both, ignore_errors=True)
        shutil.rmtree(new, ignore_errors=True)
    return replace(report, path=request.destination)


def _find_join(request: ExportRequest, old: Path) -> Callable[[ExportJoin], None]:
    """What joins exports of a format. Raises RequestError where the destination is none of it."""
    formats = {
        "lerobot": ("lerobot v3.0", _join_v3),
        "lerobot-v2.1": ("lerobot v2.1", _join_v21),
        "rlds": ("rlds tfrecord", join_rlds),
    }
    if request.format not in formats:
        why = f"{request.format} has one file for all episodes: export the whole set anew"
        raise RequestError("the format cannot be appended to", why)
    if not (old / MANIFEST_FILE).is_file():
        raise RequestError("there is no export to append to", f"{old}; leave out --append to write one")
    manifest = json.loads((old / MANIFEST_FILE).read_text(encoding="utf-8"))
    name, join = formats[request.format]
    if manifest.get("format") != name:
        raise RequestError("the export has another format", f"{manifest.get('format')}, not {name}")
    if "card" not in manifest:
        raise RequestError("the export is of an earlier ARES", f"{old}: export the whole set anew")
    folders = [dataset["path"] for dataset in manifest["counts"]["datasets"]]
    if len(folders) != 1:
        raise RequestError("the export has several datasets, and one is appended to", ", ".join(folders))
    return join


def _skip_present(request: ExportRequest, reader: ExportReader, old: Path) -> SetConverter:
    """The conversion of the set without what the export has. Raises RequestError for a span that it has."""
    lines = [json.loads(line) for line in (old / EPISODES_FILE).read_text(encoding="utf-8").splitlines()]
    spans = {
        (line["episode_id"], line["start_seconds"], line["stop_seconds"])
        for line in lines
        if "start_seconds" in line
    }
    present = {line["episode_id"] for line in lines if "start_seconds" not in line}
    if request.set.num_spans is None:
        present |= {line["episode_id"] for line in lines}
    else:
        members = map(Span.parse, Sets(reader.stores.annotations).members(request.set))
        for span in members:
            if (span.episode_id, span.start_seconds, span.stop_seconds) in spans:
                raise RequestError("the export has the span already", f"{span}; make a set without it")
    return cast("SetConverter", _SkipConverter(reader.conversion, frozenset(present)))


def _check_layout(request: ExportRequest, reader: ExportReader, old: Path) -> None:
    """Refuse a set whose signals, cameras or rate are not those of a LeRobot export, before anything is written."""
    if not (old / INFO_PATH).is_file():
        return
    info = json.loads((old / INFO_PATH).read_text(encoding="utf-8"))
    scratch = old.with_name(f"{old.name}.checked")
    scratch.mkdir(exist_ok=True)
    try:
        failures = ExportFailures(scratch, request.strict)
        clock = join_measured_rates(request.clock, reader)
        groups = plan_datasets(reader, failures, clock, rewrite_every_episode, None).groups
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if len(groups) > 1:
        raise RequestError(
            "the episodes have several layouts", "; ".join(str(group.layout) for group in groups)
        )
    features = {name: _shape_of(feature) for name, feature in data_features(groups[0]).items()}
    sizes = {name: (height, width) for name, width, height in groups[0].layout.cameras}
    features |= {camera_key(name): ("video", [*sizes[name], 3]) for name in groups[0].cameras}
    own = {name: _shape_of(feature) for name, feature in info["features"].items()}
    derived = {
        name for name, feature in info["features"].items() if name not in features and _is_derived(feature)
    }
    refuse_other({**features, "fps": groups[0].rate_hz}, {**leave_out(own, derived), "fps": info["fps"]})


def _shape_of(feature: Mapping[str, Any]) -> tuple[Any, ...]:
    """What has to be equal of a feature."""
    if feature["dtype"] == "video":
        return ("video", list(feature["shape"]))
    return (feature["dtype"], list(feature["shape"]), feature.get("names"))


def _is_derived(feature: Mapping[str, Any]) -> bool:
    """Whether a feature is there for texts or depth, which the layout of a set does not tell."""
    is_depth = feature["dtype"] == "video" and feature["shape"][-1] == 1
    return is_depth or feature["dtype"] not in ("video", "float32")


@dataclass(frozen=True, slots=True)
class _Moves:
    """By how much the numbers of appended LeRobot episodes move, and the new numbers of their tasks and subtasks."""

    episodes: int
    frames: int
    tasks: list[int]
    subtasks: list[int]

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows of a data file with their numbers in the whole."""
        import pyarrow as pa

        maps = {_TASK_INDEX: self.tasks, SUBTASK_INDEX: self.subtasks}
        for name in (_INDEX, _EPISODE_INDEX, *maps):
            if name in table.column_names:
                values = table[name].to_pylist()
                first = self.frames if name == _INDEX else self.episodes
                moved = [maps[name][value] if name in maps else value + first for value in values]
                position = table.schema.get_field_index(name)
                table = table.set_column(position, table.schema.field(name), pa.array(moved, pa.int64()))
        return table

    def stats(self, table: pa.Table) -> dict[str, Mapping[str, Any]]:
        """Statistics of the numbers of one episode."""
        names = [
            name
            for name in (_EPISODE_INDEX, _INDEX, _TASK_INDEX, SUBTASK_INDEX)
            if name in table.column_names
        ]
        return dict(column_stats({name: table[name].to_numpy().reshape(-1, 1) for name in names}))


def _join_texts(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[int]]:
    """The texts of both, each once, and the numbers of the new ones among them."""
    numbers = {text: number for number, text in enumerate(old)}
    new_numbers = [numbers.setdefault(text, len(numbers)) for text in new]
    return list(numbers), new_numbers


def _join_infos(join: ExportJoin) -> tuple[_Document, _Document]:
    """info.json of the export and of what is appended. Raises RequestError where their features differ."""
    old, new = join.read(INFO_PATH)
    own = {name: _shape_of(feature) for name, feature in old["features"].items()}
    refuse_other({name: _shape_of(feature) for name, feature in new["features"].items()}, own)
    return old, new


def _join_info(join: ExportJoin, old: _Document, new: _Document, tasks: int) -> None:
    """Write info.json over all episodes."""
    info = {**old, "total_tasks": tasks}
    for name in ("total_episodes", "total_frames", "total_videos"):
        if name in old:
            info[name] = old[name] + new[name]
    if "total_chunks" in old:
        info["total_chunks"] = -(-info["total_episodes"] // CHUNK_FILES)
    info["robot_type"] = old["robot_type"] if old["robot_type"] == new["robot_type"] else None
    info["splits"] = {"train": f"0:{info['total_episodes']}"}
    write_json(join.both / INFO_PATH, info)


def _read_texts(path: Path, column: str) -> list[str]:
    """The texts of a Parquet file in the order of their numbers; [] where there is none."""
    import pyarrow.parquet as pq

    return cast("list[str]", pq.read_table(path)[column].to_pylist()) if path.exists() else []


def _join_segments(join: ExportJoin, episodes: int) -> None:
    """Write the list of segments over all episodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pq.read_table(folder / SEGMENTS_PATH)
        for folder in (join.old, join.new)
        if (folder / SEGMENTS_PATH).exists()
    ]
    if (join.new / SEGMENTS_PATH).exists():
        tables[-1] = _Moves(episodes, 0, [], []).apply(tables[-1])
    if tables:
        pq.write_table(pa.concat_tables(tables), join.both / SEGMENTS_PATH)


def _files_of(folder: Path, template: str, video_key: str = "") -> list[FileNumber]:
    """The numbers of the files of a v3.0 dataset, in order."""
    numbers, number = [], FileNumber()
    while (folder / _v3_name(template, number, video_key)).exists():
        numbers.append(number)
        number = number.next()
    return numbers


def _v3_name(template: str, number: FileNumber, video_key: str = "") -> str:
    return template.format(chunk_index=number.chunk, file_index=number.file, video_key=video_key)


def _number_files(join: ExportJoin, template: str, video_key: str = "") -> dict[FileNumber, FileNumber]:
    """Link the files of the export; returns the number in the whole of each file that is appended."""
    old, new = (_files_of(folder, template, video_key) for folder in (join.old, join.new))
    for number in old:
        name = _v3_name(template, number, video_key)
        join.link(join.old / name, name)
    moved_files, target = {}, old[-1].next() if old else FileNumber()
    for number in new:
        moved_files[number], target = target, target.next()
    return moved_files


def _join_v3(join: ExportJoin) -> None:
    old, new = _join_infos(join)
    tasks, task_numbers = _join_texts(
        *(_read_texts(folder / TASKS_PATH, TASK_TEXT_COLUMN) for folder in (join.old, join.new))
    )
    subtasks, subtask_numbers = _join_texts(
        *(_read_texts(folder / SUBTASKS_PATH, SUBTASK_TEXT_COLUMN) for folder in (join.old, join.new))
    )
    moves = _Moves(old["total_episodes"], old["total_frames"], task_numbers, subtask_numbers)
    (join.both / "meta").mkdir()
    episode_stats = _join_v3_data(join, moves, moved_files := _number_files(join, V3_DATA_PATH))
    files_by_key = {"data": moved_files}
    for key in (name for name, feature in old["features"].items() if feature["dtype"] == "video"):
        files_by_key[key] = _number_files(join, V3_VIDEO_PATH, key)
        for number, target in files_by_key[key].items():
            join.link(join.new / _v3_name(V3_VIDEO_PATH, number, key), _v3_name(V3_VIDEO_PATH, target, key))
    _join_v3_episodes(join, moves, files_by_key, episode_stats)
    write_numbered_texts(join.both / TASKS_PATH, tasks, TASK_TEXT_COLUMN)
    if subtasks:
        write_subtasks(join.both, subtasks)
    _join_segments(join, moves.episodes)
    _join_info(join, old, new, len(tasks))


def _join_v3_data(
    join: ExportJoin, moves: _Moves, moved_files: Mapping[FileNumber, FileNumber]
) -> list[dict[str, Mapping[str, Any]]]:
    """Write the data of the appended episodes; returns the statistics of the numbers of each."""
    import pyarrow.parquet as pq

    stats = []
    for number, target in moved_files.items():
        file = pq.ParquetFile(join.new / _v3_name(V3_DATA_PATH, number))
        path = join.both / _v3_name(V3_DATA_PATH, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, file.schema_arrow, compression="snappy", use_dictionary=True) as writer:
            for group in range(file.num_row_groups):  # each is an episode
                table = moves.apply(file.read_row_group(group))
                stats.append(moves.stats(table))
                writer.write_table(table, row_group_size=max(table.num_rows, 1))
    return stats


def _join_v3_episodes(
    join: ExportJoin,
    moves: _Moves,
    files_by_key: Mapping[str, Mapping[FileNumber, FileNumber]],
    episode_stats: Sequence[dict[str, Mapping[str, Any]]],
) -> None:
    """Write the list of the appended episodes, and the statistics over all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    moved_files = _number_files(join, V3_EPISODES_PATH)
    schema = pq.read_schema(join.old / _v3_name(V3_EPISODES_PATH, FileNumber()))
    document = json.loads((join.old / STATS_PATH).read_text(encoding="utf-8"))
    running = {name: RunningStats() for name in document}
    for name, stats in running.items():
        stats.add(_to_arrays(document[name]))
    numbers = iter(episode_stats)
    for number, target in moved_files.items():
        rows = pq.read_table(join.new / _v3_name(V3_EPISODES_PATH, number)).to_pylist()
        for row in rows:
            _move_row(row, moves, files_by_key, target)
            for name, values in next(numbers).items():
                row |= {f"stats/{name}/{stat}": value for stat, value in stats_to_lists(values).items()}
            for name, stats in running.items():
                stats.add(_to_arrays({stat: row[f"stats/{name}/{stat}"] for stat in document[name]}))
        path = join.both / _v3_name(V3_EPISODES_PATH, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="snappy")
    write_json(
        join.both / STATS_PATH, {name: stats_to_lists(stats.stats()) for name, stats in running.items()}
    )


def _to_arrays(stats: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {name: np.array(value) for name, value in stats.items()}


def _move_row(
    row: _Document,
    moves: _Moves,
    files_by_key: Mapping[str, Mapping[FileNumber, FileNumber]],
    target: FileNumber,
) -> None:
    """Give the row of an episode its numbers in the whole."""
    row[_EPISODE_INDEX] += moves.episodes
    for name in ROW_RANGE_COLUMNS:
        row[name] += moves.frames
    row |= dict(zip(EPISODES_FILE_COLUMNS, target, strict=True))
    for key, moved_files in files_by_key.items():
        columns = DATA_FILE_COLUMNS if key == "data" else video_columns(key)[:2]
        number = FileNumber(*(row[name] for name in columns))
        row |= dict(zip(columns, moved_files[number], strict=True))


def _join_v21(join: ExportJoin) -> None:
    import pyarrow.parquet as pq

    old, new = _join_infos(join)
    lines = {
        name: _read_both_lines(join, name)
        for name in (TASK_LINES_PATH, EPISODE_LINES_PATH, EPISODE_STATS_PATH)
    }
    tasks, numbers = _join_texts(*([line["task"] for line in part] for part in lines[TASK_LINES_PATH]))
    moves = _Moves(old["total_episodes"], old["total_frames"], numbers, [])
    _link_episodes(join.old, join, old, 0)
    _link_episodes(join.new, join, new, moves.episodes)
    stats = []
    for number in range(new["total_episodes"]):
        table = pq.read_table(join.new / _v21_name(V2_DATA_PATH, number))
        table = moves.apply(table)
        path = join.both / _v21_name(V2_DATA_PATH, number + moves.episodes)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        stats.append(moves.stats(table))
    (join.both / "meta").mkdir(exist_ok=True)
    for line in (*lines[EPISODE_LINES_PATH][1], *lines[EPISODE_STATS_PATH][1]):
        line[_EPISODE_INDEX] += moves.episodes
    for line, own in zip(lines[EPISODE_STATS_PATH][1], stats, strict=True):
        for name, values in own.items():
            line["stats"][name] = leave_out(stats_to_lists(values), set(QUANTILES))
    for name in (EPISODE_LINES_PATH, EPISODE_STATS_PATH):
        join.write_lines(
            name, [json.dumps(line, ensure_ascii=False) for part in lines[name] for line in part]
        )
    documents = [{_TASK_INDEX: number, "task": task} for number, task in enumerate(tasks)]
    join.write_lines(TASK_LINES_PATH, [json.dumps(line, ensure_ascii=False) for line in documents])
    join.link(join.old / MODALITY_PATH, MODALITY_PATH)
    _join_segments(join, moves.episodes)
    _join_info(join, old, new, len(tasks))


def _read_both_lines(join: ExportJoin, name: str) -> tuple[list[_Document], list[_Document]]:
    """The lines of a file of the export and of what is appended."""
    old, new = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        for path in (join.old / name, join.new / name)
    )
    return old, new


def _v21_name(template: str, number: int, video_key: str = "") -> str:
    return template.format(episode_chunk=number // CHUNK_FILES, episode_index=number, video_key=video_key)


def _link_episodes(folder: Path, join: ExportJoin, info: _Document, first: int) -> None:
    """Link the files of the episodes of a v2.1 dataset by their numbers in the whole; data of the export alone."""
    keys = [name for name, feature in info["features"].items() if feature["dtype"] == "video"]
    for number in range(info["total_episodes"]):
        for key in keys:
            join.link(
                folder / _v21_name(V2_VIDEO_PATH, number, key), _v21_name(V2_VIDEO_PATH, number + first, key)
            )
        if folder == join.old:
            name = _v21_name(V2_DATA_PATH, number)
            join.link(folder / name, name)


def _join_manifests(join: ExportJoin) -> None:
    """Write the documents about both, the manifest last: it has the set and the counts of each part."""
    (old_plan, new_plan) = (
        path.read_text(encoding="utf-8") if path.exists() else ""
        for path in (join.old / PLAN_FILE, join.new / PLAN_FILE)
    )
    if old_plan != new_plan:
        raise RequestError("the export has another plan", f"{join.old / PLAN_FILE}; export by the same one")
    join.write_lines(PLAN_FILE, old_plan.splitlines())
    old_lines, new_lines = _read_both_lines(join, EPISODES_FILE)
    for line in new_lines:
        line["index"] += len(old_lines)
    texts = [
        json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for line in new_lines
    ]
    texts = (join.old / EPISODES_FILE).read_text(encoding="utf-8").splitlines() + texts
    join.write_lines(EPISODES_FILE, texts)
    for name in (FAILURES_FILE, ANSWERS_FILE):
        paths = [folder / name for folder in (join.old, join.new) if (folder / name).exists()]
        join.write_lines(
            name, [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        )
    old_times, new_times = join.read(TIMES_FILE)
    write_json(join.both / TIMES_FILE, {**old_times, "appended": [*old_times.get("appended", []), new_times]})
    old, new = join.read(MANIFEST_FILE)
    digest = hashlib.sha256("".join(f"{line}\n" for line in texts).encode()).hexdigest()
    manifest = {**old, "counts": _add_counts(old["counts"], new["counts"])}
    manifest["episodes"] = {"file": EPISODES_FILE, "count": len(texts), "sha256": digest}
    manifest |= {name: {**old.get(name, {}), **new[name]} for name in ("makers", "judge_trust", "rubrics")}
    if manifest["counts"]["failed"]:
        manifest["failed"] = {"file": FAILURES_FILE, "count": manifest["counts"]["failed"]}
    # A certificate is of its part alone.
    names = ("set", "export", "counts", "certificate", "grade_trust")
    part = {name: new[name] for name in names if name in new}
    manifest["appended"] = [*old.get("appended", []), part]
    manifest["card"] = _add_counts(old["card"], new["card"])
    write_dataset_card(join.both, manifest)
    write_json(join.both / MANIFEST_FILE, manifest)


def _add_counts(old: _Document, new: _Document) -> _Document:
    """The counts of both: numbers are added, lists joined, and what is in one dataset stays one."""
    added = dict(old)
    for name, value in new.items():
        if name == "datasets":
            added[name] = [_add_counts(*pair) for pair in zip(old[name], value, strict=True)]
        elif isinstance(value, dict):
            added[name] = _add_counts(old.get(name, {}), value)
        elif isinstance(value, list):
            added[name] = [*old.get(name, []), *(item for item in value if item not in old.get(name, []))]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            added[name] = old.get(name, 0) + value
        else:
            added.setdefault(name, value)
    return added
