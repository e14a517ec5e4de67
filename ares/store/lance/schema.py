"""The Arrow types of episodes, trajectories and annotator columns, and records encoded as rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Episode, Json, MediaRef, Record, Signal, Trajectory
from ares.errors import StoreError
from ares.store.lance.corrections import read_recorded, recorded_columns
from ares.store.lance.lance_api import lance_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance.table import TableWriter


_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_SOURCE_COLUMNS = ("episode_id", "format", "dataset", "version", "split", "key", "source", "content_hash")
# Columns that an older table gets when rows are added to it.
STAMP_COLUMNS = ("source_stamp", "camera_stamps", "label_stamp")
_CLOCK_NUMBERS = ("claimed_rate_hz", "measured_rate_hz", "rate_spread", "clock_shift_seconds")
CLOCK_COLUMNS = ("frame_pairing", *_CLOCK_NUMBERS)
_EPISODE_TEXTS = (*_SOURCE_COLUMNS, "instruction", "robot", "rate_source", "success_source")
_CAMERA_TEXTS, _MEDIA_TEXTS = ("name", "role", "codec"), ("kind", "uri", "key", "channels")
_MEDIA_SECONDS, _MEDIA_COUNTS = (
    ("start_seconds", "stop_seconds", "rate_hz"),
    ("num_frames", "byte_offset", "byte_size"),
)
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int64": (int,),
    "float64": (int, float),
    "string": (str,),
    "list<string>": (list, tuple),
    "timestamp": (str,),
}
# Types of which every value fits: a whole number may be too large, a time may not be one.
_PLAIN_TYPES: Mapping[str, type] = {"bool": bool, "float64": float, "string": str}
# Values in one Arrow batch; far below the 2**31 that 32-bit offsets can address.
_MAX_BATCH_VALUES = 2**24


def episode_schema() -> pa.Schema:
    """Columns of the episodes table without those of annotators."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    return pa.schema(
        [
            *((name, pa.string()) for name in _SOURCE_COLUMNS),
            ("instruction", pa.string()),
            ("instructions", texts),
            ("robot", pa.string()),
            ("num_steps", pa.int64()),
            ("rate_hz", pa.float64()),
            ("rate_source", pa.string()),
            ("duration_seconds", pa.float64()),
            ("num_cameras", pa.int64()),
            ("cameras", pa.list_(_camera_arrow_type())),
            ("success", pa.bool_()),
            ("success_source", pa.string()),
            ("state_names", texts),
            ("action_names", texts),
            ("metadata", pa.string()),
            ("duplicate_of", pa.string()),
            ("ingested", pa.timestamp("us", tz="UTC")),
            ("source_stamp", pa.string()),
            ("camera_stamps", texts),
            ("label_stamp", pa.string()),
            ("frame_pairing", pa.string()),
            *((name, pa.float64()) for name in _CLOCK_NUMBERS),
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


def episodes_to_arrow(episodes: Sequence[Episode]) -> pa.RecordBatch:
    """The rows of some episodes, without what only the process knows that writes them: duplicates, and the time."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        name: [getattr(episode, name) for episode in episodes] for name in _EPISODE_TEXTS
    }
    columns |= {
        "instructions": [episode.instructions for episode in episodes],
        "num_steps": [episode.num_steps for episode in episodes],
        "rate_hz": [episode.rate_hz for episode in episodes],
        "duration_seconds": [episode.duration_seconds for episode in episodes],
        "num_cameras": [len(episode.cameras) for episode in episodes],
        "cameras": _camera_lists([episode.cameras for episode in episodes]),
        "success": [episode.success for episode in episodes],
        "state_names": [episode.state_names for episode in episodes],
        "action_names": [episode.action_names for episode in episodes],
        "metadata": [json.dumps(dict(episode.metadata), allow_nan=False) for episode in episodes],
        "duplicate_of": [None] * len(episodes),
        "ingested": [None] * len(episodes),
        "source_stamp": [episode.source_stamp for episode in episodes],
        "label_stamp": [episode.label_stamp for episode in episodes],
        # Beside the cameras and not in them: an older table can get a column, but not a new field in a list.
        "camera_stamps": [[camera.media.stamp for camera in episode.cameras] for episode in episodes],
        **{name: [getattr(episode, name) for episode in episodes] for name in CLOCK_COLUMNS},
    }
    schema = episode_schema()
    arrays = [_arrow_column(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def drop_unsupported_camera_fields(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """The rows for a table that was created before cameras had `channels`.

    Raises StoreError for a row that such a table cannot store.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = table.field("cameras").type
    if kind.value_type.get_field_index("channels") >= 0:
        return rows
    lists = rows["cameras"]
    if pc.any(pc.not_equal(lists.values.field("channels"), "rgb")).as_py():
        raise StoreError(
            "this workspace was created before swapped colours could be recorded",
            "ingest into a new workspace",
        )
    arrays = [lists.values.field(field.name) for field in kind.value_type]
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    cameras = pa.ListArray.from_arrays(lists.offsets, structs)
    return rows.set_column(rows.schema.get_field_index("cameras"), pa.field("cameras", kind), cameras)


def episodes_from_arrow(batch: pa.RecordBatch, root: str) -> list[Episode]:
    """The episodes of `episodes_to_arrow`; columns of annotators are ignored.

    Args:
        batch: Rows of the episodes table.
        root: Folder or URI of the workspace, which the uri of copied media is relative to.
    """
    plain = [*_EPISODE_TEXTS, "num_steps", "rate_hz", "success"]
    parsed = ["instructions", "cameras", "state_names", "action_names", "metadata"]
    later = [name for name in (*STAMP_COLUMNS, *CLOCK_COLUMNS) if name in batch.schema.names]
    corrected = [name for name in recorded_columns(batch.schema.names) if name not in plain + parsed]
    return [
        Episode(
            **{name: row[name] for name in plain},
            instructions=tuple(row["instructions"]),
            cameras=tuple(
                _camera_from_row(camera, stamp, root)
                for camera, stamp in zip(
                    row["cameras"], chain(row.get("camera_stamps") or (), repeat("")), strict=False
                )
            ),
            state_names=tuple(row["state_names"]),
            action_names=tuple(row["action_names"]),
            metadata=json.loads(row["metadata"]),
            source_stamp=row.get("source_stamp") or "",
            label_stamp=row.get("label_stamp") or "",
            **_clock_fields(row),
            recorded=read_recorded(row),
        )
        for row in batch.select([*plain, "duration_seconds", *parsed, *later, *corrected]).to_pylist()
    ]


def _clock_fields(row: dict[str, Any]) -> dict[str, Any]:
    """The clock of a row; a row of an older table has none, and its clock is then taken to be even."""
    fields = {name: row[name] for name in CLOCK_COLUMNS if row.get(name) is not None}
    if fields.get("clock_shift_seconds"):
        fields["stamped_duration_seconds"] = row["duration_seconds"]
    return fields


def trajectories_to_arrow(ids: Sequence[str], trajectories: Sequence[Trajectory]) -> pa.RecordBatch:
    """The rows of some trajectories."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    states, actions = (
        [trajectory.state for trajectory in trajectories],
        [trajectory.action for trajectory in trajectories],
    )
    arrays = [
        pa.array(ids, pa.string()),
        _list_array([trajectory.timestamps for trajectory in trajectories], pa.float64()),
        pa.array([None if signal is None else signal.names for signal in states], texts),
        _list_array([None if signal is None else signal.values for signal in states], pa.float32()),
        pa.array([None if signal is None else signal.names for signal in actions], texts),
        _list_array([None if signal is None else signal.values for signal in actions], pa.float32()),
        _list_array([trajectory.reward for trajectory in trajectories], pa.float32()),
        _extra_lists([trajectory.extra.items() for trajectory in trajectories]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=trajectory_schema())


def trajectories_from_arrow(batch: pa.RecordBatch) -> list[tuple[str, Trajectory]]:
    """The trajectories of `trajectories_to_arrow`, with their episode ids."""
    return [
        (batch["episode_id"][row].as_py(), _trajectory_from_row(batch, row)) for row in range(batch.num_rows)
    ]


def column_types(schema: pa.Schema) -> dict[str, str]:
    """Type of every column: an Arrow type name, "timestamp", or "list<string>" and the like."""
    return {field.name: _type_name(field.type) for field in schema}


def is_column_name(name: str) -> bool:
    """Whether a filter can use a column of this name."""
    from ares.store.filters import FILTER_WORDS

    return _NAME.fullmatch(name) is not None and name not in FILTER_WORDS


def add_columns(table: TableWriter, existing: pa.Schema, columns: pa.Schema) -> None:
    """Add the columns that a table does not have, without values.

    Args:
        table: The table.
        existing: The columns that it has.
        columns: The columns that it needs.

    Raises:
        StoreError: A column has another type in the table, or a name that no filter could use.
    """
    import pyarrow as pa

    new = [field for field in columns if field.name not in existing.names]
    for field in columns:
        if field not in new and existing.field(field.name).type != field.type:
            raise StoreError(
                f"column {field.name!r} has another type",
                f"it is {existing.field(field.name).type}, but the new values are {field.type}",
            )
        if not is_column_name(field.name):
            raise StoreError(f"{field.name!r} is not a column name", "use small letters, digits and '_'")
    if new:
        with lance_errors(table.name):
            table.add_columns(pa.schema(new))


def _type_name(data_type: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(data_type):
        return f"list<{_type_name(data_type.value_type)}>"
    if pa.types.is_timestamp(data_type):
        return "timestamp"
    return {"double": "float64"}.get(str(data_type), str(data_type))


def _trajectory_from_row(batch: pa.RecordBatch, row: int) -> Trajectory:
    timestamps = _copy_values(batch["timestamps"][row])
    steps = len(timestamps)
    return Trajectory(
        timestamps=timestamps,
        state=_signal_from_lists(batch["state_names"][row], batch["state"][row], steps),
        action=_signal_from_lists(batch["action_names"][row], batch["action"][row], steps),
        reward=_copy_values(batch["reward"][row]) if batch["reward"][row].is_valid else None,
        extra={item["name"].as_py(): _extra_signal(item, steps) for item in batch["extra"][row]},
    )


def _extra_signal(scalar: pa.StructScalar, steps: int) -> Signal:
    signal = _signal_from_lists(scalar["names"], scalar["values"], steps)
    assert signal is not None  # extra signals are stored only where they exist
    return signal


def _signal_from_lists(names: pa.ListScalar, values: pa.ListScalar, steps: int) -> Signal | None:
    if not values.is_valid:
        return None
    dimension_names = tuple(names.as_py())
    return Signal(values=_copy_values(values).reshape(steps, len(dimension_names)), names=dimension_names)


def _copy_values(scalar: pa.ListScalar) -> NDArray[Any]:
    # A copy, because Arrow's memory is read-only and keeps the whole batch alive.
    values: NDArray[Any] = scalar.values.to_numpy(zero_copy_only=False).copy()
    return values


def _list_array(values: Sequence[NDArray[Any] | None], kind: pa.DataType) -> pa.ListArray:
    import numpy as np
    import pyarrow as pa

    flat = [np.ravel(array) for array in values if array is not None]
    empty = np.zeros(0, kind.to_pandas_dtype())
    joined = np.concatenate(flat, dtype=empty.dtype, casting="same_kind") if flat else empty
    offsets = _list_offsets(0 if array is None else array.size for array in values)
    missing = pa.array([array is None for array in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, pa.array(joined, kind), mask=missing)


def _extra_lists(extras: Sequence[Iterable[tuple[str, Signal]]]) -> pa.ListArray:
    import pyarrow as pa

    signals = [list(extra) for extra in extras]
    flat = list(chain.from_iterable(signals))
    fields = [
        pa.array([name for name, _ in flat], pa.string()),
        pa.array([signal.names for _, signal in flat], pa.list_(pa.string())),
        _list_array([signal.values for _, signal in flat], pa.float32()),
    ]
    structs = pa.StructArray.from_arrays(
        fields, fields=list(trajectory_schema().field("extra").type.value_type)
    )
    return pa.ListArray.from_arrays(_list_offsets(map(len, signals)), structs)


def valid_utf8(value: Any) -> Any:
    """A text, or a list of texts, that Arrow can store: a lone surrogate, which JSON allows, becomes "?"."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    return [valid_utf8(text) for text in value] if isinstance(value, list | tuple) else value


def _arrow_column(values: Any, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array(valid_utf8(values), kind)


def _list_offsets(sizes: Iterable[int]) -> pa.Int32Array:
    import pyarrow as pa

    return pa.array(accumulate(sizes, initial=0), pa.int32())


def _camera_arrow_type() -> pa.DataType:
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


def _camera_lists(cameras: Sequence[Sequence[Camera]]) -> pa.ListArray:
    import pyarrow as pa

    flat = list(chain.from_iterable(cameras))
    kind = _camera_arrow_type()
    media_fields = {*_MEDIA_TEXTS, *_MEDIA_SECONDS, *_MEDIA_COUNTS}
    # An older table cannot get a new field in a list: the turn stands in the text of the colours.
    stored_as = {"channels": "pixel_order"}
    arrays = [
        pa.array(
            [
                getattr(
                    camera.media if field.name in media_fields else camera,
                    stored_as.get(field.name, field.name),
                )
                for camera in flat
            ],
            field.type,
        )
        for field in kind
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind))
    return pa.ListArray.from_arrays(_list_offsets(map(len, cameras)), structs)


def _camera_from_row(row: dict[str, Any], stamp: str, root: str) -> Camera:
    media_fields = (*_MEDIA_TEXTS, *_MEDIA_SECONDS, *_MEDIA_COUNTS)
    # A row of an older table has fewer fields; missing fields have a default.
    media = {name: row.pop(name) for name in media_fields if name in row}
    if not media["uri"].startswith("/") and "://" not in media["uri"]:
        media["uri"] = f"{root}/{media['uri']}"
    return Camera(**row | {"flags": tuple(row["flags"])}, media=MediaRef(**media, stamp=stamp))


def type_mismatch(value: Json, column_type: str, column: str, choices: Sequence[str] = ()) -> str:
    """Why a value does not fit a column, or "".

    Args:
        value: A JSON value; None fits every column.
        column_type: Type of the column, see `ares.annotation.ColumnType`.
        column: Name of the column, for the message.
        choices: The allowed texts; empty allows any.
    """
    if value is None or (not choices and type(value) is _PLAIN_TYPES.get(column_type)):
        return ""
    fits = isinstance(value, _PYTHON_TYPES[column_type]) and isinstance(value, bool) == (
        column_type == "bool"
    )
    if fits and isinstance(value, int):
        fits = -(2**63) <= value < 2**63
    if fits and isinstance(value, list | tuple):
        fits = all(isinstance(item, str) for item in value)
    if fits and column_type == "timestamp":
        fits = _parse_time(value) is not None
    if not fits:
        return f"column {column!r} is {column_type}, but got {value!r}"
    unknown = choices and any(item not in choices for item in _as_sequence(value))
    return f"column {column!r} is one of {', '.join(choices)}, but got {value!r}" if unknown else ""


def to_arrow_value(value: Json, column_type: str) -> Any:
    """A fitting value as Arrow takes it: a time as a datetime in UTC, text as valid UTF-8."""
    if column_type == "timestamp" and value is not None:
        return _parse_time(value)
    return float(value) if column_type == "float64" and isinstance(value, int) else valid_utf8(value)


def arrow_type(column_type: str) -> pa.DataType:
    """Arrow type of a column of an annotator."""
    import pyarrow as pa

    return {
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "list<string>": pa.list_(pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[column_type]


def _parse_time(value: Json) -> datetime | None:
    """ISO 8601 text as a time; without an offset it is UTC."""
    try:
        time = datetime.fromisoformat(str(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _as_sequence(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else (value,)


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeTableRows:
    """Rows of the episodes and trajectories tables, one of each for every episode, in the same order.

    Attributes:
        episodes: Rows of the episodes table.
        trajectories: Rows of the trajectories table.
    """

    episodes: pa.RecordBatch
    trajectories: pa.Table

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.episodes.nbytes + self.trajectories.nbytes)


def records_to_table_rows(records: Sequence[Record]) -> EpisodeTableRows:
    """The rows of one or more records; their time of ingestion is set when they are written."""
    import pyarrow as pa

    episodes = episodes_to_arrow([record.episode for record in records])
    batches = [trajectories_to_arrow(*part) for part in _split_by_values(records)]
    return EpisodeTableRows(episodes, pa.Table.from_batches(batches))


def _split_by_values(records: Sequence[Record]) -> Iterator[tuple[list[str], list[Trajectory]]]:
    ids: list[str] = []
    trajectories: list[Trajectory] = []
    values = 0
    for record in records:
        size = _num_values(record.trajectory)
        if ids and values + size > _MAX_BATCH_VALUES:
            yield ids, trajectories
            ids, trajectories, values = [], [], 0
        ids.append(record.episode.episode_id)
        trajectories.append(record.trajectory)
        values += size
    yield ids, trajectories


def _num_values(trajectory: Trajectory) -> int:
    signals = [trajectory.state, trajectory.action, *trajectory.extra.values()]
    return len(trajectory.timestamps) + sum(signal.values.size for signal in signals if signal is not None)
