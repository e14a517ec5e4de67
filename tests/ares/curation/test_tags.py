"""Tags filter, count and show; who changed them is kept, and every change can be taken back."""

from __future__ import annotations

from typing import Any

import pytest

from ares.curation import (
    SelectedEpisodes,
    add_tag,
    list_tags,
    remove_tag,
    selected_ids,
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


def tag(workspace: Workspace, name: str, episode_ids: list[str], person: str = "Ann") -> int:
    """Tag episodes. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return add_tag(workspace.stores, name, staged, person=person).number


def untag(workspace: Workspace, name: str, episode_ids: list[str]) -> int:
    """Take a tag away. Returns the number of the action."""
    with SelectedEpisodes(EpisodeSelection(ids=episode_ids), episode_ids) as staged:
        return remove_tag(workspace.stores, name, staged, person="Bob").number


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


def test_tags_of_removed_episodes_come_back_with_them(curated: Workspace, ids: list[str]) -> None:
    from ares.curation import remove_episodes

    tag(curated, "a", ids[:2])
    with SelectedEpisodes(EpisodeSelection(ids=ids[:1]), ids[:1]) as staged:
        removal = remove_episodes(curated.stores, staged)
    assert curated.stores.tables.episodes.ids("tagged('a')") == {ids[1]}
    untag(curated, "a", ids[1:2])
    undo(curated.stores, removal.number)
    assert curated.stores.tables.episodes.ids("tagged('a')") == {ids[0]}
    assert run_checks(curated.stores) == []


def test_a_wrong_tag_in_the_table_is_repaired_from_the_log(curated: Workspace, ids: list[str]) -> None:
    import pyarrow as pa

    tag(curated, "a", ids[:2])
    wrong = pa.table({"episode_id": ids[:1], "tags": pa.array([["b"]], pa.list_(pa.string()))})
    curated.stores.tables.episodes.set_values(wrong)
    assert [finding.check for finding in run_checks(curated.stores)] == ["the tags match the log"]
    run_checks(curated.stores, repair=True)
    assert run_checks(curated.stores) == []
    reset_applied_sequence(curated.stores.tables)
    curated.sync()
    assert curated.stores.tables.episodes.ids("tagged('a')") == set(ids[:2])


def test_episodes_are_selected_by_set_dataset_filter_and_list(curated: Workspace, ids: list[str]) -> None:
    def select(**fields: Any) -> list[str]:
        return sorted(selected_ids(curated.stores, EpisodeSelection(**fields)))

    assert select(set="good") == ids[:5]
    assert select(set="good", where=f"episode_id = '{ids[3]}'") == [ids[3]]
    assert select(dataset="video", ids=ids[:2]) == ids[:2]
    with pytest.raises(RequestError, match="no dataset 'vidoe'"):
        select(dataset="vidoe")
    with pytest.raises(RequestError, match="as a whole"):
        select(set="good", ids=ids[:1])
    with pytest.raises(RequestError, match="no set 'bad'"):
        select(set="bad")
