"""`ares status` says where the stamps of episodes have another rate than they claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.workspaces import CommandResult


def test_status_says_how_many_episodes_have_stamps_of_another_rate_than_they_claim(
    tmp_path: Path, run_ares: Callable[..., CommandResult]
) -> None:
    data = tmp_path / "lab"
    for name, rate_hz in (("slow", 18.5), ("good", 20.0)):
        (data / name).mkdir(parents=True)
        for number in range(2):
            values = np.random.default_rng(number).normal(size=(60, 2)).astype("float32")
            stamps = np.arange(60) / rate_hz
            np.savez(data / name / f"episode_{number}.npz", state=values, action=values, timestamps=stamps)
            (data / name / f"episode_{number}.json").write_text('{"fps": 20}')
    assert run_ares("ingest", data, "-w", tmp_path / "ws").status == 0
    out = run_ares("status", "-w", tmp_path / "ws").out
    (line,) = [line for line in out.splitlines() if "18.5 Hz" in line]
    assert line.split() == ["lab", "2", "20", "Hz", "18.5", "Hz"]
    (name,) = run_ares("status", "-w", tmp_path / "ws", "--json").json["clocks"]
    assert name == "lab"
