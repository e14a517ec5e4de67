"""Tables that several processes create, fill and read at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from filelock import FileLock

from ares.episode import Record
from ares.errors import DiskFull, StoreError
from ares.store.lance.schema import trajectory_schema
from ares.store.lance_tables import Tables, open_tables
from ares.store.sync.apply import AppliedState, applied_action, save_applied_state

_CREATE_TABLES = """
import sys
import pyarrow as pa
from ares.store.lance_tables import open_tables

tables = open_tables(sys.argv[1])
assert tables.episodes.count() == 0
rows = {"annotation_id": [sys.argv[2]], "episode_id": [sys.argv[2]], "text": ["open the drawer"]}
tables.segments.upsert(pa.table(rows))
"""


@pytest.mark.slow
def test_processes_may_make_the_same_tables_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "lance")
    commands = [[sys.executable, "-c", _CREATE_TABLES, uri, str(number)] for number in range(3)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, errors
    tables = open_tables(uri)
    assert tables.segments.count() == 3
    assert len(tables.segments.search_text("drawer", 5)) == 3


def test_only_what_was_asked_for_is_made(tables: Tables) -> None:
    assert tables.connection.table_names() == []
    assert tables.spaces() == []
    assert tables.trajectories.count() == 0
    assert tables.connection.table_names() == ["trajectories"]


def test_a_table_that_is_being_made_is_waited_for(tables: Tables) -> None:
    """Its folder exists before the table does; other processes wait for the one that creates it."""
    partial_table = Path(tables.uri, "trajectories.lance")
    partial_table.mkdir(parents=True)

    with FileLock(Path(tables.uri) / ".making.lock"):
        counts: list[int] = []
        reader = threading.Thread(target=lambda: counts.append(open_tables(tables.uri).trajectories.count()))
        reader.start()
        reader.join(0.5)
        assert reader.is_alive()
        partial_table.rmdir()
        lance.write_dataset(trajectory_schema().empty_table(), partial_table)
    reader.join()
    assert counts == [0]


def test_a_table_whose_producer_was_killed_is_made_again(tables: Tables) -> None:
    Path(tables.uri, "trajectories.lance", "data").mkdir(parents=True)
    Path(tables.uri, "trajectories.lance", "data", "half.lance").write_bytes(b"half")
    Path(tables.uri, "vectors_clip.lance", "data").mkdir(parents=True)
    assert tables.spaces() == []
    assert tables.vectors("clip").delete_unknown(set().intersection) == 0
    tables.optimize()
    assert tables.trajectories.count() == 0


def test_a_damaged_table_is_told_and_left_alone(tables: Tables) -> None:
    assert tables.trajectories.count() == 0
    (manifest,) = Path(tables.uri, "trajectories.lance", "_versions").glob("*.manifest")
    manifest.write_bytes(b"damaged")
    with pytest.raises(StoreError, match="table trajectories cannot be used"):
        open_tables(tables.uri).trajectories.count()
    assert manifest.read_bytes() == b"damaged"


def test_a_page_never_sees_an_episode_without_its_signals(
    tables: Tables, make_record: Callable[..., Record]
) -> None:
    """One writes in small batches and compacts in between; a reader follows it by every new id."""
    ended, missing, seen = threading.Event(), list[str](), set[str]()
    tables.episodes.add([make_record(1000)])

    def follow() -> None:
        page = open_tables(tables.uri)
        while True:
            is_last_turn = ended.is_set()
            new_ids = page.episodes.ids() - seen
            missing.extend(new_ids - {episode_id for episode_id, _ in page.trajectories.read(new_ids)})
            seen.update(new_ids)
            if is_last_turn:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    for number in range(12):
        tables.episodes.add([make_record(number * 5 + offset) for offset in range(5)])
        if number % 5 == 4:
            tables.optimize()
    ended.set()
    reader.join()
    assert missing == []
    assert len(seen) == 61


def test_a_text_of_an_annotator_with_few_values_gets_an_index(
    filled: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.store.lance_tables._MIN_INDEXED_ROWS", 1)
    ids = sorted(filled.episodes.ids())
    verdicts = ["good" if number % 2 else None for number in range(len(ids))]
    filled.episodes.set_values(
        pa.table({"episode_id": ids, "verdict": verdicts, "remark": [f"{id} is fine" for id in ids]})
    )
    filled.optimize()
    table = filled.connection.open_table("episodes")
    assert table is not None
    indexed = {column for columns in table.indexed_columns().values() for column in columns}
    assert {"dataset", "verdict"} <= indexed and not {"remark", "robot"} & indexed
    assert filled.episodes.count("verdict = 'good'") == 15


def test_a_full_disk_while_progress_is_saved_is_an_error_of_the_store(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("LanceError(IO): No space left on device (os error 28)")

    assert applied_action(tables) == 0
    monkeypatch.setattr("ares.store.lance.table.TableWriter.upsert", fail)
    with pytest.raises(DiskFull, match=r"the disk is full: table index_state: No space left"):
        save_applied_state(tables, AppliedState(actions=3))
