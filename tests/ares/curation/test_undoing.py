"""What can be taken back, what cannot any more, and what an undo of an undo is."""

from __future__ import annotations

import pytest

from ares.curation import (
    FailureSelection,
    SelectedEpisodes,
    accept_failures,
    clear_failures,
    failures_of,
    list_failures,
    remove_episodes,
    undo,
)
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
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


def test_overlapping_removals_are_taken_back_one_by_one(curated: Workspace, ids: list[str]) -> None:
    first = curated.remove(ids[:2]).number
    with SelectedEpisodes(EpisodeSelection(ids=ids[1:3]), ids[1:3]) as selected_before:
        remove_episodes(curated.stores, selected_before)
    undo(curated.stores, first)
    assert curated.stores.tables.episodes.ids() == {ids[0], *ids[3:]}


def failed(workspace: Workspace) -> int:
    """Failures that status counts."""
    annotations = workspace.status().annotations
    return annotations["grade"].failed if "grade" in annotations else 0


def test_cleared_failures_no_longer_count_until_they_happen_again(curated: Workspace, ids: list[str]) -> None:
    log = curated.stores.annotations
    assert failed(curated) == 12
    assert not list(list_failures(curated.stores, FailureSelection(texts=["other"])))
    clear_failures(curated.stores, FailureSelection(work="grade", texts=["NO REPLY"]))
    assert failed(curated) == 0
    log.put_documents("failures", {f"grade/0123/{ids[0]}": {"reason": "again", "detail": "", "at": "later"}})
    assert failed(curated) == 1
    undone = undo(curated.stores).action.number
    failures = {failure.subject: failure.reason for failure in list_failures(curated.stores)}
    assert len(failures) == 12 and failures[ids[0]] == "again"
    undo(curated.stores, undone)  # the others are cleared again: the one that failed again was never cleared
    assert [failure.reason for failure in list_failures(curated.stores)] == ["again"]
    assert run_checks(curated.stores) == []


def test_failures_of_many_lists_are_all_cleared_and_all_come_back(
    curated: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.store.actions._DOCUMENT_IDS", 5)
    clear_failures(curated.stores, FailureSelection(work="grade"))
    assert failed(curated) == 0
    undo(curated.stores)
    assert failed(curated) == 12


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


def test_an_undo_brings_back_no_failure_of_work_that_was_done_since(
    curated: Workspace, ids: list[str]
) -> None:
    from tests.ares.curation.conftest import CAPTION

    key = f"caption/{CAPTION.maker_id}/{ids[0]}"
    curated.stores.annotations.put_documents("failures", {key: {"reason": "r", "detail": "", "at": ""}})
    clear_failures(curated.stores, FailureSelection(work="caption"))
    undo(curated.stores)
    assert not list(list_failures(curated.stores, FailureSelection(work="caption")))


def test_nothing_to_clear_says_so(curated: Workspace) -> None:
    with pytest.raises(RequestError, match="no failure matches"):
        clear_failures(curated.stores, FailureSelection(work="motion"))
