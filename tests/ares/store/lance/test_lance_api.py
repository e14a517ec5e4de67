"""The low-level calls of Lance are used with versions that they have been tried with, and they answer as expected."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from ares.errors import DiskFull, FilterError, StoreError
from ares.store import conjunction, ids_filter, lance_errors
from ares.store.lance.lance_api import (
    TESTED_VERSIONS,
    allowlist_options,
    data_bytes,
    index_types,
    max_unindexed_rows,
    open_session,
    plan_filter,
    row_allowlist,
)
from ares.store.lance.table import TableWriter
from ares.store.lance_tables import Tables


@pytest.mark.parametrize("name", TESTED_VERSIONS)
def test_the_installed_major_version_has_been_tried(name: str) -> None:
    major = int(version(name).split(".")[0])
    assert major in TESTED_VERSIONS[name], (
        f"{name} {version(name)} is installed, but lance_api.py was tried with the major versions "
        f"{TESTED_VERSIONS[name]}: run tests/ares/store, then add {major} to TESTED_VERSIONS"
    )


def test_an_allowlist_selects_rows(filled: Tables) -> None:
    dataset = filled.connection.open_dataset("episodes")
    assert dataset is not None
    row_ids = dataset.scanner(columns=[], with_row_id=True).to_table()["_rowid"].to_numpy()[3:5]
    options = allowlist_options(row_allowlist(row_ids.astype(np.uint64)))
    rows = dataset.scanner(columns=[], with_row_id=True, **options).to_table()
    assert rows["_rowid"].to_pylist() == row_ids.tolist()
    assert allowlist_options(None) == {}


def test_statistics_of_indexes_and_files(filled: Tables) -> None:
    dataset = filled.connection.open_dataset("episodes")
    assert dataset is not None
    assert index_types(dataset) == {"Inverted"}
    assert 0 <= max_unindexed_rows(dataset) <= 30
    assert data_bytes(dataset) > 1_000
    assert open_session(1 << 20, 1 << 20) is not None


def test_only_the_user_s_part_of_a_trusted_filter_is_checked(filled: Tables) -> None:
    dataset, types = filled.connection.open_dataset("episodes"), {"key": "string", "episode_id": "string"}
    assert dataset is not None
    ids = ids_filter(["a", "b'c"])
    assert plan_filter(dataset, ids, types) == "episode_id IN ('a','b''c')"
    assert plan_filter(dataset, conjunction(["key = '1'", ids]), types) == f"((key = '1')) AND (({ids}))"
    with pytest.raises(FilterError, match="repeat"):
        plan_filter(dataset, conjunction(["repeat(key, 9) = '1'", ids]), types)
    with pytest.raises(FilterError, match="no column named 'episode_id'"):
        plan_filter(dataset, str(ids), {"key": "string"})
    assert plan_filter(dataset, " \n", types) is None


def test_a_full_disk_is_told_as_one() -> None:
    with (
        pytest.raises(DiskFull, match=r"the disk is full: table episodes: .*free some space"),
        lance_errors("episodes"),
    ):
        raise OSError("LanceError(IO): Generic LocalFileSystem error: No space left on device (os error 28)")


def test_errors_of_lance_become_errors_of_ares() -> None:
    with (
        pytest.raises(StoreError, match="the table episodes cannot be used: no such file"),
        lance_errors("episodes"),
    ):
        raise OSError("no such file\nlib.rs:3")
    with (
        pytest.raises(FilterError, match="Divide by zero error"),
        lance_errors("episodes", "1 / num_steps > 0"),
    ):
        raise OSError("External error: Arrow error: Divide by zero error, /home/x.rs:3:4")


@pytest.mark.nightly
def test_a_part_of_a_million_rows_is_written(tmp_path: Path) -> None:
    """What is cut from a large table holds all of its memory, which Lance counted for each batch of it."""
    names = [f"value_{number}" for number in range(4)]
    table = pa.table(
        {
            "key": [f"{number:024d}" for number in range(1_000_000)],
            **{name: [f"value {number % 100}" for number in range(1_000_000)] for name in names},
        }
    )
    lance.write_dataset(table, tmp_path / "table.lance").create_scalar_index("key", "BTREE")
    writer = TableWriter("table", lambda: lance.dataset(str(tmp_path / "table.lance")))
    changed = table.select(["key", *names[:3]]).slice(500_000, 100_000)
    writer.update("key", changed.set_column(1, names[0], pa.repeat("new", len(changed))))
    assert writer.newest().count_rows(f"{names[0]} = 'new'") == 100_000
