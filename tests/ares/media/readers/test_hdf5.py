"""Images in HDF5 files: exact pixels, only the requested rows are read, and an error for every kind of damage."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.errors import MediaError, SourceError
from ares.input import open_hdf5
from ares.media import FileCache, all_frames, browser_video, encoded_frames, frames_at, probe_video, thumbnail
from tests.ares.media.written_videos import span_ref

STEPS, RATE = 24, 12.0
Images = NDArray[np.uint8]


def make_images(channels: int = 3) -> Images:
    ramp = np.arange(STEPS * 32 * 48 * channels).reshape(STEPS, 32, 48, channels)
    return (ramp // (48 * channels) % 256).astype(np.uint8)


def encode_images(images: Images, suffix: str = ".jpg") -> list[bytes]:
    return [cv2.imencode(suffix, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes() for image in images]


def pad_rows(rows: list[bytes]) -> Images:
    array = np.zeros((len(rows), max(map(len, rows)) + 7), np.uint8)
    for number, row in enumerate(rows):
        array[number, : len(row)] = np.frombuffer(row, np.uint8)
    return array


def decode_rows(rows: list[bytes]) -> Images:
    images: Any = [cv2.imdecode(np.frombuffer(row, np.uint8), cv2.IMREAD_COLOR_RGB) for row in rows]
    return np.stack(images)


def ref_of(path: Path) -> MediaRef:
    return span_ref(path, STEPS, RATE, kind="hdf5", key="obs/images/top")


@pytest.fixture
def store_images(tmp_path: Path) -> Callable[..., MediaRef]:
    def store(values: Any, **options: Any) -> MediaRef:
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file.create_dataset("obs/images/top", data=values, **options)
        return ref_of(tmp_path / "a.hdf5")

    return store


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"chunks": (5, 8, 8, 3)}])
def test_raw_pixels_are_exact(store_images: Callable[..., MediaRef], options: dict[str, Any]) -> None:
    images = make_images()
    ref = store_images(images, **options)
    assert np.array_equal(np.stack(list(all_frames(ref))), images)
    seconds = [1.0, 0.0, 0.51, 0.5, 99.0, -1.0, 1.0]
    assert np.array_equal(frames_at(ref, seconds), images[[12, 0, 6, 6, 23, 0, 12]])
    assert frames_at(ref, []).shape == (0, 32, 48, 3)


def test_a_jpeg_in_a_row_is_decoded_and_returned_without_its_padding(
    store_images: Callable[..., MediaRef],
) -> None:
    rows = encode_images(make_images())
    ref = store_images(pad_rows(rows))
    assert encoded_frames(ref) == rows
    assert np.array_equal(frames_at(ref, [0.0, 1.0]), decode_rows(rows)[[0, 12]])


def test_rows_of_any_length_and_byte_strings(store_images: Callable[..., MediaRef]) -> None:
    rows = encode_images(make_images(), ".png")
    arrays = np.empty(STEPS, object)
    arrays[:] = [np.frombuffer(row, np.uint8) for row in rows]
    ref = store_images(arrays, dtype=h5py.vlen_dtype(np.uint8))
    assert np.array_equal(np.stack(list(all_frames(ref))), make_images())
    assert np.array_equal(np.stack(list(all_frames(store_images(np.array(rows))))), make_images())


def test_grey_is_repeated_and_alpha_left_out(store_images: Callable[..., MediaRef]) -> None:
    grey, alpha = make_images(1), make_images(4)
    assert np.array_equal(frames_at(store_images(grey), [0.5])[0], np.repeat(grey[6], 3, axis=-1))
    assert np.array_equal(frames_at(store_images(alpha), [0.5])[0], alpha[6, ..., :3])


def test_only_the_requested_rows_are_read(
    store_images: Callable[..., MediaRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = store_images(make_images())
    rows: list[Any] = []
    original_getitem = h5py.Dataset.__getitem__

    def recording_getitem(self: Any, row: Any, **options: Any) -> Any:
        rows.append(row)
        return original_getitem(self, row, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", recording_getitem)
    frames_at(ref, [0.0, 0.5, 0.51])
    assert rows == [0, 6]


def test_it_plays_at_the_speed_of_the_episode(store_images: Callable[..., MediaRef], tmp_path: Path) -> None:
    ref, cache = store_images(make_images()), FileCache(tmp_path / "cache", 10**9)
    info = probe_video(browser_video(ref, "h264", cache))
    assert (info.num_frames, info.rate_hz, info.duration_seconds) == (STEPS, RATE, STEPS / RATE)
    small = cv2.imread(str(thumbnail(ref, 1.0, 24, cache)))
    assert small is not None and small.shape == (16, 24, 3)


def test_many_readers_at_once(store_images: Callable[..., MediaRef]) -> None:
    images = make_images()
    ref = store_images(images, chunks=(5, 8, 8, 3), compression="gzip")
    with ThreadPoolExecutor(8) as pool:
        frames = list(pool.map(lambda number: frames_at(ref, [number / RATE])[0], list(range(STEPS)) * 8))
    assert all(np.array_equal(picture, images[number % STEPS]) for number, picture in enumerate(frames))


def outcome(ref: MediaRef) -> str:
    try:
        list(all_frames(ref))
    except MediaError as error:
        return error.reason
    return "good"


def test_damage_is_reported(store_images: Callable[..., MediaRef], tmp_path: Path) -> None:
    ref = store_images(make_images())
    assert outcome(dataclasses.replace(ref, uri=str(tmp_path / "none.hdf5"))) == "file is missing"
    assert outcome(dataclasses.replace(ref, key="obs/images/side")) == "file has no such images"
    assert outcome(dataclasses.replace(ref, key="obs/images")) == "file has no such images"
    assert outcome(dataclasses.replace(ref, num_frames=STEPS + 1)) == "file has fewer images"
    with pytest.raises(MediaError, match="images are not encoded"):
        encoded_frames(ref)
    assert outcome(store_images(np.zeros((STEPS, 32, 48, 3)))) == "file has no such images"
    assert outcome(store_images(np.zeros((STEPS, 100), np.uint8))) == "image cannot be decoded"
    (tmp_path / "a.hdf5").write_bytes(b"")
    assert outcome(ref) == "HDF5 file is empty"
    (tmp_path / "a.hdf5").write_bytes(b"no hdf5")
    assert outcome(ref) == "HDF5 file is cut or damaged"


@pytest.mark.slow
def test_a_file_that_another_process_writes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    code = f"import h5py; file = h5py.File({str(path)!r}, 'w'); file['a'] = 1; file.flush(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout and writer.stdout.readline()
        with pytest.raises(SourceError, match="is being written"), open_hdf5(str(path)):
            pass
        writer.communicate(b"\n")


@pytest.fixture(scope="module")
def intact_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cut") / "whole.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("obs/images/top", data=make_images(), chunks=(4, 32, 48, 3), compression="gzip")
    return path


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_file_is_a_media_error(intact_file: Path, data: st.DataObject) -> None:
    intact = intact_file.read_bytes()
    truncated = intact_file.with_name("cut.hdf5")
    truncated.write_bytes(intact[: data.draw(st.integers(0, len(intact) - 1))])
    assert outcome(ref_of(truncated)) in ("HDF5 file is empty", "HDF5 file is cut or damaged")
