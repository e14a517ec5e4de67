"""The log of failures of a workspace: what has failed and was not done since, and what a person has accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from ares.annotation import short_hash
from ares.episode import Json
from ares.errors import AresError
from ares.store import TrustedFilter, conjunction, ids_filter

if TYPE_CHECKING:
    from ares.store import AnnotationStore, Stores


FAILURES = "failures"
# Documents: the reason that a person has accepted, by the key of the failure.
ACCEPTED_FAILURES = "accepted_failures"
# The work that failures of stored episodes belong to which are not whole, and the column that says so.
INCOMPLETE_WORK, COMPLETE = "incomplete", "complete"
# Documents by dataset: how much of it was declared, listed and failed when all of it was ingested last.
COVERAGE = "coverage"
# The subject of a failure that belongs to no episode is this and a hash of the location.
_LOCATION = "at-"


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
        self._accepted = {
            key: cast("dict[str, Json]", document).get("reason")
            for key, document in store.find_documents(ACCEPTED_FAILURES, f"{scope}/")
        }

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
            self._store.drop_documents(ACCEPTED_FAILURES, self._accepted.keys() & resolved)

    def record_locations(self, failures: Mapping[str, AresError]) -> None:
        """Store failures that belong to no episode, by their location: a path or a URL."""
        if not failures:
            return
        documents: dict[str, Json] = {
            self._key(location_subject(location)): {
                "reason": error.reason,
                "detail": error.detail or location,
                "location": location,
                "at": utc_now(),
            }
            for location, error in failures.items()
        }
        self._store.put_documents(FAILURES, documents)

    def forget_locations(self, paths: Collection[str]) -> None:
        """Drop the failures at and below some locations, which are about to be looked at again."""
        below = tuple(f"{path.rstrip('/')}/" for path in paths)
        self._store.drop_documents(
            FAILURES,
            [
                key
                for key, document in self._store.find_documents(FAILURES, self._key(_LOCATION))
                if f"{cast('dict[str, str]', document)['location']}/".startswith(below)
            ],
        )

    def is_accepted(self, subject: str, error: AresError) -> bool:
        """Whether a person has accepted that this subject fails for this reason."""
        return self._accepted.get(self._key(subject)) == error.reason

    def read(self) -> Iterator[tuple[str, str]]:
        """Every subject that has failed and was not done since, with the reason."""
        for key, document in self._store.find_documents(FAILURES, f"{self._scope}/"):
            if isinstance(document, dict):
                yield key.rpartition("/")[2], str(document.get("reason", ""))

    def _key(self, subject: str) -> str:
        return f"{self._scope}/{subject}"


def location_subject(location: str) -> str:
    """The subject of a failure at a location: a path, a URL or the rest of a dataset."""
    return f"{_LOCATION}{short_hash(location)}"


def find_incomplete_episodes(stores: Stores) -> set[str]:
    """The episodes that lack something that their source promises, and nobody has accepted that.

    Raises:
        StoreError: They cannot be read.
    """
    episodes = stores.tables.episodes
    if COMPLETE not in episodes.columns() or not episodes.count(TrustedFilter(f"NOT {COMPLETE}")):
        return set()
    accepted = {
        key.rpartition("/")[2]
        for key, _ in stores.annotations.find_documents(ACCEPTED_FAILURES, f"{INCOMPLETE_WORK}/")
    }
    return episodes.ids(TrustedFilter(f"NOT {COMPLETE}")) - accepted


def resolved_failures(stores: Stores, keys: Sequence[str]) -> Iterator[str]:
    """Those of some keys of failures ("SCOPE/SUBJECT") whose subject is done now. Raises StoreError."""
    subjects_by_scope: dict[str, list[str]] = {}
    for key in keys:
        scope, _, subject = key.rpartition("/")
        subjects_by_scope.setdefault(scope, []).append(subject)
    for scope, subjects in subjects_by_scope.items():
        if scope == "ingest":
            done = stores.tables.episodes.ids(ids_filter(subjects))
        elif scope == INCOMPLETE_WORK:
            done = stores.tables.episodes.ids(conjunction([ids_filter(subjects), COMPLETE]))
        else:
            done = stores.annotations.find_done_subjects(scope.partition("/")[2], subjects)
        yield from (f"{scope}/{subject}" for subject in subjects if subject in done)
