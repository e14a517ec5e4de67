"""Plans the items of a source as they come: which are read, compared or corrected, and which are stored already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import SourceError
from ares.jobs import IngestRequest, Progress, Report
from ares.store import RemovedIds
from ares_ingest.base import Item, Source
from ares_ingest.guarded_loading import GuardedItems, guard_item_loading
from ares_ingest.labels import keep_label_stamp
from ares_ingest.pipeline.contracts import must_read_again, read_stored_contracts
from ares_ingest.pipeline.find import warn_of_missing_records
from ares_ingest.pipeline.plan import (
    EXPORTED_REASON,
    ItemAction,
    ItemOutcome,
    keep_exported_split,
    plan_item,
    read_exported_ids,
    read_identity,
    read_stored_identities,
    reject_duplicate_item,
    stored_ids,
)
from ares_ingest.pipeline.read import (
    KnownRecord,
    Readers,
    RecordIdentity,
    add_media_copying,
    wait_for_files,
)
from ares_ingest.pipeline.revisit import StoredEpisodeReader, format_label_stamp

if TYPE_CHECKING:
    from ares.store import Stores

CORRECTED = "read again, since what is stated of the dataset has changed; ids, tags and rulings stay"
_CHANGED_UNREAD = "changed or incomplete: they are read with the spec or options of their first ingestion"
# Items that are looked at before the first of them is read.
_MOST_PLANNED = 512


class SourceItemPlanner:
    """Plans the items of one source as they come; a source may hold more of them than it says.

    Args:
        stores: Where the stored episodes are.
        source: The source.
        readers: Read the first stored item, to learn whether the source has moved.
        counts: Where the items are counted.
        progress: Advanced by the items that are stored already.
        request: Whether cameras are copied, and how files of stored episodes are compared.
    """

    def __init__(
        self,
        stores: Stores,
        source: Source,
        readers: Readers,
        counts: Report,
        progress: Progress,
        request: IngestRequest,
    ) -> None:
        self._stores = stores
        self._readers = readers
        self._counts = counts
        self._request = request
        self._progress = progress
        self._folder = stores.folder
        self._source = source
        self._stored_ids = stored_ids(stores, source)
        stored = read_stored_contracts(stores, source) if self._stored_ids else None
        self.corrects = stored is not None and must_read_again(source, stored)
        # Without the spec of the first ingestion they would be read otherwise than before.
        self._lacks_spec = stored is not None and bool(stored.spec_hash) and not source.stated
        self._format, self._dataset = source.format, source.dataset
        self._dataset_folder = source.folder
        self._removed_ids = RemovedIds(stores.annotations, stores.workspace_id)
        self._seen: set[str] = set()
        self._unmoved: bool | None = None
        self._exported_ids = read_exported_ids(source.folder)
        # Once for the first record that the workspace does not have.
        self._brings_split = bool(self._exported_ids)
        self._stored = StoredEpisodeReader(stores, counts, by_content=request.verify)

    def plan(self, items: Iterator[Item]) -> Iterator[ItemOutcome]:
        """The items to be read and those that fail unread; those that are stored already are only counted."""
        seen, stored_ids = self._seen, self._stored_ids
        while batch := list(islice(items, _MOST_PLANNED)):
            self._counts.add_planned(len(batch))
            num_skipped = 0
            exported = self._find_exported(batch) if self._exported_ids else {}
            if self._brings_split and not all(exported.values()):
                keep_exported_split(self._stores.annotations, self._source.folder)
                self._brings_split = False
            # A spec may give cameras other names, and leave some out.
            batch = [replace(item, videos={}) for item in batch] if self._source.stated else batch
            stored = [item for item in batch if item.episode_id in stored_ids]
            again = self._stored.find_reasons(stored) if stored and not self.corrects else {}
            if again and self._lacks_spec:
                self._counts.add_warning(_CHANGED_UNREAD, self._dataset, len(again))
                again = {}
            for item in batch:
                if reason := self._removed_ids.reason(item.episode_id) or exported.get(item.episode_id, ""):
                    self._counts.add_warning(reason, item.location)
                    seen.add(item.episode_id)
                    num_skipped += 1
                    continue
                action = plan_item(item, seen=seen, stored_ids=stored_ids, unmoved=self._unmoved)
                seen.update(
                    [item.episode_id] if item.episode_id else []
                )  # each that lacks one fails by itself
                outcome = None if action is ItemAction.SKIP else self._outcome(item, action)
                reason, known = (CORRECTED, None) if self.corrects else again.get(item.episode_id, ("", None))
                if outcome is None and reason:
                    self._counts.add_warning(reason, item.location)
                    outcome = self._outcome(item, ItemAction.CORRECT, known)
                if outcome is None:
                    num_skipped += 1
                else:
                    yield outcome
            self._counts.add_existing(num_skipped)
            self._progress.advance(num_skipped)

    def end(self, items: GuardedItems) -> Iterator[ItemOutcome]:
        """One failed item where the source could not list all of its items; none where it could."""
        if items.error is not None:
            self._counts.add_planned(1)
            unlisted = Item(episode_id="", location=f"the rest of {self._dataset}", load=_load_nothing)
            yield ItemOutcome(unlisted, ItemAction.READ, items.error)
        elif items.is_exhausted:
            missing = self._stored_ids - self._seen
            warn_of_missing_records(self._stores, self._source, missing, self._counts)

    def _find_exported(self, items: Sequence[Item]) -> dict[str, str]:
        """Why each item is not read whose content the workspace has as the episode that it was exported from."""
        guarded = [guard_item_loading(item, self._format, self._dataset_folder) for item in items]
        identities = self._readers.map([partial(read_identity, item.load) for item in guarded])
        origins = {
            item.episode_id: self._exported_ids[identity.content_hash]
            for item, identity in zip(items, identities, strict=True)
            if isinstance(identity, RecordIdentity) and identity.content_hash in self._exported_ids
        }
        stored = read_stored_identities(self._stores, sorted(set(origins.values())))
        reasons = {}
        for episode_id, origin in origins.items():
            same = origin in stored and self._exported_ids.get(stored[origin].content_hash) == origin
            reasons[episode_id] = self._removed_ids.reason(origin) or (EXPORTED_REASON if same else "")
        return reasons

    def _outcome(
        self, item: Item, action: ItemAction, known: KnownRecord | None = None
    ) -> ItemOutcome | None:
        """The outcome to send to the readers; None when the item turns out to be stored already."""
        item = guard_item_loading(item, self._format, self._dataset_folder)
        if action in (ItemAction.READ, ItemAction.CORRECT):
            item = add_media_copying(item, self._request.media, self._folder)
            if stamp := format_label_stamp(item):
                item = item.with_change(partial(keep_label_stamp, stamp=stamp))
            return ItemOutcome(wait_for_files(item, self._request.settle_seconds), action, known=known)
        if action is ItemAction.REJECT_DUPLICATE:
            return reject_duplicate_item(item)
        outcome = ItemOutcome(item, action)
        return self._compare_first(outcome) if self._unmoved is None else outcome

    def _compare_first(self, outcome: ItemOutcome) -> ItemOutcome | None:
        """Read the first stored item, to learn whether the source has moved; None when it has not."""
        episode_id = outcome.item.episode_id
        (identity,) = self._readers.map([outcome.load])
        stored = read_stored_identities(self._stores, [episode_id])[episode_id]
        # A table may name another video of the same folder now.
        folder, path = self._dataset_folder, Path(stored.source)
        is_here = bool(folder) and path.is_relative_to(folder) and path.exists()
        self._unmoved = isinstance(identity, RecordIdentity) and (is_here or identity.source == stored.source)
        if self._unmoved:
            return None
        outcome.set_read(identity, stored)
        return outcome


def _load_nothing() -> Record:
    raise SourceError("the item was not listed")
