"""Ways to bend a good LeRobot folder: files that lie elsewhere, spans that are wrong, metadata that lie, damage."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Outcome = Literal["mended", "told"]
Apply = Callable[[Path, random.Random], None]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


class NotBendable(Exception):
    """The folder has nothing that this bend concerns."""


@dataclass(frozen=True)
class Bend:
    """A way to bend a folder.

    Attributes:
        name: What is bent, in words.
        outcome: "mended": every value is read as before; "told": something is missing and named.
        apply: Bends a folder. Raises NotBendable.
    """

    name: str
    outcome: Outcome
    apply: Apply


BENDS: list[Bend] = []


def bend(name: str, outcome: Outcome) -> Callable[[Apply], None]:
    """Enter a function that bends a folder in the list."""
    return lambda apply: BENDS.append(Bend(name, outcome, apply))


def read_info(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / "meta" / "info.json").read_text())
    except (OSError, ValueError):
        raise NotBendable from None
    if not isinstance(document, dict):  # an earlier bend made it something else
        raise NotBendable
    return document


def edit_info(folder: Path, **changes: Any) -> None:
    document = {**read_info(folder), **changes}
    document = {name: value for name, value in document.items() if value is not None}
    (folder / "meta" / "info.json").write_text(json.dumps(document))


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Data files or videos outside meta that hold something. Raises NotBendable where there is none."""
    paths = sorted(path for path in folder.rglob(f"*{suffix}") if "meta" not in path.parts[-4:])
    paths = [path for path in paths if path.stat().st_size > 500]
    if not paths:
        raise NotBendable
    return paths


def list_tables(folder: Path) -> list[Path]:
    paths = sorted((folder / "meta" / "episodes").rglob("*.parquet"))
    if not paths:
        raise NotBendable
    return paths


