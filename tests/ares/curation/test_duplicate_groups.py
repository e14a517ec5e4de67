"""Copies are kept as columns: by groups, replaced by each search, and with what earlier searches said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.curation.copies import CopyPair
from ares.curation.duplicate_groups import group_pairs, list_duplicate_pairs
from ares.search import compute_facets
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from tests.ares.curation.test_composition import draw_course, ids_of, make_record

COLUMNS = ("duplicate_group", "num_duplicates", "duplicate_by", "duplicate_score")


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Workspace]:
    """Six motions as dataset a, and as dataset b two copies of the first and one, cut, of the second."""
    with open_workspace(str(tmp_path / "w"), Settings()) as workspace:
        courses = [draw_course(number, 40 + number) for number in range(6)]
        records = [make_record(str(number), course) for number, course in enumerate(courses)]
        copies = {"0b": courses[0] + [3, 0, 0, 0], "0c": courses[0] * [1, -1, 1, 1], "1b": courses[1][3:-4]}
        records += [make_record(key, course, dataset="b") for key, course in copies.items()]
        workspace.stores.tables.episodes.add(records)
        yield workspace


def shown_keys(workspace: Workspace) -> dict[str, set[str]]:
    """Keys of the episodes by the group that the table shows."""
    groups: dict[str, set[str]] = {}
    columns = ["key", "duplicate_group"]
    for row in workspace.episodes.where("duplicate_group IS NOT NULL").to_arrow(columns).to_pylist():
        groups.setdefault(row["duplicate_group"], set()).add(row["key"])
    return groups


def test_each_group_is_a_value_of_a_column_that_is_a_facet(copied: Workspace) -> None:
    table = copied.episodes.find_duplicates()
    first, second = ids_of(copied, "key LIKE '0%'"), ids_of(copied, "key LIKE '1%'")
    assert [group.ids for group in table] == [first, second], "the largest first"
    assert first[0] in repr(table) and "signals" in repr(table)
    assert shown_keys(copied) == {first[0]: {"0", "0b", "0c"}, second[0]: {"1", "1b"}}
    rows = copied.episodes.where("key = '1b'").to_arrow(list(COLUMNS)).to_pylist()
    assert rows[0]["num_duplicates"] == 1 and rows[0]["duplicate_by"] == "signals"
    assert 0.5 < rows[0]["duplicate_score"] <= 1
    facets = {facet.column: facet for facet in compute_facets(copied.stores)}
    assert facets["duplicate_group"].counts == ((first[0], 3), (second[0], 2))
    assert facets["duplicate_group"].missing == 4 and "smallest id" in facets["duplicate_group"].meaning


def test_the_pairs_of_a_group_are_listed_and_those_of_none_are_none(copied: Workspace) -> None:
    assert list_duplicate_pairs(copied.stores, "0" * 16) == [], "before anything was searched"
    (group, _) = copied.episodes.find_duplicates()
    pairs = list_duplicate_pairs(copied.stores, group.name)
    assert pairs == list(group.pairs) and {id for pair in pairs for id in (pair.first, pair.second)} == set(
        group.ids
    )
    assert list_duplicate_pairs(copied.stores, "x' OR 'a' = 'a") == []


def test_an_episode_that_never_moves_is_a_copy_of_none(copied: Workspace) -> None:
    still = [make_record(f"still {number}", 0 * draw_course(number, 40) + number) for number in (1, 2)]
    copied.stores.tables.episodes.add(still)
    copied.episodes.find_duplicates()
    assert sorted(map(len, shown_keys(copied).values())) == [2, 3]


def test_the_same_search_again_writes_nothing(copied: Workspace) -> None:
    copied.episodes.find_duplicates()
    last = copied.stores.annotations.last_sequence()
    assert len(copied.episodes.find_duplicates()) == 2
    assert copied.stores.annotations.last_sequence() == last


@pytest.mark.slow
def test_a_removed_copy_leaves_its_group_with_the_next_search(copied: Workspace) -> None:
    copied.episodes.find_duplicates()
    copied.remove(where="key IN ('1b', '0b')")
    assert len(copied.episodes.find_duplicates()) == 1
    assert list(shown_keys(copied).values()) == [{"0", "0c"}]
    copied.undo()
    copied.episodes.find_duplicates()
    assert sorted(map(len, shown_keys(copied).values())) == [2, 3]


@pytest.mark.slow
def test_a_search_of_some_episodes_keeps_the_pairs_with_others(copied: Workspace) -> None:
    copied.episodes.find_duplicates()
    before = shown_keys(copied)
    assert copied.episodes.where("dataset = 'a'").find_duplicates()[0].ids == ids_of(copied, "key LIKE '0%'")
    assert shown_keys(copied) == before
    copied.remove(where="key = '1b'")
    assert len(copied.episodes.where("key = '1'").find_duplicates()) == 0
    assert [set(keys) for keys in shown_keys(copied).values()] == [{"0", "0b", "0c"}]


def test_of_many_pairs_those_stay_that_hold_a_group_together() -> None:
    ids = [f"{number:04d}" for number in range(60)]
    pairs = [
        CopyPair(first=first, second=second, way="signals", score=0.9)
        for number, first in enumerate(ids)
        for second in ids[number + 1 :]
    ]
    (group,) = group_pairs([*pairs, CopyPair(first="0059", second="0060", way="pixels", score=0.8)])
    assert group.ids == [*ids, "0060"] and len(group.pairs) < 60 * 20
    assert group.pairs[-1].second == "0060"
    assert [again.ids for again in group_pairs(group.pairs)] == [group.ids]


def test_the_command_prints_the_groups_and_ends_with_one(
    copied: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "duplicates", "-w", copied.path]) == 1
    out = capsys.readouterr().out
    first = ids_of(copied, "key LIKE '0%'")[0]
    assert "2 groups of near duplicates with 5 episodes among 9 episodes; compared: 9 by signals" in out
    assert f"duplicate_group = '{first}'" in out
    assert main(["audit", "duplicates", "a", "-w", copied.path, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["compared"]["signals"] == 6
    copied.remove(where="dataset = 'b'")
    assert main(["audit", "duplicates", "-w", copied.path]) == 0
    assert "0 groups of near duplicates" in capsys.readouterr().out


def test_the_command_says_what_it_cannot_do(copied: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "duplicates", "nowhere", "-w", copied.path]) == 2
    assert "no dataset 'nowhere'" in capsys.readouterr().err
