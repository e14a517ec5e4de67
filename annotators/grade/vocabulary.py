"""The action phrases of a workspace: the menu of a blind forced choice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ares.rubric import split_outcome

if TYPE_CHECKING:
    from ares.store import Stores

# With fewer phrases on the menu, choosing the right one is no evidence.
MIN_PHRASES = 4
_MAX_PHRASES = 20_000


def gather_phrases(stores: Stores) -> list[str]:
    """Different action phrases, the most frequent ones, in alphabetical order.

    They come from the instructions, and from captions only where instructions give too few: the menu should not depend
    on how many captions there were when a run was killed.
    """
    columns = stores.tables.episodes.columns()
    phrases = _count_phrases(stores, "instruction")
    if len(phrases) < MIN_PHRASES and "caption" in columns:
        phrases += _count_phrases(stores, "caption")
    return sorted(phrase for phrase, _ in phrases.most_common(_MAX_PHRASES))


def _count_phrases(stores: Stores, column: str) -> Counter[str]:
    import pyarrow.compute as pc

    phrases: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan([column]):
        for pair in pc.value_counts(batch.column(column)).to_pylist():
            phrase = split_outcome(pair["values"] or "")[1]
            if phrase:
                phrases[phrase] += pair["counts"]
    return phrases
