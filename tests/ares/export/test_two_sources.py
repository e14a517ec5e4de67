"""Two datasets of one robot are one export only where they agree: what differs is refused, honest copies are not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from app.cli.main import main
from tests.generators.two_sources import TwoSources, two_sources, write_recorded
from tests.thinning import some_by_day

Array = NDArray[np.float64]
Capture = pytest.CaptureFixture[str]
ARM, HAND = slice(0, 14), slice(14, 26)


def rewrite(
    folder: Path, source: Path, change: Callable[[Array], Array], episodes: set[int] | None = None
) -> Path:
    """A copy of the G1 sample with changed signals, or some of its episodes, without its videos."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("videos"))
    info_path, data = folder / "meta/info.json", folder / "data/chunk-000/file-000.parquet"
    info = json.loads(info_path.read_text())
    info["features"] = {
        name: feature for name, feature in info["features"].items() if feature["dtype"] != "video"
    }
    table = pq.read_table(data)
    for name in ("observation.state", "action"):
        values = change(np.array(table[name].to_pylist()))
        column = pa.array(values.astype(np.float32).tolist(), pa.list_(pa.float32()))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    if episodes is not None:
        table = table.filter(pa.compute.is_in(table["episode_index"], pa.array(sorted(episodes))))
        path = next((folder / "meta/episodes").rglob("*.parquet"))
        rows = pq.read_table(path)
        pq.write_table(rows.filter(pa.compute.is_in(rows["episode_index"], pa.array(sorted(episodes)))), path)
        info["total_episodes"] = len(episodes)
    info_path.write_text(json.dumps(info))
    pq.write_table(table, data)
    return folder


def export_both(tmp_path: Path, first: Path, second: Path, *options: str) -> int:
    """Exit status of `ares export` for a set of two folders."""
    workspace, out = str(tmp_path / "ws"), tmp_path / "out"
    if not (tmp_path / "ws").exists():
        assert main(["ingest", str(first), str(second), "-w", workspace]) == 0
        assert main(["set", "create", "mix", "-w", workspace]) == 0
    status = main(["export", "mix", str(out), "--format", "lerobot", "-w", workspace, *options])
    assert out.exists() == (status == 0), "a refusal writes nothing"
    return status


def in_degrees(values: Array) -> Array:
    return np.hstack([np.degrees(values[:, ARM]), values[:, HAND]])


def with_turned_elbow(values: Array) -> Array:
    return values * np.where(np.arange(26) == 3, -1, 1)


def with_inverted_hand(values: Array) -> Array:
    return np.hstack([values[:, ARM], 1 - values[:, HAND]])


def with_exchanged_joints(values: Array) -> Array:
    return values[:, [1, 0, *range(2, 26)]]


@pytest.mark.parametrize(
    "change",
    some_by_day([in_degrees, with_turned_elbow, with_inverted_hand, with_exchanged_joints], 2),
    ids=lambda f: f.__name__,
)
def test_a_copy_of_the_g1_sample_that_differs_is_refused(
    change: Callable[[Array], Array], tmp_path: Path, shared_data: Path, capsys: Capture
) -> None:
    source = shared_data / "g1_bottle_lerobot_v30"
    first = rewrite(tmp_path / "g1", source, lambda values: values)
    second = rewrite(tmp_path / "copy", source, change)
    assert export_both(tmp_path, first, second) == 2
    said = capsys.readouterr().err
    assert "copy" in said and "--convert" in said, "the refusal names the dataset and a way out"


def test_two_halves_of_the_g1_sample_are_one_export(
    tmp_path: Path, shared_data: Path, capsys: Capture
) -> None:
    source = shared_data / "g1_bottle_lerobot_v30"
    first = rewrite(tmp_path / "one", source, lambda values: values, {0, 1})
    second = rewrite(tmp_path / "two", source, lambda values: values, {2, 3})
    capsys.readouterr()
    assert export_both(tmp_path, first, second) == 0


def status_of(pair: TwoSources, folder: Path) -> int:
    first = write_recorded(folder / "first", pair.first)
    return export_both(folder, first, write_recorded(folder / "second", pair.second))


def seeds(planted: bool, base: str, count: int) -> list[int]:
    """The first seeds of pairs of one kind."""
    pairs = ((seed, two_sources(seed)) for seed in range(2_000, 2_400))
    found = (seed for seed, pair in pairs if bool(pair.planted) == planted and pair.base == base)
    return [next(found) for _ in range(count)]


@pytest.mark.parametrize("seed", seeds(True, "copy", 2) + seeds(True, "same task", 1))
def test_a_planted_difference_is_refused(seed: int, tmp_path: Path) -> None:
    pair = two_sources(seed)
    assert status_of(pair, tmp_path) == 2, f"{pair.planted} {pair.detail}"


@pytest.mark.nightly
@pytest.mark.parametrize("seed", seeds(True, "copy", 8)[2:] + seeds(True, "same task", 6)[1:])
def test_more_planted_differences_are_refused(seed: int, tmp_path: Path) -> None:
    test_a_planted_difference_is_refused(seed, tmp_path)


@pytest.mark.parametrize(
    "seed",
    some_by_day(
        [
            seed
            for base in ("copy", "same task", "other task", "few episodes")
            for seed in seeds(False, base, 1)
        ],
        2,
    ),
)
def test_an_honest_copy_is_merged(seed: int, tmp_path: Path) -> None:
    assert status_of(two_sources(seed), tmp_path) == 0
