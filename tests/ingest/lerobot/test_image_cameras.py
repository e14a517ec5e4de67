"""Images inside LeRobot's Parquet files as cameras: by reference, copied, played and exported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import all_frames, browser_video, encoded_frames, frames_at, read_parquet_images, thumbnail
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import SourceOptions
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths

KEY = "observation.images.front"
LENGTHS = (7, 1, 12)


def pictures(lengths: Sequence[int] = LENGTHS) -> list[NDArray[np.uint8]]:
    """The pictures of each episode; no two frames of the dataset are alike."""
    images, number = [], 0
    for length in lengths:
        frames = np.zeros((length, 24, 32, 3), np.uint8)
        for frame in frames:
            frame[..., 0], frame[..., 1], frame[:12, :, 2] = 10 + number * 9, 240 - number * 5, 200
            number += 1
        images.append(frames)
    return images


def png(picture: NDArray[Any]) -> bytes:
    return bytes(cv2.imencode(".png", picture[..., ::-1] if picture.ndim == 3 else picture)[1].tobytes())


def set_images(path: Path, images: Sequence[Any], group_rows: int | None = None) -> None:
    """Give the rows of a data file an image each; a row group for each episode, as lerobot writes them, or others."""
    table = pq.read_table(path)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = table.drop_columns([KEY] if KEY in table.column_names else []).append_column(
        KEY, pa.array(images, kind)
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        if group_rows:
            writer.write_table(table, row_group_size=group_rows)
            return
        numbers = table["episode_index"]
        for number in pc.unique(numbers):
            writer.write_table(table.filter(pc.equal(numbers, number)))


def write(folder: Path, version: str, group_rows: int | None = None) -> Path:
    """A dataset with images in its data files: v2.1 with a file for each episode, v3.0 with one for all."""
    write_good_folder(folder, version=version, lengths=LENGTHS, cameras=(), per_file=3)
    info = folder / "meta/info.json"
    document = json.loads(info.read_text())
    document["features"][KEY] = {
        "dtype": "image",
        "shape": [24, 32, 3],
        "names": ["height", "width", "channels"],
    }
    info.write_text(json.dumps(document))
    frames = np.concatenate(pictures())
    for path in folder.rglob("data/*/*.parquet"):
        numbers = pq.read_table(path)["index"].to_pylist()
        set_images(
            path, [{"bytes": png(frames[k]), "path": f"frame-{k:06d}.png"} for k in numbers], group_rows
        )
    return folder


def opened(path: Path) -> Workspace:
    return open_workspace(str(path), settings_from_environment({}))


def cameras(ws: Workspace) -> list[MediaRef]:
    episodes = sorted(ws.stores.tables.episodes.read(), key=lambda episode: int(episode.key))
    return [episode.camera("front").media for episode in episodes]


@pytest.mark.parametrize(
    ("version", "group_rows"), [("v2.1", None), ("v3.0", None), ("v3.0", 3), ("v3.0", 100)]
)
def test_every_frame_of_every_episode(tmp_path: Path, version: str, group_rows: int | None) -> None:
    ws = opened(tmp_path / "ws")
    report = ingest_paths(ws.stores, [str(write(tmp_path / "made", version, group_rows))], quiet=True).counts
    assert (report.kept, report.failed, [warning for warning in report.warnings if "camera" in warning]) == (
        3,
        0,
        [],
    )
    for media, frames in zip(cameras(ws), pictures(), strict=True):
        assert (media.kind, media.num_frames) == ("parquet", len(frames))
        assert np.array_equal(np.stack(list(all_frames(media))), frames)
        seconds = [0.55, -1.0, 0.1, 0.1, 99.0, 0.3]
        numbers = [min(max(int((second + 1e-3) * 10), 0), len(frames) - 1) for second in seconds]
        assert np.array_equal(frames_at(media, seconds), frames[numbers])
        assert encoded_frames(media) == [png(frame) for frame in frames]


@pytest.mark.slow
def test_play_copy_and_export(tmp_path: Path) -> None:
    source = write(tmp_path / "made", "v3.0")
    ws, copied = opened(tmp_path / "ws"), opened(tmp_path / "copied")
    ingest_paths(ws.stores, [str(source)], quiet=True)
    ingest_paths(copied.stores, [str(source)], media="copy", quiet=True)
    media = cameras(ws)[2]
    assert browser_video(media, "h264", ws.stores.media_cache).stat().st_size > 0
    assert thumbnail(media, 0.5, 16, ws.stores.media_cache).stat().st_size > 0
    chosen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    report = ws.export(chosen, tmp_path / "out", quiet=True)
    assert (report.episodes, report.encoded_frames) == (3, 20)
    shutil.rmtree(source)
    for media, frames in zip(cameras(copied), pictures(), strict=True):
        shown = frames_at(media, [k / 10 for k in range(len(frames))])
        assert np.abs(shown.astype(int) - frames).mean() < 4


def test_images_beside_the_data(tmp_path: Path) -> None:
    folder = write(tmp_path / "made", "v2.1")
    (folder / "images").mkdir()
    frames = pictures()[0]
    for number, frame in enumerate(frames):
        (folder / f"images/{number}.png").write_bytes(png(frame))
    beside = [{"bytes": None, "path": f"images/{number}.png"} for number in range(len(frames))]
    path = folder / "data/chunk-000/episode_000000.parquet"
    set_images(path, beside)
    ws = opened(tmp_path / "ws")
    ingest_paths(ws.stores, [str(folder)], quiet=True)
    assert np.array_equal(np.stack(list(all_frames(cameras(ws)[0]))), frames)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"bytes": None, "path": "../../../secret.png"}, "image leads out of the dataset"),
        ({"bytes": None, "path": "/etc/hostname"}, "image leads out of the dataset"),
        ({"bytes": None, "path": "images/no.png"}, "image file is missing"),
        ({"bytes": None, "path": None}, "row holds no image"),
        ({"bytes": b"text", "path": ""}, "its images are neither JPEG nor PNG"),
        ({"bytes": png(np.zeros((4, 4), np.uint16)), "path": ""}, "it holds depth, not colour"),
    ],
)
def test_what_cannot_be_shown_is_left_out_in_words(tmp_path: Path, value: Any, reason: str) -> None:
    folder = write(tmp_path / "made", "v2.1")
    set_images(folder / "data/chunk-000/episode_000000.parquet", [value] * LENGTHS[0])
    ws = opened(tmp_path / "ws")
    report = ingest_paths(ws.stores, [str(folder)], SourceOptions(), quiet=True).counts
    assert report.kept == 3
    assert report.warnings[f"camera front left out: {reason}"].count == 1


def test_a_file_that_is_gone_cut_or_another(tmp_path: Path) -> None:
    path = write(tmp_path / "made", "v3.0") / "data/chunk-000/file-000.parquet"
    span = {"start_seconds": 0.8, "stop_seconds": 2.0, "num_frames": 12, "rate_hz": 10.0}
    ref = MediaRef(kind="parquet", uri=str(path), key=KEY, **span)  # type: ignore[arg-type]
    assert len(list(read_parquet_images(ref, [0, 5, 11]))) == 3
    with pytest.raises(MediaError, match="fewer rows"):
        list(read_parquet_images(ref, [12]))
    pq.write_table(pa.table({"action": [1.0] * 30}), path)
    with pytest.raises(MediaError, match="no such images"):
        list(read_parquet_images(ref, [0]))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(MediaError, match="cannot be read"):
        list(read_parquet_images(ref, [0]))
    path.unlink()
    with pytest.raises(MediaError, match="missing"):
        list(read_parquet_images(ref, [0]))
