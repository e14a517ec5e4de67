"""Values and frames equal those of lerobot 0.4.4, run by the Python that ARES_LEROBOT_PYTHON names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Record
from ares.media import frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.lerobot import lerobot

# Read before the tests' environment is cleaned.
_PYTHON = os.environ.get("ARES_LEROBOT_PYTHON", "")

pytestmark = pytest.mark.skipif(not _PYTHON, reason="no lerobot: name its Python in ARES_LEROBOT_PYTHON")

# Every row of the numbers, and the frames of the first, middle and last step of each episode.
_SCRIPT = """
import sys
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

dataset = LeRobotDataset("local/check", root=sys.argv[1], video_backend="pyav")
table = dataset.hf_dataset.with_format("numpy")[:]
made = {name: np.asarray(table[name]) for name in ("observation.state", "action", "timestamp") if name in table}
for number, row in enumerate(dataset.meta.episodes):
    start, stop = row["dataset_from_index"], row["dataset_to_index"]
    for index in sorted({start, (start + stop) // 2, stop - 1}):
        item = dataset[index]
        made[f"task|{number}"] = np.array(item["task"])
        for key in dataset.meta.camera_keys:
            picture = (item[key].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
            made[f"frame|{number}|{key}|{index - start}"] = picture
np.savez(sys.argv[2], **made)
"""


def compare(folder: Path, scratch: Path) -> None:
    """Read a dataset with both, and hold one to the other."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HOME": str(scratch)}
    command = [_PYTHON, "-c", _SCRIPT, str(folder), str(scratch / "seen.npz")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **offline})
    assert done.returncode == 0, done.stderr[-4000:]
    seen = np.load(scratch / "seen.npz")
    (source,) = lerobot.open(str(folder), SourceOptions())
    records = [item.load() for item in source.items]
    for name in ("observation.state", "action"):
        values = [getattr(record.trajectory, name.removeprefix("observation.")) for record in records]
        assert (name in seen) == (values[0] is not None)
        if name in seen:
            assert np.array_equal(np.concatenate([record.values for record in values]), seen[name]), name
    times = np.concatenate([record.trajectory.timestamps for record in records])
    assert np.allclose(times, seen["timestamp"].ravel(), rtol=0, atol=1e-4)
    frames = [name for name in seen.files if name.startswith("frame|")]
    assert len(frames) >= 3 * len(records)
    for name in frames:
        _, number, key, step = name.split("|")
        assert np.array_equal(shown(records[int(number)], key, int(step)), seen[name]), name
    assert [record.episode.instruction for record in records] == [
        str(seen[f"task|{number}"]) for number in range(len(records))
    ]


def shown(record: Record, key: str, step: int) -> NDArray[np.uint8]:
    camera = record.episode.camera(key.removeprefix("observation.images."))
    picture: NDArray[np.uint8] = frames_at(camera.media, [step / record.episode.rate_hz])[0]
    return picture


def test_real_sample(shared_data: Path, tmp_path: Path) -> None:
    compare(shared_data / "g1_bottle_lerobot_v30", tmp_path)


_IMAGES = """
import sys
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

numbers = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
image = {"dtype": "image", "shape": (24, 32, 3), "names": ["height", "width", "channels"]}
features = {"observation.state": numbers, "action": numbers, "observation.images.front": image}
dataset = LeRobotDataset.create("local/made", fps=10, features=features, root=sys.argv[1], use_videos=False)
chance = np.random.default_rng(0)
for length in (5, 4, 9):
    for _ in range(length):
        frame = {"observation.state": chance.random(2, np.float32), "action": chance.random(2, np.float32)}
        frame["observation.images.front"] = chance.integers(0, 256, (24, 32, 3), np.uint8)
        dataset.add_frame(frame | {"task": "push"})
    dataset.save_episode()
dataset.finalize()
"""


def test_images_that_lerobot_itself_wrote(tmp_path: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HOME": str(tmp_path)}
    command = [_PYTHON, "-c", _IMAGES, str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **offline})
    assert done.returncode == 0, done.stderr[-4000:]
    compare(tmp_path / "made", tmp_path)
