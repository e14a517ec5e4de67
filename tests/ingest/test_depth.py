"""Depth as images, in records and in topics is kept by reference with range and unit, and is no camera of colours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import ares
from app.cli.main import main
from ares.episode import Record
from ares.formats import parse_tf_example, read_record, scan_record_file
from ingest.base import SourceOptions
from tests.generators.depth_sources import (
    DepthSource,
    depth_messages,
    draw_depth,
    make_depth_images,
    make_depth_rlds,
)
from tests.ingest.agibot.conftest import write_agibot
from tests.ingest.recordings.mcap.conftest import START, STEP, Entry, header, states, write
from tests.ingesting import ingest_paths, open_sources


def load_first(path: Path) -> Record:
    (source,) = open_sources([str(path)])
    return next(iter(source.items)).load()


def range_of(depth: Any) -> list[float]:
    known = depth[depth > 0]
    return [float(known.min()), float(known.max())]


def assert_kept(record: Record, source: DepthSource) -> None:
    assert [camera.name for camera in record.episode.cameras] == [source.colour]
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert list(facts) == [source.camera]
    assert kept["depth_unit"] == source.unit
    assert (kept["frames"], kept["height"], kept["width"]) == source.depth.shape
    sampled = source.depth[sorted({0, len(source.depth) // 2, len(source.depth) - 1})]
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(sampled))
    assert Path(kept["path"]).exists()


@pytest.mark.parametrize("seed", range(4))
def test_depth_images_are_kept_by_reference(seed: int, tmp_path: Path) -> None:
    source = make_depth_images(tmp_path / "d", seed)
    record = load_first(source.path)
    assert_kept(record, source)
    assert f"camera {source.camera} left out: it holds depth, not colour" in record.warnings


@pytest.mark.parametrize("seed", range(3))
def test_depth_of_a_record_is_kept_by_reference(seed: int, tmp_path: Path) -> None:
    source = make_depth_rlds(tmp_path / "d", seed)
    assert_kept(load_first(source.path), source)


@pytest.mark.parametrize("seed", range(4))
def test_a_depth_topic_is_kept_by_reference(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    depth = draw_depth(rng, steps=10, is_float=bool(rng.random() < 0.5))
    entries: list[Entry] = states(10)
    for number, fields in enumerate(depth_messages(rng, depth)):
        at = START + STEP * number
        kind = "sensor_msgs/msg/CompressedImage" if "format" in fields else "sensor_msgs/msg/Image"
        entries.append(("/camera/depth", kind, at, SimpleNamespace(header=header(at), **fields)))
    record = load_first(write(tmp_path / "a.mcap", entries))
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert (kept["topic"], kept["frames"]) == ("/camera/depth", 10)
    assert kept["depth_unit"] == ("m" if depth.dtype.kind == "f" else "mm")
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(depth[0]))


def test_depth_is_shown_with_range_and_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_depth_images(tmp_path / "d", 0)
    main(["ingest", str(source.path), "-w", str(tmp_path / "ws"), "--quiet"])
    with ares.open(tmp_path / "ws") as workspace:
        (episode_id,) = workspace.stores.tables.episodes.ids()
        (text,) = workspace.stores.tables.episodes.get_episode(episode_id).depth_texts
    capsys.readouterr()
    main(["show", episode_id, "-w", str(tmp_path / "ws"), "--json"])
    assert text in json.loads(capsys.readouterr().out)["depth"]
    main(["show", episode_id, "-w", str(tmp_path / "ws")])
    assert text in " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"{source.camera}: {len(source.depth)} pictures of ")
    assert f" {source.unit}, in " in text


def depth_bytes(folder: Path, camera: str) -> list[bytes]:
    """The images of depth of the only record of an RLDS dataset."""
    (path,) = folder.rglob("*.tfrecord*")
    (span,) = scan_record_file(str(path))
    assert not isinstance(span, Exception)
    payload, _ = read_record(str(path), span)
    feature = parse_tf_example(payload, str(path))[f"steps/observation/{camera}"]
    return list(feature.bytes_list.value)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["rlds", "lerobot"])
def test_an_export_has_the_depth_of_a_record_bit_by_bit_or_names_it(format: str, tmp_path: Path) -> None:
    source = make_depth_rlds(tmp_path / "d", 5)
    with ares.open(tmp_path / "ws", create=True) as workspace:
        ingest_paths(workspace.stores, [str(source.path)], quiet=True)
        selection = workspace.sets.create("all", sorted(workspace.stores.tables.episodes.ids()), {})
        report = workspace.export(selection, tmp_path / "out", format=format, quiet=True)
    told = [line for line in report.left_out if line.startswith(f"depth of camera {source.camera}")]
    if format == "rlds":
        assert not told and depth_bytes(tmp_path / "out", source.camera) == depth_bytes(
            source.path, source.camera
        )
    else:
        assert told


COLOUR = np.zeros((6, 24, 32, 3), np.uint8)


def write_depth_npz(folder: Path, depth: NDArray[Any]) -> Path:
    folder.mkdir()
    np.savez(folder / "a.npz", action=np.eye(6, 3), state=np.eye(6, 3), image=COLOUR, depth=depth)
    return folder


def write_depth_zarr(folder: Path, depth: NDArray[Any]) -> Path:
    """The depth of the second of two episodes, behind a first one of other values."""
    root = zarr.open_group(str(folder / "a.zarr"), mode="w", zarr_format=2)
    numbers = np.eye(6, 3)
    arrays: dict[str, NDArray[Any]] = {"action": numbers, "state": numbers, "image": COLOUR, "depth": depth}
    for key, values in arrays.items():
        both = np.concatenate([np.full_like(values, 90), values])
        root.create_array(f"data/{key}", data=both, chunks=(1, *values.shape[1:]))
    root.create_array("meta/episode_ends", data=np.array([6, 12]))
    return folder


def write_depth_hdf5(folder: Path, depth: NDArray[Any]) -> Path:
    """A demonstration of robomimic."""
    folder.mkdir()
    with h5py.File(folder / "a.hdf5", "w") as file:
        arrays = {
            "actions": np.eye(6, 3),
            "obs/joint_pos": np.eye(6, 3),
            "obs/image": COLOUR,
            "obs/depth": depth,
        }
        for key, values in arrays.items():
            file[f"data/demo_0/{key}"] = values
        file["data"].attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})
    return folder


def write_encoded_hdf5(folder: Path, depth: NDArray[Any]) -> Path:
    """A file of no known family with depth as PNG, under a name that does not say so."""
    folder.mkdir()
    with h5py.File(folder / "a.hdf5", "w") as file:
        rows = file.create_dataset("range", (6,), h5py.vlen_dtype(np.uint8))
        for number, picture in enumerate(depth):
            rows[number] = np.frombuffer(cv2.imencode(".png", picture.reshape(24, 32))[1].tobytes(), np.uint8)
        file["action"], file["state"], file["image"] = np.eye(6, 3), np.eye(6, 3), COLOUR
    return folder


WRITERS: dict[str, Callable[[Path, NDArray[Any]], Path]] = {
    "npz": write_depth_npz,
    "zarr": write_depth_zarr,
    "hdf5": write_depth_hdf5,
    "encoded": write_encoded_hdf5,
}


def read_last(path: Path) -> Record:
    (source,) = open_sources([str(path)], SourceOptions(reads_unknown=True))
    return list(source.items)[-1].load()


def read_kept(kind: str, kept: Any) -> NDArray[Any]:
    """The depth where the description says that it is."""
    path, key, first = kept["path"], kept["key"], kept.get("first_row", 0)
    if kind == "npz":
        return np.asarray(np.load(path)[key])[first:]
    if kind == "zarr":
        return np.asarray(zarr.open_group(path, mode="r")[key])[first:]
    with h5py.File(path) as file:
        rows = file[key][first:]
    if kind == "hdf5":
        return np.asarray(rows)
    return np.stack([np.asarray(cv2.imdecode(row, cv2.IMREAD_UNCHANGED)) for row in rows])


@pytest.mark.parametrize(
    ("kind", "dtype", "shape"),
    [
        ("npz", "uint16", (6, 24, 32)),
        ("npz", "float32", (6, 1, 24, 32)),
        ("zarr", "uint16", (6, 24, 32)),
        ("zarr", "float32", (6, 24, 32, 1)),
        ("hdf5", "uint16", (6, 24, 32, 1)),
        ("hdf5", "float32", (6, 24, 32)),
        ("encoded", "uint16", (6, 24, 32)),
    ],
)
def test_depth_in_arrays_is_kept_by_reference(
    kind: str, dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    rng = np.random.default_rng(len(shape))
    depth = (rng.uniform(0.3, 4, shape) * (1 if dtype == "float32" else 1000)).astype(dtype)
    record = read_last(WRITERS[kind](tmp_path / "d", depth))
    assert [camera.name for camera in record.episode.cameras] == ["image"]
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert (kept["frames"], kept["height"], kept["width"], kept["dtype"]) == (6, 24, 32, dtype)
    assert kept["depth_unit"] == {"uint16": "mm", "float32": "m"}[dtype]
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(depth[[0, 3, 5]]), rtol=1e-6)
    assert np.array_equal(read_kept(kind, kept).reshape(6, 24, 32), depth.reshape(6, 24, 32))
    assert not [name for name in record.trajectory.extra if "depth" in name or "range" in name]
    (name,) = facts
    assert f"camera {name} left out: it holds depth, not colour" in record.warnings


def test_a_depth_buffer_has_no_unit(tmp_path: Path) -> None:
    depth = np.random.default_rng(0).uniform(0.9, 1, (6, 24, 32, 1)).astype(np.float32)
    facts: Any = read_last(write_depth_hdf5(tmp_path / "d", depth)).episode.metadata["depth_cameras"]
    assert [kept["depth_unit"] for kept in facts.values()] == [""]


def test_numbers_that_are_no_pictures_are_no_depth(tmp_path: Path) -> None:
    """A matrix of a camera, whose name says depth, and a chunk of ticks."""
    (tmp_path / "d").mkdir()
    arrays: dict[str, Any] = {"depth_intrinsics": np.ones((6, 3, 3)), "ticks": np.ones((6, 12, 7), np.uint16)}
    np.savez(tmp_path / "d" / "a.npz", action=np.eye(6, 3), state=np.eye(6, 3), **arrays)
    record = read_last(tmp_path / "d")
    assert "depth_cameras" not in record.episode.metadata
    assert set(arrays) <= set(record.trajectory.extra)


def test_depth_of_calvin_is_kept_with_its_steps(shared_data: Path) -> None:
    record = load_first(shared_data / "reported" / "calvin23")
    facts: Any = record.episode.metadata["depth_cameras"]
    assert {name: (kept["height"], kept["width"]) for name, kept in facts.items()} == {
        "depth_static": (48, 64)
    }
    assert facts["depth_static"]["frames"] == record.episode.num_steps


def test_depth_of_agibot_is_kept_by_reference(tmp_path: Path) -> None:
    root = write_agibot(tmp_path / "alpha")
    depth = draw_depth(np.random.default_rng(3), steps=12, is_float=False)
    folder = root / "observations" / "327" / "648642" / "depth"
    folder.mkdir()
    for number, picture in enumerate(depth):
        cv2.imwrite(str(folder / f"head_depth_{number:06d}.png"), picture)
    record = load_first(root)
    facts: Any = record.episode.metadata["depth_cameras"]
    kept = facts["head_depth"]
    assert (kept["frames"], kept["depth_unit"], kept["path"]) == (12, "mm", f"{folder}/")
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(depth[[0, 6, 11]]))
    assert "head_depth" not in [camera.name for camera in record.episode.cameras]
