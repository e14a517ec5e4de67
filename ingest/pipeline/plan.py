"""Decides what to do with an item of a source: read it, skip it, compare it with the stored episode, or reject it."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum, auto

from ingest.base import Item


class ItemAction(Enum):
    """What to do with an item.

    Attributes:
        READ: The workspace has no episode of this id: read the record and store it.
        SKIP: The episode is stored already.
        COMPARE: An episode of this id is stored, but it came from another file: read the record and compare the two.
        REJECT_DUPLICATE: An earlier item of the same source has this id.
    """

    READ = auto()
    SKIP = auto()
    COMPARE = auto()
    REJECT_DUPLICATE = auto()


def plan_item(
    item: Item, *, seen: Container[str], stored_ids: Container[str], unmoved: bool | None
) -> ItemAction:
    """What to do with an item.

    Args:
        item: The item.
        seen: Ids of the earlier items of its source.
        stored_ids: Ids of the episodes of its source that the workspace had before this run.
        unmoved: Whether the source lies where the stored episodes were read from; None until the first of them has
            been compared.
    """
    if item.episode_id in seen:
        return ItemAction.REJECT_DUPLICATE
    if item.episode_id not in stored_ids:
        return ItemAction.READ
    return ItemAction.SKIP if unmoved else ItemAction.COMPARE
