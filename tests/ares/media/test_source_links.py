"""Links and pointers that take the place of source files after they were ingested: refused when frames are decoded."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import all_frames, compute_file_stamp, encoded_frames, frames_at, verify_source
from tests.ares.media.written_videos import span_ref

STEPS = 40


def _write_images(folder: Path, shade: int) -> Path:
    folder.mkdir(parents=True)
    for number in range(STEPS):
        data = cv2.imencode(".png", np.full((16, 16, 3), shade + number, np.uint8))[1]
        (folder / f"{number:06}.png").write_bytes(bytes(data))
    return folder


def _ref(uri: str) -> MediaRef:
    return span_ref(Path(uri), STEPS, 10.0, kind="images", uri=uri, stamp=compute_file_stamp(uri))


@pytest.fixture
def camera(tmp_path: Path) -> Path:
    return _write_images(tmp_path / "lab" / "data" / "ep" / "front", 10)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return _write_images(tmp_path / "home" / "me" / "photos", 100)


def _all_ways(ref: MediaRef) -> None:
    for read in (lambda: list(all_frames(ref)), lambda: encoded_frames(ref), lambda: frames_at(ref, [0.1])):
        with pytest.raises(MediaError, match="a link leads out of the dataset"):
            read()


def test_an_image_that_becomes_a_link_out_of_the_dataset_is_refused(camera: Path, private: Path) -> None:
    ref = _ref(f"{camera}/")
    image = camera / "000001.png"  # none of those whose content the stamp covers
    image.unlink()
    image.symlink_to(private / "000007.png")
    verify_source(ref)
    _all_ways(ref)
    assert frames_at(ref, [0.0])[0].mean() == 10  # the others are read
    image.unlink()
    image.symlink_to(camera / "000002.png")  # a link within the dataset
    assert frames_at(ref, [0.1])[0].mean() == 12


def test_a_folder_that_becomes_a_link_is_refused_also_where_it_was_read_before(
    camera: Path, private: Path
) -> None:
    ref = _ref(f"{camera}/")
    assert frames_at(ref, [0.1])[0].mean() == 11
    shutil.rmtree(camera)
    camera.symlink_to(private)
    with pytest.raises(MediaError, match="file has changed since it was ingested"):
        frames_at(ref, [0.1])


def test_a_link_to_a_file_of_the_same_size_and_time_is_refused(tmp_path: Path) -> None:
    source, secret = tmp_path / "lab" / "data" / "ep" / "states.npy", tmp_path / "home" / "secret.npy"
    for path, value in ((source, 1), (secret, 2)):
        path.parent.mkdir(parents=True)
        np.save(path, np.full((4, 16, 16, 3), value, np.uint8))
        os.utime(path, (1_000, 1_000))
    ref = replace(_ref(str(source)), kind="npy", num_frames=4, rate_hz=1.0)
    assert frames_at(ref, [0.0])[0].mean() == 1
    source.unlink()
    source.symlink_to(secret)
    with pytest.raises(MediaError, match="file has changed since it was ingested"):
        frames_at(ref, [0.0])


def test_links_that_were_there_at_ingestion_are_followed(tmp_path: Path, private: Path) -> None:
    camera = tmp_path / "lab" / "data" / "ep" / "front"
    camera.mkdir(parents=True)
    for image in private.iterdir():
        (camera / image.name).symlink_to(image)
    assert [frame.mean() for frame in all_frames(_ref(f"{camera}/"))] == [
        100.0 + step for step in range(STEPS)
    ]


def test_a_pointer_in_the_place_of_a_video_is_named(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(bytes(5_000))
    ref = replace(_ref(str(video)), kind="mp4")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5000\n"
    video.write_text(pointer)
    with pytest.raises(MediaError, match="git lfs pull"):
        frames_at(ref, [0.0])
