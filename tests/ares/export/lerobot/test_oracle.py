"""lerobot itself opens what we export; needs the Python of a lerobot 0.4.4 environment in ARES_LEROBOT_PYTHON."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares import open as open_workspace
from ares.media import frames_at
from ares.workspace import Workspace
from tests.ingesting import ingest_paths

# Read before the tests' environment is cleaned.
_PYTHON = os.environ.get("ARES_LEROBOT_PYTHON", "")
_SCRIPT = Path(__file__).resolve().parents[4] / "scripts" / "check_lerobot.py"

pytestmark = pytest.mark.skipif(not _PYTHON, reason="no lerobot: name its Python in ARES_LEROBOT_PYTHON")


def open_with_lerobot(folder: Path, frames: Path) -> dict[str, Any]:
    """The description of an exported folder by lerobot itself."""
    command = [_PYTHON, str(_SCRIPT), str(folder), "--frames-out", str(frames)]
    process = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HOME": str(frames.parent)}
    )
    assert process.returncode == 0, process.stderr[-4000:]
    opened: dict[str, Any] = json.loads(process.stdout)
    return opened


def digest(values: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, np.float32).tobytes()).hexdigest()


def check(ws: Workspace, opened: dict[str, Any], frames: Path, least_psnr: float) -> None:
    """Every episode with its task, its exact signals, and pictures near the source's."""
    for entry in opened["episode"]:
        episode, trajectory = (
            ws.stores.tables.episodes.get_episode(entry["id"]),
            ws.stores.tables.trajectories.get(entry["id"]),
        )
        assert (entry["length"], entry["task"]) == (episode.num_steps, episode.instruction)
        for name, signal in {"observation.state": trajectory.state, "action": trajectory.action}.items():
            assert (f"{name}_sha256" in entry) == (signal is not None)
            if signal:
                assert entry[f"{name}_sha256"] == digest(signal.values), f"{name} of {entry['id']}"
    pictures = np.load(frames)
    for name in pictures.files:
        id, key, step = name.split("|")
        episode = ws.stores.tables.episodes.get_episode(id)
        camera = episode.camera(key.removeprefix("observation.images."))
        source = frames_at(camera.media, [int(step) / episode.rate_hz])[0].astype(np.float64)
        error = np.mean((pictures[name] - source) ** 2)
        assert 10 * np.log10(255**2 / max(error, 1e-9)) > least_psnr, name


@pytest.mark.parametrize(("name", "least_psnr"), [("rlds", 30.0), ("video", 45.0)])
def test_lerobot_opens_the_samples(
    sample_workspace: Workspace, tmp_path: Path, name: str, least_psnr: float
) -> None:
    report = sample_workspace.export(sample_workspace.sets[name], tmp_path / "out", quiet=True)
    opened = open_with_lerobot(tmp_path / "out", tmp_path / "frames.npz")
    assert (opened["episodes"], opened["frames"], len(opened["tasks"])) == (
        12,
        report.frames,
        6,
    )
    check(sample_workspace, opened, tmp_path / "frames.npz", least_psnr)


def test_lerobot_opens_the_real_bridge_sample(shared_data: Path, tmp_path: Path) -> None:
    ws = open_workspace(tmp_path / "ws", create=True)
    ingest_paths(ws.stores, [str(shared_data / "bridge_rlds")], quiet=True)
    selection = ws.sets.create("bridge", ws.stores.tables.episodes.ids("duplicate_of IS NULL"), {})
    report = ws.export(selection, tmp_path / "out", quiet=True)
    assert report.left_out[0] == "camera image_3 of bridge_dataset: black in every episode"
    opened = open_with_lerobot(tmp_path / "out", tmp_path / "frames.npz")
    assert (opened["episodes"], opened["frames"], opened["fps"]) == (
        25,
        250,
        5,
    )
    assert len([name for name in opened["features"] if name.startswith("observation.images.")]) == 3
    assert len(opened["tasks"]) == report.tasks
    check(ws, opened, tmp_path / "frames.npz", 28.0)
