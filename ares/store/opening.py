"""Opens the stores of a workspace, and migrates those that an earlier version wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.clock import settle_measured_clock
from ares.console import print_message
from ares.episode import Record
from ares.errors import ReadOnlyWorkspace, StoreError
from ares.io import describe_os_error
from ares.settings import Settings
from ares.store.folder import FORMAT, read_format, read_or_create, write_format
from ares.store.lance.schema import CLOCK_COLUMNS, episode_schema
from ares.store.stores import Stores
from ares.store.sync.apply import applied_sequence, reset_applied_sequence

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Maker
    from ares.episode import Camera, Episode, FramePairing, Trajectory


# What the code of layout 1 knew of its annotators, and the log says itself from layout 2 on.
_DECLARATIONS: Mapping[str, Mapping[str, Any]] = {
    "caption": {"fills_segments": True},
    "grade": {"subject_kind": "annotation", "after": ("caption",)},
}
_CURRENT_ONLY = {"grade": "acceptable"}
# What layout 3 says of every episode: formats that promise a frame per step, and formats that store no stamps.
_FRAME_PER_STEP = frozenset({"lerobot", "rlds", "hdf5", "zarr"})
_WITHOUT_STAMPS = frozenset({"rlds", "hdf5"})
_READ_ROWS, _WRITE_ROWS = 256, 20_000


def migrate(stores: Stores) -> None:
    """Bring a workspace of an older layout to the newest one; a killed migration is taken up by the next call.

    Raises:
        StoreError: The workspace cannot be written.
    """
    try:
        with stores.write_lock("migration"):
            _take_steps(stores)
    except (OSError, ReadOnlyWorkspace) as error:
        cause = describe_os_error(error) if isinstance(error, OSError) else error.detail
        raise StoreError(
            "a workspace of an older layout is migrated where it can be written, and cannot be written here",
            f"{stores.path}: {cause}",
        ) from None


def _take_steps(stores: Stores) -> None:
    # Another process may have done it while this one waited.
    for layout in range(read_format(stores.path), FORMAT):
        name, step = _STEPS[layout]
        print_message(f"migrating {stores.path} to layout {layout + 1}: {name}")
        step(stores)
        write_format(stores.path, layout + 1)


def _add_subjects(stores: Stores) -> None:
    """Let makers say what they describe, and derive the tables from the log anew: it is complete in every layout."""
    for maker in stores.annotations.makers().values():
        upgraded = _upgrade_maker(maker)
        if upgraded != maker:
            stores.annotations.add_maker(upgraded)
    connection = stores.tables.connection
    segments = connection.open_dataset("segments")
    if segments is not None and "segment_id" not in segments.schema.names:
        connection.drop_table("segments")
    reset_applied_sequence(stores.tables)
    try:
        stores.sync()
    except StoreError as error:
        # Values that fit no column cost themselves alone: everything else is applied by then.
        if applied_sequence(stores.tables) < stores.annotations.last_sequence():
            raise
        print_message(f"migrating {stores.path}: {error}")
    if segments is not None:
        stores.tables.optimize()


def _upgrade_maker(maker: Maker) -> Maker:
    columns = tuple(
        replace(column, needs_current_maker=column.name == _CURRENT_ONLY.get(maker.annotator))
        for column in maker.columns
    )
    return replace(maker, columns=columns, **_DECLARATIONS.get(maker.annotator, {}))


def _measure_clocks(stores: Stores) -> None:
    """Fill the columns of clocks by the stored stamps; where a rate contradicts them, they win, as in an ingestion."""
    import pyarrow as pa

    table, rows = stores.tables.episodes, stores.tables.episodes.snapshot()
    # A migration that was killed has filled them for some episodes, whose rates must not be judged again.
    where = "frame_pairing IS NULL" if "frame_pairing" in rows.arrow_schema.names else ""
    parts: list[pa.Table] = []
    for batch in rows.scan(table.episode_columns(rows), where):
        for start in range(0, batch.num_rows, _READ_ROWS):
            parts.append(_clock_columns(stores, batch.slice(start, _READ_ROWS)))
        if sum(map(len, parts)) >= _WRITE_ROWS:
            table.set_values(pa.concat_tables(parts))
            parts = []
    if parts:
        table.set_values(pa.concat_tables(parts))
    # Earlier versions took the first by name for the original, not the one that was stored first.
    table.mark_duplicates()
    # The indexes do not cover rows that were written again.
    stores.tables.optimize()


def _clock_columns(stores: Stores, rows: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    episodes = stores.tables.episodes.from_batch(rows)
    trajectories = dict(stores.tables.trajectories.read([episode.episode_id for episode in episodes]))
    settled = [_settle_stored_clock(episode, trajectories.get(episode.episode_id)) for episode in episodes]
    cameras = [
        [camera | _media_clock(changed) for camera, changed in zip(stored, episode.cameras, strict=True)]
        for stored, episode in zip(rows["cameras"].to_pylist(), settled, strict=True)
    ]
    schema = episode_schema()
    names = ("episode_id", "rate_hz", "rate_source", "duration_seconds", *CLOCK_COLUMNS)
    columns = {
        name: pa.array([getattr(episode, name) for episode in settled], schema.field(name).type)
        for name in names
    }
    return pa.table({**columns, "cameras": pa.array(cameras, rows["cameras"].type)})


def _settle_stored_clock(episode: Episode, trajectory: Trajectory | None) -> Episode:
    promised: FramePairing = "index" if episode.format in _FRAME_PER_STEP else "stamp"
    episode = replace(episode, frame_pairing=promised)
    if trajectory is None:
        return episode
    has_stamps = episode.format not in _WITHOUT_STAMPS and episode.rate_source != "assumed"
    return settle_measured_clock(
        Record(episode=episode, trajectory=trajectory, has_stamps=has_stamps)
    ).episode


def _media_clock(camera: Camera) -> dict[str, float]:
    return {name: getattr(camera.media, name) for name in ("start_seconds", "stop_seconds", "rate_hz")}


# By the layout that a step starts from.
_STEPS: Mapping[int, tuple[str, Callable[[Stores], None]]] = {
    1: ("annotations say what they are about", _add_subjects),
    2: ("clocks are measured", _measure_clocks),
}


def open_stores(path: str, settings: Settings, *, compare: bool = True) -> Stores:
    """Open the stores of a workspace, creating them when the folder is empty or does not exist.

    A workspace of an older layout is migrated first.

    Args:
        path: Folder or URI.
        settings: Settings from the environment.
        compare: Whether what an interrupted command has left is completed; not for a part of a job, which follows
            the log by itself.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    manifest = read_or_create(path, settings)
    stores = Stores(path, settings, manifest, compare)
    if manifest["format"] != FORMAT:
        migrate(stores)
    return stores
