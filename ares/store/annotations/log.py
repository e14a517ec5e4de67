"""The AnnotationStore protocol: an append-only log of annotations, and small keyed documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ares.annotation import Annotation, Maker
from ares.episode import Json
from ares.store.annotations.serialization import AnnotationRow

# Indexes that every store needs, so that no query reads all annotations: columns by name. The sequence number and the
# annotation_id are keys already.
INDEXES: Mapping[str, tuple[str, ...]] = {
    "facts_done": ("maker_id", "subject"),
    "facts_about": ("episode_id", "name"),
    "facts_counts": ("name", "episode_id"),
}


class LogEntry(NamedTuple):
    """An annotation with its sequence number in the log."""

    sequence: int
    annotation: Annotation


class AnnotationStore(Protocol):
    """Append-only annotations with sequence numbers, and small keyed documents (sets, failures, jobs, spaces).

    Every method may raise StoreError when the store cannot be reached; what was stored before is not lost.

    Attributes:
        retry_seconds: How long an operation waits for a server that went away; a job sets it, a page does not.
    """

    retry_seconds: float

    def append(self, annotations: Sequence[Annotation | AnnotationRow]) -> int:
        """Append annotations; `read` shows all or none of them. An annotation_id that exists already is ignored.

        Returns:
            The last sequence number of the log.

        Raises:
            UnstorableError: Some are too large, nested too deep or not JSON; all others are stored.
        """

    def read(self, after: int = 0, limit: int = 10_000) -> list[LogEntry]:
        """Return annotations with a sequence number above `after`, in order.

        An annotation that a slower writer still adds is never skipped: `read` stops before it.
        """

    def last_sequence(self) -> int:
        """Return the sequence number up to which `read` is complete; 0 for an empty log."""

    def find_done_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects that this maker has annotated; pass some thousands at once."""

    def find_repeated_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects of which this maker has several annotations; pass some thousands at once."""

    def find_annotation_ids(self, episode_ids: Sequence[str], name: str) -> list[str]:
        """Return the annotation_id of each annotation of that name of these episodes, in no order."""

    def find_annotations(
        self, episode_ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Return the annotations of these episodes, in order of the log; those about sets have the episode "".

        Args:
            episode_ids: The episodes.
            names: Only annotations of these names; empty for all.
            maker_ids: Only annotations by these makers; empty for all.
        """

    def find_episodes(self, name: str) -> list[str]:
        """Return the episodes that have an annotation of that name, sorted."""

    def count_episodes(self, episode_ids: Sequence[str] | None = None) -> dict[str, int]:
        """Return the number of different episodes per annotation name; with ids, of these; pass some thousands."""

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of annotations by maker_id; a maker without annotations is left out."""

    def add_maker(self, maker: Maker) -> None:
        """Store a maker under its maker_id."""

    def makers(self) -> dict[str, Maker]:
        """Return every maker by its id."""

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins. Raises UnstorableError as `append` does."""

    def claim_document(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several concurrent callers exactly one gets True."""

    def get_document(self, collection: str, key: str) -> Json:
        """Return one document, or None."""

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Stream the documents whose key starts with `prefix`, in order of key."""

    def drop_documents(self, collection: str, keys: Iterable[str]) -> None:
        """Delete documents, for example a failure that was fixed."""

    def collections(self) -> list[str]:
        """Return the names of all collections that have documents, sorted."""

    def delete_episodes(self, episode_ids: Sequence[str]) -> int:
        """Delete every annotation of some episodes for good: nothing but a purge does this.

        Numbers of deleted annotations are not used again, and `last_sequence` never goes back.

        Returns:
            Number of annotations deleted.
        """

    def erase_deleted(self) -> None:
        """Overwrite on disk what was deleted, as far as the store is a file of ours."""

    def missing_indexes(self) -> list[str]:
        """Return the names of declared indexes that the store lacks."""

    def create_indexes(self) -> None:
        """Create the declared indexes that the store lacks."""

    def close(self) -> None:
        """Close the file or the connection."""
