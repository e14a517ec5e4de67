"""Files of one time step each are put together to the episodes that they are, with their pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import all_frames
from tests.generators.step_files import make_step_folder
from tests.ingesting import open_sources


@pytest.mark.parametrize("seed", range(5))
def test_steps_are_put_together_to_episodes(seed: int, tmp_path: Path) -> None:
    folder = make_step_folder(tmp_path / "d", seed)
    (source,) = open_sources([str(folder.path)])
    records = [item.load() for item in source.items]
    assert source.total == len(records) == len(folder.actions)
    for number, record in enumerate(records):
        assert record.trajectory.action is not None
        np.testing.assert_array_equal(record.trajectory.action.values, folder.actions[number])
        assert [camera.name for camera in record.episode.cameras] == ["rgb_static"] * bool(folder.pictures)
        for camera in record.episode.cameras:
            np.testing.assert_array_equal(list(all_frames(camera.media)), folder.pictures[number])


@pytest.mark.parametrize("seed", range(6))
def test_an_episode_that_lacks_a_step_is_not_read(seed: int, tmp_path: Path) -> None:
    folder = make_step_folder(tmp_path / "d", seed)
    files = sorted(folder.first_files[0].parent.glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)
    files[2].unlink()
    (source,) = open_sources([str(folder.path)])
    items = list(source.items)
    if not folder.has_ranges:  # the gap then parts the episode in two, and the source says how it parts them
        assert len(items) == len(folder.actions) + 1
        assert "one up to each gap" in source.warnings[0]
        return
    with pytest.raises(SourceError, match="files of steps are missing: 1 of"):
        items[0].load()
    assert items[1].load().episode.num_steps == len(folder.actions[1])


def test_labels_name_episodes_of_steps_by_their_first_file(tmp_path: Path) -> None:
    folder = make_step_folder(tmp_path / "d", 1)
    rows = [json.dumps({"episode": path.stem, "success": True}) for path in folder.first_files]
    (folder.path / "labels.jsonl").write_text("\n".join(rows))
    (source,) = open_sources([str(folder.path)])
    assert [item.load().episode.success for item in source.items] == [True] * len(folder.actions)


def test_the_reported_folder_is_two_episodes(shared_data: Path) -> None:
    (source,) = open_sources([str(shared_data / "reported" / "calvin23")])
    shapes = [
        record.trajectory.action.values.shape
        for record in (item.load() for item in source.items)
        if record.trajectory.action
    ]
    assert shapes == [(20, 7), (20, 7)]
