"""Tags, notes and views filter, count and show; who changed them is kept, and every change can be taken back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ares.curation import (
    SelectedEpisodes,
    add_note,
    add_tag,
    list_tags,
    notes_of,
    remove_tag,
    tags_of,
    undo,
)
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.search import compute_facets
from ares.store import reset_applied_sequence
from ares.workspace import Workspace
from ares.workspace.summary import describe_episode


def tag(workspace: Workspace, name: str, episode_ids: list[str]) -> int:
    """Tag episodes as Ann. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return add_tag(workspace.stores, name, staged, person="Ann").number


def untag(workspace: Workspace, name: str, episode_ids: list[str]) -> int:
    """Take a tag away as Bob. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return remove_tag(workspace.stores, name, staged, person="Bob").number


def note(workspace: Workspace, text: str, episode_ids: list[str], person: str = "Ann") -> int:
    """Write a note. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return add_note(workspace.stores, text, staged, person=person).number


def test_a_tag_filters_counts_and_shows(curated: Workspace, ids: list[str]) -> None:
    stores = curated.stores
    tag(curated, "blurred", ids[:3])
    tag(curated, "kitchen", ids[2:4])
    assert stores.tables.episodes.ids("array_has(tags, 'blurred')") == set(ids[:3])
    assert stores.tables.episodes.ids("NOT tagged('blurred')") == set(ids[3:])
    assert stores.tables.episodes.ids("array_has_any(tags, ['blurred', 'kitchen'])") == set(ids[:4])
    assert stores.tables.episodes.ids("tags IS NULL") == set(ids[4:])
    (facet,) = compute_facets(stores, columns=["tags"])
    assert facet.counts == (("blurred", 3), ("kitchen", 2))
    assert [(use.tag, use.episodes, use.person) for use in list_tags(stores)] == [
        ("blurred", 3, "Ann"),
        ("kitchen", 2, "Ann"),
    ]
    document: Any = describe_episode(stores, ids[2])
    assert [(item["tag"], item["person"]) for item in document["tags"]] == [
        ("blurred", "Ann"),
        ("kitchen", "Ann"),
    ]
    assert run_checks(stores) == []


def test_an_undo_is_as_if_the_tag_had_not_been_added(curated: Workspace, ids: list[str]) -> None:
    first, _ = tag(curated, "a", ids[:3]), tag(curated, "a", ids[2:5])
    undo(curated.stores, first)
    assert curated.stores.tables.episodes.ids("tagged('a')") == set(ids[2:5])
    untag(curated, "a", ids[4:])
    undo(curated.stores, person="Bob")
    assert curated.stores.tables.episodes.ids("tagged('a')") == set(ids[2:5])
    assert tags_of(curated.stores, ids[0]) == []


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
    document: Any = describe_episode(curated.stores, ids[0])
    assert [item["note"] for item in document["notes"]] == ["too dark"]
    undo(curated.stores, first, person="Ann")
    assert episodes.ids("notes IS NOT NULL") == {ids[1]}


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_note_is_refused(curated: Workspace, ids: list[str], text: str) -> None:
    with pytest.raises(RequestError, match="1 to 2,000 characters"):
        note(curated, text, ids[:1])


@pytest.mark.slow
def test_tags_and_notes_of_removed_episodes_come_back_with_them(curated: Workspace, ids: list[str]) -> None:
    """Also where a tag of the others was changed since, and where the tables are made from the log again."""
    episodes = curated.stores.tables.episodes
    tag(curated, "a", ids[:2])
    note(curated, "dark", ids[:2])
    removal = curated.remove(ids[:1])
    assert episodes.ids("tagged('a')") == {ids[1]}
    untag(curated, "a", ids[1:2])
    undo(curated.stores, removal.number)
    reset_applied_sequence(curated.stores.tables)
    curated.sync()
    assert episodes.ids("tagged('a')") == {ids[0]}
    assert episodes.ids("array_has(notes, 'dark')") == set(ids[:2])
    assert run_checks(curated.stores) == []


@pytest.mark.slow
@pytest.mark.parametrize("column", ["tags", "notes"])
def test_the_doctor_repairs_tags_and_notes_from_the_log(
    curated: Workspace, ids: list[str], column: str
) -> None:
    tag(curated, "a", ids[:2])
    note(curated, "a", ids[:2])
    wrong = pa.table({"episode_id": ids[:1], column: pa.array([["b"]], pa.list_(pa.string()))})
    curated.stores.tables.episodes.set_values(wrong)
    (finding,) = run_checks(curated.stores)
    assert (finding.check, finding.count) == (f"the {column} match the log", 1) and "['a']" in finding.example
    run_checks(curated.stores, repair=True)
    assert run_checks(curated.stores) == []
    assert curated.stores.tables.episodes.ids(f"array_has({column}, 'a')") == set(ids[:2])
