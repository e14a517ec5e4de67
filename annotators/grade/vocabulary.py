"""The action phrases of a workspace: the menu of a blind forced choice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import split_outcome

if TYPE_CHECKING:
    from ares.store import Stores

_MENUS, _KEY = "grade_menus", "instructions"
# With fewer phrases on the menu, choosing the right one is no evidence.
MIN_PHRASES = 4
_MAX_PHRASES = 20_000


def read_menu(stores: Stores, *, store: bool = True) -> list[str]:
    """Different action phrases, the most frequent ones, in alphabetical order.

    They come from the instructions, and from captions only where instructions give too few. A menu is kept until the
    instructions change: it should not depend on how many captions there were when a run was killed, and a grade by
    another menu is a grade by another maker.

    Args:
        stores: Stores of the workspace.
        store: Keep a menu that is new.
    """
    instructions = _count_phrases(stores, "instruction")
    source_hash = short_hash(list[Json](sorted(instructions)))
    stored = stores.annotations.get_document(_MENUS, _KEY)
    if isinstance(stored, dict) and stored["source_hash"] == source_hash:
        phrases = [str(phrase) for phrase in stored["phrases"]]
        if len(phrases) >= MIN_PHRASES:
            return phrases
    if len(instructions) < MIN_PHRASES and "caption" in stores.tables.episodes.columns():
        instructions += _count_phrases(stores, "caption")
    menu = sorted(phrase for phrase, _ in instructions.most_common(_MAX_PHRASES))
    document: dict[str, Json] = {"source_hash": source_hash, "phrases": list[Json](menu)}
    if store:
        stores.annotations.put_documents(_MENUS, {_KEY: document})
    return menu


def _count_phrases(stores: Stores, column: str) -> Counter[str]:
    import pyarrow.compute as pc

    phrases: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan([column]):
        for pair in pc.value_counts(batch.column(column)).to_pylist():
            phrase = split_outcome(pair["values"] or "")[1]
            if phrase:
                phrases[phrase] += pair["counts"]
    return phrases
