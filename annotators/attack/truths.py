"""What is true of the episodes of a workspace, as far as it can be known, and a sample of them."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.rubric import split_outcome
from ares.rubric.attacks import KnownCaption

if TYPE_CHECKING:
    from ares.store import Stores

_INSTRUCTION = "instruction"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthSample:
    """Episodes for the battery, and what it takes to be true of them.

    Attributes:
        captions: What is true, by episode.
        warnings: What a person should know of it.
    """

    captions: Sequence[KnownCaption]
    warnings: Sequence[str]


def sample_truths(stores: Stores, column: str, where: str, count: int, seed: int) -> TruthSample:
    """A random sample of the episodes of which something is known.

    Args:
        stores: Stores of the workspace.
        column: Text column with true captions, or "" for the instruction with the outcome of `success`.
        where: SQL filter over the episode columns.
        count: Most episodes.
        seed: Of the sample.

    Raises:
        RequestError: The column does not exist or is no text, the filter is wrong, or no episode has a truth.
    """
    text_column = column or _INSTRUCTION
    columns = stores.tables.episodes.columns()
    if columns.get(text_column) != "string":
        raise RequestError(
            f"no text column {text_column!r}",
            f"{did_you_mean(text_column, columns)}give a text column with true captions",
        )
    known = (caption for caption in _read(stores, text_column, where, bool(column)) if caption.phrase)
    captions = heapq.nsmallest(count, known, key=lambda caption: _rank(caption.episode_id, seed))
    if not captions:
        raise RequestError(
            "no episode has a truth", f"column {text_column!r} is empty where {where or 'true'}"
        )
    return TruthSample(captions=captions, warnings=_warnings(captions, column))


def _read(stores: Stores, column: str, where: str, is_caption: bool) -> Iterator[KnownCaption]:
    for batch in stores.tables.episodes.scan(["episode_id", column, "success"], where):
        for row in batch.to_pylist():
            outcome, phrase = split_outcome(row[column] or "")
            success = row["success"]
            yield KnownCaption(
                episode_id=row["episode_id"],
                phrase=phrase,
                succeeded=outcome == "success" if is_caption and success is None else success,
            )


def _rank(episode_id: str, seed: int) -> str:
    return hashlib.blake2b(f"{seed} {episode_id}".encode(), digest_size=8).hexdigest()


def _warnings(captions: Sequence[KnownCaption], column: str) -> list[str]:
    warnings = []
    if not column:
        warnings.append(
            "the truth is the instruction and the outcome of each episode: a demonstration may deviate from it; give "
            "--truth COLUMN where people have checked captions"
        )
    unknown = sum(caption.succeeded is None for caption in captions)
    if unknown:
        warnings.append(f"the outcome of {unknown} episodes is not known: no outcome of theirs is flipped")
    return warnings
