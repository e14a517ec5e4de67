"""`ares check`: what it prints and returns for clean data, for faults, and where nothing can be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import ares
from app.cli.main import main

STEPS, RATE_HZ = 240, 30.0
NAMES = ("shoulder", "elbow", "wrist")


def _write_dataset(folder: Path, episodes: list[NDArray[np.float64]]) -> Path:
    """A LeRobot v2.1 dataset without videos, whose state follows the action by three steps."""
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [len(NAMES)], "names": list(NAMES)}
    info = {
        "codebase_version": "v2.1",
        "total_episodes": len(episodes),
        "chunks_size": 1000,
        "fps": RATE_HZ,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "features": {"observation.state": vector, "action": vector},
    }
    lines = [{"episode_index": n, "tasks": ["wave"], "length": STEPS} for n in range(len(episodes))]
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "meta" / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "meta" / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "wave"}) + "\n")
    for number, action in enumerate(episodes):
        state = action[np.clip(np.arange(STEPS) - 3, 0, None)]
        columns = {
            "observation.state": pa.array(state.tolist(), pa.list_(pa.float32())),
            "action": pa.array(action.tolist(), pa.list_(pa.float32())),
            "timestamp": np.arange(STEPS) / RATE_HZ,
            "frame_index": np.arange(STEPS),
            "episode_index": np.full(STEPS, number),
            "task_index": np.zeros(STEPS, dtype=int),
        }
        pq.write_table(pa.table(columns), folder / "data" / "chunk-000" / f"episode_{number:06d}.parquet")
    return folder


def _motions(number: int) -> list[NDArray[np.float64]]:
    """Smooth motions that never repeat: white noise, smoothed twice over a third of a second."""
    rng = np.random.default_rng(number)
    window = np.ones(10) / 10
    noise = rng.normal(0, 3, (4, len(NAMES), STEPS + 18))
    smooth = [[np.convolve(np.convolve(n, window, "valid"), window, "valid") for n in e] for e in noise]
    return [np.array(episode).T + rng.normal(0, 0.0005, (STEPS, len(NAMES))) for episode in smooth]


def test_clean_data_are_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _write_dataset(tmp_path / "clean", _motions(1))
    assert main(["check", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "4 episodes" in text
    assert "4 episodes checked: no faults" in text


def test_a_not_finite_value_is_named_with_its_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    motions = _motions(2)
    motions[2][60, 1] = np.nan
    folder = _write_dataset(tmp_path / "faulty", motions)
    assert main(["check", str(folder), "--json"]) == 1
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    (count,) = [count for count in dataset["findings"] if count["code"] == "A001"]
    assert count["episodes"] == 1
    assert count["dimensions"] == {"elbow": 1}
    assert {round(worst["seconds"], 2) for worst in count["worst"]} == {2.0, 2.1}


def test_python_gives_the_same_report(tmp_path: Path) -> None:
    report = ares.check(_write_dataset(tmp_path / "clean", _motions(3)))
    assert report.num_episodes == 4
    assert report.is_clean
    (dataset,) = report.datasets
    assert dataset.lag_seconds == pytest.approx(3 / RATE_HZ, abs=1 / RATE_HZ)
    assert ares.check(dataset.path, limit=1).num_episodes == 1


def test_nothing_to_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["check", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("ares check: ")
