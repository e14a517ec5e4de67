"""Decides what becomes of each item: it is read, skipped, compared with the stored episode, or rejected."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ares.curation import SplitRow, keep_brought_rows
from ares.episode import Record
from ares.errors import AresError, RequestError, SourceError
from ares.input import parse_json, read_input
from ares.io import parse_path
from ares.media import compute_file_stamp
from ares.store import TrustedFilter, ids_filter, quote_literal
from ares_ingest.base import Item, Source
from ares_ingest.pipeline.read import (
    CheckedBatch,
    KnownRecord,
    LoadFunction,
    ReadResult,
    RecordIdentity,
    load_again,
)

if TYPE_CHECKING:
    from ares.store import AnnotationStore, Stores


T = TypeVar("T")


class ItemAction(Enum):
    """What to do with an item.

    Attributes:
        READ: The workspace has no episode of this id: read the record and store it.
        SKIP: The episode is stored already.
        COMPARE: An episode of this id is stored, but it came from another file: read the record and compare the two.
        CORRECT: The episode is stored, and what is stated of its dataset has changed, it is incomplete, or a file of
            it has changed: read it and store it again.
        REJECT_DUPLICATE: An earlier item of the same source has this id.
    """

    READ = auto()
    SKIP = auto()
    COMPARE = auto()
    CORRECT = auto()
    REJECT_DUPLICATE = auto()


def plan_item(
    item: Item, *, seen: Container[str], stored_ids: Container[str], unmoved: bool | None
) -> ItemAction:
    """What to do with an item.

    Args:
        item: The item.
        seen: Ids of the earlier items of its source.
        stored_ids: Ids of the episodes of its source that the workspace had before this run.
        unmoved: Whether the source lies where the stored episodes were read from; None until the first of them has
            been compared.
    """
    if item.episode_id in seen:
        return ItemAction.REJECT_DUPLICATE
    if item.episode_id not in stored_ids:
        return ItemAction.READ
    return ItemAction.SKIP if unmoved else ItemAction.COMPARE


class IdentityConflict(SourceError):
    """A record whose episode id belongs to another record; the episode stored under that id has not failed."""


def read_identity(load: Callable[[], Record]) -> RecordIdentity:
    """Read a record and return only its identity; called by readers. Raises SourceError."""
    record = load()
    episode = record.episode
    return RecordIdentity(
        episode.content_hash, episode.source, _stamp_or_empty(episode.source), record.earlier_hash
    )


def _stamp_or_empty(path: str) -> str:
    try:
        return compute_file_stamp(path)
    except (OSError, SourceError):
        return ""


# Tables of an export of ARES, which lie at most so many folders above a dataset in it; and why an episode of one
# is not stored again.
_EXPORT_TABLE, _SPLIT_TABLE, _FOLDERS_ABOVE = "manifest.episodes.jsonl", "manifest.split.jsonl", 3
EXPORTED_REASON = (
    "not stored again: the workspace has the episode that this is an export of, with all its labels"
)


def read_exported_ids(folder: str) -> dict[str, str]:
    """By content hash the episodes that an export wrote, where a folder is one or lies in one; else none.

    Raises SourceError for a table that cannot be read.
    """
    pairs = _read_export_table(folder, _EXPORT_TABLE, lambda row: (row["content_hash"], row["episode_id"]))
    return {content: episode_id for content, episode_id in pairs if content}


def keep_exported_split(log: AnnotationStore, folder: str) -> None:
    """Store the split that an export brings, where a folder is one or lies in one: sides stay as they are.

    Raises SourceError for a table that cannot be read.
    """
    if rows := _read_export_table(folder, _SPLIT_TABLE, SplitRow.from_json):
        keep_brought_rows(log, rows)


def _read_export_table(folder: str, name: str, parse: Callable[[Any], T]) -> list[T]:
    """The rows of a table of the export that a folder is or lies in; none of another folder."""
    path = parse_path(folder)
    tables = (parent / name for parent in (path, *list(path.parents)[:_FOLDERS_ABOVE]))
    table = next((table for table in tables if folder and table.is_file()), None)
    if table is None:
        return []
    try:
        lines = read_input(str(table)).decode().splitlines()
        return [parse(parse_json(line, str(table))) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, RequestError) as error:
        raise SourceError("the table of an export cannot be read", f"{table}: {error!r}") from None


def stored_ids(stores: Stores, source: Source) -> set[str]:
    """Ids of the episodes that the workspace has of a source's format, dataset and version."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    condition = " AND ".join(f"{name} = {quote_literal(value)}" for name, value in clauses.items())
    return stores.tables.episodes.ids(TrustedFilter(condition))


