"""Zarr stores as episodes: values, times and pixels as written; damage costs records; no code of a file is run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr as zarr_library

from ares.errors import AresError, MediaError, SourceError
from ares.input import open_zip
from ares.media import compute_file_stamp, frames_at, open_zarr
from ares_ingest.base import SourceOptions
from ares_ingest.zarr import zarr
from tests.ingest.zarr.conftest import images, opened, read, write_store, write_zip
from tests.ingesting import open_sources

WRITERS: dict[str, Callable[[Path], Path]] = {
    "folder, version 2": lambda folder: write_store(folder / "pusht.zarr", 2),
    "folder, version 3": lambda folder: write_store(folder / "pusht.zarr", 3),
    "zip, version 2": lambda folder: write_zip(folder / "pusht.zarr.zip", 2),
    "zip, version 3": lambda folder: write_zip(folder / "pusht.zarr.zip", 3),
}


def _brightness(frames: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> list[int]:
    return [int(frame.mean()) for frame in frames]


@pytest.mark.parametrize("kind", WRITERS)
def test_values_and_pixels_are_those_that_were_written(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path)
    assert zarr.recognises(str(path)) and zarr.recognises(str(tmp_path))
    source = opened(path, rate_hz=10.0)
    records = [item.load() for item in source.items]
    assert source.dataset == "pusht" and source.total == 2
    assert [record.episode.num_steps for record in records] == [4, 6]
    second = records[1]
    assert second.trajectory.action is not None and second.trajectory.state is not None
    np.testing.assert_array_equal(second.trajectory.action.values[:, 1], -np.arange(4, 10))
    np.testing.assert_array_equal(second.trajectory.state.values[:, 0], np.arange(4, 10) * 2)
    (camera,) = second.episode.cameras
    assert _brightness(frames_at(camera.media, [0.0, 0.25, 9.0])) == [80, 120, 180]
    assert (camera.width, camera.height) == (32, 24)


def test_float_images_and_channels_first_become_rgb(tmp_path: Path) -> None:
    unit = (images().astype(np.float32) / 255).transpose(0, 3, 1, 2)
    path = write_store(tmp_path / "robot.zarr", img=unit, other=images().astype(np.float32))
    cameras = read(path, rate_hz=10.0)[1].episode.cameras
    assert [_brightness(frames_at(camera.media, [0.0, 0.5])) for camera in cameras] == [[80, 180]] * 2


def test_umi_stores_are_read_with_jpeg_xl(tmp_path: Path) -> None:
    from imagecodecs.numcodecs import Jpegxl, register_codecs

    register_codecs(verbose=False)
    path = tmp_path / "dataset.zarr.zip"
    store = zarr_library.storage.ZipStore(path, mode="w")
    root = zarr_library.open_group(store, mode="w", zarr_format=2)
    data = root.create_group("data")
    root.create_group("meta").create_array("episode_ends", data=np.array([4, 10]))
    data.create_array(
        "camera0_rgb", data=images(), chunks=(1, 24, 32, 3), compressors=Jpegxl(level=99, numthreads=1)
    )
    for name, width in (
        ("eef_pos", 3),
        ("eef_rot_axis_angle", 3),
        ("gripper_width", 1),
        ("demo_start_pose", 6),
    ):
        data.create_array(f"robot0_{name}", data=np.ones((10, width)))
    store.close()
    record = read(path, rate_hz=59.94)[1]
    assert record.trajectory.state is not None and record.trajectory.state.values.shape == (6, 7)
    assert record.trajectory.action is None and "robot0_demo_start_pose" in record.trajectory.extra
    np.testing.assert_allclose(
        _brightness(frames_at(record.episode.cameras[0].media, [0.0, 0.05])), [80, 140], atol=2
    )


@pytest.mark.parametrize(
    ("array", "changes", "error"),
    [
        ("img", {"compressor": {"id": "imagecodecs_jpegxl"}}, r"pip install 'ares-curation\[jpegxl\]'"),
        ("state", {"filters": [{"id": "pickle", "protocol": 5}]}, "by pickle, which can run code"),
        ("img", {"chunks": [10**6, 2000, 2000, 3]}, "a chunk of the array is too large"),
    ],
    ids=["missing codec", "pickle", "all memory"],
)
def test_an_array_that_is_not_decoded_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: str, changes: dict[str, Any], error: str
) -> None:
    path = write_store(tmp_path / "robot.zarr")
    file = path / "data" / array / ".zarray"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    monkeypatch.setattr("ares.media.readers.arrays.find_spec", lambda name: None)
    with pytest.raises(AresError, match=error):
        read(path)


def test_a_group_inside_the_data_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = write_store(tmp_path / "robot.zarr")
    zarr_library.open_group(str(path), mode="a").create_group("data/obs")
    record = read(path, rate_hz=10.0)[0]
    assert record.warnings == ("data/obs is not stored (it is no array)",)


def test_texts_of_all_episodes_are_of_none_of_them(tmp_path: Path) -> None:
    texts = np.array([f"step {number}" for number in range(10)])
    path = write_store(tmp_path / "robot.zarr", step_text=texts)
    plain = read(write_store(tmp_path / "plain.zarr"), rate_hz=10.0)
    records = read(path, rate_hz=10.0)
    for record, other in zip(records, plain, strict=True):
        assert "step_text" not in record.episode.metadata
        assert record.episode.content_hash == other.episode.content_hash
        assert "data/step_text is not stored (no numbers for each step)" in record.warnings


def test_ends_of_no_episode_are_named(tmp_path: Path) -> None:
    path = write_store(tmp_path / "robot.zarr")
    group = zarr_library.open_group(str(path / "meta"), mode="a")
    group.create_array("episode_ends", data=np.zeros(0, np.int64), overwrite=True)
    (item,) = opened(path).items
    with pytest.raises(SourceError, match=r"episode_ends lists no episode: .*meta/episode_ends is empty"):
        item.load()


def test_single_values_of_a_store_are_of_all_its_episodes(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.zarr")
    data = zarr_library.open_group(str(path / "data"), mode="a")
    data.create_array("seed", data=np.array(3))
    data.create_array("instruction", data=np.array("push the T"))
    spec = tmp_path / "spec.yaml"
    spec.write_text("reference: x\nlanguage: [instruction]\naction: [{key: action, names: [a, b]}]\n")
    for record in read(path):
        assert record.episode.metadata == {"seed": 3, "instruction": "push the T"}
        assert not any("not stored" in text for text in record.warnings)
    texts = [
        item.load().episode.instruction
        for source in open_sources([str(path)], SourceOptions(spec=str(spec)))
        for item in source.items
    ]
    assert texts == ["push the T"] * 2


def test_damage_costs_the_records_that_it_concerns(tmp_path: Path) -> None:
    write_store(tmp_path / "good.zarr")
    cut = write_store(tmp_path / "cut.zarr")
    (cut / "data" / "action" / "0.0").write_bytes(b"\x02")  # steps 0 to 2: the first episode alone
    zarr_library.open_group(str(tmp_path / "other.zarr"), mode="w").create_group("obs")
    (tmp_path / "text.zarr.zip").write_text("no zip")
    reasons = {}
    items = list(opened(tmp_path, rate_hz=10.0).items)
    for item in items:
        try:
            item.load()
        except AresError as error:
            reasons[Path(item.location).name] = error.reason
    assert len(items) == 6
    assert reasons == {
        "cut.zarr, episode 0": "Zarr store is cut or damaged",
        "other.zarr": "data is of no known family",
        "text.zarr.zip": "zip archive is cut or damaged",
    }


def test_a_store_that_grew_is_noticed_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = write_store(tmp_path / "robot.zarr")
    stamp = compute_file_stamp(str(path))
    assert stamp
    camera = read(path, rate_hz=10.0)[0].episode.cameras[0]
    zarr_library.open_array(str(path / "data" / "img"), mode="a").resize((11, 24, 32, 3))
    assert compute_file_stamp(str(path)) != stamp
    shutil.rmtree(path)
    with pytest.raises(MediaError, match="file is missing"):
        frames_at(camera.media, [0.0])


def test_a_zip_that_vanishes_while_it_is_opened_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip(tmp_path / "pusht.zarr.zip", 2)

    @contextmanager
    def vanish(name: str) -> Iterator[object]:
        with open_zip(name) as archive:
            path.unlink()
            yield archive

    monkeypatch.setattr("ares.media.readers.arrays.open_zip", vanish)
    gone = pytest.raises(SourceError, match=r"Zarr store is cut or damaged.*FileNotFoundError")
    with gone, open_zarr(str(path)):
        pass
