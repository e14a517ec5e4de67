"""Ways to bend a good LeRobot folder: files that lie elsewhere, spans that are wrong, metadata that lie, damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
Bend = Callable[[Path, Random], object]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
SPAN = "videos/observation.images.front/"
TEMPLATES = {
    "v2.1": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "v3.0": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
}


def read_info(folder: Path) -> dict[str, Any]:
    return {**json.loads((folder / "meta" / "info.json").read_text())}


def edit_info(folder: Path, **changes: Any) -> None:
    """Change fields; None takes one away."""
    document = {name: value for name, value in {**read_info(folder), **changes}.items() if value is not None}
    (folder / "meta" / "info.json").write_text(json.dumps(document))


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Data files or videos outside meta that hold something; LookupError where there is none."""
    paths = [path for path in sorted(folder.rglob(f"*{suffix}")) if folder / "meta" not in path.parents]
    paths = [path for path in paths if path.stat().st_size > 500]
    if not paths:
        raise LookupError(suffix)
    return paths


def move(paths: Iterable[Path], target: Callable[[Path], Path]) -> None:
    for path in paths:
        target(path).parent.mkdir(parents=True, exist_ok=True)
        path.rename(target(path))


def number_from_1(folder: Path, suffix: str) -> None:
    paths = reversed(files_of(folder, suffix))
    move(paths, lambda path: path.with_name(f"episode_{int(path.stem.rpartition('_')[2]) + 1:06d}{suffix}"))


def swap_data(folder: Path, rng: Random) -> None:
    first, second = rng.sample(files_of(folder, ".parquet"), 2)
    spare = first.rename(first.with_name("spare"))
    second.rename(first)
    spare.rename(second)


def rename_folder(folder: Path, rng: Random) -> None:
    old, new = rng.choice([("videos", "video"), ("data", "parquet")])
    (folder / old).rename(folder / new)


def flatten(folder: Path, suffix: str) -> None:
    parts = {path: path.relative_to(folder).parts for path in files_of(folder, suffix)}
    move(
        parts, lambda path: folder.joinpath(*(part for part in parts[path] if not part.startswith("chunk-")))
    )


def rename_files(folder: Path, suffix: str) -> None:
    def target(path: Path) -> Path:
        return path.with_name(f"take{int(path.stem.rpartition('_')[2].rpartition('-')[2])}{suffix}")

    move(files_of(folder, suffix), target)


def rename_placeholders(folder: Path) -> None:
    info = read_info(folder)
    names = {"video_key": "cam", "episode_index": "i", "episode_chunk": "chunk", "chunk_index": "c_chunk"}
    for path in ("data_path", "video_path"):
        for old, new in names.items():
            info[path] = info[path].replace(f"{{{old}", f"{{{new}")
    edit_info(folder, **info)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.ParquetFile(path).read()), path)


def rewrite_all(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for path in files_of(folder, ".parquet"):
        rewrite(path, change)


def remove_files(folder: Path, suffix: str) -> None:
    for path in files_of(folder, suffix):
        path.unlink()


def edit_list(folder: Path, edit: Callable[[list[Row]], list[Row]]) -> None:
    """Edit the entries of the file that lists episodes."""
    lines = folder / "meta" / "episodes.jsonl"
    if lines.is_file():
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        lines.write_text("".join(json.dumps(row) + "\n" for row in edit(rows)))
    else:
        path = min((folder / "meta" / "episodes").rglob("*.parquet"))
        rewrite(path, lambda table: pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema))


def lengthen(folder: Path, rng: Random) -> None:
    def edit(rows: list[Row]) -> list[Row]:
        rng.choice(rows)["length"] += rng.choice([-2, 3, 1000])
        return rows

    files_of(folder, ".parquet")
    edit_list(folder, edit)


def edit_spans(
    folder: Path, chosen: Callable[[list[Row]], list[Row]], **changes: Callable[[float], Any]
) -> None:
    """Change fields of the span of one camera in some entries of the only list."""

    def edit(rows: list[Row]) -> list[Row]:
        for row in chosen(rows):
            row |= {SPAN + name: change(row[SPAN + name]) for name, change in changes.items()}
        return rows

    files_of(folder, ".mp4")
    (_,) = (folder / "meta" / "episodes").rglob("*.parquet")
    edit_list(folder, edit)


def shift_span(folder: Path, rng: Random) -> None:
    shift = rng.choice([-0.5, 0.2, 0.5, 1e4])
    stamps = dict.fromkeys(("from_timestamp", "to_timestamp"), shift.__add__)
    edit_spans(folder, lambda rows: [rng.choice(rows)], **stamps)


