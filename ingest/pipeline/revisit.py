"""Which stored episodes are read again: those that are incomplete, and those of which a file has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.input import parse_json
from ares.io import is_url
from ares.jobs import ACCEPTED_FAILURES, COMPLETE, FAILURES, INCOMPLETE_WORK
from ares.media import file_stamp_or_empty, has_file_changed
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
_LABELS_STAY = "what a file beside it said stays: not all of them can be read"
READ_AGAIN = (STILL_INCOMPLETE, FILES_CHANGED, CAMERA_CAME, LABELS_CHANGED, LABELS_GONE, LABELS_UNKNOWN)
_COLUMNS = ("episode_id", "source", "cameras", "content_hash")
_LATER_COLUMNS = ("source_stamp", "camera_stamps", "label_stamp", COMPLETE)


def _label_stamps(
    item: Item, before: Mapping[str, str], has_changed: Callable[[str, str], bool]
) -> dict[str, str]:
    """Stamps of what files beside a record say of it, by file, and by "" of what its reader knows.

    Args:
        item: The record.
        before: Those that are stored.
        has_changed: Whether a file is another than that of a stamp.
    """
    stamps = {"": item.label_stamp or "", **item.file_stamps}
    for path in item.described_by:
        name = "/".join(path.split("/")[-2:])
        known = before.get(name, "")
        stamps[name] = known if known and not has_changed(path, known) else file_stamp_or_empty(path)
    return stamps


def format_label_stamp(item: Item) -> str:
    """The stamp of what files beside a record say of it, as it is stored."""
    stamps = _label_stamps(item, {}, has_file_changed)
    return json.dumps(stamps) if len(stamps) > 1 else stamps[""]


def _parse_label_stamp(text: str) -> dict[str, str]:
    return dict(parse_json(text, "label_stamp")) if text.startswith("{") else {"": text}


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
        if reason := self._compare_labels(item, row.get("label_stamp")):
            return reason
        files = {(row["source"], row.get("source_stamp") or "")}
        uris = (camera["uri"] for camera in cameras)
        files.update(zip(uris, row.get("camera_stamps") or (), strict=False))
        return FILES_CHANGED if any(self._has_changed(*file) for file in files) else ""

    def _compare_labels(self, item: Item, stored: str | None) -> str:
        """Why an episode is read again by what files beside it say, or ""."""
        if item.label_stamp is None or item.seen_labels == "none":
            return ""
        if stored is None:  # of an earlier version
            if self._by_content:
                return LABELS_UNKNOWN
            self._counts.add_warning(_NOT_COMPARED, item.location)
            return ""
        before = _parse_label_stamp(stored)
        now = _label_stamps(item, before, self._has_changed)
        if sorted(before.values()) == sorted(now.values()):
            return ""
        renamed = set(now.values())
        is_less = any(name not in now and stamp not in renamed for name, stamp in before.items())
        if not is_less and any(now.values()):
            return LABELS_CHANGED
        if item.seen_labels == "all":
            return LABELS_GONE
        self._counts.add_warning(_LABELS_STAY, item.location)
        return ""

    def _has_changed(self, uri: str, stamp: str) -> bool:
        # An object of a bucket is written as a whole, and asking for its size is a request.
        if is_url(uri) and not self._by_content:
            return False
        if (uri, stamp) not in self._changed:
            self._changed[uri, stamp] = has_file_changed(uri, stamp, by_content=self._by_content)
        return self._changed[uri, stamp]
