"""Whatever becomes of an array of an HDF5 file: right values or one clear reason, never a wrong length."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Record
from ares.errors import MediaError, SourceError
from ares.media import all_frames
from ingest.base import SourceOptions
from ingest.hdf5 import hdf5
from tests.ingest.hdf5.damage import damage
from tests.ingest.hdf5.projects import WRITERS, Written, numbers, pictures

_RUNS = 12


def robomimic(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    path = folder / "demo.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"] = numbers(rng, steps, 7)
        demo["obs/robot0_eef_pos"] = numbers(rng, steps, 3, dtype="float64")
        demo["obs/object"] = numbers(rng, steps, 10)
        demo["obs/agentview_image"] = pictures(rng, steps)
        demo["rewards"] = numbers(rng, steps)
        file["mask/train"] = np.array([b"demo_0"])
    return Written(path=folder, file=path, steps=steps, action=None, state=None)


def aloha(folder: Path, rng: np.random.Generator, steps: int) -> Written:
    path = folder / "episode_0.hdf5"
    with h5py.File(path, "w") as file:
        file["action"] = numbers(rng, steps, 14)
        file["observations/qpos"] = numbers(rng, steps, 14)
        file["observations/images/top"] = pictures(rng, steps)
        file["language_raw"] = np.array([b"go"])
    return Written(path=folder, file=path, steps=steps, action=None, state=None)


ALL_WRITERS = {**WRITERS, "robomimic": robomimic, "ALOHA": aloha}


@pytest.mark.parametrize("project", ALL_WRITERS)
def test_a_damaged_array_gives_right_values_or_one_reason(tmp_path: Path, project: str) -> None:
    for _ in range(_RUNS):
        seed = random.randrange(2**32)
        rng = np.random.default_rng(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        written = ALL_WRITERS[project](folder, rng, int(rng.integers(3, 9)))
        done = damage(written.file, rng, int(rng.integers(1, 4)))
        print(f"seed {seed}: {', '.join(done)}")
        (source,) = hdf5.open(str(folder), SourceOptions())
        items = list(source.items)
        assert len(items) == source.total >= 1
        for item in items:
            try:
                record = item.load()
            except SourceError as error:
                assert error.reason and "\n" not in str(error)
            else:
                check_record(record, written)


def check_record(record: Record, written: Written) -> None:
    """Lengths agree, and values are those that h5py reads."""
    steps, trajectory = record.episode.num_steps, record.trajectory
    assert len(trajectory.timestamps) == steps
    signals = {"action": trajectory.action, "state": trajectory.state, **trajectory.extra}
    for name, signal in signals.items():
        keys = [array.key for array in record.arrays if (array.name or array.use) == name]
        if signal is not None:
            assert len(signal.values) == steps
            expected = np.concatenate([stored_values(record, key, steps) for key in keys], axis=1)
            assert np.array_equal(signal.values, expected, equal_nan=True)
    assert "root:" not in " ".join((*record.episode.instructions, str(record.episode.metadata)))
    for camera in record.episode.cameras:
        try:
            frames = list(all_frames(camera.media))
        except MediaError:
            continue
        assert len(frames) == camera.media.num_frames
        assert {frame.shape for frame in frames} == {(camera.height, camera.width, 3)}


def stored_values(record: Record, key: str, steps: int) -> NDArray[np.float32]:
    with h5py.File(record.episode.source) as file:
        groups = [name for name in ("traj_0", "data/demo_0") if name in file]
        dataset = file["/".join((*groups, key))]
        assert not dataset.external and not dataset.is_virtual
        rows: NDArray[Any] = dataset[:steps]
    with np.errstate(all="ignore"):
        return rows.reshape(steps, math.prod(rows.shape[1:])).astype(np.float32)


def test_a_filter_that_is_not_installed_is_named(h5: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", data=h5.numbers(9, 7), compression="gzip", chunks=(3, 7))
    data = path.read_bytes()
    deflate = b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\x00"
    assert data.count(deflate) == 1
    path.write_bytes(data.replace(deflate, b"\x0f\x7d" + deflate[2:]))
    (item,) = h5.opened(path).items
    assert h5.outcome(item) == "HDF5 file is compressed with a filter that is not installed"