def remove_list(folder: Path) -> None:
    shutil.rmtree(folder / "meta" / "episodes", ignore_errors=True)
    (folder / "meta" / "episodes.jsonl").unlink(missing_ok=True)


def unlist(folder: Path, rng: Random) -> None:
    edit_list(folder, lambda rows: rng.sample(rows, len(rows) - 1))


def damage(path: Path, rng: Random, *contents: bytes) -> None:
    """Write something else, or remove it."""
    path.write_bytes(rng.choice(contents))
    if rng.random() < 0.3:
        path.unlink()


def damage_list(folder: Path, rng: Random) -> None:
    path = min((folder / "meta").rglob("episodes.jsonl"), default=None)
    path = path or min((folder / "meta" / "episodes").rglob("*.parquet"))
    data = path.read_bytes()
    path.write_bytes(data[: rng.randint(0, len(data) - 2)])


def damage_info(folder: Path, rng: Random) -> None:
    path = folder / "meta" / "info.json"
    data = path.read_bytes()
    damage(path, rng, b"", data[: len(data) // 2], b"[]", LFS_POINTER)


def damage_tasks(folder: Path, rng: Random) -> None:
    (path,) = (folder / "meta").glob("tasks.*")
    damage(path, rng, b"", path.read_bytes()[:10])


def damage_file(folder: Path, rng: Random) -> None:
    path = rng.choice(files_of(folder, rng.choice([".mp4", ".parquet"])))
    data = path.read_bytes()
    damage(path, rng, b"", data[: len(data) // 2], data[:-9], LFS_POINTER)


def add_stray_file(folder: Path, rng: Random) -> None:
    if rng.random() < 0.5:
        shutil.copy(rng.choice(files_of(folder, ".mp4")), folder / "stray.mp4")
    else:
        path = rng.choice(files_of(folder, ".parquet"))
        pq.write_table(pa.table({"a": [1, 2]}), path.with_name("notes.parquet"))


def copy_data(folder: Path, rng: Random) -> None:
    path = rng.choice(files_of(folder, ".parquet"))
    shutil.copy(path, path.with_name(f"backup_{path.name}"))


def shuffle_rows(folder: Path, rng: Random) -> None:
    """Rows of an episode still stand together."""

    def change(table: pa.Table) -> pa.Table:
        shuffled = table.take(rng.sample(range(table.num_rows), table.num_rows))
        return shuffled.sort_by("episode_index")

    rewrite(rng.choice(files_of(folder, ".parquet")), change)


def drop_row(folder: Path, rng: Random) -> None:
    """One of the middle of an episode, wherever it stands in its file: without its end a clip would be shorter."""

    def change(table: pa.Table) -> pa.Table:
        row = table["frame_index"].to_pylist().index(2)
        return pa.concat_tables([table.slice(0, row), table.slice(row + 1)])

    rewrite(rng.choice(files_of(folder, ".parquet")), change)


def drop_camera(folder: Path, rng: Random) -> None:
    files_of(folder, ".mp4")
    features = read_info(folder)["features"]
    del features[rng.choice([key for key in features if features[key]["dtype"] == "video"])]
    edit_info(folder, features=features)


def add_camera(folder: Path) -> None:
    phantom = {"dtype": "video", "shape": [48, 64, 3], "names": None}
    features = read_info(folder)["features"]
    edit_info(folder, features={**features, "observation.images.phantom": phantom})


def damage_statistics(folder: Path, rng: Random) -> None:
    for path in (folder / "meta").glob("*stats*"):
        damage(path, rng, b"{")


def replace_number(table: pa.Table) -> pa.Table:
    column = table.column_names.index("episode_index")
    return table.set_column(column, "episode_index", pa.array([0] * table.num_rows, pa.int64()))


def no_fps(folder: Path, rng: Random) -> None:
    files_of(folder, ".parquet")
    edit_info(folder, fps=rng.choice([None, 0, -5, "30", True, [30]]))


def spoil_templates(folder: Path, rng: Random) -> None:
    texts = ["{a.b}", "{0}", "{x!r}", "data/{episode_index:>999999999}", "{", "", "{__class__.__mro__}"]
    edit_info(folder, data_path=rng.choice(texts), video_path=rng.choice(texts))


def other_template(folder: Path, rng: Random, version: str) -> None:
    paths = [TEMPLATES[version], None, "data/{split}/{episode_index:04d}.parquet"]
    edit_info(folder, data_path=rng.choice(paths))


SUFFIXES = (".mp4", ".parquet")
BOTH: dict[str, Bend] = {
    "`video/` for `videos/`, `parquet/` for `data/`": rename_folder,
    "cameras in folders with their short names": lambda folder, rng: move(
        files_of(folder, ".mp4"), lambda path: Path(str(path).replace("observation.images.", ""))
    ),
    "files without their chunk folders": lambda folder, rng: flatten(folder, rng.choice(SUFFIXES)),
    "files with other names and the same numbers": lambda folder, rng: rename_files(folder, rng.choice(SUFFIXES)),
    "path templates with other placeholder names": lambda folder, rng: rename_placeholders(folder),
    "path templates that are none, or attack": spoil_templates,
    "entries of the list in another order, or twice": lambda folder, rng: edit_list(
        folder, lambda rows: rng.sample(rows, len(rows)) + rng.sample(rows, rng.randint(0, 1))
    ),
    "no list of episodes": lambda folder, rng: remove_list(folder),
    "an episode that the list does not name": unlist,
    "a damaged list of episodes": damage_list,
    "length of an episode": lengthen,
    "info.json missing, empty or cut": damage_info,
    "totals of info.json": lambda folder, rng: edit_info(
        folder, total_episodes=rng.randint(0, 99), total_frames=-1, total_tasks="x", total_videos=[1]
    ),
    "fps missing or no number": no_fps,
    "splits, robot and totals of other types": lambda folder, rng: edit_info(
        folder, splits=rng.choice([[], "0:4", {"train": [0, 4]}, 3]), total_chunks={}
    ),
    "a camera in info.json that has no video": lambda folder, rng: add_camera(folder),
    "a camera that info.json does not name": drop_camera,
    "tasks missing or damaged": damage_tasks,
    "statistics missing or damaged": damage_statistics,
    "modality.json that is none": lambda folder, rng: (folder / "meta" / "modality.json").write_text(
        rng.choice(["", "[]", '{"state": [1], "video": {"a": 3}}'])
    ),
    "no data files": lambda folder, rng: remove_files(folder, ".parquet"),
    "no videos": lambda folder, rng: remove_files(folder, ".mp4"),
    "a file missing, empty, cut or a pointer": damage_file,
    "a stray video, data file or picture": add_stray_file,
    "an episode in two data files": copy_data,
    "rows in another order": shuffle_rows,
    "rows missing in an episode": drop_row,
    "no column episode_index": lambda folder, rng: rewrite_all(
        folder, lambda table: table.drop_columns("episode_index")
    ),
}  # fmt: skip
OWN_FILES: dict[str, Bend] = {
    "path templates missing or of another version": lambda folder, rng: other_template(folder, rng, "v3.0"),
    "version of the other layout in info.json": lambda folder, rng: edit_info(folder, codebase_version="v3.0"),
    "videos numbered from 1": lambda folder, rng: number_from_1(folder, ".mp4"),
    "data files numbered from 1, or two of them swapped": lambda folder, rng: (
        swap_data(folder, rng) if rng.random() < 0.5 else number_from_1(folder, ".parquet")
    ),
    "chunks_size of other chunks": lambda folder, rng: edit_info(
        folder, chunks_size=rng.choice([1, 2, 0, -3, "x"])
    ),
    "column episode_index of one number in every file": lambda folder, rng: rewrite_all(folder, replace_number),
}  # fmt: skip
SHARED_FILES: dict[str, Bend] = {
    "path templates missing or of another version": lambda folder, rng: other_template(folder, rng, "v2.1"),
    "version of the other layout in info.json": lambda folder, rng: edit_info(folder, codebase_version="v2.1"),
    "data/file_index of other files": lambda folder, rng: edit_list(
        folder, lambda rows: [{**row, "data/file_index": rng.choice([0, 1, 7])} for row in rows]
    ),
    "from_timestamp 0 for every episode": lambda folder, rng: edit_spans(
        folder, list, from_timestamp=lambda second: 0.0
    ),
    "to_timestamp of other frames": lambda folder, rng: edit_spans(
        folder, list, to_timestamp=lambda second: rng.choice([0.0, 1e6, -1.0, None, float("nan"), 0.35])
    ),
    "the span of one episode shifted": shift_span,
    "file_index of videos missing or of no file": lambda folder, rng: edit_spans(
        folder,
        lambda rows: rng.sample(rows, rng.randint(1, len(rows))),
        file_index=lambda number: rng.choice([None, 55]),
    ),
    "the list of episodes in a second place": lambda folder, rng: shutil.copy(
        min((folder / "meta" / "episodes").rglob("*.parquet")), folder / "meta" / "episodes" / "episodes.parquet"
    ),
    "row ranges that overlap": lambda folder, rng: edit_list(
        folder, lambda rows: [{**row, "dataset_from_index": 0, "dataset_to_index": 9} for row in rows]
    ),
}  # fmt: skip
BENDS = {"v2.1": BOTH | OWN_FILES, "v3.0": BOTH | SHARED_FILES}
