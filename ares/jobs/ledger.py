"""Ledger: failures kept by subject with their reason, and one line per job, in the annotation store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore

FAILURES = "failures"
JOBS = "jobs"


def now() -> str:
    """The present time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Ledger:
    """The failures of one kind of work; a subject that succeeds later is taken off.

    Args:
        store: Where it is kept.
        scope: What the failures belong to ("ingest", "caption/<maker_id>").
    """

    def __init__(self, store: AnnotationStore, scope: str) -> None:
        self._store = store
        self._scope = scope
        self._any = next(store.find(FAILURES, f"{scope}/"), None) is not None

    def record(self, failed: Mapping[str, AresError], done: Iterable[str]) -> None:
        """Enter failures by subject and take off subjects that are done now."""
        documents: dict[str, Json] = {
            self._key(subject): {"reason": error.reason, "detail": error.detail, "at": now()}
            for subject, error in failed.items()
        }
        if documents:
            self._store.put(FAILURES, documents)
        self._any = self._any or bool(documents)
        mended = [key for key in map(self._key, done) if key not in documents] if self._any else []
        if mended:
            self._store.drop(FAILURES, mended)

    def _key(self, subject: str) -> str:
        return f"{self._scope}/{subject}"


def enter_job(store: AnnotationStore, name: str, report: Mapping[str, Json]) -> None:
    """Keep what a job reported, under the time it ended."""
    store.put(JOBS, {f"{now()}/{name}": {"job": name, **report}})
