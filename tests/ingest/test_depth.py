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
from ares.episode import Record
from ares.formats import parse_tf_example, read_record, scan_record_file
from ares_ingest.base import SourceOptions
from tests.ingest.agibot.conftest import write_agibot
from tests.ingest.conftest import write_rlds
from tests.ingest.recordings.mcap.conftest import START, STEP, Entry, header, states, write
from tests.ingesting import ingest_paths, open_sources


def load_first(path: Path) -> Record:
    (source,) = open_sources([str(path)])
    return next(iter(source.items)).load()


def range_of(depth: Any) -> list[float]:
    known = depth[depth > 0]
    return [float(known.min()), float(known.max())]


def draw_depth(steps: int, is_float: bool) -> NDArray[Any]:
    """(T, H, W) uint16 millimetres or float32 metres with some pixels that have no depth."""
    rng = np.random.default_rng(steps)
    metres = rng.uniform(0.2, 4, (steps, 24, 30)) * (rng.random((steps, 24, 30)) > 0.05)
    return metres.astype(np.float32) if is_float else np.round(metres * 1000).astype(np.uint16)


def write_depth_images(folder: Path, camera: str, suffix: str, depth: NDArray[Any]) -> Path:
    """An episode of numbered images: colours as JPEG, and depth."""
    for name in ("front", camera):
        (folder / "episode_0" / name).mkdir(parents=True)
    for number, picture in enumerate(depth):
        cv2.imwrite(
            str(folder / "episode_0" / "front" / f"{number:05d}.jpg"), np.full((24, 32, 3), 90, np.uint8)
        )
        cv2.imwrite(str(folder / "episode_0" / camera / f"{number:05d}{suffix}"), picture)
    (folder / "episode_0.json").write_text(json.dumps({"instruction": "lift the lid"}))
    return folder


def write_depth_rlds(folder: Path, camera: str, depth: NDArray[np.uint16]) -> Path:
    """A record whose depth is PNG of 16 bits."""
    key = f"steps/observation/{camera}"
    leaves = {"steps/observation/front": "png 24 32 3", key: "png 24 30 1", "steps/action": "float32 3"}
    path = write_rlds(folder, "made_up", leaves, len(depth), changed={key: depth[..., None]}).path
    features = path / "features.json"
    document = json.loads(features.read_text())
    inner = document["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    inner["observation"]["featuresDict"]["features"][camera]["image"]["dtype"] = "uint16"
    features.write_text(json.dumps(document))
    return folder


def assert_kept(record: Record, camera: str, depth: NDArray[Any]) -> None:
    assert [own.name for own in record.episode.cameras] == ["front"]
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert list(facts) == [camera]
    assert kept["depth_unit"] == ("m" if depth.dtype.kind == "f" else "mm")
    assert (kept["frames"], kept["height"], kept["width"]) == depth.shape
    sampled = depth[[0, len(depth) // 2, len(depth) - 1]]
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(sampled))
    assert Path(kept["path"]).exists()


@pytest.mark.parametrize(
    ("camera", "suffix", "is_float"),
    [
        ("top_depth", ".png", False),
        ("range_0", ".tif", True),
        ("range_0", ".png", False),
        ("depth", ".tiff", False),
    ],
)
def test_depth_images_are_kept_by_reference(camera: str, suffix: str, is_float: bool, tmp_path: Path) -> None:
    depth = draw_depth(5, is_float)
    record = load_first(write_depth_images(tmp_path / "d", camera, suffix, depth))
    assert_kept(record, camera, depth)
    assert f"camera {camera} left out: it holds depth, not colour" in record.warnings


@pytest.mark.parametrize("camera", ["depth", "static_depth_image"])
def test_depth_of_a_record_is_kept_by_reference(camera: str, tmp_path: Path) -> None:
    depth = draw_depth(6, is_float=False)
    assert_kept(load_first(write_depth_rlds(tmp_path / "d", camera, depth)), camera, depth)


@pytest.mark.parametrize("encoding", ["16UC1", "32FC1", "16UC1; compressedDepth png"])
def test_a_depth_topic_is_kept_by_reference(encoding: str, tmp_path: Path) -> None:
    depth = draw_depth(10, is_float=encoding == "32FC1")
    entries: list[Entry] = states(10)
    for number, picture in enumerate(depth):
        at, kind = START + STEP * number, "sensor_msgs/msg/Image"
        fields = {"encoding": encoding, "height": 24, "width": 30, "is_bigendian": 0}
        fields |= {"step": 30 * picture.itemsize, "data": picture.tobytes()}
        if "png" in encoding:
            kind = "sensor_msgs/msg/CompressedImage"
            fields = {"format": encoding, "data": bytes(12) + cv2.imencode(".png", picture)[1].tobytes()}
        entries.append(("/camera/depth", kind, at, SimpleNamespace(header=header(at), **fields)))
    record = load_first(write(tmp_path / "a.mcap", entries))
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert (kept["topic"], kept["frames"]) == ("/camera/depth", 10)
    assert kept["depth_unit"] == ("m" if depth.dtype.kind == "f" else "mm")
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(depth[0]))


def test_depth_is_shown_with_range_and_unit(tmp_path: Path, run_ares: Any) -> None:
    source = write_depth_images(tmp_path / "d", "top_depth", ".png", draw_depth(5, is_float=False))
    run_ares("ingest", source, "-w", tmp_path / "ws", "--quiet")
    with ares.open(tmp_path / "ws") as workspace:
        (episode_id,) = workspace.stores.tables.episodes.ids()
        (text,) = workspace.stores.tables.episodes.get_episode(episode_id).depth_texts
    assert text in run_ares("show", episode_id, "-w", tmp_path / "ws", "--json").json["depth"]
    assert text in " ".join(run_ares("show", episode_id, "-w", tmp_path / "ws").out.split())
    assert text.startswith("top_depth: 5 pictures of ") and " mm, in " in text


def depth_bytes(folder: Path) -> list[bytes]:
    """The images of depth of the only record of an RLDS dataset."""
    (path,) = folder.rglob("*.tfrecord*")
    (span,) = scan_record_file(str(path))
    assert not isinstance(span, Exception)
    payload, _ = read_record(str(path), span)
    feature = parse_tf_example(payload, str(path))["steps/observation/depth"]
    return list(feature.bytes_list.value)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["rlds", "lerobot"])
def test_an_export_has_the_depth_of_a_record_bit_by_bit_or_names_it(format: str, tmp_path: Path) -> None:
    source = write_depth_rlds(tmp_path / "d", "depth", draw_depth(6, is_float=False))
    with ares.open(tmp_path / "ws", create=True) as workspace:
        ingest_paths(workspace.stores, [str(source)], quiet=True)
        selection = workspace.sets.create("all", sorted(workspace.stores.tables.episodes.ids()), {})
        report = workspace.export(selection, tmp_path / "out", format=format, quiet=True)
    told = [line for line in report.left_out if line.startswith("depth of camera depth")]
    if format == "rlds":
        assert not told and depth_bytes(tmp_path / "out") == depth_bytes(source)
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
    depth = draw_depth(12, is_float=False)
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
