"""The SQLite store: bad files, a full disk and killed writers."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ares.annotation import Annotation
from ares.errors import StoreError
from ares.store.log import protocol as serialization
from ares.store.log.sqlite import SqliteAnnotationStore

Make = Callable[..., Annotation]

_WRITER = """
import sys
import threading
from pathlib import Path
from ares.annotation import Annotation
from ares.store.log.sqlite import SqliteAnnotationStore

store, writer, size = SqliteAnnotationStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for batch in range(int(sys.argv[4])):
    ids = [f"{writer}/{batch}/{number}" for number in range(size)]
    store.append(
        [
            Annotation(episode_id=episode_id, name="caption", value={"text": "x" * 500}, maker_id="m",
                       subject=episode_id, start_seconds=0.0, stop_seconds=1.0, created="")
            for episode_id in ids
        ]
    )
    print(batch, flush=True)
"""


def _writer(path: Path, writer: str, size: int, batches: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", _WRITER, str(path), writer, str(size), str(batches)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_journal_that_another_process_deletes_is_said_and_takes_nothing_more(
    tmp_path: Path, make_annotation: Make
) -> None:
    path = tmp_path / "log.sqlite"
    with closing(SqliteAnnotationStore(path)) as store:
        store.append([make_annotation("before")])
        # Whoever closes a file of SQLite ends all locks of its process.
        path.read_bytes()
        with _writer(path, "other", 1, 1) as process:
            process.communicate(timeout=300)
        with pytest.raises(StoreError, match=r"deleted the journal.*open the workspace again"):
            store.append([make_annotation("after")])
        with pytest.raises(StoreError, match="deleted the journal"):
            store.last_sequence()
    with closing(SqliteAnnotationStore(path)) as store:
        assert store.append([make_annotation("after")]) == 3 and len(store.read()) == 3


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_was_told_is_stored(tmp_path: Path, make_annotation: Make) -> None:
    path = tmp_path / "log.sqlite"
    for life in range(3):
        with _writer(path, f"life{life}", 200, 1000) as process:
            assert process.stdout is not None
            acknowledged = -1
            for line in process.stdout:
                acknowledged = int(line)
                if acknowledged == 10 + life:
                    process.send_signal(signal.SIGKILL)
        with closing(SqliteAnnotationStore(path)) as store:
            episode_ids = [annotation.episode_id for _, annotation in store.read(limit=10**6)]
        written = [episode_id for episode_id in episode_ids if episode_id.startswith(f"life{life}/")]
        # Whole batches only, and at least those that were acknowledged.
        assert written == [
            f"life{life}/{batch}/{number}" for batch in range(len(written) // 200) for number in range(200)
        ]
        assert len(written) >= 200 * (acknowledged + 1)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match=r"annotations file cannot be used.*log.sqlite.*not a database"):
        SqliteAnnotationStore(path)
    assert path.read_bytes() == b"not a database" * 1000


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere.*unable to open"):
        SqliteAnnotationStore(tmp_path / "nowhere" / "log.sqlite")


def test_a_damaged_file(tmp_path: Path, make_annotation: Make) -> None:
    path = tmp_path / "log.sqlite"
    with closing(SqliteAnnotationStore(path)) as store:
        store.append([make_annotation(f"{number}", value={"text": "x" * 1000}) for number in range(500)])
    damaged = bytearray(path.read_bytes())
    damaged[8192:-8192] = os.urandom(len(damaged) - 16384)
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="cannot be used"), closing(SqliteAnnotationStore(path)) as store:
        store.read(limit=1000)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"format 99.*reads format 1"):
        SqliteAnnotationStore(path)


@pytest.mark.slow
def test_a_full_disk_stores_nothing_of_the_batch_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files is what a full disk is for SQLite: its write fails half-way."""
    path = tmp_path / "log.sqlite"
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))\n" + _WRITER
    arguments = [sys.executable, "-c", script, str(path), "w", "500", "100"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert "StoreError: the annotations file cannot be used" in done.stderr
    acknowledged = len(done.stdout.split())
    assert 0 < acknowledged < 100
    with closing(SqliteAnnotationStore(path)) as store:
        episode_ids = [annotation.episode_id for _, annotation in store.read(limit=10**6)]
    assert episode_ids == [f"w/{batch}/{number}" for batch in range(acknowledged) for number in range(500)]


def test_a_reader_never_passes_a_transaction_that_commits_late(tmp_path: Path, make_annotation: Make) -> None:
    """The slow writer has its numbers before the quick one; the quick one has to wait, so no number is ever skipped."""
    path = tmp_path / "log.sqlite"
    with (
        closing(SqliteAnnotationStore(path)) as slow,
        closing(SqliteAnnotationStore(path)) as quick,
        closing(SqliteAnnotationStore(path)) as reader,
    ):
        waiting = threading.Thread(target=lambda: quick.append([make_annotation("quick")]))
        with slow._transaction():
            slow._connection.execute(
                "INSERT INTO facts (annotation_id, episode_id, name, maker_id, subject, body)"
                " SELECT 'late', 'late', 'n', 'm', 's', ?",
                (serialization.annotation_to_text(make_annotation("late")),),
            )
            waiting.start()
            waiting.join(timeout=0.3)
            assert waiting.is_alive()
            assert reader.read() == []
            assert reader.last_sequence() == 0
        waiting.join()
        assert [(entry.sequence, entry.annotation.episode_id) for entry in reader.read()] == [
            (1, "late"),
            (2, "quick"),
        ]


def test_using_a_closed_store_is_a_bug_and_not_a_message(tmp_path: Path) -> None:
    store = SqliteAnnotationStore(tmp_path / "log.sqlite")
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.read()
