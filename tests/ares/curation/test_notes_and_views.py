"""Notes filter and show, views keep their query, and every change of them can be taken back by its number."""

from __future__ import annotations

import pytest

from ares.curation import (
    SelectedEpisodes,
    add_note,
    add_tag,
    delete_view,
    list_views,
    notes_of,
    save_view,
    undo,
)
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.store import reset_applied_sequence
from ares.workspace import Workspace
from ares.workspace.summary import describe_episode


def note(workspace: Workspace, text: str, episode_ids: list[str], person: str = "Ann") -> int:
    """Write a note. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return add_note(workspace.stores, text, staged, person=person).number


def test_notes_filter_show_and_are_taken_back(curated: Workspace, ids: list[str]) -> None:
    episodes = curated.stores.tables.episodes
    first = note(curated, " too dark ", ids[:2])
    note(curated, "the gripper slips", ids[1:2], person="Bo")
    assert episodes.ids("array_has(notes, 'too dark')") == set(ids[:2])
    assert episodes.ids("notes IS NULL") == set(ids[2:])
    assert [(item["note"], item["person"]) for item in notes_of(curated.stores, ids[1])] == [
        ("too dark", "Ann"),
        ("the gripper slips", "Bo"),
    ]
    document = describe_episode(curated.stores, ids[0])
    assert [item["note"] for item in document["notes"]] == ["too dark"]  # type: ignore[index,union-attr,call-overload]
    undo(curated.stores, first, person="Ann")
    assert episodes.ids("notes IS NOT NULL") == {ids[1]}


def test_notes_survive_a_removal_and_a_rebuild_of_the_tables(curated: Workspace, ids: list[str]) -> None:
    episodes = curated.stores.tables.episodes
    note(curated, "dark", ids[:2])
    removal = curated.remove(ids[:1])
    undo(curated.stores, removal.number)
    assert episodes.ids("array_has(notes, 'dark')") == set(ids[:2])
    reset_applied_sequence(curated.stores.tables)
    curated.sync()
    assert episodes.ids("array_has(notes, 'dark')") == set(ids[:2])


def test_the_doctor_finds_notes_that_differ_from_the_log(curated: Workspace, ids: list[str]) -> None:
    import pyarrow as pa

    note(curated, "dark", ids[:1])
    wrong = pa.table({"episode_id": ids[:1], "notes": pa.array([["bright"]], pa.list_(pa.string()))})
    curated.stores.tables.episodes.set_values(wrong)
    (finding,) = [item for item in run_checks(curated.stores) if item.check == "the notes match the log"]
    assert finding.count == 1 and "['dark']" in finding.example
    run_checks(curated.stores, repair=True)
    assert curated.stores.tables.episodes.ids("array_has(notes, 'dark')") == set(ids[:1])


@pytest.mark.parametrize("text", ["", "  ", "x" * 2_001])
def test_a_note_that_is_empty_or_too_long_is_refused(curated: Workspace, ids: list[str], text: str) -> None:
    with pytest.raises(RequestError, match="1 to 2,000 characters"):
        note(curated, text, ids[:1])


def test_views_are_saved_replaced_deleted_and_brought_back(curated: Workspace) -> None:
    stores = curated.stores
    save_view(stores, "drawers", {"q": ["drawer"], "cut": ["0.6"]}, person="Ann")
    replaced = save_view(stores, "drawers", {"q": ["open drawer"]}, person="Bo")
    assert [(view.name, view.query, view.person) for view in list_views(stores)] == [
        ("drawers", {"q": ["open drawer"]}, "Bo")
    ]
    undo(stores, replaced.number, person="Bo")
    assert list_views(stores)[0].query == {"q": ["drawer"], "cut": ["0.6"]}
    deleted = delete_view(stores, "drawers")
    assert list_views(stores) == []
    undo(stores, deleted.number)
    assert [view.name for view in list_views(stores)] == ["drawers"]
    with pytest.raises(RequestError, match="no view 'other'"):
        delete_view(stores, "other")
    with pytest.raises(RequestError, match="cannot be the name"):
        save_view(stores, "a/../b", {"q": ["x"]})
    save_view(stores, "everything", {})
    assert [(view.name, view.query) for view in list_views(stores) if view.name != "drawers"] == [
        ("everything", {})
    ]


def test_an_undo_without_a_number_leaves_what_another_person_did_since(
    curated: Workspace, ids: list[str]
) -> None:
    stores = curated.stores
    with SelectedEpisodes(EpisodeSelection(ids=ids[:1]), ids[:1]) as staged:
        add_tag(stores, "own", staged, person="Ann")
    with SelectedEpisodes(EpisodeSelection(ids=ids[1:2]), ids[1:2]) as staged:
        theirs = add_tag(stores, "theirs", staged, person="Bo").number
    assert undo(stores, person="Ann").undone.tag == "own"
    with pytest.raises(RequestError, match=f"nothing of Ann.*of Bo: `ares undo {theirs}`"):
        undo(stores, person="Ann")
    assert stores.tables.episodes.ids("array_has(tags, 'theirs')") == {ids[1]}
