"""Sets are frozen, versioned, compared, renamed, noted and deleted; their numbers are never used twice."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.curation import Sets, undo
from ares.curation.lock_files import SetLock, read_lock
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.store import AnnotationStore
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.workspace import Workspace


@pytest.fixture(params=["sqlite", "mongo"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnnotationStore]:
    """Each of the two annotation stores, empty."""
    annotation_store: AnnotationStore
    if request.param == "sqlite":
        annotation_store = SqliteAnnotationStore(tmp_path / "annotations.sqlite")
    else:
        mongo = pytest.importorskip("ares.store.log.mongo")
        annotation_store = mongo.MongoAnnotationStore(request.getfixturevalue("mongo_uri"), uuid.uuid4().hex)
    yield annotation_store
    annotation_store.close()


def test_a_set_keeps_its_members_in_blocks(store: AnnotationStore) -> None:
    sets, ids = Sets(store), [f"{number:016x}" for number in range(25_001)]
    selection = sets.create("all", reversed(ids), {"where": ""})
    assert (selection.label, selection.episodes) == ("all@1", 25_001)
    assert list(sets.ids(sets["all"])) == ids
    assert Sets(store)["all"] == selection


def test_another_selection_is_another_version_and_the_same_one_is_not(store: AnnotationStore) -> None:
    sets = Sets(store)
    first = sets.create("good", ["b", "a", "a"], {"where": "success"})
    assert sets.create("good", ["a", "b"], {"where": "success = true"}) == first
    second = sets.create("good", ["a", "c"], {"where": "grade"})
    assert (second.label, sets["good"], sets["good@1"]) == ("good@2", second, first)
    assert list(sets.ids(first)) == ["a", "b"]
    assert [version.version for version in sets.versions("good")] == [1, 2]


def test_the_eleventh_version_is_newer_than_the_second(store: AnnotationStore) -> None:
    sets = Sets(store)
    for number in range(11):
        sets.create("s", [str(number)], {})
    assert sets["s"].version == 11


def test_names_are_told_apart_from_their_beginnings(store: AnnotationStore) -> None:
    sets = Sets(store)
    for name in ("good", "good-2", "goodness", "a.b_c"):
        sets.create(name, [name], {})
    assert list(sets) == ["a.b_c", "good", "good-2", "goodness"]
    assert "good" in sets and "goo" not in sets and len(sets) == 4
    assert list(sets.ids(sets["good"])) == ["good"]


def test_an_empty_set_says_what_matched_nothing(sqlite: SqliteAnnotationStore) -> None:
    sets = Sets(sqlite)
    with pytest.raises(RequestError, match="grade = 'no'"):
        sets.create("none", [], {"where": "grade = 'no'"})
    assert list(sets) == []


def test_an_unknown_set_names_those_there_are(sqlite: SqliteAnnotationStore) -> None:
    sets = Sets(sqlite)
    with pytest.raises(RequestError, match="none yet"):
        sets["good"]
    sets.create("good", ["a"], {})
    with pytest.raises(RequestError, match="there are: good"):
        sets["godo"]
    with pytest.raises(RequestError, match="there are: good@1"):
        sets["good@7"]


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=st.sets(st.integers(0, 30), min_size=1), b=st.sets(st.integers(0, 30), min_size=1))
def test_a_diff_counts_and_lists_what_changed(tmp_path: Path, a: set[int], b: set[int]) -> None:
    store = SqliteAnnotationStore(tmp_path / f"{uuid.uuid4().hex}.sqlite")
    sets, to_id = Sets(store), "{:04x}".format
    first, second = sets.create("a", map(to_id, a), {}), sets.create("b", map(to_id, b), {})
    diff = sets.diff(first, second)
    assert (diff.added, diff.removed, diff.common) == (len(b - a), len(a - b), len(a & b))
    assert list(diff.added_ids()) == [to_id(first) for first in sorted(b - a)]
    assert list(diff.removed_ids()) == [to_id(first) for first in sorted(a - b)]
    store.close()


def test_a_lock_file_brings_the_set_back(sqlite: SqliteAnnotationStore, tmp_path: Path) -> None:
    sets, path = Sets(sqlite), tmp_path / "locks" / "good.lock.json"
    selection = sets.create("good", ["b", "a"], {"where": "success"})
    sets.write_lock(selection, path)
    # A lock is for another laboratory, and does not name who has frozen it.
    lock, read = read_lock(path, SetLock)
    assert (read, lock.ids) == (replace(selection, person=""), ["a", "b"])


@pytest.mark.parametrize("change", ["drop", "add", "swap"])
def test_a_changed_lock_file_is_refused(sqlite: SqliteAnnotationStore, tmp_path: Path, change: str) -> None:
    sets, path = Sets(sqlite), tmp_path / "good.lock.json"
    sets.write_lock(sets.create("good", ["a", "b"], {}), path)
    document = json.loads(path.read_text())
    document["ids"] = {"drop": ["a"], "add": ["a", "b", "c"], "swap": ["a", "c"]}[change]
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match="changed after it was written"):
        read_lock(path, SetLock)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not JSON"])
def test_a_file_that_is_no_lock_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(RequestError, match="cannot be read"):
        read_lock(tmp_path / "x", SetLock)


def test_those_who_freeze_at_once_get_versions_of_their_own(store: AnnotationStore) -> None:
    sets, frozen = Sets(store), list[tuple[str, list[str]]]()

    def freeze(worker: int) -> None:
        ids = [f"{worker}/{number}" for number in range(20)]
        frozen.append((sets.create("same", ids, {}).label, sorted(ids)))

    threads = [threading.Thread(target=freeze, args=[worker]) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {label for label, _ in frozen} == {f"same@{version}" for version in range(1, 7)}
    assert all(list(sets.ids(sets[label])) == ids for label, ids in frozen)


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
    assert read_lock(tmp_path / "lock", SetLock)[0].ids == ids[:2]
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
