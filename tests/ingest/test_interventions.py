"""Where a person acted in place of the policy: read, shown, filtered, exported, and cut to or away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares import open as open_workspace
from ares.export import TrimRequest
from ares.workspace import Workspace
from tests.ares.export.made_episodes import read_rows

STEPS, FLAGGED = 40, (range(10, 20), range(30, 40))


def _write(folder: Path, name: str) -> None:
    folder.mkdir()
    flags = np.zeros(STEPS, bool)
    for part in FLAGGED:
        flags[part] = True
    for number in range(2):
        values = np.random.default_rng(number).random((STEPS, 3), np.float32)
        arrays: dict[str, Any] = {"state": values, "action": values, name: flags & (number == 0)}
        np.savez(folder / f"{number}.npz", **arrays)


@pytest.fixture(params=["is_intervention", "takeover"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """Two episodes of 4 s at 10 Hz, of which the first has two interventions of 1 s: by a known name, or by a spec."""
    _write(tmp_path / "npz", request.param)
    spec: str | Path = ""
    if request.param == "takeover":
        spec = tmp_path / "spec.yaml"
        Path(spec).write_text("intervention: takeover\nreference: lab\nverified: all\n")
    ws = open_workspace(tmp_path / "ws", create=True)
    assert ws.ingest(tmp_path / "npz", rate_hz=10.0, spec=spec, quiet=True).kept == 2
    return ws


def test_flagged_steps_are_segments_a_share_and_a_column(workspace: Workspace, tmp_path: Path) -> None:
    (first,) = workspace.episodes.where("intervention_share = 0.5").ids()
    (other,) = workspace.episodes.where("intervention_share = 0").ids()
    where = "style = 'intervention'"
    rows = workspace.stores.tables.segments.scan(["episode_id", "start_seconds", "stop_seconds"], where)
    spans = sorted(tuple(row.values()) for row in rows.to_pylist())
    assert spans == [
        (first, pytest.approx(1.0), pytest.approx(2.0)),
        (first, pytest.approx(3.0), pytest.approx(4.0)),
    ]
    assert other not in {id for id, *_ in spans}
    workspace.export(workspace.episodes, tmp_path / "out", quiet=True)
    assert sum(float(np.squeeze(row["intervention"])) for row in read_rows(tmp_path / "out")) == 20
    with open_workspace(tmp_path / "again", create=True) as again:
        again.ingest(tmp_path / "out", quiet=True)
        assert len(again.episodes.where("intervention_share = 0.5")) == 1
        assert again.stores.tables.segments.scan(["episode_id"], where).num_rows == 2


@pytest.mark.parametrize(("kept", "frames", "members"), [("only", 20, 2), ("without", 60, 3)])
def test_an_export_is_cut_to_interventions_or_without_them(
    workspace: Workspace, tmp_path: Path, kept: str, frames: int, members: int
) -> None:
    trim = TrimRequest(interventions=kept)
    report = workspace.export(workspace.episodes, tmp_path / "out", trim=trim, quiet=True)
    assert (report.frames, report.episodes) == (frames, members)


def test_spans_of_a_file_are_interventions(tmp_path: Path) -> None:
    _write(tmp_path / "npz", "unknown")
    (tmp_path / "npz" / "spans.csv").write_text(
        "episode,start_seconds,stop_seconds,text,style\n1,0.5,1.5,takeover,intervention\n"
    )
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ws.ingest(tmp_path / "npz", rate_hz=10.0, quiet=True)
        (row,) = ws.episodes.where("intervention_share = 0.25")
        assert row.key.startswith("1")
