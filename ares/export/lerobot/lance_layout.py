"""Turns a LeRobot v3.0 dataset into the layout on Lance that lerobot reads in place: from a disk or a bucket."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import StoreError
from ares.export.lerobot.tables import write_json
from ares.formats import INFO_PATH, META_FOLDER
from ares.io import relative_path

if TYPE_CHECKING:
    import pyarrow as pa


_DATA_FOLDER, _VIDEO_FOLDER = "data", "videos"


def convert_to_lance(root: Path) -> None:
    """Replace the files of data and videos of a dataset by the tables `frames`, `videos` and `meta`.

    Videos are stored as they are, byte for byte, beside the bytes at which their key frames begin.

    Args:
        root: Folder of the dataset.

    Raises:
        StoreError: A video is no mp4.
        OSError: A file cannot be read or written.
    """
    info = json.loads((root / INFO_PATH).read_text(encoding="utf-8"))
    write_json(root / INFO_PATH, {**info, "storage_format": "lance"})
    _write_table(root / "frames.lance", _frame_batches(root, info["features"]))
    _write_table(root / "videos.lance", _video_batches(root))
    _write_table(root / "meta.lance", _metadata_batches(root))
    for folder in (_DATA_FOLDER, _VIDEO_FOLDER):
        shutil.rmtree(root / folder, ignore_errors=True)


def _write_table(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    """Write a table whose first batch, which may be empty, has its columns."""
    import lance
    import pyarrow as pa

    first = next(batches)

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    reader = pa.RecordBatchReader.from_batches(first.schema, all_batches())
    # The first version of its files with blobs of which a reader fetches ranges.
    lance.write_dataset(reader, str(path), data_storage_version="2.2")


def _frame_batches(root: Path, features: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The rows of all steps in their order: vectors of one length, dots of names as underscores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted((root / _DATA_FOLDER).rglob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches():
            columns = {}
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                plain = column.cast(_plain_type(column.type))
                is_vector = pa.types.is_list(plain.type) and not pa.types.is_struct(plain.type.value_type)
                if is_vector and name in features:
                    plain = pa.FixedSizeListArray.from_arrays(plain.flatten(), features[name]["shape"][0])
                columns[name.replace(".", "_")] = plain
            yield pa.RecordBatch.from_pydict(columns)


def _plain_type(type: pa.DataType) -> pa.DataType:
    """The type without extensions, such as that of JSON, which Lance does not have."""
    import pyarrow as pa

    if isinstance(type, pa.BaseExtensionType):
        return _plain_type(type.storage_type)
    if pa.types.is_list(type):
        return pa.list_(_plain_type(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in type])
    return type


def _video_batches(root: Path) -> Iterator[pa.RecordBatch]:
    """A row for each video: its content, and where its key frames are."""
    import lance
    import pyarrow as pa

    integers = ("chunk_index", "file_index", "file_size", "moov_offset", "moov_size")
    schema = pa.schema(
        [
            ("video_key", pa.string()),
            *((name, pa.int64()) for name in integers),
            *((name, pa.list_(pa.int64())) for name in ("kf_indices", "kf_positions")),
            lance.blob_field("video_bytes"),
        ]
    )
    yield pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    for path in sorted((root / _VIDEO_FOLDER).rglob("*.mp4")):
        row = {
            "video_key": path.parts[-3],
            "chunk_index": int(path.parent.name.rpartition("-")[2]),
            "file_index": int(path.stem.rpartition("-")[2]),
            **_index_video(path),
        }
        arrays: Sequence[Any] = [pa.array([row[name]], schema.field(name).type) for name in schema.names[:-1]]
        content = lance.blob_array([path.read_bytes()])
        yield pa.RecordBatch.from_arrays([*arrays, content], schema=schema)


def _index_video(path: Path) -> dict[str, Any]:
    """Size of a video, its box of indices, and the number and the first byte of each key frame."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        rate = stream.average_rate or 0
        frames = sorted(
            (round(packet.pts * packet.time_base * rate), packet.pos)
            for packet in container.demux(stream)
            if packet.is_keyframe and packet.pts is not None and packet.pos is not None
        )
    offset, size = _find_index_box(path)
    return {
        "file_size": path.stat().st_size,
        "moov_offset": offset,
        "moov_size": size,
        "kf_indices": [number for number, _ in frames],
        "kf_positions": [position for _, position in frames],
    }


def _find_index_box(path: Path) -> tuple[int, int]:
    """Offset and size of the box `moov` of an mp4."""
    end, offset = path.stat().st_size, 0
    with path.open("rb") as file:
        while offset < end:
            file.seek(offset)
            header = file.read(16)
            size = int.from_bytes(header[:4], "big")
            size = int.from_bytes(header[8:], "big") if size == 1 else size or end - offset
            if header[4:8] == b"moov":
                return offset, size
            offset += max(size, 8)
    raise StoreError("a video has no index", f"{path} is no mp4")


def _metadata_batches(root: Path) -> Iterator[pa.RecordBatch]:
    """The files of the metadata by their path, so that a reader fetches all from the tables."""
    import pyarrow as pa

    folder = root / META_FOLDER
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = pa.array([relative_path(path, folder) for path in files], pa.string())
    contents = pa.array([path.read_bytes() for path in files], pa.large_binary())
    yield pa.RecordBatch.from_pydict({"path": paths, "data": contents})
