"""Files of one time step each are put together to the episodes that they are, with their pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.errors import SourceError
from ares.media import all_frames
from tests.ingesting import open_sources

LENGTHS = (5, 7)


@dataclass(frozen=True)
class Steps:
    """How the files are called, how many numbers are free between two episodes, whether a table has their ranges."""

    pattern: str = "training/episode_{:07d}.npz"
    first: int = 358_482
    gap: int = 3
    has_ranges: bool = True
    has_camera: bool = True


CASES = [
    Steps(),
    Steps(gap=0, has_camera=False),
    Steps("t_{}.npz", first=7, has_ranges=False),
    Steps("data/part_1/frame-{:06d}.npz", first=0, gap=1),
]


def write_steps(folder: Path, steps: Steps) -> tuple[list[NDArray[Any]], list[NDArray[Any]], list[Path]]:
    """Files of two episodes; their actions, their pictures, and the file of the first step of each."""
    rng, number = np.random.default_rng(0), steps.first
    actions = [rng.normal(size=(length, 7)).astype(np.float32) for length in LENGTHS]
    pictures = [rng.integers(0, 255, (length, 20, 24, 3), np.uint8) for length in LENGTHS]
    ranges, first_files = [], []
    for own, images in zip(actions, pictures, strict=True):
        ranges.append((number, number + len(own) - 1))
        first_files.append(folder / steps.pattern.format(number))
        first_files[-1].parent.mkdir(parents=True, exist_ok=True)
        for action, image in zip(own, images, strict=True):
            camera = {"rgb_static": image} if steps.has_camera else {}
            path = folder / steps.pattern.format(number)
            np.savez(
                path, actions=action, robot_obs=rng.normal(size=15), scene_obs=rng.normal(size=24), **camera
            )
            number += 1
        number += steps.gap
    if steps.has_ranges:
        np.save(first_files[0].with_name("ep_start_end_ids.npy"), np.array(ranges))
    return actions, pictures, first_files


@pytest.mark.parametrize("steps", CASES)
def test_steps_are_put_together_to_episodes(steps: Steps, tmp_path: Path) -> None:
    actions, pictures, _ = write_steps(tmp_path / "d", steps)
    (source,) = open_sources([str(tmp_path / "d")])
    records = [item.load() for item in source.items]
    assert source.total == len(records) == 2
    for record, action, images in zip(records, actions, pictures, strict=True):
        assert record.trajectory.action is not None
        np.testing.assert_array_equal(record.trajectory.action.values, action)
        assert [camera.name for camera in record.episode.cameras] == ["rgb_static"] * steps.has_camera
        for camera in record.episode.cameras:
            np.testing.assert_array_equal(list(all_frames(camera.media)), images)


@pytest.mark.parametrize("steps", CASES)
def test_an_episode_that_lacks_a_step_is_not_read(steps: Steps, tmp_path: Path) -> None:
    write_steps(tmp_path / "d", steps)
    (tmp_path / "d" / steps.pattern.format(steps.first + 2)).unlink()
    (source,) = open_sources([str(tmp_path / "d")])
    items = list(source.items)
    if not steps.has_ranges:  # the gap then parts the episode in two, and the source says how it parts them
        assert len(items) == 3
        assert "one up to each gap" in source.warnings[0]
        return
    with pytest.raises(SourceError, match="files of steps are missing: 1 of"):
        items[0].load()
    assert items[1].load().episode.num_steps == LENGTHS[1]


def test_labels_name_episodes_of_steps_by_their_first_file(tmp_path: Path) -> None:
    _, _, first_files = write_steps(tmp_path / "d", Steps())
    rows = [json.dumps({"episode": path.stem, "success": True}) for path in first_files]
    (tmp_path / "d" / "labels.jsonl").write_text("\n".join(rows))
    (source,) = open_sources([str(tmp_path / "d")])
    assert [item.load().episode.success for item in source.items] == [True, True]


def test_the_reported_folder_is_two_episodes(shared_data: Path) -> None:
    (source,) = open_sources([str(shared_data / "reported" / "calvin23")])
    shapes = [
        record.trajectory.action.values.shape
        for record in (item.load() for item in source.items)
        if record.trajectory.action
    ]
    assert shapes == [(20, 7), (20, 7)]
