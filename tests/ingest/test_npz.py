"""Episodes in npz and npy files, and in Zarr stores of other layouts: the values read are those written."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from ares.episode import Record
from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.operation import show_specs
from tests.ingesting import open_sources, request_for


@dataclass
class Layout:
    """Arrays of an episode of five steps, and what the spec makes of them."""

    arrays: dict[str, NDArray[Any]]
    spec: dict[str, Any]
    state: NDArray[Any]
    action: NDArray[Any]


def make_layout(separator: str) -> Layout:
    """Arrays of many types, one in Fortran's order and one with a row more, in groups or not."""
    rng = np.random.default_rng(3)

    def numbers(*shape: int, dtype: str) -> NDArray[Any]:
        return rng.integers(0, 100, shape).astype(dtype)

    arm, grip = f"obs{separator}arm", f"obs{separator}Ünit"
    arrays = {
        arm: numbers(5, 4, dtype="float16"),
        grip: numbers(5, dtype=">f4"),
        "cmd": np.asfortranarray(numbers(5, 3, dtype="int16")),
        "left": numbers(6, 2, dtype="uint8"),
        "flag": numbers(5, dtype="bool"),
        "eye": numbers(5, 8, 12, 3, dtype="uint8"),
        "stamps": 1_700_000_000_000_000_000 + np.cumsum(rng.integers(1, 10**8, 5)),
    }
    spec = {
        "reference": "written by a test",
        "state": [{"key": arm, "start": 1, "stop": 3, "names": ["a", "b"]}, {"key": grip, "names": ["c"]}],
        "action": [{"key": "cmd", "start": 0, "stop": 2, "names": ["d", "e"]}],
        "cameras": {"eye": {"key": "eye", "role": "wrist", "channels": "bgr"}},
        "timestamps": "stamps",
        "time_unit": "ns",
    }
    state = np.column_stack([arrays[arm][:, 1:3], arrays[grip]])
    return Layout(arrays, spec, state.astype(np.float32), arrays["cmd"][:, :2].astype(np.float32))


def write_npy(path: Path, **arrays: NDArray[Any]) -> None:
    path.mkdir()
    for key, values in arrays.items():
        np.save(path / f"{key}.npy", values)


def write_zarr(path: Path, version: Literal[2, 3], **arrays: NDArray[Any]) -> None:
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(str(path), mode="w", zarr_format=version)
    for key, values in arrays.items():
        root.create_array(key, data=np.ascontiguousarray(values), chunks=(3, *values.shape[1:]))


WRITERS: dict[str, tuple[str, Callable[..., object]]] = {
    "npz": ("a.npz", np.savez),
    "compressed npz": ("a.npz", np.savez_compressed),
    "npy": ("a", write_npy),
    "zarr 2": ("a.zarr", lambda path, **arrays: write_zarr(path, 2, **arrays)),
    "zarr 3": ("a.zarr", lambda path, **arrays: write_zarr(path, 3, **arrays)),
}


def load(path: Path, spec: dict[str, Any] | str | None = None, **options: Any) -> Record:
    file = path.parent / "spec.yaml"
    if spec is not None:
        file.write_text(spec if isinstance(spec, str) else yaml.safe_dump(spec, allow_unicode=True))
    (source,) = open_sources(
        [str(path)], SourceOptions(spec=str(file) if spec is not None else "", **options)
    )
    (item,) = source.items
    return item.load()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_spec_reads_arrays_of_any_name(tmp_path: Path, kind: str) -> None:
    name, write = WRITERS[kind]
    layout, path = make_layout("_" if kind == "npy" else "/"), tmp_path / name
    write(path, **layout.arrays)
    record = load(path, layout.spec)
    episode, trajectory = record.episode, record.trajectory
    assert trajectory.state is not None and trajectory.action is not None
    np.testing.assert_array_equal(trajectory.state.values, layout.state)
    np.testing.assert_array_equal(trajectory.action.values, layout.action)
    assert (trajectory.state.names, trajectory.action.names) == (("a", "b", "c"), ("d", "e"))
    stamps = layout.arrays["stamps"]
    np.testing.assert_allclose(trajectory.timestamps, (stamps - stamps[0]) / 1e9, rtol=0, atol=1e-12)
    (camera,) = episode.cameras
    assert (camera.name, camera.role) == ("eye", "wrist")
    frames = frames_at(camera.media, [number / episode.rate_hz for number in range(5)])
    np.testing.assert_array_equal(np.stack(list(frames)), layout.arrays["eye"][..., ::-1])
    for key in ("left", "flag"):
        expected = layout.arrays[key].reshape(len(layout.arrays[key]), -1)[:5].astype(np.float32)
        np.testing.assert_array_equal(trajectory.extra[key].values, expected)
    shown = show_specs(request_for([str(path)], SourceOptions(spec=str(tmp_path / "spec.yaml"))))
    assert load(path, shown).episode == episode
    plain = show_specs(request_for([str(path)]))
    assert all(f"#   {key} (" in plain for key in layout.arrays if key != "eye")


