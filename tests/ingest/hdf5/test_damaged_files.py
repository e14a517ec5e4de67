"""Damage in an HDF5 file fails only the episode in which it lies; the others have the values that h5py reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.errors import SourceError
from ingest.base import SourceOptions
from ingest.hdf5 import hdf5
from tests.ingest.hdf5.test_simulator_names import MODEL, WIDTH

STEPS = 12


def test_a_damaged_dataset_costs_its_own_episode(tmp_path: Path) -> None:
    path, rng = tmp_path / "demo.hdf5", np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for number in range(3):
            for name in ("actions", "obs/robot0_eef_pos"):
                values = rng.normal(size=(STEPS, 3))
                file.create_dataset(
                    f"data/demo_{number}/{name}", data=values, compression="gzip", chunks=(4, 3)
                )
    with h5py.File(path) as file:
        chunk = file["data/demo_1/obs/robot0_eef_pos"].id.get_chunk_info(1)
        truth = {number: file[f"data/demo_{number}/obs/robot0_eef_pos"][()] for number in (0, 2)}
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(data)
    (source,) = hdf5.open(str(path), SourceOptions(rate_hz=20.0))
    items = list(source.items)
    assert len(items) == 3
    with pytest.raises(SourceError):
        items[1].load()
    for number, values in truth.items():
        state = items[number].load().trajectory.state
        assert state is not None and np.array_equal(state.values, values.astype(np.float32))


@pytest.mark.parametrize("damaged", [(0,), (0, 1)], ids=["one", "all"])
def test_damaged_times_of_the_simulator_cost_their_own_demonstrations(
    h5: Any, tmp_path: Path, damaged: tuple[int, ...]
) -> None:
    """They are read before any episode is, for the rate: the whole folder could not be opened."""
    h5.demo(tmp_path / "b.hdf5")
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for number in range(2):
            group = file.create_group(f"data/demo_{number}")
            group.attrs["model_file"] = MODEL
            group["actions"] = np.zeros((STEPS, 2), np.float32)
            states = np.arange(STEPS)[:, None] * np.full(WIDTH, 0.04)
            group.create_dataset("states", data=states, compression="gzip", chunks=(4, WIDTH))
    with h5py.File(path) as file:
        chunks = [file[f"data/demo_{number}/states"].id.get_chunk_info(1) for number in damaged]
    data = bytearray(path.read_bytes())
    for chunk in chunks:
        data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(data)
    source = h5.opened(tmp_path)
    assert source.total == 3
    cut = "HDF5 file is cut or damaged"
    assert [h5.outcome(item) for item in source.items] == [
        cut,
        cut if 1 in damaged else "good",
        "good",
    ]
