"""A purge leaves nothing of an episode in the workspace but a hash, also after a crash at any step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.contract import DatasetKey, StoredContracts, read_contracts, write_contracts
from ares.curation import (
    count_pending_purges,
    duplicate_groups,
    list_duplicate_pairs,
    list_failures,
    purge as run,
    purge_episodes,
    undo,
)
from ares.curation.copies import CopyPair
from ares.curation.duplicate_groups import group_pairs
from ares.doctor import run_checks
from ares.errors import RequestError
from ares.store import StagedIds
from ares.workspace import Workspace
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day


def purge(workspace: Workspace, episode_ids: list[str]) -> Any:
    """Purge episodes."""
    with StagedIds(episode_ids) as staged:
        return purge_episodes(workspace.stores, staged, person="Ann")


def remains(folder: Path, *texts: str) -> list[str]:
    """Files of a folder that contain one of some texts, in any case, or have it in their name."""
    wanted_bytes = [text.lower().encode() for text in texts]
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if any(text in str(path).lower() for text in texts)
        or (path.is_file() and any(text in path.read_bytes().lower() for text in wanted_bytes))
    )


def spread(workspace: Workspace, episode_id: str) -> None:
    """Let an episode be named wherever one can be: sets, tags, removals, failures, reports, caches, old versions."""
    stores = workspace.stores
    workspace.tag("a", where=f"episode_id = '{episode_id}'")
    workspace.remove(where=f"episode_id = '{episode_id}'")
    undo(stores)
    workspace.sets.create("recipe", [episode_id], {"where": f"episode_id = '{episode_id}'"})
    source = stores.tables.episodes.get_episode(episode_id).source
    report: dict[str, Any] = {"failures": [{"example": f"{source}: episode {episode_id}"}]}
    stores.annotations.put_documents("jobs", {"2026-11-01/ingest": report})  # of an earlier version
    stores.annotations.put_documents("maps", {"m": {"episodes": 12, "sample": [episode_id, "x"]}})
    cache = stores.folder / "cache" / "ab"
    cache.mkdir(parents=True)
    (cache / "abc.jpg").write_bytes(b"picture")


def test_nothing_of_a_purged_episode_is_left_but_a_hash(
    open_curated: Callable[[], Workspace], curated: Workspace, ids: list[str], demo_samples: Path
) -> None:
    episode_id, other, folder = ids[1], ids[2], Path(curated.location)
    spread(curated, episode_id)
    assert remains(folder, episode_id) and remains(folder, "zebra01x")
    report = purge(curated, [episode_id])
    assert (report.episodes, report.files) == (1, 1) and report.annotations >= 2 and report.rows >= 5
    curated.close()
    assert remains(folder, episode_id, "zebra01x") == []
    assert remains(folder, other) and remains(folder, "zebra02x")
    assert not (folder / "cache").exists()
    curated = open_curated()
    assert run_checks(curated.stores) == []
    assert curated.stores.tables.segments.search_text("zebra02x", 5)[0].episode_id == other
    again = ingest_paths(curated.stores, [str(demo_samples / "video")], quiet=True).to_json()
    assert again["kept"] == 0 and "refused" in str(again["warnings"])
    assert curated.stores.tables.episodes.count() == 11


@pytest.mark.slow
def test_words_about_purged_episodes_go_with_them(curated: Workspace, ids: list[str]) -> None:
    """Replies that were kept, notes, recipes, and what was made of an instruction that nobody else has."""
    log = curated.stores.annotations
    secret = curated.stores.tables.episodes.get_episode(ids[0]).instruction
    curated.correct(ids[0], instruction="fold the towel", person="Ada")
    curated.note("the walrus slips", [ids[0]])
    curated.note("the badger slips", ids[:2])
    curated.tag("odd", where="caption = 'lift zebra00x quickly'")
    curated.sets.create("one", where="caption = 'lift zebra00x quickly'")
    log.put_documents("model_replies", {"a1": {"text": "a walrus lifts"}, "spent/m/1": {"calls": 1}})
    log.put_documents("success_criteria", {"c1": {"task": secret, "criteria": ["is the walrus gone?"]}})
    same = curated.episodes.where(f"coalesce(instruction_original, instruction) = '{secret}'")
    purge(curated, list(same.ids()))
    texts = str([list(log.find_documents(name)) for name in log.collections()])
    assert "walrus" not in texts and "zebra00x" not in texts and "badger" in texts
    assert log.get_document("model_replies", "spent/m/1") == {"calls": 1}
    assert run_checks(curated.stores) == []


def test_failures_that_name_a_purged_episode_in_their_key_or_in_their_words_go_with_it(
    curated: Workspace, ids: list[str]
) -> None:
    log = curated.stores.annotations
    source = curated.stores.tables.episodes.get_episode(ids[0]).source
    kept = {"caption/m/" + ids[1]: {"reason": "no answer", "detail": "after 3 attempts"}}
    gone = {
        "caption/m/" + ids[0]: {"reason": "no answer", "detail": "after 3 attempts"},
        "ingest/5f0c": {"reason": "cut", "detail": f"{source}: at byte 12"},
    }
    for collection in ("failures", "accepted_failures"):
        log.put_documents(collection, {**kept, **gone})
    purge(curated, ids[:1])
    for collection in ("failures", "accepted_failures"):
        assert kept.keys() <= dict(log.find_documents(collection)).keys()
        assert not gone.keys() & dict(log.find_documents(collection)).keys()


@pytest.mark.slow
def test_near_duplicates_of_a_purged_episode_keep_their_group_without_it(
    curated: Workspace, ids: list[str]
) -> None:
    """The group has the name of its first episode, and its others keep pairs with it, in earlier values too."""
    pairs = [
        CopyPair(first=first, second=second, way="signals", score=0.9)
        for first, second in (ids[:2], ids[1:3], ids[3:5])
    ]
    for found in (pairs[:1], pairs):
        with curated.stores.applying("near duplicates"):
            kept = dict(duplicate_groups._read_kept_values(curated.stores))
            duplicate_groups._write_changed_values(curated.stores, kept, group_pairs(found))
    groups, folder = curated.episodes.where("num_duplicates > 0"), Path(curated.location)
    assert set(groups["duplicate_group"]) == {ids[0], ids[3]}
    purge(curated, [ids[0], ids[3]])
    rows = (
        curated.episodes.where("num_duplicates > 0").to_arrow(["episode_id", "duplicate_group"]).to_pylist()
    )
    assert sorted((row["episode_id"], row["duplicate_group"]) for row in rows) == [
        (ids[1], ids[1]),
        (ids[2], ids[1]),
    ]
    assert list_duplicate_pairs(curated.stores, ids[1]) == [pairs[1]] and run_checks(curated.stores) == []
    curated.close()
    assert remains(folder, ids[0], ids[3]) == []


def test_files_of_jobs_that_name_a_purged_episode_go_with_it(curated: Workspace, ids: list[str]) -> None:
    """Those of one job together; of a job that runs its lock stays, and other jobs are left alone."""
    jobs = Path(curated.location) / "jobs"
    source = curated.stores.tables.episodes.get_episode(ids[0]).source
    texts = {
        "a1.csv": f"episode_id,reason\n{ids[0]},copy\n",
        "a1.json": '{"words": ["set", "create"]}',
        "a1.lock": "",
        "b2.log": f"{source}: at byte 12\n",
        "c3.json": json.dumps({"report": {"document": {"failures": [[ids[0], "no answer"]]}}}),
        "c3.out": "",
        "d4.json": json.dumps({"words": ["annotate", "--id", ids[1]]}),
        "d4.out": "{}",
        "uploads/answers.jsonl": json.dumps({"episode_id": ids[0]}),
        "uploads/answers.csv": ids[1],
    }
    for name, text in texts.items():
        (jobs / name).parent.mkdir(parents=True, exist_ok=True)
        (jobs / name).write_text(text)
    purge(curated, ids[:1])
    left = {str(path.relative_to(jobs)) for path in jobs.rglob("*") if path.is_file()}
    assert left == {"a1.lock", "d4.json", "d4.out", "uploads/answers.csv"}


@pytest.mark.slow
def test_a_purge_frees_the_bytes_of_its_rows_in_every_table(curated: Workspace, ids: list[str]) -> None:
    """One version of each table is left, whose files have the rows that are shown and no others."""
    spread(curated, ids[1])
    before = {name: (table.count_rows(), _size(table)) for name, table in _tables(curated).items()}
    report = purge(curated, ids[1:2])  # a twelfth: fewer rows than tables are otherwise written again for
    after = _tables(curated)
    changed = {name: before[name][0] - table.count_rows() for name, table in after.items()}
    holding = ("episodes", "segments", "trajectories", "vectors_m", "texts_m")
    assert {name: count for name, count in changed.items() if count} == dict.fromkeys(holding, 1)
    assert report.rows == len(holding)
    for name in holding:
        table = after[name]
        assert len(table.versions()) == 1, name
        assert sum(part.physical_rows for part in table.get_fragments()) == table.count_rows(), name
        assert _size(table) < before[name][1], name


def _tables(workspace: Workspace) -> dict[str, Any]:
    connection = workspace.stores.tables.connection
    return {name: connection.newest_version(name) for name in connection.table_names()}


def _size(table: Any) -> int:
    """Bytes of all files of a table, of old versions too."""
    return sum(path.stat().st_size for path in Path(table.uri).rglob("*") if path.is_file())


@pytest.mark.slow
def test_sets_and_actions_say_how_many_were_purged(curated: Workspace, ids: list[str]) -> None:
    removal, gone = curated.remove(ids[:3]), curated.remove(ids[5:6])
    purge(curated, [*ids[:2], ids[5]])
    with pytest.raises(RequestError, match="cannot be taken back any more"):
        undo(curated.stores, gone.number)
    good = curated.sets["good"]
    assert (good.episodes, good.purged) == (3, 2) and list(curated.sets.ids(good)) == ids[2:5]
    assert good.to_json()["purged"] == 2, "`ares set show --json` says it too"
    report = undo(curated.stores, removal.number)
    assert report.undone.purged == 2
    assert curated.stores.tables.episodes.ids() == {*ids[2:5], *ids[6:]}
    assert ids[0] not in [failure.subject for failure in list_failures(curated.stores)]
    assert run_checks(curated.stores) == []


@pytest.mark.slow
def test_a_contract_goes_with_the_last_episode_of_its_dataset(curated: Workspace, ids: list[str]) -> None:
    """Removed episodes can come back, so their dataset keeps its contract."""
    log = curated.stores.annotations
    episode = curated.stores.tables.episodes.get_episode(ids[0])
    key = DatasetKey(episode.format, episode.dataset, episode.version)
    gone = key._replace(dataset="no episode left")
    stored = StoredContracts(stated={"action.gripper": {"gripper": "high is open"}})
    for dataset in (key, gone):
        write_contracts(log, dataset, stored)
    curated.remove(ids[:1])
    purge(curated, ids[1:])
    assert read_contracts(log, key) == stored
    assert read_contracts(log, gone) == StoredContracts()
    purge(curated, ids[:1])
    assert read_contracts(log, key) == StoredContracts()


STEPS = (
    "add_tombstones",
    "remove_ids_from_documents",
    "delete_episode_files",
    "delete_rows_of",
    "leave_duplicate_groups",
    "record_action",
    "erase_deleted_table_rows",
)


@pytest.mark.slow
@pytest.mark.parametrize("step", some_by_day(STEPS, 6))
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_purge_that_is_killed_is_completed_by_the_doctor(
    open_curated: Callable[[], Workspace],
    ids: list[str],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    is_done: bool,
) -> None:
    workspace, action = open_curated(), getattr(run, step)

    def killed(*args: Any, **options: Any) -> None:
        if is_done:
            action(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, step, killed)
        with pytest.raises(KeyboardInterrupt):
            purge(workspace, ids[1:2])
    again = open_curated()
    assert count_pending_purges(again.stores) == 1
    assert "each purge is complete" in [finding.check for finding in run_checks(again.stores)]
    run_checks(again.stores, repair=True)
    assert count_pending_purges(again.stores) == 0 and run_checks(again.stores) == []
    folder = Path(again.location)
    workspace.close()
    again.close()
    assert remains(folder, ids[1], "zebra01x") == []
