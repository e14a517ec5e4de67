"""The storage of one workspace: its tables, log, media cache and write lock; opened, and migrated from earlier ones."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.clock import settle_measured_clock
from ares.console import count_of, print_message, write_stderr
from ares.episode import Record
from ares.errors import AresError, ReadOnlyWorkspace, RequestError, StoreError
from ares.io import describe_os_error, is_url, local_file_path
from ares.settings import Settings
from ares.store.folder_lock import WorkspaceBusy, lock_folder
from ares.store.lance.schema import CLOCK_COLUMNS, episode_schema
from ares.store.manifest import FORMAT, read_format, read_or_create, write_format
from ares.store.sync.apply import APPLIED_SEQUENCES, REBUILD, applied_sequence, reset_applied_sequence

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Producer
    from ares.episode import Camera, Episode, FramePairing, Trajectory
    from ares.media import FileCache
    from ares.store.lance_tables import Tables
    from ares.store.log.mongo import MongoAnnotationStore
    from ares.store.log.protocol import AnnotationStore

# How often an open workspace is compared with its log, which takes some milliseconds.
_COMPARE_SECONDS = 1.0
# A job waits this long for a database server that went away; a page does not.
_JOB_RETRY_SECONDS = 120.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """What the log has and the tables do not show: what a command left that was interrupted, or that still runs.

    Attributes:
        annotations: Whether there are annotations.
        actions: Numbers of the actions, oldest first.
        has_pins: Whether another choice of producers was made.
        has_purge: Whether a purge was begun.
    """

    annotations: bool = False
    actions: tuple[int, ...] = ()
    has_pins: bool = False
    has_purge: bool = False

    def __str__(self) -> str:
        numbers = " and ".join(
            filter(None, (", ".join(map(str, self.actions[:-1])), *map(str, self.actions[-1:])))
        )
        parts = {
            f"action{'s' if len(self.actions) > 1 else ''} {numbers}": bool(self.actions),
            "a choice of producers": self.has_pins,
            "a purge": self.has_purge,
            "annotations": self.annotations,
        }
        return " and ".join(part for part, is_missing in parts.items() if is_missing)


class Stores:
    """Everything that a workspace keeps, in a folder or on an object store; each store is opened on first use.

    Args:
        path: Folder or URI, as the user wrote it.
        settings: Settings from the environment.
        manifest: The content of workspace.json.
        compare: Whether the tables are compared with the log when they are first used.

    Attributes:
        lag: What the tables did not show when they were last compared with the log, and could not be made to show;
            None where they show everything.
        lag_message: What they lack and why, in a line, also while another process writes it; "" for nothing.
        completed: Numbers of the actions that an interrupted command had left, and that were completed since.
    """

    def __init__(
        self, path: str, settings: Settings, manifest: dict[str, object], compare: bool = True
    ) -> None:
        self.path = path
        self.settings = settings
        self.workspace_id = str(manifest["workspace_id"])
        self._annotation_backend = str(manifest["annotations"])
        self._has_write_lock = False
        self._compare_at = 0.0 if compare else math.inf
        self._compared_actions = (0, 0)
        self.is_closed = False
        self.lag: Lag | None = None
        self.lag_message = ""
        self.completed: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Stores({self.path!r})"

    def __reduce__(self) -> tuple[Callable[..., Stores], tuple[str, Settings]]:
        return open_stores, (self.path, self.settings)

    @property
    def location(self) -> str:
        """The absolute folder, or the URI on an object store; another process can open the workspace by it."""
        return self.path.rstrip("/") if self.is_remote else str(self.folder)

    @property
    def is_remote(self) -> bool:
        """Whether the workspace is on an object store."""
        return is_url(self.path)

    @property
    def is_writable(self) -> bool:
        """Whether this user may write to the folder; an object store tells only when it is written to."""
        return self.is_remote or os.access(self.folder, os.W_OK)

    @property
    def folder(self) -> Path:
        """The local folder: of the workspace, or only of its caches when it is on an object store."""
        if self.is_remote:
            return Path(self.settings.cache).expanduser() / self.workspace_id
        return Path(self.path).resolve()

    @property
    def tables(self) -> Tables:
        """The LanceDB tables: episodes, trajectories, segments and vectors. Reading this property may write them.

        They are compared with the log at their first use, and again where that is more than a second ago: another
        process may have been killed meanwhile. Where they lack something and no other job writes, `catch_up` applies
        it under the write lock. A line on standard error says so. Nothing is compared without `compare`.

        Raises:
            StoreError: The log cannot be reached at the first use. At later uses the tables are then read as they are.
        """
        if time.monotonic() >= self._compare_at:
            compare = self.catch_up_again if self._compare_at else self.catch_up
            self._compare_at = time.monotonic() + _COMPARE_SECONDS
            compare()
        return self._tables

    @cached_property
    def _tables(self) -> Tables:
        from ares.store.lance_tables import open_tables

        return open_tables(f"{self.location}/lance", self._find_set)

    def _find_set(self, name: str) -> tuple[str, Iterator[str]]:
        """The label and the members of a set that a filter names. Raises RequestError."""
        from ares.store.actions import find_set

        return find_set(self.annotations, name)

    @cached_property
    def annotations(self) -> AnnotationStore:
        """The append-only log: MongoDB if the workspace was created with it, else the embedded SQLite file.

        Raises:
            StoreError: The server cannot be reached.
        """
        if self._annotation_backend == "sqlite":
            from ares.store.log.sqlite import SqliteAnnotationStore

            return SqliteAnnotationStore(self.folder / "annotations.sqlite")
        return self._mongo

    @cached_property
    def _mongo(self) -> MongoAnnotationStore:
        from ares.store.log.mongo import MongoAnnotationStore

        if not self.settings.mongo_uri:
            raise StoreError(
                "this workspace keeps its annotations in MongoDB", "set ARES_MONGO_URI to its server"
            )
        return MongoAnnotationStore(self.settings.mongo_uri, self.workspace_id)

    @cached_property
    def media_cache(self) -> FileCache:
        """Playable videos and thumbnails, in a folder of bounded size."""
        from ares.media import FileCache

        return FileCache(self.folder / "cache", self.settings.media_cache_bytes)

    def sync(self) -> int:
        """Apply the annotations that the tables lack. Returns the number of annotations applied.

        While another job writes, nothing is done: that job applies them at its end. Nor is it in a read-only workspace.
        """
        if self._has_write_lock:
            return self._update_tables()
        try:
            with self._acquire_lock("the index", wait=False):
                return self._update_tables()
        except (WorkspaceBusy, ReadOnlyWorkspace):
            return 0

    def catch_up(self) -> None:
        """Let the tables show what an interrupted command has left in the log alone.

        Whoever has the write lock does so at the end of the job. Where the tables cannot be written, `lag` says what
        they lack, and so does a line on standard error, once.
        """
        if self._has_write_lock:
            return
        lag, self.lag, cause = self.find_lag(), None, "`ares doctor --repair` completes it"
        if lag is None:
            self.lag_message = ""
            return
        try:
            with self._acquire_lock("the index", wait=False):
                self._complete()
        except WorkspaceBusy as error:
            if lag != Lag(annotations=True):
                self._say_lag(f"the tables do not show {lag} yet, as {error} is writing", print_message)
            return
        except (AresError, OSError) as error:
            cause = describe_os_error(error) if isinstance(error, OSError) else str(error)
        # Values that no column can show, of which the error tells, count as shown.
        self.lag = self.find_lag()
        text = (
            f"the tables do not show {self.lag}, which an interrupted command left: {cause}"
            if self.lag
            else ""
        )
        self._say_lag(text, write_stderr)

    def catch_up_again(self) -> None:
        """As `catch_up`; a log that cannot be reached now is said in `lag_message` and raises nothing."""
        try:
            self.catch_up()
        except StoreError as error:
            self._say_lag(f"the tables may lack something: {error}", write_stderr)

    def _say_lag(self, text: str, say: Callable[[str], None]) -> None:
        """Keep what the tables lack, in words, and say it where it is new."""
        if text and text != self.lag_message:
            say(text)
        self.lag_message = text

    def require_current(self) -> None:
        """Raise StoreError unless the tables show the whole log, for what would freeze or repeat half an action."""
        self.catch_up()
        lag = self.find_lag()
        if lag and (lag.actions or lag.has_pins or self.lag):
            raise StoreError(
                "the tables do not show everything that was done",
                f"{lag} is missing; wait for the job that writes",
            )

    def find_lag(self) -> Lag | None:
        """What the tables do not show of the log, in a few reads whatever their size, or None. Raises StoreError."""
        position, shown = self.annotations.position(), self._tables.applied_numbers()
        applied = shown.get("actions", 0)
        pins = {f"pin/{name}/{maker_id}" for name, maker_id in position.pins.items()}
        # What follows from annotations counts as they do: a command may have stopped between the two.
        sequence = min(shown.get(key, 0) for key in APPLIED_SEQUENCES)
        lag = Lag(
            annotations=position.sequence > sequence or REBUILD in shown,
            actions=self._actions_after(applied, position.action),
            has_pins=pins != {key for key in shown if key.startswith("pin/")},
            has_purge=position.has_purge,
        )
        return None if lag == Lag() else lag

    def _actions_after(self, applied: int, last: int) -> tuple[int, ...]:
        """Numbers of the actions that the tables lack, up to the last; the log is read once for each number."""
        from ares.store.actions import read_history

        if (applied, last) != self._compared_actions:
            lacking = read_history(self.annotations).shown_after(applied) if last > applied else ()
            if lacking:
                return lacking
            self._compared_actions = (applied, last)
        return ()

    def _complete(self) -> None:
        """Apply the log under the write lock, and keep what was completed."""
        lag = self.find_lag()  # another process may have done it
        self._update_tables()
        if lag is None:
            return
        self.completed += lag.actions
        if lag.actions or lag.has_pins:
            print_message(
                f"completed {replace(lag, annotations=False, has_purge=False)}, which an interrupted command left"
            )

    @contextmanager
    def applying(self, job_name: str) -> Iterator[None]:
        """Let the tables show what the block adds to the log; where another job writes, that job does it at its end.

        Args:
            job_name: Name of the job, shown to those who wait.
        """
        if self._has_write_lock:
            yield
            self._update_tables()
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(self._acquire_lock(job_name, wait=False))
                is_locked = True
            except WorkspaceBusy:
                is_locked = False
            yield
            if is_locked:
                self._update_tables()
                return
        self.sync()

    @contextmanager
    def write_lock(self, job_name: str, wait: bool = True) -> Iterator[None]:
        """Lock the workspace for one writer; a second writer waits and reports for whom.

        Args:
            job_name: Name of the job, shown to those who wait.
            wait: Whether to wait; otherwise WorkspaceBusy is raised where another job writes.
        """
        with self._acquire_lock(job_name, wait):
            self._has_write_lock = True
            self.annotations.retry_seconds = _JOB_RETRY_SECONDS
            try:
                yield
            finally:
                self.annotations.retry_seconds = 0.0
                self._has_write_lock = False

    def close(self) -> None:
        """Close the annotation store, if it was opened."""
        for name in ("annotations", "_mongo"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def _acquire_lock(self, job_name: str, wait: bool = True) -> AbstractContextManager[None]:
        # See docs/why/006: a lock on an object store can outlive its owner; a lease by the clock of one server expires.
        if self.is_remote:
            return self._mongo.write_lease(job_name, wait)
        return lock_folder(self.folder, job_name, wait)

    def _update_tables(self) -> int:
        from ares.store.sync.apply import apply_log

        return apply_log(self._tables, self.annotations)


def check_ids_once(stores: Stores, ids: Any) -> None:
    """Raise RequestError where an id of a list, or of strings in Arrow, is no episode or is repeated."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, pa.string())
    unknown = array.filter(pc.invert(pc.is_in(array, value_set=stores.tables.episodes.arrow_ids().array)))
    if len(unknown):
        raise RequestError(f"{count_of(len(unknown), 'id')} of no episode", f"first: {unknown[0].as_py()!r}")
    counts = pc.value_counts(array)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise RequestError("each episode is named once", f"{repeated[0]['values'].as_py()!r} is repeated")


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
    """Let producers say what they describe, and derive the tables from the log, which is complete in every layout."""
    for producer in stores.annotations.producers().values():
        upgraded = _upgrade_producer(producer)
        if upgraded != producer:
            stores.annotations.add_producer(upgraded)
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


def _upgrade_producer(producer: Producer) -> Producer:
    columns = tuple(
        replace(column, needs_current_maker=column.name == _CURRENT_ONLY.get(producer.annotator))
        for column in producer.columns
    )
    return replace(producer, columns=columns, **_DECLARATIONS.get(producer.annotator, {}))


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
    path = local_file_path(path)
    manifest = read_or_create(path, settings)
    stores = Stores(path, settings, manifest, compare)
    if manifest["format"] != FORMAT:
        migrate(stores)
    return stores