def read_stored_identities(stores: Stores, ids: Sequence[str]) -> dict[str, RecordIdentity]:
    """Identities of stored episodes, by episode id."""
    if not ids:
        return {}
    episodes = stores.tables.episodes
    columns = ["episode_id", "content_hash", "source"]
    # A workspace from before stamps has no column for them.
    columns += ["source_stamp"] if "source_stamp" in episodes.columns() else []
    return {
        episode_id: RecordIdentity(content_hash, source, *(stamp or "" for stamp in stamps))
        for batch in episodes.scan(columns, ids_filter(ids))
        for episode_id, content_hash, source, *stamps in zip(
            *(batch[name].to_pylist() for name in columns), strict=True
        )
    }


def is_same_record(stored: RecordIdentity, identity: RecordIdentity) -> bool:
    """Whether a record is the stored one: by its hash, else by the content of the file that holds it.

    The hash of a record of an unchanged file differs where an earlier version of ARES read less of it.
    """
    if identity.has_hash(stored.content_hash):
        return True
    # Size and fingerprint of each file; the version between them changes when a file is copied.
    before, now = (
        [stamp.split(":")[::2] for stamp in record.source_stamp.split("|")] for record in (stored, identity)
    )
    return bool(stored.source_stamp) and before == now


def find_conflict(item: Item, stored: RecordIdentity, identity: RecordIdentity) -> IdentityConflict | None:
    """Why the item is not the stored episode of the same identity, or None when it is."""
    if is_same_record(stored, identity):
        return None
    return IdentityConflict(
        "another record has this identity already",
        f"{item.location} differs from {stored.source}; give it another name with --dataset NAME",
    )


@dataclass(slots=True)
class ItemOutcome:
    """An item, what to do with it, and what has become of it.

    Attributes:
        item: The item.
        action: What to do with it.
        result: The batch that holds its record, or the error that it ended with. None until it is read, and for an
            item that is stored already.
        warning: Reason to warn about an item that is stored already, or "".
        known: For an incomplete episode the record that would change nothing.
        is_incomplete: Whether it is still as incomplete as before.
    """

    item: Item
    action: ItemAction
    result: CheckedBatch | AresError | None = None
    warning: str = ""
    known: KnownRecord | None = None
    is_incomplete: bool = False

    @property
    def is_unread(self) -> bool:
        """Whether a reader has still to read the item."""
        return self.result is None and self.action is not ItemAction.SKIP

    @property
    def load(self) -> LoadFunction:
        """What a reader calls: it returns the record, or only its identity for an item to compare."""
        if self.action is ItemAction.COMPARE:
            return partial(read_identity, self.item.load)
        is_stored = self.action is ItemAction.CORRECT
        return partial(load_again, self.item.load, self.known) if is_stored else self.item.load

    def set_read(self, result: ReadResult, stored: RecordIdentity | None) -> None:
        """Set what a reader returned.

        Args:
            result: The batch, identity or error.
            stored: For an item to compare: identity of the stored episode of the same id.
        """
        if stored is not None:
            self._compare(result, stored)
        elif isinstance(result, RecordIdentity):
            self.action, self.is_incomplete = ItemAction.SKIP, True
        else:
            self.result = result

    def _compare(self, result: ReadResult, stored: RecordIdentity) -> None:
        if isinstance(result, RecordIdentity):
            self.result = find_conflict(self.item, stored, result)
        else:
            self.warning = "already stored, but its source cannot be read here: not compared"
        if self.result is None:
            self.action = ItemAction.SKIP


def reject_duplicate_item(item: Item) -> ItemOutcome:
    """The outcome of an item whose id an earlier item of the same source has."""
    error = IdentityConflict("this identity stands twice in the source", item.location)
    return ItemOutcome(item, ItemAction.REJECT_DUPLICATE, error)
