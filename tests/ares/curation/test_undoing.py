"""What can be taken back, what cannot any more, and what an undo of an undo is."""

from __future__ import annotations

import pytest

from ares.curation import (
    FailureSelection,
    accept_failures,
    failures_of,
    list_failures,
    undo,
)
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.settings import user_name
from ares.store import record_action
from ares.workspace import Workspace


def count(workspace: Workspace) -> int:
    """Number of episodes that are there."""
    return workspace.stores.tables.episodes.count()


def test_undo_goes_back_step_by_step_and_an_undo_can_be_taken_back(
    curated: Workspace, ids: list[str]
) -> None:
    curated.remove(ids[:1])
    curated.remove(ids[1:3])
    second = undo(curated.stores)
    assert (second.undone.number, count(curated)) == (2, 11)
    assert (undo(curated.stores).undone.number, count(curated)) == (1, 12)
    with pytest.raises(RequestError, match="nothing to take back"):
        undo(curated.stores)
    again = undo(curated.stores, second.action.number)
    assert count(curated) == 10
    undo(curated.stores, again.action.number)
    assert count(curated) == 12


def test_failures_that_an_earlier_version_cleared_do_not_come_back_and_stand_in_no_way(
    curated: Workspace, ids: list[str]
) -> None:
    curated.remove(ids[:1])
    record_action(curated.stores.annotations, "clear_failures", user_name(), count=12)
    with pytest.raises(RequestError, match="action 2 of an earlier version cannot be taken back"):
        undo(curated.stores, 2)
    assert (undo(curated.stores).undone.number, count(curated)) == (1, 12)
    assert run_checks(curated.stores) == []


def test_an_accepted_failure_is_marked_wherever_it_is_read_until_that_is_undone(
    curated: Workspace, ids: list[str]
) -> None:
    from tests.ares.curation.conftest import CAPTION

    stores = curated.stores
    document = {"reason": "r", "detail": "", "at": ""}
    keys = [f"caption/{CAPTION.maker_id}/{id}" for id in ids[:2]]
    stores.annotations.put_documents("failures", dict.fromkeys(keys, document))
    accept_failures(stores, FailureSelection(work="caption", texts=[ids[0]]))
    assert [failure.subject for failure in list_failures(stores) if failure.is_accepted] == [ids[0]]
    assert [failure.is_accepted for failure in failures_of(stores, ids[:2])] == [True, False]
    undo(stores)
    assert not [failure for failure in failures_of(stores, ids) if failure.is_accepted]


def test_nothing_to_accept_says_so(curated: Workspace) -> None:
    with pytest.raises(RequestError, match="no failure matches"):
        accept_failures(curated.stores, FailureSelection(work="motion"))
