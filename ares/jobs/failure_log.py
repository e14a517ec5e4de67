"""Failures by subject with their reason, and a history of jobs, in the annotation store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import AresError
from ares.store.filters import ids_filter

if TYPE_CHECKING:
    from ares.store import Stores
    from ares.store.annotations import AnnotationStore

FAILURES = "failures"
JOBS = "jobs"


def utc_now() -> str:
    """The present time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class FailureLog:
    """The failures of one kind of work; a subject that succeeds later is removed.

    Args:
        store: Where the failures are stored.
        scope: What the failures belong to ("ingest", "caption/<maker_id>").
    """

    def __init__(self, store: AnnotationStore, scope: str) -> None:
        self._store = store
        self._scope = scope
        self._has_failures = next(store.find_documents(FAILURES, f"{scope}/"), None) is not None

    def record(self, failures: Mapping[str, AresError], successes: Iterable[str]) -> None:
        """Store failures by subject and remove those of subjects that are done now."""
        documents: dict[str, Json] = {
            self._key(subject): {"reason": error.reason, "detail": error.detail, "at": utc_now()}
            for subject, error in failures.items()
        }
        if documents:
            self._store.put_documents(FAILURES, documents)
        self._has_failures = self._has_failures or bool(documents)
        if not self._has_failures:
            return
        resolved = [key for key in map(self._key, successes) if key not in documents]
        if resolved:
            self._store.drop_documents(FAILURES, resolved)

    def read(self) -> Iterator[tuple[str, str]]:
        """Every subject that has failed and was not done since, with the reason."""
        for key, document in self._store.find_documents(FAILURES, f"{self._scope}/"):
            if isinstance(document, dict):
                yield key.rpartition("/")[2], str(document.get("reason", ""))

    def _key(self, subject: str) -> str:
        return f"{self._scope}/{subject}"


def resolved_failures(stores: Stores, keys: Sequence[str]) -> Iterator[str]:
    """Those of some keys of failures ("SCOPE/SUBJECT") whose subject is done now. Raises StoreError."""
    subjects_by_scope: dict[str, list[str]] = {}
    for key in keys:
        scope, _, subject = key.rpartition("/")
        subjects_by_scope.setdefault(scope, []).append(subject)
    for scope, subjects in subjects_by_scope.items():
        if scope == "ingest":
            done = stores.tables.episodes.ids(ids_filter(subjects))
        else:
            done = stores.annotations.find_done_subjects(scope.partition("/")[2], subjects)
        yield from (f"{scope}/{subject}" for subject in subjects if subject in done)


def record_job(store: AnnotationStore, name: str, report: Mapping[str, Json]) -> None:
    """Store the report of a job under the time it ended."""
    store.put_documents(JOBS, {f"{utc_now()}/{name}": {"job": name, **report}})
