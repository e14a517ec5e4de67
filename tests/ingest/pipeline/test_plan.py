"""The action of an item follows from its source's earlier items, the stored episodes, and whether the source moved."""

from __future__ import annotations

import pytest

from ares.episode import Record
from ares.errors import AresError, SourceError
from ingest.base import Item
from ingest.pipeline.identity import IdentityConflict
from ingest.pipeline.outcome import ItemOutcome, rejected_duplicate
from ingest.pipeline.plan import Action, plan_item
from ingest.pipeline.read import RecordIdentity, read_records


def load() -> Record:
    raise SourceError("record is broken", "here")


ITEM = Item(episode_id="a", location="file, record 0", load=load)
STORED = RecordIdentity("hash", "old file")


@pytest.mark.parametrize(
    ("seen", "stored_ids", "unmoved", "action"),
    [
        ([], [], None, Action.READ),
        (["b"], ["b"], None, Action.READ),
        (["b"], ["b"], True, Action.READ),
        (["b"], ["b"], False, Action.READ),
        # The first stored item is compared, to learn whether the source has moved.
        ([], ["a"], None, Action.COMPARE),
        ([], ["a"], False, Action.COMPARE),
        ([], ["a"], True, Action.SKIP),
        (["a"], [], None, Action.REJECT_DUPLICATE),
        # A duplicate is rejected, whether its id is stored or not.
        (["a"], ["a"], None, Action.REJECT_DUPLICATE),
        (["a"], ["a"], False, Action.REJECT_DUPLICATE),
        (["a"], ["a"], True, Action.REJECT_DUPLICATE),
    ],
)
def test_the_action_of_an_item(
    seen: list[str], stored_ids: list[str], unmoved: bool | None, action: Action
) -> None:
    assert plan_item(ITEM, seen=set(seen), stored_ids=set(stored_ids), unmoved=unmoved) is action


@pytest.mark.parametrize(
    ("action", "is_unread"),
    [(Action.READ, True), (Action.COMPARE, True), (Action.SKIP, False)],
)
def test_items_to_read_or_compare_go_to_a_reader(action: Action, is_unread: bool) -> None:
    assert ItemOutcome(ITEM, action).is_unread is is_unread


def test_a_duplicate_fails_without_being_read() -> None:
    outcome = rejected_duplicate(ITEM)
    assert not outcome.is_unread and isinstance(outcome.result, IdentityConflict)
    assert str(outcome.result) == "this identity stands twice in the source: file, record 0"


@pytest.mark.parametrize(
    ("result", "action", "error", "warning"),
    [
        (STORED, Action.SKIP, "", ""),
        (RecordIdentity("hash", "new file"), Action.SKIP, "", ""),
        (RecordIdentity("other", "new file"), Action.COMPARE, "another record has this identity already", ""),
        (RecordIdentity("other", "old file"), Action.COMPARE, "another record has this identity already", ""),
        (
            SourceError("record is broken", ""),
            Action.SKIP,
            "",
            "already stored, but its source cannot be read",
        ),
    ],
)
def test_an_item_is_compared_by_its_content(
    result: RecordIdentity | AresError, action: Action, error: str, warning: str
) -> None:
    outcome = ItemOutcome(ITEM, Action.COMPARE)
    outcome.set_read(result, STORED)
    assert outcome.action is action and not (action is Action.SKIP and outcome.is_unread)
    assert (outcome.result.reason if isinstance(outcome.result, IdentityConflict) else "") == error
    assert outcome.warning.startswith(warning) and bool(outcome.warning) == bool(warning)


def test_a_record_that_cannot_be_read_ends_with_its_error() -> None:
    outcome = ItemOutcome(ITEM, Action.READ)
    (result,) = read_records([outcome.load])
    outcome.set_read(result, None)
    assert not outcome.is_unread and str(outcome.result) == "record is broken: here"
