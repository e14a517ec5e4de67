"""The action of an item follows from its source's earlier items, the stored episodes, and whether the source moved."""

from __future__ import annotations

import pytest

from ares.episode import Record
from ares.errors import AresError, SourceError
from ares_ingest.base import Item
from ares_ingest.pipeline.plan import (
    IdentityConflict,
    ItemAction,
    ItemOutcome,
    plan_item,
)
from ares_ingest.pipeline.read import RecordIdentity


def load() -> Record:
    raise SourceError("record is broken", "here")


ITEM = Item(episode_id="a", location="file, record 0", load=load)
STORED = RecordIdentity("hash", "old file", "7:v1:00ff")


@pytest.mark.parametrize(
    ("seen", "stored_ids", "unmoved", "action"),
    [
        ([], [], None, ItemAction.READ),
        (["b"], ["b"], None, ItemAction.READ),
        (["b"], ["b"], True, ItemAction.READ),
        (["b"], ["b"], False, ItemAction.READ),
        # The first stored item is compared, to learn whether the source has moved.
        ([], ["a"], None, ItemAction.COMPARE),
        ([], ["a"], False, ItemAction.COMPARE),
        ([], ["a"], True, ItemAction.SKIP),
        (["a"], [], None, ItemAction.REJECT_DUPLICATE),
        # A duplicate is rejected, whether its id is stored or not.
        (["a"], ["a"], None, ItemAction.REJECT_DUPLICATE),
        (["a"], ["a"], False, ItemAction.REJECT_DUPLICATE),
        (["a"], ["a"], True, ItemAction.REJECT_DUPLICATE),
    ],
)
def test_the_action_of_an_item(
    seen: list[str], stored_ids: list[str], unmoved: bool | None, action: ItemAction
) -> None:
    assert plan_item(ITEM, seen=set(seen), stored_ids=set(stored_ids), unmoved=unmoved) is action


CONFLICT, UNREAD = "another record has this identity already", "already stored, but its source cannot be read"


@pytest.mark.parametrize(
    ("result", "action", "error", "warning"),
    [
        (STORED, ItemAction.SKIP, "", ""),
        (RecordIdentity("hash", "new file"), ItemAction.SKIP, "", ""),
        (RecordIdentity("other", "new file"), ItemAction.COMPARE, CONFLICT, ""),
        (RecordIdentity("other", "old file"), ItemAction.COMPARE, CONFLICT, ""),
        # The file is the same, so the record is: a former version read less of it.
        (RecordIdentity("other", "new file", "7:v9:00ff"), ItemAction.SKIP, "", ""),
        (RecordIdentity("other", "old file", "7:v1:00fe"), ItemAction.COMPARE, CONFLICT, ""),
        (SourceError("record is broken", ""), ItemAction.SKIP, "", UNREAD),
    ],
)
def test_an_item_is_compared_by_its_content(
    result: RecordIdentity | AresError, action: ItemAction, error: str, warning: str
) -> None:
    outcome = ItemOutcome(ITEM, ItemAction.COMPARE)
    outcome.set_read(result, STORED)
    assert outcome.action is action and not (action is ItemAction.SKIP and outcome.is_unread)
    assert (outcome.result.reason if isinstance(outcome.result, IdentityConflict) else "") == error
    assert outcome.warning.startswith(warning) and bool(outcome.warning) == bool(warning)
