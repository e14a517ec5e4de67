"""Which stored episodes are read again: those that are incomplete, and those of which a file has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.io import is_url
from ares.jobs import ACCEPTED_FAILURES, COMPLETE, FAILURES, INCOMPLETE_WORK
from ares.media import has_file_changed
from ares.store import ids_filter
from ares_ingest.base import Item
from ares_ingest.pipeline.read import KnownRecord

if TYPE_CHECKING:
    from ares.jobs import Report
    from ares.store import Stores


STILL_INCOMPLETE, FILES_CHANGED, CAMERA_CAME, LABELS_CHANGED, LABELS_GONE, LABELS_UNKNOWN = (
    "read again, since it was incomplete",
    "read again, since a file of it has changed",
    "read again, since it has another camera by now",
    "read again, since a file beside it says something else of it",
    "read again, since no file beside it says any more what one said of it",
    "read again, since an earlier version did not keep what files beside it said",
)
_NOT_COMPARED = "stored by an earlier version: only --verify compares what files beside it say"
READ_AGAIN = (STILL_INCOMPLETE, FILES_CHANGED, CAMERA_CAME, LABELS_CHANGED, LABELS_GONE, LABELS_UNKNOWN)
_COLUMNS = ("episode_id", "source", "cameras", "content_hash")
_LATER_COLUMNS = ("source_stamp", "camera_stamps", "label_stamp", COMPLETE)


class ReasonToRead(NamedTuple):
    """Why an episode is read again, and the record that would change nothing; None where any is stored."""

    reason: str
    known: KnownRecord | None


class StoredEpisodeReader:
    """Says of stored episodes why each is to be read again.

    Args:
        stores: Where they are stored.
        counts: Where those are counted that are not compared.
        by_content: Whether the content of files is compared also where size and time are as they were.
    """

    def __init__(self, stores: Stores, counts: Report, *, by_content: bool = False) -> None:
        self._episodes, self._counts, self._by_content = stores.tables.episodes, counts, by_content
        self._log, existing = stores.annotations, self._episodes.columns()
        self._columns = [*_COLUMNS, *(name for name in _LATER_COLUMNS if name in existing)]
        self._accepted = {
            key for key, _ in stores.annotations.find_documents(ACCEPTED_FAILURES, f"{INCOMPLETE_WORK}/")
        }
        # Shards and videos are shared by thousands of episodes.
        self._changed: dict[tuple[str, str], bool] = {}

    def find_reasons(self, items: Sequence[Item]) -> dict[str, ReasonToRead]:
        """Why the episodes of some items are read again, by their ids; a file that is gone is no reason."""
        by_id = {item.episode_id: item for item in items}
        rows = self._episodes.read_columns(self._columns, ids_filter(list(by_id))).to_pylist()
        reasons = ((row, self._find_reason(row, by_id[row["episode_id"]])) for row in rows)
        return {
            row["episode_id"]: ReasonToRead(
                reason, self._find_known(row) if reason == STILL_INCOMPLETE else None
            )
            for row, reason in reasons
            if reason
        }

    def _find_known(self, row: Mapping[str, Any]) -> KnownRecord:
        failure = self._log.get_document(FAILURES, f"{INCOMPLETE_WORK}/{row['episode_id']}")
        reason = failure.get("reason") if isinstance(failure, Mapping) else None
        return KnownRecord(row["content_hash"], str(reason or ""))

    def _find_reason(self, row: Mapping[str, Any], item: Item) -> str:
        is_known = f"{INCOMPLETE_WORK}/{item.episode_id}" in self._accepted
        if row.get(COMPLETE) is False and not is_known:
            return STILL_INCOMPLETE
        cameras = row["cameras"] or []
        if item.videos.keys() - {camera["name"] for camera in cameras}:
            return CAMERA_CAME
        stamp = row.get("label_stamp")
        if item.label_stamp is not None and stamp is None:  # of an earlier version
            if self._by_content:
                return LABELS_UNKNOWN
            self._counts.add_warning(_NOT_COMPARED, item.location)
        elif item.label_stamp not in (None, stamp):
            return LABELS_CHANGED if item.label_stamp else LABELS_GONE
        files = {(row["source"], row.get("source_stamp") or "")}
        uris = (camera["uri"] for camera in cameras)
        files.update(zip(uris, row.get("camera_stamps") or (), strict=False))
        return FILES_CHANGED if any(self._has_changed(*file) for file in files) else ""

    def _has_changed(self, uri: str, stamp: str) -> bool:
        # An object of a bucket is written as a whole, and asking for its size is a request.
        if is_url(uri) and not self._by_content:
            return False
        if (uri, stamp) not in self._changed:
            self._changed[uri, stamp] = has_file_changed(uri, stamp, by_content=self._by_content)
        return self._changed[uri, stamp]
