"""Sets are deleted, renamed and noted by facts; their numbers are never used twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.curation import undo
from ares.curation.lock_files import parse_lock, read_lock_document
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.workspace import Workspace


def test_a_deleted_set_vanishes_comes_back_and_its_number_stays_taken(
    curated: Workspace, ids: list[str]
) -> None:
    sets = curated.sets
    sets.delete("good")
    assert "good" not in sets and list(sets) == []
    with pytest.raises(RequestError, match="no set 'good'"):
        sets["good"]
    assert sets.create("good", ids[:2], {}).label == "good@2"
    undo(curated.stores)
    assert [version.label for version in sets.versions("good")] == ["good@1", "good@2"]
    assert list(sets.ids(sets["good@1"])) == ids[:5]
    assert run_checks(curated.stores) == []


def test_one_version_is_deleted_alone(curated: Workspace, ids: list[str]) -> None:
    curated.sets.create("good", ids[:2], {})
    curated.sets.delete("good@2")
    assert curated.sets["good"].label == "good@1"


def test_a_renamed_set_keeps_versions_members_and_lock(
    curated: Workspace, ids: list[str], tmp_path: Path
) -> None:
    sets = curated.sets
    sets.create("good", ids[:2], {})
    sets.rename("good", "better")
    assert list(sets) == ["better"] and sets["better"].label == "better@2"
    assert list(sets.ids(sets["better@1"])) == ids[:5]
    sets["better"].write_lock(tmp_path / "lock")
    assert parse_lock(read_lock_document(tmp_path / "lock"), tmp_path / "lock")[1] == ids[:2]
    assert sets.create("better", ids[:3], {}).label == "better@3"
    undo(curated.stores)
    assert sets["good"].label == "good@2" and sets["better"].label == "better@3"
    assert run_checks(curated.stores) == []


def test_a_name_that_was_deleted_can_be_given_and_the_deleted_set_comes_back_beside_it(
    curated: Workspace, ids: list[str]
) -> None:
    sets = curated.sets
    sets.create("old", ids[:1], {})
    deletion = sets.delete("old")
    sets.rename("good", "old")
    assert sets["old"].label == "old@2"
    undo(curated.stores, deletion.number)
    assert [version.episodes for version in sets.versions("old")] == [1, 5]


def test_a_set_that_is_renamed_again_after_an_undo_keeps_its_numbers(
    curated: Workspace, ids: list[str]
) -> None:
    sets = curated.sets
    sets.create("good", ids[:2], {})
    for _ in range(2):
        sets.rename("good", "better")
        assert [version.label for version in sets.versions("better")] == ["better@1", "better@2"]
        undo(curated.stores)
    assert run_checks(curated.stores) == []


def test_a_name_in_use_or_that_cannot_be_one_is_refused(curated: Workspace, ids: list[str]) -> None:
    curated.sets.create("other", ids[:1], {})
    with pytest.raises(RequestError, match="already"):
        curated.sets.rename("good", "other")
    with pytest.raises(RequestError, match="cannot be the name of a set"):
        curated.sets.rename("good", "a/../b")
    with pytest.raises(RequestError, match="together"):
        curated.sets.rename("good@1", "b")


def test_the_newest_note_counts_and_is_taken_back(curated: Workspace) -> None:
    sets = curated.sets
    sets.note("good", "for the paper")
    sets.note("good@1", "for the second paper")
    assert sets["good"].note == "for the second paper"
    assert sets["good"].to_json()["note"] == "for the second paper"
    undo(curated.stores)
    assert sets["good"].note == "for the paper"
    undo(curated.stores)
    assert "note" not in sets["good"].to_json()
