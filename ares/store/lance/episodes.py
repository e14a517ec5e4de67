"""The episodes table, with one light row each, and the table of the removed ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ares.episode import Episode, Record
from ares.errors import RequestError, UnknownEpisode
from ares.store.lance.corrections import keep_corrections, recorded_columns
from ares.store.lance.episode_snapshot import EpisodeCaches, EpisodeSnapshot, FindSet
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.row_index import EpisodeIdArray
from ares.store.lance.schema import (
    CLOCK_COLUMNS,
    STAMP_COLUMNS,
    EpisodeTableRows,
    add_columns,
    column_types,
    drop_unsupported_camera_fields,
    episode_schema,
    episodes_from_arrow,
    is_column_name,
    records_to_table_rows,
)
from ares.store.lance.table import CreateOnWriteTable, LanceTable
from ares.store.lance.text import TextHashes
from ares.store.sql import (
    TrustedFilter,
    batched,
    column_membership,
    ids_filter,
    in_condition,
    quote_literal,
)
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from ares.store.lance.table import TableWriter
    from ares.store.lance.trajectories import TrajectoryTable


_REMOVED_ID_ROWS, _REMOVED_TABLE_NAME = 10_000, "removed_episodes"
# Episodes that are read by id at once, ids in a batch, and rows whose duplicate_of is set at once.
_READ_ROWS, _ID_ROWS, _DUPLICATE_ROWS = 1_000, 10_000, 100_000
# Episodes that were read by id and are kept, a few kilobytes each: a page asks for one again with every picture.
_KEPT_EPISODES = 256
# Ids that are named where several start alike.
_SHOWN_IDS = 5
_DUPLICATE_HASHES = """
SELECT content_hash FROM hashes WHERE content_hash <> '' GROUP BY content_hash HAVING count(*) > 1
"""
# One ingestion gives all of its episodes the same time.
_STORED_ORDER = ("ingested", "dataset", "version", "split", "key")
_FIRST_OF_SAME_CONTENT = f"""
SELECT episode_id, CASE WHEN first = episode_id THEN NULL ELSE first END AS now, duplicate_of AS before
FROM (
    SELECT episode_id, duplicate_of, first_value(episode_id) OVER (
        PARTITION BY content_hash ORDER BY {", ".join(_STORED_ORDER)}, episode_id
    ) AS first
    FROM candidates WHERE content_hash <> ''
)
"""
_CHANGED_ROWS = "SELECT episode_id, now AS duplicate_of FROM originals WHERE now IS DISTINCT FROM before"


class RemovedEpisodesTable:
    """Rows of the episodes table that were moved out of it; the first removal creates the table.

    Args:
        table: The Lance table "removed_episodes".
        find_set: Finds the members of a set that a filter names.
    """

    def __init__(self, table: CreateOnWriteTable, find_set: FindSet) -> None:
        self._table = table
        self._find_set = find_set

    @property
    def _dataset(self) -> lance.LanceDataset | None:
        return self._table.dataset()

    def count(self) -> int:
        """Number of removed episodes."""
        dataset = self._dataset
        with lance_errors(_REMOVED_TABLE_NAME):
            return 0 if dataset is None else int(dataset.count_rows())

    def ids(self, where: str = "") -> pa.ChunkedArray:
        """Ids of the removed episodes that match a filter, (N,) strings in Arrow. Raises RequestError."""
        import pyarrow as pa

        batches = self.scan(["episode_id"], where)
        return pa.chunked_array([batch["episode_id"] for batch in batches], pa.string())

    def scan(self, columns: Sequence[str], where: str = "") -> Iterator[pa.RecordBatch]:
        """Columns of the removed episodes that match a filter. Raises RequestError for an invalid filter."""
        dataset = self._dataset
        if dataset is None:
            return
        types = column_types(dataset.schema)

        def expand(name: str, argument: str) -> str | None:
            if name == "in_set":
                return in_condition("episode_id", list(self._find_set(argument)[1]))
            return column_membership(name, argument, types)

        condition = plan_filter(dataset, where, types, expand)
        with lance_errors(_REMOVED_TABLE_NAME, where):
            for batch in dataset.scanner(columns=list(columns), filter=condition).to_batches():
                yield batch.select(list(columns))

    def column_names(self) -> list[str]:
        """Names of the columns; empty before the first removal."""
        dataset = self._dataset
        return [] if dataset is None else list(dataset.schema.names)

    def write(self, rows: pa.Table) -> None:
        """Write rows of the episodes table; existing ones are replaced. Raises StoreError."""
        table = self._table.create(rows.schema)
        dataset = self._dataset
        assert dataset is not None  # it has just been created
        add_columns(table, dataset.schema, rows.schema)
        with lance_errors(_REMOVED_TABLE_NAME):
            table.upsert("episode_id", rows)

    def delete(self, ids: Collection[str]) -> None:
        """Delete the rows of some episodes. Raises StoreError."""
        table = self._table.writer()
        if table is not None:
            delete_rows(table, "episode_id", ids)


def delete_rows(table: TableWriter, key: str, values: Collection[str]) -> None:
    """Delete the rows of a table whose key is one of the values, however many they are. Raises StoreError."""
    with lance_errors(table.name):
        for chunk in batched(values, _REMOVED_ID_ROWS):
            table.delete(in_condition(key, chunk))


class EpisodeTable:
    """Writes episodes and their columns, and reads the newest version by id and by filter.

    Args:
        lance_table: The Lance table "episodes".
        trajectories: Opens the table of the signals that are written with them.
        root: Folder or URI of the workspace, which copied media are relative to.
        removed: The rows of removed episodes.
        find_set: Finds the members of a set that a filter names.
    """

    def __init__(
        self,
        lance_table: LanceTable,
        trajectories: Callable[[], TrajectoryTable],
        root: str,
        removed: RemovedEpisodesTable,
        find_set: FindSet,
    ) -> None:
        self._lance_table = lance_table
        self._open_trajectories = trajectories
        self._root = root
        self._removed = removed
        self._caches = EpisodeCaches()
        self._caches.find_set = find_set
        # The episodes that were read last, and their version; never changed, only replaced.
        self._kept: tuple[int, dict[str, Episode]] = (0, {})

    @property
    def _trajectories(self) -> TrajectoryTable:
        return self._open_trajectories()

    @property
    def _writer(self) -> TableWriter:
        return self._lance_table.writer()

    def snapshot(self) -> EpisodeSnapshot:
        """The newest version, for reading: later writes do not change it."""
        return EpisodeSnapshot(self._lance_table.dataset(), self._caches)

    def add(self, records: Sequence[Record]) -> None:
        """Write new episodes: first their signals, then their rows, so that a row means that its signals exist.

        Existing episodes stay as they are; of records with one id the first is written.

        Raises:
            StoreError: A table cannot be written.
        """
        by_id = {record.episode.episode_id: record for record in reversed(records)}
        existing_ids = self.ids(ids_filter(by_id))
        new = [record for record in reversed(by_id.values()) if record.episode.episode_id not in existing_ids]
        if new:
            self._trajectories.delete([record.episode.episode_id for record in new])
            self.write([records_to_table_rows(new)], self.next_time())

    def next_time(self) -> datetime:
        """Time of an ingestion that begins now: later than that of any episode, also where the clock was set back."""
        import pyarrow.compute as pc

        batches = chain(self.scan(["ingested"]), self._removed.scan(["ingested"]))
        latest: list[datetime | None] = [pc.max(batch["ingested"]).as_py() for batch in batches]
        return max([datetime.now(UTC), *(time + timedelta(microseconds=1) for time in latest if time)])

    def write(self, batches: Sequence[EpisodeTableRows], ingested: datetime) -> None:
        """Write episodes like `add`; the caller makes sure that neither their rows nor their signals exist.

        Args:
            batches: Their rows.
            ingested: Time of the ingestion that stores them, the same for all of them, see `next_time`.

        Raises:
            StoreError: A table cannot be written.
        """
        import pyarrow as pa

        self._trajectories.write([batch.trajectories for batch in batches])
        later = (*STAMP_COLUMNS, *CLOCK_COLUMNS)
        self._add_columns(pa.schema([episode_schema().field(name) for name in later]))
        with lance_errors("episodes"):
            schema = self._writer.schema
            rows = pa.Table.from_batches(
                [drop_unsupported_camera_fields(batch.episodes, schema) for batch in batches]
            )
            field = rows.schema.field("ingested")
            times = pa.repeat(pa.scalar(ingested, field.type), len(rows))
            self._writer.add(rows.set_column(rows.schema.get_field_index(field.name), field, times))

    def correct(self, batches: Sequence[EpisodeTableRows], ingested: datetime) -> None:
        """Write episodes that were read again: what the source says of stored ones is replaced, what people say stays.

        A version of a table is written once, however many the batches are: each is compared with all rows.

        Args:
            batches: Their rows, no episode more than once.
            ingested: Time of ingestion of those that are new.

        Raises:
            StoreError: A table cannot be written.
        """
        import pyarrow as pa

        ids = [id for batch in batches for id in batch.episodes["episode_id"].to_pylist()]
        stored = pa.array(self.ids(ids_filter(ids)), pa.string())
        new = [_select_rows(batch, stored, is_stored=False) for batch in batches]
        if any(batch.episodes.num_rows for batch in new):
            self.write(new, ingested)
        old = [_select_rows(batch, stored, is_stored=True) for batch in batches]
        if any(batch.episodes.num_rows for batch in old):
            # Never without signals: the newer ones stand in their place at once.
            self._trajectories.replace(pa.concat_tables([batch.trajectories for batch in old]))
            values = pa.Table.from_batches([batch.episodes for batch in old])
            names = recorded_columns(self.columns())
            corrected = self.read_columns(["episode_id", *names], ids_filter(ids))
            self.set_values(keep_corrections(values.drop_columns(["ingested", "duplicate_of"]), corrected))

    def restore(self, rows: pa.Table) -> None:
        """Write rows of removed episodes again: columns of the source alone; episodes that exist stay as they are.

        Raises:
            StoreError: The table cannot be written.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        existing = pa.array(self.ids(ids_filter(rows["episode_id"].to_pylist())), pa.string())
        new = rows.filter(pc.invert(pc.is_in(rows["episode_id"], value_set=existing)))
        if len(new):
            with lance_errors("episodes"):
                self._writer.add(new)

    def delete(self, ids: Collection[str]) -> None:
        """Delete the rows of some episodes; their signals stay. Raises StoreError."""
        delete_rows(self._writer, "episode_id", ids)

    def set_values(self, values: pa.Table) -> None:
        """Set columns of some episodes; missing columns are added, unknown ids are ignored.

        Args:
            values: Column episode_id, no id more than once, and the columns to set with their Arrow types.

        Raises:
            StoreError: A column has another type in the table, or a name that no filter could use.
        """
        self._add_columns(values.schema)
        with lance_errors("episodes"):
            self._writer.update("episode_id", values)

    def add_missing_columns(self, columns: pa.Schema) -> None:
        """Add the columns that the table does not have, without values; those that no filter could name are ignored."""
        import pyarrow as pa

        names = self.snapshot().arrow_schema.names
        new = [field for field in columns if field.name not in names and is_column_name(field.name)]
        if new:
            self._add_columns(pa.schema(new))

    def replace_column(self, name: str, values: pa.RecordBatchReader | None) -> None:
        """Write a column of all episodes again: many values take the time of few.

        Args:
            name: The column; it need not exist.
            values: Its values alone, in the order of a scan of all rows; None drops the column.

        Raises:
            StoreError: The table cannot be written.
        """
        with lance_errors("episodes"):
            if name in self._writer.schema.names:
                self._writer.drop_column(name)
            if values is not None:
                self._writer.add_columns(values)

    def _add_columns(self, columns: pa.Schema) -> None:
        add_columns(self._writer, self.snapshot().arrow_schema, columns)

    def mark_duplicates(self) -> int:
        """Set `duplicate_of` to the episode of the same content that was stored first.

        Those that one ingestion has stored have the same time: of them the first by dataset, version, split, key.

        Returns:
            How many episodes have the content of an earlier one.
        """
        import pyarrow as pa

        with self._compared_contents() as temp_db:
            for batch in temp_db.stream(_CHANGED_ROWS, _DUPLICATE_ROWS):
                self.set_values(pa.Table.from_batches([batch]))
            return int(temp_db.query("SELECT count(now) AS count FROM originals")["count"][0].as_py())

    def find_wrong_duplicates(self) -> tuple[int, str]:
        """Number of episodes whose `duplicate_of` `mark_duplicates` would change, and the first id of them or ""."""
        with self._compared_contents() as temp_db:
            wrong = temp_db.query(
                f"SELECT count(*) AS count, min(episode_id) AS first FROM ({_CHANGED_ROWS})"
            )
            return int(wrong["count"][0].as_py()), wrong["first"][0].as_py() or ""

    @contextmanager
    def _compared_contents(self) -> Iterator[TempDatabase]:
        """A database with the table "originals": what `duplicate_of` is, and is to be."""
        columns = [*_STORED_ORDER, "episode_id", "content_hash", "duplicate_of"]
        rows = self.snapshot()
        with TempDatabase() as temp_db:
            temp_db.insert("hashes", rows.schema(["content_hash"]), rows.reader(["content_hash"]))
            temp_db.create_table_as("duplicate_hashes", _DUPLICATE_HASHES)
            # As a rule few episodes have the content of another, or had it at the last call.
            candidates = (
                "duplicate_of IS NOT NULL OR content_hash IN (SELECT content_hash FROM duplicate_hashes)"
            )
            temp_db.insert("candidates", rows.schema(columns), rows.reader(columns), candidates)
            temp_db.create_table_as("originals", _FIRST_OF_SAME_CONTENT)
            yield temp_db

    def count_duplicates(self) -> int:
        """Number of episodes that have the content of an earlier one, at the last `mark_duplicates`."""
        return self.count(TrustedFilter("duplicate_of IS NOT NULL"))

    def drop_orphans(self) -> int:
        """Remove signals whose episode was never written, because of a crash in between. Returns how many."""
        if self._trajectories.count() == self.count() + self._removed.count():
            return 0  # every episode has its signals, so there are no others
        return self._trajectories.delete_unknown(self._stored_ids)

    def _stored_ids(self, ids: Sequence[str]) -> set[str]:
        """Those of some ids that are episodes, removed ones included."""
        where = ids_filter(ids)
        return self.ids(where).union(self._removed.ids(where).to_pylist())

    def version(self) -> int:
        """Number of the newest version: what was computed from it is valid until this changes."""
        return self.snapshot().version

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Arrow schema of some columns, in that order. Raises RequestError for an unknown one."""
        return self.snapshot().schema(columns)

    def columns(self) -> dict[str, str]:
        """Type of every column that a filter can use: an Arrow type name, or "list<string>"."""
        return self.snapshot().columns()

    def check(self, where: str) -> None:
        """Raise RequestError for an invalid filter, without evaluating it."""
        self.snapshot().plan(where)

    def count(self, where: str = "") -> int:
        """Number of episodes that match a filter. Raises RequestError for an invalid one."""
        return self.snapshot().count(where)

    def scan(
        self,
        columns: Sequence[str],
        where: str = "",
        limit: int | None = None,
        offset: int = 0,
        order_by: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the episodes that match a filter, streamed; see `EpisodeSnapshot.scan`. Raises RequestError."""
        return self.snapshot().scan(columns, where, limit, offset, order_by)

    def read_columns(self, columns: Sequence[str], where: str = "", limit: int | None = None) -> pa.Table:
        """Columns of the matching rows as one Arrow table. Raises RequestError for an unknown column."""
        import pyarrow as pa

        rows = self.snapshot()
        return pa.Table.from_batches(list(rows.scan(columns, where, limit)), schema=rows.schema(columns))

    def id_batches(self, where: str = "") -> Iterator[list[str]]:
        """Ids of the episodes that match a filter, some thousands at a time. Raises RequestError like `scan`."""
        for batch in self.scan(["episode_id"], where):
            for start in range(0, batch.num_rows, _ID_ROWS):
                yield batch["episode_id"].slice(start, _ID_ROWS).to_pylist()

    def ids(self, where: str = "") -> set[str]:
        """Ids of the episodes that match a filter, for few; see `id_batches` for any number.

        Raises RequestError for an invalid filter.
        """
        return {episode_id for ids in self.id_batches(where) for episode_id in ids}

    def arrow_ids(self, where: str = "") -> EpisodeIdArray:
        """Ids of the episodes that match a filter, in an Arrow array. Raises RequestError like `scan`."""
        import pyarrow as pa

        batches = self.scan(["episode_id"], where)
        return EpisodeIdArray(pa.chunked_array([batch["episode_id"] for batch in batches], pa.string()))

    def read(self, where: str = "", limit: int | None = None) -> Iterator[Episode]:
        """Episodes that match a filter, streamed. Raises RequestError for an invalid one."""
        rows = self.snapshot()
        for batch in rows.scan(self.episode_columns(rows), where, limit):
            yield from self.from_batch(batch)

    @staticmethod
    def episode_columns(rows: EpisodeSnapshot) -> list[str]:
        """The columns that `from_batch` needs, as far as a version has them."""
        existing = set(rows.arrow_schema.names)
        names = dict.fromkeys((*episode_schema().names, *recorded_columns(existing)))
        later = {*STAMP_COLUMNS, *CLOCK_COLUMNS}
        return [name for name in names if name in existing or name not in later]

    def from_batch(self, batch: pa.RecordBatch) -> list[Episode]:
        """The episodes of a batch with `episode_columns`."""
        return episodes_from_arrow(batch, self._root)

    def get(self, ids: Sequence[str]) -> list[Episode]:
        """Episodes by id, in the order of the ids; unknown ids are left out."""
        rows = self.snapshot()
        version, kept = self._kept
        if version != rows.version:
            kept = {}
        read: dict[str, Episode] = {}
        for part in batched([episode_id for episode_id in ids if episode_id not in kept], _READ_ROWS):
            for batch in rows.scan(self.episode_columns(rows), ids_filter(part)):
                read |= {episode.episode_id: episode for episode in self.from_batch(batch)}
        episodes = read | kept
        if read:
            self._kept = rows.version, dict(islice(episodes.items(), _KEPT_EPISODES))
        return [episodes[episode_id] for episode_id in ids if episode_id in episodes]

    def get_episode(self, episode_id: str) -> Episode:
        """One episode. Raises RequestError for an unknown id."""
        episodes = self.get([episode_id])
        if not episodes and len(self._removed.ids(ids_filter([episode_id]))):
            raise _removed_error(episode_id)
        if not episodes:
            raise _unknown_id(episode_id)
        return episodes[0]

    def resolve_id(self, text: str) -> str:
        """The id that a text is or begins, whatever the number of episodes.

        Raises:
            RequestError: No id or several begin so.
        """
        start = text.strip().lower()
        # Some ids that begin with it: a range of ids is read through their index.
        condition = TrustedFilter(_starts_with(start))
        batches = self.scan(["episode_id"], condition, limit=_SHOWN_IDS + 1) if start else ()
        matches = sorted(value for batch in batches for value in batch["episode_id"].to_pylist())
        if start in matches or len(matches) == 1:
            return start if start in matches else matches[0]
        if not matches and len(removed := self._removed.ids(condition)) == 1:
            raise _removed_error(removed[0].as_py())
        if not matches:
            raise _unknown_id(text)
        more = ", ..." if len(matches) > _SHOWN_IDS else ""
        raise RequestError(
            f"several episodes have ids that start with {text!r}",
            f"{', '.join(matches[:_SHOWN_IDS])}{more}; give more digits",
        )

    def search_instruction(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """Episodes whose instruction has words of the text: (episode_id, BM25 score), best first, ties by id."""
        return self.snapshot().search_instruction(text, limit, episode_ids)

    def text_hashes(self) -> TextHashes:
        """Hash of the instruction of every episode, of the newest version."""
        return self.snapshot().text_hashes()


def _starts_with(start: str) -> str:
    """The condition that an id begins with a text, as a range; never true for the empty text."""
    if not start:
        return "false"
    end = start[:-1] + chr(min(ord(start[-1]) + 1, sys.maxunicode))
    return f"episode_id >= {quote_literal(start)} AND episode_id < {quote_literal(end)}"


def _removed_error(episode_id: str) -> UnknownEpisode:
    return UnknownEpisode(f"episode {episode_id!r} was removed", "`ares undo --list` shows by whom")


def _unknown_id(episode_id: str) -> UnknownEpisode:
    return UnknownEpisode(f"no episode {episode_id!r}", "`ares search` and the dashboard show ids")


def _select_rows(batch: EpisodeTableRows, ids: pa.Array, *, is_stored: bool) -> EpisodeTableRows:
    """The rows of the episodes that are among some ids, or of those that are not."""
    import pyarrow.compute as pc

    def select(rows: Any) -> Any:
        matches = pc.is_in(rows["episode_id"], value_set=ids)
        return rows.filter(matches if is_stored else pc.invert(matches))

    return EpisodeTableRows(select(batch.episodes), select(batch.trajectories))
