"""Whatever becomes of an array of an HDF5 file: right values or one clear reason, never a wrong length."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Record
from ares.errors import MediaError, SourceError
from ares.media import all_frames
from tests.ingest.hdf5.test_simulator_names import MODEL, WIDTH

DTYPES = ("float16", ">f8", ">i2", "int8", "uint64", "bool", "complex64", "longdouble")
TEXTS = [b"caf\xe9", "größer".encode(), b""]
RECORDS = [("x", "f4"), ("name", "S4")]


def put(file: Any, label: str, values: Any, **options: Any) -> None:
    del file[label]
    file.create_dataset(label, data=values, **options)


def put_link(file: Any, label: str, link: Any) -> None:
    del file[label]
    file[label] = link


def put_claim(file: Any, label: str, shape: tuple[int, ...], dtype: str = "f4", **options: Any) -> None:
    """Values that are not stored in the file."""
    del file[label]
    file.create_dataset(label, shape, dtype, **options)


def put_ragged_rows(file: Any, label: str) -> None:
    count = len(file[label])
    del file[label]
    rows = file.create_dataset(label, (count,), h5py.vlen_dtype(np.float32))
    for number in range(count):
        rows[number] = np.zeros(number % 4, np.float32)


def put_virtual(file: Any, label: str) -> None:
    layout = h5py.VirtualLayout(file[label].shape, np.float32)
    layout[...] = h5py.VirtualSource("/etc/passwd", "x", file[label].shape)
    del file[label]
    file.create_virtual_dataset(label, layout)


def put_named_type(file: Any, label: str) -> None:
    values = file[label][()]
    file["type"] = values.dtype
    put(file, label, values, dtype=file["type"])


def put_type(file: Any, label: str, dtype: str) -> None:
    put(file, label, file[label][()].astype(dtype))


def put_number(file: Any, label: str, number: float) -> None:
    values = file[label][()].astype(np.float64)
    values.reshape(-1)[0] = number
    put(file, label, values)


# What a person, a program or an attacker might do to an array.
DAMAGES: dict[str, Callable[[Any, str], object]] = {
    "removed": lambda file, label: file.__delitem__(label),
    "shorter": lambda file, label: put(file, label, file[label][:-2]),
    "empty": lambda file, label: put(file, label, file[label][:0]),
    "longer": lambda file, label: put(file, label, np.concatenate([file[label][()], file[label][:1]])),
    "much longer": lambda file, label: put(file, label, np.concatenate([file[label][()]] * 2)),
    "an axis more": lambda file, label: put(file, label, file[label][()][:, None]),
    "texts": lambda file, label: put(file, label, np.array(TEXTS, "S9")),
    "texts of any length": lambda file, label: put(file, label, np.array(TEXTS, h5py.string_dtype())),
    "records": lambda file, label: put(file, label, np.zeros(len(file[label]), RECORDS)),
    "references": lambda file, label: put(file, label, np.array([file.ref] * 5, h5py.ref_dtype)),
    "ragged rows": put_ragged_rows,
    "one number": lambda file, label: put(file, label, np.float32(3)),
    "no value": lambda file, label: put(file, label, h5py.Empty("f4")),
    "a group": lambda file, label: (file.__delitem__(label), file.create_group(label)),
    "a type with a name": put_named_type,
    "compressed": lambda file, label: put(
        file, label, file[label][()], chunks=True, compression="lzf", shuffle=True, fletcher32=True
    ),
    "a link out": lambda file, label: put_link(file, label, h5py.ExternalLink("/etc/passwd", "/")),
    "a link nowhere": lambda file, label: put_link(file, label, h5py.SoftLink("/nowhere")),
    "a link to itself": lambda file, label: put_link(file, label, h5py.SoftLink(f"/{label}")),
    "virtual": put_virtual,
    "stored outside": lambda file, label: put_claim(
        file, label, (9, 7), external=[("/etc/passwd", 0, 9 * 7 * 4)]
    ),
    "texts stored outside": lambda file, label: put_claim(
        file, label, (1,), "S20", external=[("/etc/passwd", 0, 20)]
    ),
    "a claim of 2**40 rows": lambda file, label: put_claim(file, label, (2**40, 7), chunks=(8, 7)),
    "a claim of 2**20 columns": lambda file, label: put_claim(file, label, (9, 2**20), chunks=(8, 8)),
    **{f"as {dtype}": partial(put_type, dtype=dtype) for dtype in DTYPES},
    **{f"{number:g} in it": partial(put_number, number=number) for number in (math.nan, math.inf, 1e300)},
}


@pytest.fixture(scope="module")
def wholes(h5: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """A file of robomimic and one of ALOHA, and the group of the episode in each."""
    folder = tmp_path_factory.mktemp("wholes")
    observed = {"obs__robot0_eef_pos": h5.numbers(9, 3, dtype="float64"), "obs__object": h5.numbers(9, 10)}
    demo = h5.demo(folder / "demo.hdf5", **observed, obs__image=h5.pictures(), rewards=h5.numbers(9))
    aloha = h5.write(
        folder / "aloha.hdf5",
        action=h5.numbers(9, 14),
        observations__qpos=h5.numbers(9, 14),
        observations__images__top=h5.pictures(),
        language_raw=[b"lift"],
    )
    return {demo: "data/demo_0", aloha: "/"}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_array_gives_right_values_or_one_reason(
    h5: Any, wholes: dict[Path, str], tmp_path: Path, name: str
) -> None:
    for whole, group in wholes.items():
        labels: list[str] = []
        with h5py.File(whole) as file:
            file.visit(labels.append)
            labels = [label for label in labels if isinstance(file[label], h5py.Dataset)]
        for label in labels:
            path = shutil.copy(whole, tmp_path / whole.name)
            with h5py.File(path, "a") as file:
                try:
                    DAMAGES[name](file, label)
                except (ValueError, TypeError):  # of texts, which are no numbers
                    continue
            (item,) = h5.opened(path).items
            try:
                record = item.load()
            except SourceError as error:
                assert error.reason and "\n" not in str(error), label
            else:
                check_record(record, group)


def check_record(record: Record, group: str) -> None:
    """Lengths agree, and values are those that h5py reads."""
    steps, trajectory = record.episode.num_steps, record.trajectory
    assert len(trajectory.timestamps) == steps
    signals = {"action": trajectory.action, "state": trajectory.state, **trajectory.extra}
    for name, signal in signals.items():
        keys = [array.key for array in record.arrays if (array.name or array.use) == name]
        if signal is not None:
            assert len(signal.values) == steps
            expected = np.concatenate([stored_values(record, group, key) for key in keys], axis=1)
            assert np.array_equal(signal.values, expected, equal_nan=True)
    assert "root:" not in str((record.episode.instructions, record.episode.metadata))
    for camera in record.episode.cameras:
        try:
            frames = list(all_frames(camera.media))
        except MediaError:
            continue
        assert len(frames) == camera.media.num_frames
        assert {frame.shape for frame in frames} == {(camera.height, camera.width, 3)}


def stored_values(record: Record, group: str, key: str) -> NDArray[np.float32]:
    with h5py.File(record.episode.source) as file:
        dataset = file[group][key]
        assert not dataset.external and not dataset.is_virtual
        rows: NDArray[Any] = dataset[: record.episode.num_steps]
    with np.errstate(all="ignore"):
        return rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(np.float32)


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


STEPS = 12


def test_a_damaged_dataset_costs_its_own_episode(h5: Any, tmp_path: Path) -> None:
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
    items = list(h5.opened(path, rate_hz=20.0).items)
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
