"""A LeRobot folder without metadata is no dataset, and metadata that lies takes no memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.lerobot import lerobot
from ingest.lerobot.rows import count_numbers_per_row


def test_a_folder_without_info_is_no_dataset(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made")
    shutil.rmtree(folder / "meta")
    assert not lerobot.recognises(str(folder))


@pytest.mark.parametrize("shape", [[10**12], [-914, -(10**18)], [0], [10**30, 2]])
def test_a_shape_that_info_claims_takes_no_memory(shape: list[int]) -> None:
    width = count_numbers_per_row(pa.list_(pa.float32()), {"shape": shape})
    assert 1 <= width <= 65_536
    assert count_numbers_per_row(pa.list_(pa.float32(), 7), {"shape": shape}) == 7
