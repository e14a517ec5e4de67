"""`ares fix`: a copy with corrected values, every change listed; the source stays, and so do the videos."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import ares
from tests.app.cli.conftest import Refused
from tests.app.cli.motion_dataset import NAMES, random_motions, write_motions
from tests.thinning import some_by_day
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]

_KILLED = """
import os, signal, sys
from ares.export.lerobot.writer import LeRobotWriter
LeRobotWriter.finish = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
from ares_app.cli.main import main
main(sys.argv[1:])
"""


def _motions(seed: int) -> list[NDArray[np.float64]]:
    """Motions that are smooth over some steps: sums of the random ones."""
    return [np.cumsum(motion, axis=0) / 10 for motion in random_motions(seed)]


def _faulty(folder: Path, seed: int = 5) -> Path:
    """Four episodes; 0: gaps of one and two steps, 1: a spike, 2: a gap of five steps, 3: clean."""
    write_motions(folder, _motions(seed))
    _set_state(folder, 0, {(60, 1): np.nan, (100, 2): np.inf, (101, 2): np.inf})
    _set_state(folder, 1, {(80, 0): 1.0}, adds=True)
    _set_state(folder, 2, {(step, 1): np.nan for step in range(150, 155)})
    return folder


def _set_state(
    folder: Path, episode: int, values: dict[tuple[int, int], float], *, adds: bool = False
) -> None:
    path = folder / "data" / "chunk-000" / f"episode_{episode:06d}.parquet"
    table = pq.read_table(path)
    state = np.array(table["observation.state"].to_pylist(), np.float32)
    for place, value in values.items():
        state[place] = state[place] + value if adds else value
    number = table.schema.get_field_index("observation.state")
    column = pa.array(state.tolist(), pa.list_(pa.float32()))
    pq.write_table(table.set_column(number, "observation.state", column), path)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _exported(folder: Path) -> dict[str, dict[str, NDArray[np.float32]]]:
    """State and action of each episode by its key in the source."""
    lines = (folder / "manifest.episodes.jsonl").read_text().splitlines()
    keys = {line["episode_id"]: line["key"] for line in map(json.loads, lines)}
    data = pq.read_table(folder / "data").to_pylist()
    return {
        keys[row["ares/episode_id"]]: {
            name: np.array([step[name] for step in data[row["dataset_from_index"] : row["dataset_to_index"]]])
            for name in ("observation.state", "action")
        }
        for row in pq.read_table(folder / "meta" / "episodes").to_pylist()
    }


@dataclass
class Fixed:
    """A dataset with faults, its copy and the report; one episode is left out."""

    source: Path
    copy: Path
    before: dict[str, bytes]
    document: dict[str, Any]


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Fixed:
    folder = tmp_path_factory.mktemp("fixed")
    source, copy = _faulty(folder / "faulty"), folder / "copy"
    before = _contents(source)
    report = ares.fix(source, copy, quiet=True)
    return Fixed(source, copy, before, json.loads(json.dumps(report.to_json(), default=str)))


def test_the_copy_differs_from_the_source_by_the_listed_changes(fixed: Fixed) -> None:
    assert _contents(fixed.source) == fixed.before
    changes = {(c["episode"], c["dimension"], c["step"]): c for c in fixed.document["changes"]}
    assert set(changes) == {
        ("0", "elbow", 60), ("0", "wrist", 100), ("0", "wrist", 101), ("1", "shoulder", 80),
    }  # fmt: skip
    assert [changes[place]["old"] for place in sorted(changes)][:3] == [None] * 3
    assert changes["0", "wrist", 100]["seconds"] == pytest.approx(100 / 30)
    exported = _exported(fixed.copy)
    assert set(exported) == {"0", "1", "3"}
    for key, signals in exported.items():
        table = pq.read_table(fixed.source / "data" / "chunk-000" / f"episode_{int(key):06d}.parquet")
        for name, values in signals.items():
            expected = np.array(table[name].to_pylist(), np.float32)
            for (episode, dimension, step), change in changes.items():
                if (episode, name) == (key, "observation.state"):
                    expected[step, NAMES.index(dimension)] = change["new"]
            np.testing.assert_array_equal(values.astype(np.float32), expected)


def test_the_check_of_the_copy_no_longer_names_what_was_corrected(fixed: Fixed) -> None:
    codes = {
        row["code"]: (row["before"], row["corrected"], row["left"], row["after"])
        for row in fixed.document["codes"]
    }
    assert (codes["A001"], codes["A004"]) == ((2, 1, 1, 0), (1, 1, 0, 0))
    assert fixed.document["new_codes"] == []
    assert [(part["episode"], part["code"]) for part in fixed.document["left"]] == [("2", "A001")]
    assert fixed.document["export"]["failed"] == 1
    assert ares.check(fixed.copy).is_clean


def test_a_dry_run_lists_the_same_changes_and_writes_nothing(
    fixed: Fixed, tmp_path: Path, run_ares: Run
) -> None:
    done = run_ares("fix", fixed.source, tmp_path / "copy", "--dry-run", "--json")
    assert (done.status, done.json["changes"]) == (1, fixed.document["changes"])
    assert (done.json["written"], done.json["export"], done.json["after"]) == (False, None, None)
    assert not list(tmp_path.iterdir())


def test_a_dataset_whose_faults_are_all_corrected_gives_status_0(tmp_path: Path, run_ares: Run) -> None:
    source = write_motions(tmp_path / "faulty", _motions(6))
    _set_state(source, 3, {(60, 1): np.nan})
    done = run_ares("fix", source, tmp_path / "copy", "-q")
    assert done.status == 0 and "1 change in 1 of 4 episodes" in done.out
    assert "its check names nothing new" in done.out and "not finite" in done.out


def test_what_cannot_be_done_is_refused_in_one_line(tmp_path: Path, refused: Refused) -> None:
    source, there, new = write_motions(tmp_path / "one", _motions(7)), tmp_path / "there", tmp_path / "new"
    there.mkdir()
    for name, seed in (("a", 8), ("b", 9)):
        write_motions(tmp_path / "both" / name, _motions(seed))
    for message, arguments in {
        "the folder of a corrected copy exists already": (source, there),
        "a corrected copy lies outside its source": (source, source / "copy"),
        "one dataset at a time is corrected": (tmp_path / "both", new),
        "nothing": (source, new, "--format", "nothing"),
    }.items():
        assert message in refused("fix", *arguments)
    assert not new.exists()


@pytest.mark.parametrize("format", some_by_day(["lerobot-v2.1", "rlds", "parquet"], 2))
def test_every_format_holds_the_corrected_values(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = write_motions(tmp_path / "faulty", _motions(10))
    _set_state(source, 2, {(60, 1): np.nan})
    report = ares.fix(source, "~/copy", export_format=format, quiet=True)
    ((_, change),) = report.changes
    assert report.export is not None and report.export.episodes == 4
    assert report.is_clean and report.after is not None
    if format == "parquet":
        values = pq.read_table(tmp_path / "copy" / "steps.parquet")["state"].to_pylist()
        assert np.isfinite(values).all()
    else:
        with ares.open(tmp_path / "workspace", create=True) as workspace:
            workspace.ingest(tmp_path / "copy", quiet=True)
            states = [episode.trajectory.state for episode in workspace.episodes]
        values = [state.values[change.step, change.number] for state in states if state is not None]
        assert np.float32(change.new) in values
    assert change.old is None


def test_videos_are_copied_packet_by_packet(tmp_path: Path, shared_data: Path) -> None:
    source, copy = tmp_path / "g1", tmp_path / "copy"
    shutil.copytree(shared_data / "g1_bottle_lerobot_v30", source)
    path = source / "data" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    state = np.array(table["observation.state"].to_pylist(), np.float32)
    state[200, 3] = np.nan
    number = table.schema.get_field_index("observation.state")
    column = pa.array(state.tolist(), table.schema.field(number).type)
    pq.write_table(table.set_column(number, table.schema.field(number), column), path)
    report = ares.fix(source, copy, quiet=True)
    assert [change.step for _, change in report.changes] == [200]
    assert report.export is not None
    assert (report.export.copied_packets, report.export.encoded_frames) == (table.num_rows, 0)
    assert _packets(copy) <= _packets(source)
    assert len(_packets(copy)) == len(_packets(source))


def _packets(folder: Path) -> set[bytes]:
    packets = set()
    for path in folder.rglob("*.mp4"):
        with av.open(path) as container:
            packets |= {bytes(packet) for packet in container.demux(video=0) if packet.size}
    return packets


@pytest.mark.slow
def test_a_killed_run_leaves_no_copy_that_looks_whole(
    tmp_path: Path, run_ares: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source, copy = _faulty(tmp_path / "faulty"), tmp_path / "copy"
    before = _contents(source)
    command = ["fix", str(source), str(copy), "-q"]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *command], capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not copy.exists()
    assert _contents(source) == before
    done = run_ares(*command)
    assert done.status == 1 and "its check names nothing new" in done.out
    assert "failed: 1 episode not in the export" in done.out and " set" not in done.out
    assert sorted(_exported(copy)) == ["0", "1", "3"]