def edit_list(folder: Path, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Edit the entries of the first file that lists episodes. Raises NotBendable where it cannot be read."""
    lines = folder / "meta" / "episodes.jsonl"
    try:
        if lines.is_file():
            rows = [json.loads(line) for line in lines.read_text().splitlines()]
            lines.write_text("".join(json.dumps(row) + "\n" for row in edit(rows)))
            return
        path = list_tables(folder)[0]
        table = pq.ParquetFile(path).read()
        if len(set(table.column_names)) < len(table.column_names):
            raise NotBendable
        pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema), path)
    except (OSError, ValueError, pa.ArrowException, IndexError):
        raise NotBendable from None


def require(condition: object) -> None:
    if not condition:
        raise NotBendable


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    try:
        table = pq.ParquetFile(path).read()
        pq.write_table(change(table), path)
    except (pa.ArrowException, OSError, KeyError):
        raise NotBendable from None


def move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def is_own_layout(folder: Path) -> bool:
    return "episode_index" in str(read_info(folder).get("data_path"))


@bend("`video/` for `videos/`, `parquet/` for `data/`", "told")
def _rename_folders(folder: Path, rng: random.Random) -> None:
    names = [(old, new) for old, new in (("videos", "video"), ("data", "parquet")) if (folder / old).is_dir()]
    require(names)
    old, new = rng.choice(names)
    (folder / old).rename(folder / new)


@bend("cameras in folders with their short names", "told")
def _short_camera_folders(folder: Path, rng: random.Random) -> None:
    paths = files_of(folder, ".mp4")
    for path in paths:
        move(path, Path(str(path).replace("observation.images.", "")))


@bend("files without their chunk folders", "told")
def _flat_files(folder: Path, rng: random.Random) -> None:
    for path in files_of(folder, rng.choice([".mp4", ".parquet"])):
        parts = [part for part in path.relative_to(folder).parts if not part.startswith("chunk-")]
        target = folder.joinpath(*parts)
        require(not target.exists())
        move(path, target)


@bend("files with other names and the same numbers", "told")
def _other_stems(folder: Path, rng: random.Random) -> None:
    suffix = rng.choice([".mp4", ".parquet"])
    for path in files_of(folder, suffix):
        move(path, path.with_name(f"take{int(path.stem.rpartition('_')[2].rpartition('-')[2])}{suffix}"))


@bend("path templates with other placeholder names", "told")
def _other_placeholders(folder: Path, rng: random.Random) -> None:
    info = read_info(folder)
    names = {"video_key": "cam", "episode_index": "i", "episode_chunk": "chunk", "chunk_index": "c_chunk"}
    for path in ("data_path", "video_path"):
        for old, new in names.items():
            info[path] = str(info.get(path)).replace(f"{{{old}", f"{{{new}")
    edit_info(folder, **info)


@bend("path templates that are none, or attack", "told")
def _broken_templates(folder: Path, rng: random.Random) -> None:
    texts = ["{a.b}", "{0}", "{x!r}", "data/{episode_index:>999999999}", "{", "", "{__class__.__mro__}"]
    edit_info(folder, data_path=rng.choice(texts), video_path=rng.choice(texts))


@bend("path templates missing or of another version", "told")
def _wrong_templates(folder: Path, rng: random.Random) -> None:
    v2 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    v3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    other = v3 if is_own_layout(folder) else v2
    edit_info(folder, data_path=rng.choice([other, None, "data/{split}/{episode_index:04d}.parquet"]))


@bend("version of the other layout in info.json", "mended")
def _wrong_version(folder: Path, rng: random.Random) -> None:
    edit_info(folder, codebase_version="v3.0" if is_own_layout(folder) else "v2.1")


@bend("videos numbered from 1", "mended")
def _videos_from_1(folder: Path, rng: random.Random) -> None:
    require(is_own_layout(folder))
    for path in reversed(files_of(folder, ".mp4")):
        number = int(path.stem.rpartition("_")[2]) + 1
        move(path, path.with_name(f"episode_{number:06d}.mp4"))


@bend("data files numbered from 1, or two of them swapped", "mended")
def _data_renumbered(folder: Path, rng: random.Random) -> None:
    require(is_own_layout(folder))
    paths = files_of(folder, ".parquet")
    if rng.random() < 0.5 and len(paths) > 1:
        first, second = rng.sample(paths, 2)
        spare = first.with_name("spare")
        for source, target in ((first, spare), (second, first), (spare, second)):
            source.rename(target)
        return
    for path in reversed(paths):
        move(path, path.with_name(f"episode_{int(path.stem.rpartition('_')[2]) + 1:06d}.parquet"))


@bend("data/file_index of other files", "mended")
def _stale_data_index(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        require("data/file_index" in rows[0])
        return [{**row, "data/file_index": rng.choice([0, 1, 7])} for row in rows]

    files_of(folder, ".parquet")
    edit_list(folder, edit)


def _edit_spans(folder: Path, edit: Callable[[list[dict[str, Any]], str], None]) -> None:
    """Edit the spans of one camera in all entries of the list."""

    def edit_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        prefixes = [
            name[: -len("file_index")]
            for name in rows[0]
            if name.startswith("videos/") and name.endswith("/file_index")
        ]
        require(prefixes)
        edit(rows, prefixes[0])
        return rows

    require(len(list_tables(folder)) == 1)
    files_of(folder, ".mp4")
    edit_list(folder, edit_rows)


@bend("from_timestamp 0 for every episode", "mended")
def _no_starts(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]], prefix: str) -> None:
        for row in rows:
            row[f"{prefix}from_timestamp"] = 0.0

    _edit_spans(folder, edit)


@bend("to_timestamp of other frames", "mended")
def _wrong_stops(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]], prefix: str) -> None:
        for row in rows:
            row[f"{prefix}to_timestamp"] = rng.choice([0.0, 1e6, -1.0, None, float("nan"), 0.35])

    _edit_spans(folder, edit)


@bend("the span of one episode shifted", "mended")
def _shifted_span(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]], prefix: str) -> None:
        row, shift = rng.choice(rows), rng.choice([-0.5, 0.2, 0.5, 1e4])
        for name in ("from_timestamp", "to_timestamp"):
            row[f"{prefix}{name}"] += shift

    _edit_spans(folder, edit)


@bend("file_index of videos missing or of no file", "mended")
def _stale_video_index(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]], prefix: str) -> None:
        for row in rng.sample(rows, rng.randint(1, len(rows))):
            row[f"{prefix}file_index"] = rng.choice([None, 55])

    _edit_spans(folder, edit)


@bend("the list of episodes in a second place", "mended")
def _second_list(folder: Path, rng: random.Random) -> None:
    shutil.copy(list_tables(folder)[0], folder / "meta" / "episodes" / "episodes.parquet")


@bend("entries of the list in another order, or twice", "mended")
def _shuffled_list(folder: Path, rng: random.Random) -> None:
    edit_list(folder, lambda rows: rng.sample(rows, len(rows)) + rng.sample(rows, rng.randint(0, 1)))


@bend("no list of episodes", "told")
def _no_list(folder: Path, rng: random.Random) -> None:
    shutil.rmtree(folder / "meta" / "episodes", ignore_errors=True)
    (folder / "meta" / "episodes.jsonl").unlink(missing_ok=True)


@bend("an episode that the list does not name", "told")
def _unlisted(folder: Path, rng: random.Random) -> None:
    edit_list(
        folder, lambda rows: [row for row in rows if row is not rng.choice(rows)] if len(rows) > 1 else rows
    )


@bend("a damaged list of episodes", "told")
def _damaged_list(folder: Path, rng: random.Random) -> None:
    lines = folder / "meta" / "episodes.jsonl"
    path = lines if lines.is_file() else rng.choice(list_tables(folder))
    data = path.read_bytes()
    path.write_bytes(data[: rng.randint(0, max(len(data) - 2, 0))])


@bend("length of an episode", "mended")
def _wrong_length(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rng.choice(rows)["length"] += rng.choice([-2, 3, 1000])
        return rows

    files_of(folder, ".parquet")
    edit_list(folder, edit)


@bend("row ranges that overlap", "mended")
def _overlapping_ranges(folder: Path, rng: random.Random) -> None:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        require("dataset_from_index" in rows[0])
        return [{**row, "dataset_from_index": 0, "dataset_to_index": 9} for row in rows]

    edit_list(folder, edit)


@bend("info.json missing, empty or cut", "told")
def _no_info(folder: Path, rng: random.Random) -> None:
    path = folder / "meta" / "info.json"
    require(path.is_file())
    data = path.read_bytes()
    path.write_bytes(rng.choice([b"", data[: len(data) // 2], b"[]", LFS_POINTER]))
    if rng.random() < 0.3:
        path.unlink()


@bend("totals of info.json", "mended")
def _wrong_totals(folder: Path, rng: random.Random) -> None:
    edit_info(folder, total_episodes=rng.randint(0, 99), total_frames=-1, total_tasks="x", total_videos=[1])


@bend("fps missing or no number", "mended")
def _no_fps(folder: Path, rng: random.Random) -> None:
    files_of(folder, ".parquet")
    edit_info(folder, fps=rng.choice([None, 0, -5, "30", True, [30]]))


@bend("chunks_size of other chunks", "mended")
def _wrong_chunks(folder: Path, rng: random.Random) -> None:
    require(is_own_layout(folder))
    edit_info(folder, chunks_size=rng.choice([1, 2, 0, -3, "x"]))


@bend("splits, robot and totals of other types", "mended")
def _wrong_types(folder: Path, rng: random.Random) -> None:
    edit_info(folder, splits=rng.choice([[], "0:4", {"train": [0, 4]}, 3]), total_chunks={})


@bend("a camera in info.json that has no video", "mended")
def _phantom_camera(folder: Path, rng: random.Random) -> None:
    features = read_info(folder)["features"]
    features["observation.images.phantom"] = {"dtype": "video", "shape": [48, 64, 3], "names": None}
    edit_info(folder, features=features)


@bend("a camera that info.json does not name", "told")
def _unnamed_camera(folder: Path, rng: random.Random) -> None:
    features = read_info(folder)["features"]
    keys = [key for key in features if features[key].get("dtype") == "video"]
    require(keys)
    files_of(folder, ".mp4")
    del features[rng.choice(keys)]
    edit_info(folder, features=features)


@bend("tasks missing or damaged", "told")
def _no_tasks(folder: Path, rng: random.Random) -> None:
    path = next(iter(sorted((folder / "meta").glob("tasks.*"))), None)
    require(path)
    assert path is not None
    path.write_bytes(path.read_bytes()[: rng.choice([0, 10])])
    if rng.random() < 0.3:
        path.unlink()


@bend("statistics missing or damaged", "mended")
def _no_stats(folder: Path, rng: random.Random) -> None:
    for path in (folder / "meta").glob("*stats*"):
        path.write_bytes(b"{") if rng.random() < 0.5 else path.unlink()


@bend("modality.json that is none", "told")
def _no_modality(folder: Path, rng: random.Random) -> None:
    (folder / "meta" / "modality.json").write_text(
        rng.choice(["", "[]", '{"state": [1], "video": {"a": 3}}'])
    )


@bend("no data files", "told")
def _no_data(folder: Path, rng: random.Random) -> None:
    for path in files_of(folder, ".parquet"):
        path.unlink()


@bend("no videos", "told")
def _no_videos(folder: Path, rng: random.Random) -> None:
    for path in files_of(folder, ".mp4"):
        path.unlink()


@bend("a file missing, empty, cut or a pointer", "told")
def _damaged_file(folder: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(folder, rng.choice([".mp4", ".parquet"])))
    data = path.read_bytes()
    path.write_bytes(rng.choice([b"", data[: len(data) // 2], data[:-9], LFS_POINTER]))
    if rng.random() < 0.25:
        path.unlink()


@bend("a stray video, data file or picture", "mended")
def _stray_file(folder: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(folder, rng.choice([".mp4", ".parquet"])))
    if path.suffix == ".mp4":
        shutil.copy(path, folder / "stray.mp4")
    else:
        pq.write_table(pa.table({"a": [1, 2]}), path.with_name("notes.parquet"))


@bend("an episode in two data files", "mended")
def _copied_data(folder: Path, rng: random.Random) -> None:
    path = rng.choice(files_of(folder, ".parquet"))
    shutil.copy(path, path.with_name(f"backup_{path.name}"))


@bend("rows in another order", "mended")
def _shuffled_rows(folder: Path, rng: random.Random) -> None:
    def change(table: pa.Table) -> pa.Table:
        order = sorted(range(table.num_rows), key=lambda _: rng.random())
        shuffled = table.take(order)
        return shuffled.take(
            pc.sort_indices(shuffled.select(["episode_index"]), sort_keys=[("episode_index", "ascending")])
        )

    paths = files_of(folder, ".parquet")
    require("frame_index" in pq.read_schema(paths[0]).names)
    rewrite(rng.choice(paths), change)


@bend("rows missing in an episode", "told")
def _missing_rows(folder: Path, rng: random.Random) -> None:
    paths = files_of(folder, ".parquet")
    require("frame_index" in pq.read_schema(paths[0]).names)
    rewrite(rng.choice(paths), lambda table: pa.concat_tables([table.slice(0, 2), table.slice(3)]))


@bend("no column episode_index", "told")
def _no_episode_column(folder: Path, rng: random.Random) -> None:
    for path in files_of(folder, ".parquet"):
        rewrite(path, lambda table: table.drop_columns("episode_index"))


@bend("column episode_index of one number in every file", "mended")
def _same_episode_column(folder: Path, rng: random.Random) -> None:
    require(is_own_layout(folder))
    for path in files_of(folder, ".parquet"):
        rewrite(path, lambda table: table.set_column(
            table.column_names.index("episode_index"), "episode_index", pa.array([0] * table.num_rows, pa.int64())
        ))  # fmt: skip
