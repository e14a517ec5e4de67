"""Vocabulary: the action phrases of a workspace, the menu of a blind forced choice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ares.rubric.slots import split_outcome

if TYPE_CHECKING:
    from ares.workspace import Workspace

# With fewer phrases to choose from, choosing the right one says little.
FEWEST = 4
_MOST = 20_000


def gather(ws: Workspace) -> list[str]:
    """Different action phrases, the most frequent ones, in alphabetical order.

    They are those of the instructions. Captions come in only where instructions give too few to choose from: what
    is offered should not depend on how far captioning had come when a run was killed.
    """
    columns = ws.tables.episodes.columns()
    phrases = _count(ws, "instruction")
    if len(phrases) < FEWEST and "caption" in columns:
        phrases += _count(ws, "caption")
    return sorted(phrase for phrase, _ in phrases.most_common(_MOST))


def _count(ws: Workspace, column: str) -> Counter[str]:
    import pyarrow.compute as pc

    phrases: Counter[str] = Counter()
    for batch in ws.tables.episodes.scan([column]):
        for pair in pc.value_counts(batch.column(column)).to_pylist():
            phrase = split_outcome(pair["values"] or "")[1]
            if phrase:
                phrases[phrase] += pair["counts"]
    return phrases
