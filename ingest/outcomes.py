"""How an episode ended, in one of four words, and how much of its task was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ares.episode import Episode, Json
from ares.formats import ARES_PREFIX
from ares_ingest.source_words import (
    COLUMN_NAMES,
    OTHER_OUTCOMES,
    is_outcome_word,
    normalise_name,
    parse_share,
)

# Field of the metadata: what files of labels say of an episode in fields of unknown meaning.
LABELS = "labels"
# Fields of the metadata that a spec fills with those that it names.
OUTCOME, OUTCOME_SHARE = "outcome", "outcome_share"
_SHARES = (OUTCOME_SHARE, "success_share", "partial_success", "completion", "task_progress", "progress")


class StatedOutcome(NamedTuple):
    """What a source says of the end of an episode.

    Attributes:
        outcome: "success", "failure", "partial" or "aborted"; None where it says nothing.
        share: The share of the task that was done, from 0 to 1; None where it says nothing.
        source: The field that says so; None where none does.
    """

    outcome: str | None = None
    share: float | None = None
    source: str | None = None


def read_outcome(episode: Episode) -> StatedOutcome:
    """What the metadata of an episode say of its end, else whether it succeeded."""
    fields = {
        normalise_name(name.removeprefix(ARES_PREFIX)): value
        for name, value in _named_fields(episode.metadata)
    }
    share_field = next((name for name in _SHARES if parse_share(fields.get(name)) is not None), "")
    share = parse_share(fields.get(share_field))
    for name in (OUTCOME, *COLUMN_NAMES["success"], "status"):
        value = fields.get(name)
        if value is not None and is_outcome_word(value):
            number = parse_share(value)
            return StatedOutcome(
                OTHER_OUTCOMES.get(normalise_name(str(value)), "partial"), number or share, name
            )
    if episode.success is not None:
        return StatedOutcome(
            "success" if episode.success else "failure", share, episode.success_source or None
        )
    if share not in (None, 0.0, 1.0):
        return StatedOutcome("partial", share, share_field)
    return StatedOutcome(None, share, share_field or None)


def _named_fields(metadata: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    labels = metadata.get(LABELS)
    yield from labels.items() if isinstance(labels, Mapping) else ()
    yield from metadata.items()
