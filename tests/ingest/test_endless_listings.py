"""Files that make opening or listing a dataset long or large cost themselves, or their dataset, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.errors import SourceError
from ares.input import call_with_time_limit
from ares.input.limits import InputBudgets
from ares_ingest.base import Item, Source, SourceOptions
from ares_ingest.guarded_loading import GuardedItems, call_ingester_safely
from ares_ingest.hdf5.source import HDF5File, Layouts, hdf5
from ares_ingest.lerobot.metadata import read_table
from ares_ingest.pipeline import find_datasets
from ares_ingest.zarr import zarr as zarr_ingester
from tests.ingesting import request_for
from tests.torture.datasets import WRITERS


def _limit(monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
    budgets = replace(InputBudgets(), **limits)  # type: ignore[arg-type]
    for module in (
        "ares_ingest.guarded_loading",
        "ares_ingest.hdf5.source",
        "ares_ingest.hdf5.values",
        "ares_ingest.lerobot.metadata",
    ):
        monkeypatch.setattr(f"{module}.input_budgets", lambda: budgets)
    monkeypatch.setattr("ares.input.limits.input_budgets", lambda: budgets)


def _endless() -> Iterator[Item]:
    while True:
        yield Item(episode_id="a" * 16, location="x", load=lambda: None)  # type: ignore[arg-type, return-value]


def _demos(path: Path) -> h5py.File:
    file = h5py.File(path, "w", libver="latest")
    group = file.create_group("data/demo_0")
    group["actions"] = np.ones((9, 7), np.float32)
    group["obs/robot0_joint_pos"] = np.ones((9, 7), np.float32)
    return file


def _open(folder: Path) -> tuple[Source, list[Item]]:
    """A dataset and its items; SourceError where listing them does not end."""

    def read() -> tuple[Source, list[Item]]:
        (source,) = hdf5.open(str(folder), SourceOptions())
        return source, list(source.items)

    return call_with_time_limit(300.0, read)


def _error(item: Item) -> str:
    with pytest.raises(SourceError) as raised:
        item.load()
    return str(raised.value)


def test_a_list_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, members=1_000)
    items = GuardedItems(Source(format="mcap", dataset="d", version="", total=1, items=_endless()))
    assert sum(1 for _ in items) == 1_000 and not items.is_exhausted
    assert "dataset lists more episodes than allowed" in str(items.error)


@pytest.mark.slow
def test_opening_and_listing_that_never_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, record_seconds=0.3)

    def never() -> Iterator[Item]:
        while True:
            time.sleep(0.001)
        yield

    with pytest.raises(SourceError, match="the dataset took too long to open and list"):
        call_ingester_safely("mcap", lambda: list(never()))
    items = GuardedItems(Source(format="mcap", dataset="d", version="", total=1, items=never()))
    assert list(items) == [] and "took too long to open and list" in str(items.error)


def test_soft_links_that_multiply_lead_nowhere(tmp_path: Path) -> None:
    """Each of six links leads 200 times through the next: 200**6 steps. HDF5 itself would walk them all."""
    with _demos(tmp_path / "links.hdf5") as file:
        file["data/link_6"] = file["data"]
        for number in range(6):
            file[f"data/link_{number}"] = h5py.SoftLink("/".join([f"link_{number + 1}"] * 200))
        file["data/demo_1"] = h5py.SoftLink("/data/demo_0")
        file["data/demo_2"] = h5py.SoftLink("demo_1")
    source, items = _open(tmp_path)
    assert source.total == len(items) == 10
    loaded = {item.location.rpartition(" ")[2]: item for item in items}
    assert loaded["demo_2"].load().episode.num_steps == 9
    assert "HDF5 link leads nowhere" in _error(loaded["link_0"])


def test_names_of_many_digits_are_names(tmp_path: Path) -> None:
    long = f"demo_{'9' * 5_000}"  # Python converts no number of so many digits
    with _demos(tmp_path / "digits.hdf5") as file:
        file[f"data/{long}"] = file["data/demo_0"]
    with h5py.File(tmp_path / "unknown.hdf5", "w", libver="latest") as file:
        for number in range(3):
            file[f"{number}{'1' * 50_000}x"] = np.ones((9, 7))
    _, items = _open(tmp_path)
    assert [item.location.rpartition(" ")[2] for item in items[:2]] == ["demo_0", long]
    assert items[1].load().episode.num_steps == 9


@pytest.mark.slow
def test_one_file_that_takes_too_long_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, record_seconds=0.5)
    for name in ("a", "b", "c"):
        _demos(tmp_path / f"{name}.hdf5").close()

    def hang(path: Path, file: h5py.File, layouts: Layouts) -> HDF5File:
        while path.stem == "b":
            time.sleep(0.001)
        return inspect(path, file, layouts)

    from ares_ingest.hdf5 import source as module

    inspect = module._inspect_groups
    monkeypatch.setattr(module, "_inspect_groups", hang)
    (opened,) = call_ingester_safely("hdf5", lambda: hdf5.open(str(tmp_path), SourceOptions()))
    good, late, last = opened.items
    assert "took too long" in _error(late)
    assert good.load().episode.num_steps == last.load().episode.num_steps == 9


def test_a_group_of_too_many_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, members=50)
    with _demos(tmp_path / "many.hdf5") as file:
        for number in range(60):
            file[f"data/x{number}"] = file["data/demo_0"]
    _, (item,) = _open(tmp_path)
    assert "HDF5 group holds too many names" in _error(item)


def test_a_zarr_store_has_no_more_episodes_than_steps(tmp_path: Path) -> None:
    import zarr

    WRITERS["zarr"](tmp_path, 2)
    (path,) = tmp_path.glob("*.zarr")
    meta = zarr.open_group(str(path))["meta"]
    assert isinstance(meta, zarr.Group)
    meta.create_array("episode_ends", data=np.arange(1, 1_000_001), overwrite=True)
    (source,) = zarr_ingester.open(str(tmp_path), SourceOptions())
    (item,) = source.items
    assert "more episodes than steps" in _error(item) and "1000000 ends, 10 steps" in _error(item)


@pytest.mark.slow
def test_a_list_of_episodes_is_bounded_in_rows_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, path = 500, tmp_path / "episodes.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"episode_index": np.arange(rows), "tasks": text}), path, store_schema=False)
    _limit(monkeypatch, memory_bytes=64 * 2**20)
    assert read_table(path, {"episode_index"}.__contains__).num_rows == rows
    with pytest.raises(SourceError):  # 500 MB of texts
        read_table(path)
    _limit(monkeypatch, members=400)
    with pytest.raises(SourceError, match="table has more rows than allowed"):
        read_table(path)


def test_a_dry_run_follows_no_link_out_of_the_dataset(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret.csv"
    WRITERS["csv"](data, 1)
    table = next(data.rglob("*.csv"))
    table.rename(secret)
    table.symlink_to(secret)
    (dataset,) = find_datasets(None, request_for([str(data)]), sample=True).plan.datasets
    assert "a link leads out of the dataset" in " ".join(dataset.not_understood), dataset
