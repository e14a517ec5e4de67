"""Folders of numbered images without a table: cameras and language as written, pickles never opened."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.episode import Camera, Record
from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.base import Source, SourceOptions
from ares_ingest.image_folders import image_episodes
from tests.ingest.image_folders.conftest import START, image_bytes, write_images

FRAMES = 8


class Trap:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def write_bridge(root: Path, trap: Path) -> Path:
    """Two episodes as `RawSaver` of bridge_data_robot writes them, with the language of the annotators."""
    session = root / "rss" / "toykitchen2" / "set_table" / "00" / "2022-01-01_00-00-00"
    for number in range(2):
        folder = session / "raw" / "traj_group0" / f"traj{number}"
        for camera in range(2):
            names = [f"im_{frame}.jpg" for frame in range(FRAMES + number)]
            write_images(folder / f"images{camera}", names)
        write_images(folder / "depth_images0", [f"im_{frame}.png" for frame in range(FRAMES)])
        for name in ("obs_dict", "policy_out", "agent_data"):
            (folder / f"{name}.pkl").write_bytes(pickle.dumps(Trap(trap)))
        (folder / "lang.txt").write_text(f"put the pot in the sink {number}\npot to sink\nconfidence: 1\n")
    document = {"policy_desc": "human demo", "environment": "toykitchen2", "camera": {"x": 1}}
    (session / "collection_metadata.json").write_text(json.dumps(document))
    (session / "diagnostics.png").write_bytes(image_bytes(3))
    return root


def opened(path: Path, **options: Any) -> Source:
    (source,) = image_episodes.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> list[Record]:
    return [item.load() for item in opened(path, **options).items]


def brightness(camera: Camera, seconds: list[float]) -> list[int]:
    return [round(float(frame.mean()) / 20) for frame in frames_at(camera.media, seconds)]


def test_raw_bridge_data_has_cameras_and_language_and_its_pickles_stay_closed(tmp_path: Path) -> None:
    trap = tmp_path / "opened"
    root = write_bridge(tmp_path / "bridge_raw", trap)
    first, second = read(root)
    assert first.episode.key == "rss/toykitchen2/set_table/00/2022-01-01_00-00-00/raw/traj_group0/traj0"
    assert first.episode.instructions == ("put the pot in the sink 0", "pot to sink")
    assert (first.episode.num_steps, second.episode.num_steps) == (FRAMES, FRAMES + 1)
    assert (first.episode.rate_hz, first.episode.rate_source) == (10.0, "assumed")
    assert read(root, rate_hz=5.0)[0].episode.rate_hz == 5.0
    assert first.trajectory.state is None and first.trajectory.action is None
    assert [camera.name for camera in first.episode.cameras] == ["images0", "images1"]
    assert brightness(first.episode.cameras[1], [0.0, 0.3, 9.0]) == [0, 3, FRAMES - 1]
    metadata = dict(first.episode.metadata)
    assert "depth_images0" in str(metadata.pop("depth_cameras"))
    assert metadata == {}
    assert "camera depth_images0 left out: it holds depth, not colour" in first.warnings
    assert any("obs_dict.pkl is not read (a pickle can run code)" in text for text in first.warnings)
    assert first.episode.content_hash != second.episode.content_hash
    uses = {file.path: file for file in opened(root).files()}
    others = {"collection_metadata.json", "diagnostics.png"}
    assert set(uses) == {str(path) for path in root.rglob("*") if path.is_file() and path.name not in others}
    pickles = {path: file for path, file in uses.items() if path.endswith(".pkl")}
    assert {file.use for file in pickles.values()} == {"unused"} and len(pickles) == 6
    assert not trap.exists()


@pytest.mark.parametrize("beside", [False, True])
def test_numbered_images_with_a_text_or_json_are_an_episode(tmp_path: Path, beside: bool) -> None:
    folder = tmp_path / "data" / "run_1"
    if beside:
        write_images(folder, [f"frame_{number:03d}.png" for number in range(FRAMES)])
        folder.with_suffix(".json").write_text(json.dumps({"task": "lift", "fps": 20, "success": True}))
    else:
        for name in ("front", "wrist"):
            write_images(folder / name, [f"{START + number / 20:.6f}.png" for number in range(FRAMES)])
        (folder / "instruction.txt").write_text("lift\n")
    (record,) = read(tmp_path / "data")
    episode = record.episode
    assert (episode.instruction, episode.num_steps) == ("lift", FRAMES)
    assert episode.rate_hz == pytest.approx(20.0)
    assert episode.rate_source == ("source" if beside else "measured")
    assert episode.success is (True if beside else None)
    np.testing.assert_allclose(record.trajectory.timestamps, np.arange(FRAMES) / 20, atol=1e-6)
    assert [camera.name for camera in episode.cameras] == (["frame"] if beside else ["front", "wrist"])
    assert brightness(episode.cameras[-1], [0.0, 0.1, 0.35]) == [0, 2, 7]


def test_a_camera_with_other_images_is_left_out_and_damage_costs_one_record(tmp_path: Path) -> None:
    root = write_bridge(tmp_path / "raw", tmp_path / "opened")
    first = next(root.rglob("traj0"))
    (first / "images1" / "im_7.jpg").unlink()
    next(root.rglob("traj1")).joinpath("images0", "im_0.jpg").write_bytes(b"cut")
    good, bad = opened(root).items
    record = good.load()
    assert [camera.name for camera in record.episode.cameras] == ["images0"]
    assert any("camera images1 is left out" in warning for warning in record.warnings)
    with pytest.raises(SourceError, match=r"neither JPEG nor PNG.*im_0.jpg"):
        bad.load()


def test_pictures_without_a_description_and_data_of_others_are_no_episodes(tmp_path: Path) -> None:
    write_images(tmp_path / "plots", ["loss_1.png", "loss_2.png"])
    (tmp_path / "plots" / "results.json").write_text("{}")
    write_images(tmp_path / "previews", ["a_1.png", "a_2.png"])
    (tmp_path / "previews" / "task.txt").write_text("x")
    (tmp_path / "previews" / "demo.hdf5").write_bytes(b"")
    for number in range(2):
        write_images(tmp_path / "set" / f"episode_{number}", ["0.png", "1.png"])
    (tmp_path / "set" / "metadata.json").write_text("{}")
    assert not image_episodes.recognises(str(tmp_path))
