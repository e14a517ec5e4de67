"""What a trainer reads beside the signals is compared with the rows by `ares check`, and each fault has its code."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ares
from tests.generators.trained_folders import TRAINER_FAULTS, make_trained_folder
from tests.thinning import some_by_day


def codes_of(path: Path) -> dict[str, int]:
    """Number of places by code, of the codes of a trainer's metadata."""
    (dataset,) = ares.check(path).datasets
    return {count.code: count.num_episodes for count in dataset.counts if count.code.startswith("A06")}


@pytest.mark.parametrize("fault", sorted(TRAINER_FAULTS))
@pytest.mark.parametrize("seed", some_by_day([1, 2]))
def test_a_fault_has_its_code_and_no_other(fault: str, seed: int, tmp_path: Path) -> None:
    folder = make_trained_folder(tmp_path / "d", seed, fault)
    assert set(codes_of(folder)) == {TRAINER_FAULTS[fault]}


@pytest.mark.parametrize("seed", range(20, 24))
def test_metadata_that_are_right_have_no_finding(seed: int, tmp_path: Path) -> None:
    assert codes_of(make_trained_folder(tmp_path / "d", seed)) == {}


@pytest.mark.parametrize("seed", [1, 20])
def test_an_episode_that_lies_in_several_row_groups_is_compared_as_a_whole(seed: int, tmp_path: Path) -> None:
    folder = make_trained_folder(tmp_path / "d", seed)
    for path in folder.glob("data/**/*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=7)
    assert codes_of(folder) == {}


def test_reported_stale_statistics_are_a_fault(shared_data: Path) -> None:
    (dataset,) = ares.check(shared_data / "reported" / "lerobot3508_stale_stats").datasets
    (count,) = [count for count in dataset.counts if count.code == "A060"]
    assert count.severity == "fault"
    assert "action mean" in count.dimensions
    (numbers,) = [count for count in dataset.counts if count.code == "A062"]
    assert "episode_index max" in numbers.dimensions
