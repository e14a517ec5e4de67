"""AnnotationStore: the contract that SQLite and MongoDB both keep, proven by one test suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ares.annotation import Annotation, Maker
from ares.episode import Json
from ares.store.codec import Row

# What every store must find without reading all facts: columns of an index by its name. The sequence number and the
# annotation_id have theirs as keys.
INDEXES: Mapping[str, tuple[str, ...]] = {
    "facts_done": ("maker_id", "subject"),
    "facts_about": ("episode_id", "name"),
    "facts_counts": ("name", "episode_id"),
}


class Logged(NamedTuple):
    """An annotation with its place in the log."""

    sequence: int
    annotation: Annotation


class AnnotationStore(Protocol):
    """Append-only facts with a sequence number, and small keyed documents (sets, failures, jobs, spaces).

    Every method may raise StoreError when the store cannot be reached; nothing already stored is lost by it.

    Attributes:
        patience_seconds: How long an operation waits for a server that went away; a job sets it, a page does not.
    """

    patience_seconds: float

    def append(self, annotations: Sequence[Annotation | Row]) -> int:
        """Store facts, all or none visible to `read`; those already there (same annotation_id) are left as they are.

        Some may have been made into rows elsewhere. Returns the last sequence number of the log. Raises
        `codec.Refused` when some can be held by no store (too large, too deep, no JSON); all others are stored then.
        """

    def read(self, after: int = 0, limit: int = 10_000) -> list[Logged]:
        """Facts with a sequence number above `after`, in order, never skipping one that a slower writer still adds."""

    def last_sequence(self) -> int:
        """Sequence number up to which `read` is complete; 0 for an empty log."""

    def done(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Of these subjects, those that this maker has already done; ask for some thousands at once."""

    def made(self, episode_ids: Sequence[str], name: str) -> list[str]:
        """The annotation_id of each fact of that name about these episodes, in no order."""

    def about(self, episode_ids: Sequence[str], names: Sequence[str] = ()) -> list[Annotation]:
        """Facts about these episodes, in order of the log; only those of the given names when there are any."""

    def counts(self) -> dict[str, int]:
        """Number of different episodes per annotation name."""

    def add_maker(self, maker: Maker) -> None:
        """Remember what a maker_id stands for."""

    def makers(self) -> dict[str, Maker]:
        """Every maker by its id."""

    def put(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents; the last write of a key wins. Raises `codec.Refused` as `append` does."""

    def claim(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several who try at once one is told True."""

    def get(self, collection: str, key: str) -> Json:
        """One document, or None."""

    def find(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Documents whose key starts with `prefix`, in order of key, streamed."""

    def drop(self, collection: str, keys: Iterable[str]) -> None:
        """Remove documents (a failure that was mended); facts have no such door."""

    def missing_indexes(self) -> list[str]:
        """Names of declared indexes that the store lacks."""

    def make_indexes(self) -> None:
        """Make the declared indexes that the store lacks."""

    def close(self) -> None:
        """Release the file or the connection."""
