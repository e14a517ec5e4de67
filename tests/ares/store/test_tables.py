"""Tables that several processes make, fill and read at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ares.store.tables import Tables, open_tables

_MAKER = """
import sys
import pyarrow as pa
from ares.store.tables import open_tables

tables = open_tables(sys.argv[1])
assert tables.episodes.count() == 0
tables.segments.upsert(pa.table({"annotation_id": [sys.argv[2]], "text": ["open the drawer"]}))
"""


def test_processes_may_make_the_same_tables_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "lance")
    commands = [[sys.executable, "-c", _MAKER, uri, str(number)] for number in range(3)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in processes:
        _, told = process.communicate()
        assert process.returncode == 0, told
    tables = open_tables(uri)
    assert tables.segments.count() == 3
    assert len(tables.segments.search_text("drawer", 5)) == 3


def test_only_what_was_asked_for_is_made(tables: Tables) -> None:
    assert tables.names() == []
    assert tables.spaces() == []
    assert tables.trajectories.count() == 0
    assert tables.names() == ["trajectories"]
