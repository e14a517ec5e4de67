"""Arrow: episodes and trajectories to columns and back, whole columns at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Episode, Signal, Trajectory
from ares.errors import StoreError
from ares.media.ref import MediaRef

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from numpy.typing import NDArray

_PLACE = ("episode_id", "format", "dataset", "version", "split", "key", "source", "content_hash")
# Columns that a table made before them gets when rows are added to it.
STAMPS = ("source_stamp", "camera_stamps")
_EPISODE_TEXTS = (*_PLACE, "instruction", "robot", "rate_source", "success_source")
_CAMERA_TEXTS, _MEDIA_TEXTS = ("name", "role", "codec"), ("kind", "uri", "key", "channels")
_MEDIA_SECONDS, _MEDIA_COUNTS = (
    ("start_seconds", "stop_seconds", "rate_hz"),
    ("num_frames", "byte_offset", "byte_size"),
)


def episode_schema() -> pa.Schema:
    """Columns of the episodes table before any annotator has added its own."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    return pa.schema(
        [
            *((name, pa.string()) for name in _PLACE),
            ("instruction", pa.string()),
            ("instructions", texts),
            ("robot", pa.string()),
            ("num_steps", pa.int64()),
            ("rate_hz", pa.float64()),
            ("rate_source", pa.string()),
            ("duration_seconds", pa.float64()),
            ("num_cameras", pa.int64()),
            ("cameras", pa.list_(_camera_type())),
            ("success", pa.bool_()),
            ("success_source", pa.string()),
            ("state_names", texts),
            ("action_names", texts),
            ("metadata", pa.string()),
            ("duplicate_of", pa.string()),
            ("ingested", pa.timestamp("us", tz="UTC")),
            ("source_stamp", pa.string()),
            ("camera_stamps", texts),
        ]
    )


def trajectory_schema() -> pa.Schema:
    """Columns of the trajectories table: row-major values with the names of their dimensions."""
    import pyarrow as pa

    texts, values = pa.list_(pa.string()), pa.list_(pa.float32())
    extra = pa.struct([("name", pa.string()), ("names", texts), ("values", values)])
    return pa.schema(
        [
            ("episode_id", pa.string()),
            ("timestamps", pa.list_(pa.float64())),
            ("state_names", texts),
            ("state", values),
            ("action_names", texts),
            ("action", values),
            ("reward", values),
            ("extra", pa.list_(extra)),
        ]
    )


