"""The envelope of an item: it travels through planning, reading and writing, and gathers what becomes of the item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ares.errors import AresError
from ingest.base import Item
from ingest.pipeline.identity import IdentityConflict, find_conflict, read_identity
from ingest.pipeline.plan import ItemAction
from ingest.pipeline.read import CheckedBatch, LoadFunction, ReadResult, RecordIdentity


@dataclass(slots=True)
class ItemOutcome:
    """An item, what to do with it, and what has become of it.

    Attributes:
        item: The item.
        action: What to do with it.
        result: The batch that holds its record, or the error that it ended with. None until it is read, and for an
            item that is stored already.
        warning: Reason to warn about an item that is stored already, or "".
    """

    item: Item
    action: ItemAction
    result: CheckedBatch | AresError | None = None
    warning: str = ""

    @property
    def is_unread(self) -> bool:
        """Whether a reader has still to read the item."""
        return self.result is None and self.action is not ItemAction.SKIP

    @property
    def load(self) -> LoadFunction:
        """What a reader calls: it returns the record, or only its identity for an item to compare."""
        return partial(read_identity, self.item.load) if self.action is ItemAction.COMPARE else self.item.load

    def set_read(self, result: ReadResult, stored: RecordIdentity | None) -> None:
        """Set what a reader returned.

        Args:
            result: The batch, identity or error.
            stored: For an item to compare: identity of the stored episode of the same id.
        """
        if stored is None:
            assert not isinstance(result, RecordIdentity)
            self.result = result
        else:
            self._compare(result, stored)

    def _compare(self, result: ReadResult, stored: RecordIdentity) -> None:
        if isinstance(result, RecordIdentity):
            self.result = find_conflict(self.item, stored, result)
        else:
            self.warning = "already stored, but its source cannot be read here: not compared"
        if self.result is None:
            self.action = ItemAction.SKIP


def rejected_duplicate(item: Item) -> ItemOutcome:
    """The outcome of an item whose id an earlier item of the same source has."""
    error = IdentityConflict("this identity stands twice in the source", item.location)
    return ItemOutcome(item, ItemAction.REJECT_DUPLICATE, error)
