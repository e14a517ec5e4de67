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
from ares.export.lerobot import export_lerobot
from ares.media.frames import frames_at
from ares.workspace import Workspace
from ingest.load import load

# Read before the tests' environment is cleaned.
_PYTHON = os.environ.get("ARES_LEROBOT_PYTHON", "")
_SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "check_lerobot.py"

pytestmark = pytest.mark.skipif(not _PYTHON, reason="no lerobot: name its Python in ARES_LEROBOT_PYTHON")


def opened(folder: Path, frames: Path) -> dict[str, Any]:
    """What lerobot sees in an exported folder."""
    command = [_PYTHON, str(_SCRIPT), str(folder), "--frames-out", str(frames)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HOME": str(frames.parent)}
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def digest(values: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, np.float32).tobytes()).hexdigest()


def check(ws: Workspace, seen: dict[str, Any], frames: Path, least_psnr: float) -> None:
    """Every episode with its task, its exact signals, and pictures near the source's."""
    for told in seen["episode"]:
        episode, trajectory = ws.episode(told["id"]), ws.trajectory(told["id"])
        assert (told["length"], told["task"]) == (episode.num_steps, episode.instruction)
        for name, signal in {"observation.state": trajectory.state, "action": trajectory.action}.items():
            assert (f"{name}_sha256" in told) == (signal is not None)
            if signal:
                assert told[f"{name}_sha256"] == digest(signal.values), f"{name} of {told['id']}"
    pictures = np.load(frames)
    for name in pictures.files:
        id, key, step = name.split("|")
        episode = ws.episode(id)
        camera = episode.camera(key.removeprefix("observation.images."))
        source = frames_at(camera.media, [int(step) / episode.rate_hz])[0].astype(np.float64)
        error = np.mean((pictures[name] - source) ** 2)
        assert 10 * np.log10(255**2 / max(error, 1e-9)) > least_psnr, name


@pytest.mark.parametrize(("name", "least_psnr"), [("rlds", 30.0), ("video", 45.0)])
def test_lerobot_opens_the_samples(
    sample_workspace: Workspace, tmp_path: Path, name: str, least_psnr: float
) -> None:
    report = export_lerobot(
        sample_workspace, sample_workspace.sets[name], tmp_path / "out", lambda count: None
    )
    seen = opened(tmp_path / "out", tmp_path / "frames.npz")
    assert (seen["episodes"], seen["frames"], len(seen["tasks"])) == (12, report.frames, 6)
    check(sample_workspace, seen, tmp_path / "frames.npz", least_psnr)


def test_lerobot_opens_both_halves_of_a_mixed_set(sample_workspace: Workspace, tmp_path: Path) -> None:
    report = export_lerobot(
        sample_workspace, sample_workspace.sets["all"], tmp_path / "out", lambda count: None
    )
    for one in report.datasets:
        seen = opened(tmp_path / "out" / str(one["path"]), tmp_path / "frames.npz")
        assert (seen["episodes"], seen["frames"]) == (one["episodes"], one["frames"])


def test_lerobot_opens_the_real_bridge_sample(shared_data: Path, tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"))
    load(ws, [str(shared_data / "bridge_rlds")], quiet=True)
    made = ws.sets.create("bridge", ws.tables.episodes.ids("duplicate_of IS NULL"), {})
    report = export_lerobot(ws, made, tmp_path / "out", lambda count: None)
    assert report.left_out[0] == "camera image_3 of bridge_dataset: black in every episode"
    seen = opened(tmp_path / "out", tmp_path / "frames.npz")
    assert (seen["episodes"], seen["frames"], seen["fps"]) == (25, 250, 5)
    assert len([name for name in seen["features"] if name.startswith("observation.images.")]) == 3
    assert len(seen["tasks"]) == report.tasks
    check(ws, seen, tmp_path / "frames.npz", 28.0)