def episodes_to_arrow(episodes: Sequence[Episode], ingested: datetime) -> pa.RecordBatch:
    """The rows of some episodes."""
    import pyarrow as pa

    columns: dict[str, Any] = {name: [getattr(each, name) for each in episodes] for name in _EPISODE_TEXTS}
    columns |= {
        "instructions": [each.instructions for each in episodes],
        "num_steps": [each.num_steps for each in episodes],
        "rate_hz": [each.rate_hz for each in episodes],
        "duration_seconds": [each.duration_seconds for each in episodes],
        "num_cameras": [len(each.cameras) for each in episodes],
        "cameras": _cameras([each.cameras for each in episodes]),
        "success": [each.success for each in episodes],
        "state_names": [each.state_names for each in episodes],
        "action_names": [each.action_names for each in episodes],
        "metadata": [json.dumps(dict(each.metadata), allow_nan=False) for each in episodes],
        "duplicate_of": [None] * len(episodes),
        "ingested": [ingested] * len(episodes),
        "source_stamp": [each.source_stamp for each in episodes],
        # Beside the cameras, not in them: a table that was made before gets a column, but no new field in a list.
        "camera_stamps": [[camera.media.stamp for camera in each.cameras] for each in episodes],
    }
    schema = episode_schema()
    arrays = [_column(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fit_cameras(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """The rows for a table that was made before cameras had `channels`.

    Raises StoreError for a row that such a table cannot hold.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = table.field("cameras").type
    if kind.value_type.get_field_index("channels") >= 0:
        return rows
    lists = rows["cameras"]
    if pc.any(pc.not_equal(lists.values.field("channels"), "rgb")).as_py():
        raise StoreError(
            "this workspace was made before swapped colours could be noted", "ingest into a new workspace"
        )
    arrays = [lists.values.field(field.name) for field in kind.value_type]
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    cameras = pa.ListArray.from_arrays(lists.offsets, structs)
    return rows.set_column(rows.schema.get_field_index("cameras"), pa.field("cameras", kind), cameras)


def episodes_from_arrow(batch: pa.RecordBatch, root: str) -> list[Episode]:
    """The episodes of `episodes_to_arrow`; columns that annotators added are passed over.

    Args:
        batch: Rows of the episodes table.
        root: Folder or URI of the workspace: where media are that it keeps itself, whose uri is relative to it.
    """
    plain = [*_EPISODE_TEXTS, "num_steps", "rate_hz", "success"]
    parsed = ["instructions", "cameras", "state_names", "action_names", "metadata"]
    stamps = [name for name in STAMPS if name in batch.schema.names]
    return [
        Episode(
            **{name: row[name] for name in plain},
            instructions=tuple(row["instructions"]),
            cameras=tuple(
                _camera(camera, stamp, root)
                for camera, stamp in zip(
                    row["cameras"], chain(row.get("camera_stamps") or (), repeat("")), strict=False
                )
            ),
            state_names=tuple(row["state_names"]),
            action_names=tuple(row["action_names"]),
            metadata=json.loads(row["metadata"]),
            source_stamp=row.get("source_stamp") or "",
        )
        for row in batch.select([*plain, *parsed, *stamps]).to_pylist()
    ]


def trajectories_to_arrow(ids: Sequence[str], trajectories: Sequence[Trajectory]) -> pa.RecordBatch:
    """The rows of some trajectories."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    states, actions = [each.state for each in trajectories], [each.action for each in trajectories]
    arrays = [
        pa.array(ids, pa.string()),
        _lists([each.timestamps for each in trajectories], pa.float64()),
        pa.array([None if each is None else each.names for each in states], texts),
        _lists([None if each is None else each.values for each in states], pa.float32()),
        pa.array([None if each is None else each.names for each in actions], texts),
        _lists([None if each is None else each.values for each in actions], pa.float32()),
        _lists([each.reward for each in trajectories], pa.float32()),
        _extras([each.extra.items() for each in trajectories]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=trajectory_schema())


def trajectories_from_arrow(batch: pa.RecordBatch) -> list[tuple[str, Trajectory]]:
    """The trajectories of `trajectories_to_arrow`, with their episode ids."""
    return [(batch["episode_id"][row].as_py(), _trajectory(batch, row)) for row in range(batch.num_rows)]


def _trajectory(batch: pa.RecordBatch, row: int) -> Trajectory:
    timestamps = _values(batch["timestamps"][row])
    steps = len(timestamps)
    return Trajectory(
        timestamps=timestamps,
        state=_signal(batch["state_names"][row], batch["state"][row], steps),
        action=_signal(batch["action_names"][row], batch["action"][row], steps),
        reward=_values(batch["reward"][row]) if batch["reward"][row].is_valid else None,
        extra={each["name"].as_py(): _extra(each, steps) for each in batch["extra"][row]},
    )


def _extra(scalar: pa.StructScalar, steps: int) -> Signal:
    signal = _signal(scalar["names"], scalar["values"], steps)
    assert signal is not None  # an extra signal is there or it is no row
    return signal


def _signal(names: pa.ListScalar, values: pa.ListScalar, steps: int) -> Signal | None:
    if not values.is_valid:
        return None
    named = tuple(names.as_py())
    return Signal(values=_values(values).reshape(steps, len(named)), names=named)


def _values(scalar: pa.ListScalar) -> NDArray[Any]:
    # A copy, because Arrow's memory is read-only and holds the whole batch.
    values: NDArray[Any] = scalar.values.to_numpy(zero_copy_only=False).copy()
    return values


def _lists(values: Sequence[NDArray[Any] | None], kind: pa.DataType) -> pa.ListArray:
    import numpy as np
    import pyarrow as pa

    flat = [np.ravel(each) for each in values if each is not None]
    empty = np.zeros(0, kind.to_pandas_dtype())
    joined = np.concatenate(flat, dtype=empty.dtype, casting="same_kind") if flat else empty
    offsets = _offsets(0 if each is None else each.size for each in values)
    missing = pa.array([each is None for each in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, pa.array(joined, kind), mask=missing)


def _extras(extras: Sequence[Iterable[tuple[str, Signal]]]) -> pa.ListArray:
    import pyarrow as pa

    each = [list(extra) for extra in extras]
    flat = list(chain.from_iterable(each))
    fields = [
        pa.array([name for name, _ in flat], pa.string()),
        pa.array([signal.names for _, signal in flat], pa.list_(pa.string())),
        _lists([signal.values for _, signal in flat], pa.float32()),
    ]
    structs = pa.StructArray.from_arrays(
        fields, fields=list(trajectory_schema().field("extra").type.value_type)
    )
    return pa.ListArray.from_arrays(_offsets(map(len, each)), structs)


def utf8(value: Any) -> Any:
    """A text, or a list of them, that Arrow can hold: half an emoji, which JSON can carry, becomes "?"."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return [utf8(each) for each in value] if isinstance(value, list | tuple) else value


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array(utf8(values), kind)


def _offsets(sizes: Iterable[int]) -> pa.Int32Array:
    import pyarrow as pa

    return pa.array(accumulate(sizes, initial=0), pa.int32())


def _camera_type() -> pa.DataType:
    import pyarrow as pa

    return pa.struct(
        [
            *((name, pa.string()) for name in _CAMERA_TEXTS),
            ("width", pa.int64()),
            ("height", pa.int64()),
            ("flags", pa.list_(pa.string())),
            *((name, pa.string()) for name in _MEDIA_TEXTS),
            *((name, pa.float64()) for name in _MEDIA_SECONDS),
            *((name, pa.int64()) for name in _MEDIA_COUNTS),
        ]
    )


def _cameras(cameras: Sequence[Sequence[Camera]]) -> pa.ListArray:
    import pyarrow as pa

    flat = list(chain.from_iterable(cameras))
    kind = _camera_type()
    of_media = {*_MEDIA_TEXTS, *_MEDIA_SECONDS, *_MEDIA_COUNTS}
    arrays = [
        pa.array(
            [getattr(each.media if field.name in of_media else each, field.name) for each in flat], field.type
        )
        for field in kind
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind))
    return pa.ListArray.from_arrays(_offsets(map(len, cameras)), structs)


def _camera(row: dict[str, Any], stamp: str, root: str) -> Camera:
    named = (*_MEDIA_TEXTS, *_MEDIA_SECONDS, *_MEDIA_COUNTS)
    # A row of an older table has fewer fields; what is missing has a default.
    media = {name: row.pop(name) for name in named if name in row}
    if not media["uri"].startswith("/") and "://" not in media["uri"]:
        media["uri"] = f"{root}/{media['uri']}"
    return Camera(**row | {"flags": tuple(row["flags"])}, media=MediaRef(**media, stamp=stamp))