def test_arrays_of_no_known_name_are_listed_with_a_way_to_go_on(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", foo=np.zeros((5, 7), np.float32), bar=np.zeros(5))
    with pytest.raises(SourceError) as caught:
        load(tmp_path / "a.npz")
    assert "data is of no known family" in str(
        caught.value
    ) and "foo (T x 7 float32), bar (T float64)" in str(caught.value)
    assert "--show-spec > spec.yaml" in str(caught.value) and "--spec spec.yaml" in str(caught.value)
    shown = show_specs(request_for([str(tmp_path / "a.npz")]))
    assert set(load(tmp_path / "a.npz", shown).trajectory.extra) == {"foo", "bar"}


def test_known_names_json_and_texts_are_read_without_a_spec(tmp_path: Path) -> None:
    for number in range(3):
        save: Callable[..., None] = np.savez_compressed
        save(
            tmp_path / f"episode_{number}.npz",
            **{
                "obs/qpos": np.full((4, 3), number),
                "action": np.ones((3, 2)),
                "rgb": np.zeros((4, 8, 8, 3), np.uint8),
            },
            reward=np.arange(3),
        )
        (tmp_path / f"episode_{number}.json").write_text(
            json.dumps({"instruction": f"task {number}", "success": number == 1, "fps": 25, "operator": "a"})
        )
    (source,) = open_sources([str(tmp_path)])
    records = [item.load() for item in source.items]
    assert [record.episode.instruction for record in records] == ["task 0", "task 1", "task 2"]
    assert [record.episode.success for record in records] == [False, True, False]
    first = records[0]
    assert (first.episode.rate_hz, first.episode.rate_source, first.episode.num_steps) == (25.0, "source", 3)
    assert first.episode.metadata == {"operator": "a"} and first.episode.state_names[0] == "obs/qpos_0"
    assert (
        "obs/qpos has one row more than there are actions: the terminal one is not stored" in first.warnings
    )
    assert {Path(file.path).name: file.use for file in source.files()} == {
        f"episode_{number}.{suffix}": use
        for number in range(3)
        for suffix, use in (("npz", "data"), ("json", "metadata"))
    }


def test_one_file_of_several_episodes_is_cut_at_its_ends(tmp_path: Path) -> None:
    states = np.random.default_rng(0).random((9, 2)).astype(np.float32)
    images = np.random.default_rng(1).integers(0, 255, (9, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "all.npz", state=states, img=images, episode_ends=np.array([2, 9]))
    (source,) = open_sources([str(tmp_path)], SourceOptions(rate_hz=5))
    first, second = (item.load() for item in source.items)
    assert source.total == 2 and (first.episode.num_steps, second.episode.num_steps) == (2, 7)
    assert second.trajectory.state is not None
    np.testing.assert_array_equal(second.trajectory.state.values, states[2:])
    (frame,) = frames_at(second.episode.cameras[0].media, [1.0])
    np.testing.assert_array_equal(frame, images[7])
    assert first.episode.content_hash != second.episode.content_hash


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ([6, 2, 9], r"does not rise: .*a\.npz: episode_ends is \[6, 2, 9\]; needed is"),
        ([2.5, 9.0], r"no list of whole numbers: .*a\.npz: episode_ends is float64 \(2,\); needed is"),
        ([], r"lists no episode"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_whose_ends_are_wrong_fails_as_one_item(
    ends: list[float], says: str, is_first: bool, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", state=np.zeros((9, 2)), action=np.zeros((9, 2)), episode_ends=np.array(ends))
    other = tmp_path / f"{'b' if is_first else '0'}.npz"
    np.savez(other, state=np.ones((9, 2)), action=np.zeros((9, 2)))
    (source,) = open_sources([str(tmp_path)], SourceOptions(rate_hz=5))
    items = {Path(item.location).name: item for item in source.items}
    assert source.total == len(items) == 2 and items[other.name].load().episode.num_steps == 9
    with pytest.raises(SourceError, match=says):
        items["a.npz"].load()


def test_ends_that_the_first_file_of_a_folder_lacks_fail_and_cut_in_another_folder(tmp_path: Path) -> None:
    state, action = np.zeros((9, 2)), np.ones((9, 2))
    np.savez(tmp_path / "a.npz", state=state, action=action)
    np.savez(tmp_path / "b.npz", state=state, action=action, episode_lengths=np.array([2.0, 7.0]))
    (source,) = open_sources([str(tmp_path)], SourceOptions(rate_hz=5))
    first, second = source.items
    assert first.load().episode.num_steps == 9
    with pytest.raises(SourceError, match=r"b\.npz: 2 ends in episode_lengths; move it to another folder"):
        second.load()
    (tmp_path / "several").mkdir()
    (tmp_path / "b.npz").rename(tmp_path / "several" / "b.npz")
    (source,) = open_sources([str(tmp_path / "several")], SourceOptions(rate_hz=5))
    assert [item.load().episode.num_steps for item in source.items] == [2, 7]


@pytest.mark.parametrize("text", [b'{"fps": 25', b'{"instruction": "\xf3"}', b""])
def test_a_json_file_that_is_no_json_is_named(tmp_path: Path, text: bytes) -> None:
    np.savez(tmp_path / "a.npz", state=np.zeros((3, 2)), action=np.zeros((3, 2)))
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(SourceError, match=r"JSON file of an episode is not JSON: .*a\.json"):
        load(tmp_path)


def test_pickles_are_never_read(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "trapped").touch, ())

    trap = np.empty(3, object)
    trap[:] = Trap()
    np.savez(tmp_path / "a.npz", state=np.zeros((3, 2)), poison=trap)
    record = load(tmp_path / "a.npz")
    assert "poison is not stored (array is stored by pickle, which can run code)" in record.warnings
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(SourceError):
        load(tmp_path / "b")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.slow
def test_lies_about_shapes_and_bombs_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 7), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("state.npy", header)
    with pytest.raises(SourceError, match="does not have the size that it declares"):
        load(tmp_path / "a.npz")
    (tmp_path / "b").mkdir()
    with (
        zipfile.ZipFile(tmp_path / "b" / "c.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("state.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(300):
            file.write(bytes(2**23))
    with pytest.raises(SourceError, match="too large"):
        load(tmp_path / "b")
