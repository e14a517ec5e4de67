"""Round trips of every format: what is ingested, exported and ingested again is the same, or the report names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.clock import camera_seconds
from ares.curation import CurationSet
from ares.episode import Camera, Episode, Trajectory
from ares.export import ExportReport
from ares.media import frames_at
from ares.registry import ingesters
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.contracts.conftest import MakeSample
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

# Of pictures as cameras take them, at small sizes, which H.264 keeps worst; noise of every pixel would give 9 dB.
LEAST_PSNR = 30.0
EPISODES = 4


@pytest.fixture(
    scope="module", params=some_by_day(ingesters.names(), kept=("hdf5", "lerobot", "mcap", "rlds", "video"))
)
def source(
    request: pytest.FixtureRequest,
    make_samples: dict[str, MakeSample],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Workspace, CurationSet]]:
    """A workspace with the sample of a format, and a set of its first episodes; not to be written to."""
    if request.param not in make_samples:
        pytest.skip(f"no sample of format {request.param}: enter one in tests/contracts/conftest.py")
    place = tmp_path_factory.mktemp("source")
    folder = make_samples[request.param](place)
    workspace = open_workspace(str(place / "first"), Settings())
    ingest_paths(workspace.stores, [str(folder)], format=request.param, quiet=True)
    ids = sorted(workspace.stores.tables.episodes.ids())[:EPISODES]
    yield workspace, workspace.sets.create("some", ids, {})
    workspace.close()


def export(workspace: Workspace, selection: CurationSet, format: str, folder: Path) -> ExportReport:
    report: ExportReport = workspace.export(selection, folder, format=format, quiet=True)
    assert report.failed == 0, report.failures
    return report


def episodes_of(workspace: Workspace) -> Iterator[tuple[Episode, Trajectory]]:
    for episode in workspace.stores.tables.episodes.read():
        trajectory = workspace.stores.tables.trajectories.get(episode.episode_id)
        assert trajectory is not None
        yield episode, trajectory


def first_ids(folder: Path) -> dict[tuple[str, int], str]:
    """The id of the source of each exported episode, by the folder of its dataset and its number."""
    lines = (folder / "manifest.episodes.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {(str(folder / row["path"]), row["index"]): row["episode_id"] for row in rows}


def export_number(root: str, episode: Episode) -> int:
    """The number of an episode in its exported dataset; a TFRecord file has the episodes in order."""
    shard, _, number = episode.key.rpartition("/")
    if not shard:
        return int(number)
    splits = json.loads((Path(root) / "dataset_info.json").read_text())["splits"]
    assert len(splits) == 1 and shard == "00000-of-00001"
    return int(number)


def frames(episode: Episode, trajectory: Trajectory, camera: Camera) -> Any:
    """The frames of the first, a middle and the last step."""
    steps = sorted({0, episode.num_steps // 2, episode.num_steps - 1})
    stamps = trajectory.timestamps
    return np.stack(
        list(frames_at(camera.media, camera_seconds(episode, camera, stamps[steps].tolist(), lambda: stamps)))
    )


def psnr(one: Any, other: Any) -> float:
    error = np.mean((one.astype(np.float64) - other) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))


def check_signals(before: Trajectory, after: Trajectory, report: ExportReport) -> None:
    for name in ("state", "action"):
        old, new = getattr(before, name), getattr(after, name)
        assert (old is None) == (new is None), name
        if old is not None:
            assert old.names == new.names and np.array_equal(old.values, new.values), name
    if before.reward is not None and not any("reward" in line for line in report.left_out):
        assert after.reward is not None and np.array_equal(before.reward, after.reward)
    assert len(before.timestamps) == len(after.timestamps)
    shift = float(np.abs(before.timestamps - after.timestamps).max())
    assert shift <= 1e-3 or shift <= max(entry["largest_shift_seconds"] for entry in report.changed) + 1e-6  # type: ignore[type-var, operator]
    for name in before.extra.keys() - after.extra.keys():
        assert any(line.startswith(f"signal {name} of ") for line in report.left_out), name


def check_texts_and_rate(before: Episode, after: Episode, report: ExportReport) -> None:
    assert (before.rate_source == "assumed") == (after.rate_source == "assumed")
    if after.format != "rlds":  # which stores no stamps
        assert (after.measured_rate_hz is None) == (after.rate_source == "assumed")
    for name in before.metadata.keys() - after.metadata.keys():
        assert any(line.startswith("metadata of ") and name in line for line in report.left_out), name
    if before.instructions != after.instructions:
        assert any(line.startswith("further instructions of ") for line in report.left_out)
    if before.robot != after.robot:
        assert any(line.startswith("robot of ") for line in report.left_out)


def check_pixels(
    before: tuple[Episode, Trajectory], after: tuple[Episode, Trajectory], report: ExportReport
) -> None:
    cameras = {camera.name: camera for camera in after[0].cameras}
    for camera in before[0].cameras:
        if camera.name not in cameras:
            assert any(line.startswith(f"camera {camera.name} of ") for line in report.left_out), camera.name
            continue
        quality = psnr(frames(*before, camera), frames(*after, cameras[camera.name]))
        if quality < float("inf"):
            assert quality >= LEAST_PSNR and report.reencoded, (camera.name, quality)


# v2.1 writes the same columns and packets into other files: a format of videos, of images and of neither will do.
_FORMATS = [
    *((source, format) for source in ingesters.names() for format in ("lerobot", "rlds")),
    *((source, "lerobot-v2.1") for source in ("video", "hdf5", "csv")),
]


# By day each source once, and each of the three formats.
@pytest.mark.parametrize(("source", "format"), some_by_day(_FORMATS, 5, rows=True), indirect=["source"])
def test_an_export_is_read_back_as_it_was(
    format: str, source: tuple[Workspace, CurationSet], tmp_path: Path
) -> None:
    workspace, selection = source
    report = export(workspace, selection, format, tmp_path / "export")
    again = open_workspace(str(tmp_path / "second"), Settings())
    counts = ingest_paths(again.stores, [str(tmp_path / "export")], quiet=True).counts
    assert (counts.kept, counts.failed) == (selection.episodes, 0)
    before = {episode.episode_id: (episode, trajectory) for episode, trajectory in episodes_of(workspace)}
    ids = first_ids(tmp_path / "export")
    for episode, trajectory in episodes_of(again):
        (root,) = {root for root, _ in ids if episode.source.startswith(f"{root}/")}
        first = before[ids[root, export_number(root, episode)]]
        assert episode.num_steps == first[0].num_steps
        assert (episode.instruction, episode.success) == (first[0].instruction, first[0].success)
        check_texts_and_rate(first[0], episode, report)
        check_signals(first[1], trajectory, report)
        check_pixels(first, (episode, trajectory), report)
    again.close()
    assert bool(report.encoded_frames) == bool(report.reencoded)
    kinds = {camera.media.kind for first in before.values() for camera in first[0].cameras}
    # Packets of an mp4 stay in LeRobot, and images of a TFRecord, Parquet file or folder in RLDS.
    kept = {"tfrecord", "parquet", "images"} if format == "rlds" else {"mp4"}
    assert bool(kinds - kept) == bool(report.encoded_frames)


@pytest.mark.slow
def test_a_parquet_export_has_every_step(source: tuple[Workspace, CurationSet], tmp_path: Path) -> None:
    workspace, selection = source
    report = export(workspace, selection, "parquet", tmp_path / "export")
    steps = pq.read_table(tmp_path / "export" / "steps.parquet").to_pylist()
    written = pq.read_table(tmp_path / "export" / "episodes.parquet", columns=["episode_id"]).to_pylist()
    assert len(written) == selection.episodes == report.episodes
    for episode, trajectory in episodes_of(workspace):
        rows = [row for row in steps if row["episode_id"] == episode.episode_id]
        if {"episode_id": episode.episode_id} not in written:
            continue
        assert [row["timestamp"] for row in rows] == trajectory.timestamps.tolist()
        for name, signal in (("state", trajectory.state), ("action", trajectory.action)):
            stored = signal.values.tolist() if signal else [None] * episode.num_steps
            assert [row[name] for row in rows] == stored, name
        reward = trajectory.reward
        assert [row["reward"] for row in rows] == (
            [None] * episode.num_steps if reward is None else reward.ravel().tolist()
        )
        stored = [
            {name: signal.values[step].tolist() for name, signal in trajectory.extra.items()}
            for step in range(len(rows))
        ]
        assert [dict(row["signals"]) for row in rows] == stored
