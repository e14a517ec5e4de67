"""What is exported keeps its identity: RLDS that is read again is recognised, and an export made twice is equal."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ares.export.base
from ares.export.rlds.exporter import TfdsWriter
from ares.export.rlds.record import RldsRecord
from ares.formats import RecordLocation, read_record, scan_record_file
from ares.store import ids_filter
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ares.export.made_episodes import ingest_again, read_json
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths


def files_of(folder: Path) -> Mapping[str, str]:
    """The hash of each file by its path in a folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def hashes(workspace: Workspace, where: str = "") -> dict[str, str]:
    """The content hash of each episode by its instruction and number of steps."""
    rows = workspace.stores.tables.episodes.read_columns(
        ["episode_id", "content_hash", "instruction", "num_steps"], where
    ).to_pylist()
    return {f"{row['instruction']} {row['num_steps']}": row["content_hash"] for row in rows}


def hashes_of_few(workspace: Workspace) -> dict[str, str]:
    return hashes(workspace, ids_filter(list(workspace.sets.ids(workspace.sets["few"]))))


def test_an_rlds_export_that_is_read_again_is_recognised(sample_workspace: Workspace, tmp_path: Path) -> None:
    """Records that were copied, and records that were written again with every step as it was."""
    report = sample_workspace.export("few", tmp_path / "out", format="rlds", quiet=True)
    assert report.copied_records == 2
    again = ingest_again(tmp_path / "out")
    assert hashes(again) == hashes_of_few(sample_workspace)
    assert not any("ares_content_hash" in episode.metadata for episode in again.stores.tables.episodes.read())


def test_a_lerobot_export_and_an_export_of_it_in_the_other_version_are_recognised(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    """Videos that are copied, and that are encoded from images."""
    sample_workspace.export("few", tmp_path / "one", format="lerobot", quiet=True)
    again = ingest_again(tmp_path / "one")
    assert all(episode.cameras for episode in again.stores.tables.episodes.read())
    assert hashes(again) == hashes_of_few(sample_workspace)
    selection = again.sets.create("all", sorted(again.stores.tables.episodes.ids()), {})
    again.export(selection, tmp_path / "two", format="lerobot-v2.1", quiet=True)
    assert hashes(ingest_again(tmp_path / "two")) == hashes_of_few(sample_workspace)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "format"), [("v3.0", "lerobot-v2.1"), ("v2.1", "lerobot")])
def test_videos_that_are_cut_joined_and_encoded_again_are_recognised(
    ws: Workspace, tmp_path: Path, version: Literal["v3.0", "v2.1"], format: str
) -> None:
    """One camera is turned, so that its frames are encoded; the packets of the other are copied."""
    folder, spec = (
        write_good_folder(tmp_path / "made", version=version, lengths=(6, 9, 7)),
        tmp_path / "a.yaml",
    )
    spec.write_text("reference: seen\ncameras: {front: {turn: 180}}\n")
    ingest_paths(ws.stores, [str(folder)], SourceOptions(spec=str(spec)), quiet=True)
    selection = ws.sets.create("all", sorted(ws.stores.tables.episodes.ids()), {})
    report = ws.export(selection, tmp_path / "out", format=format, quiet=True)
    assert (list(report.reencoded.values()), report.copied_packets) == ([3], 22)
    assert hashes(ingest_again(tmp_path / "out")) == hashes(ws)


@pytest.fixture(scope="module")
def exported_few(sample_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of the two datasets of an export in LeRobot's v2.1; read only."""
    folder = tmp_path_factory.mktemp("few") / "out"
    sample_workspace.export("few", folder, format="lerobot-v2.1", quiet=True)
    return next(path for path in sorted(folder.iterdir()) if (path / "meta").is_dir())


@pytest.mark.slow
@pytest.mark.parametrize("change", ["a number of the state", "the clock", "the video", "the stated hash"])
def test_a_lerobot_export_that_was_changed_is_another(
    sample_workspace: Workspace, exported_few: Path, tmp_path: Path, change: str
) -> None:
    """The stated hash counts only for the rows and videos that were written with it."""
    folder = shutil.copytree(exported_few, tmp_path / "out")
    if change == "the video":
        first, second = sorted(folder.rglob("*.mp4"))[:2]
        shutil.copy(second, first)
    elif change == "the stated hash":
        lines = folder / "meta" / "episodes.jsonl"
        rows = read_json(lines)
        rows[0]["ares/rows_hash"], rows[1]["ares/rows_hash"] = (
            row["ares/rows_hash"] for row in (rows[1], rows[0])
        )
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        column = "timestamp" if change == "the clock" else "action"
        change_one_number(sorted(folder.rglob("*.parquet"))[0], column)
    known, again = hashes(sample_workspace), hashes(ingest_again(folder))
    assert sum(again[name] != known[name] for name in again) == (2 if change == "the stated hash" else 1)


def change_one_number(path: Path, column: str) -> None:
    """Change the last number of a column of a Parquet file in its last bit."""
    table = pq.read_table(path)
    rows = np.array(table[column].to_pylist(), np.float32)
    rows.flat[-1] = np.nextafter(rows.flat[-1], np.float32(9))
    values = pa.array(rows.tolist(), table.schema.field(column).type)
    pq.write_table(
        table.set_column(table.column_names.index(column), table.schema.field(column), values), path
    )


@pytest.mark.slow
@pytest.mark.parametrize("format", ["lerobot", "rlds"])
def test_episodes_at_another_rate_are_others(
    sample_workspace: Workspace, tmp_path: Path, format: str
) -> None:
    sample_workspace.export("few", tmp_path / "out", format=format, fps=5.0, quiet=True)
    again = ingest_again(tmp_path / "out")
    assert not set(hashes(again).values()) & set(hashes(sample_workspace).values())


def test_a_record_that_was_changed_after_the_export_is_another(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    """The stated hash counts only for the bytes that were written with it."""
    sample_workspace.export(sample_workspace.sets["rlds"], tmp_path / "out", format="rlds", quiet=True)
    (dataset,) = (path.parent for path in (tmp_path / "out").rglob("features.json"))
    (shard,) = dataset.glob("*.tfrecord-*")
    name = dataset.parent.name
    writer = TfdsWriter(tmp_path / "changed" / name / "1.0.0", name, "1.0.0")
    for span in scan_record_file(str(shard)):
        assert isinstance(span, RecordLocation)
        payload, middle = read_record(str(shard), span)[0], span.size // 2
        changed = payload[:middle] + bytes([payload[middle] ^ 1]) + payload[middle + 1 :]
        writer.add("train", RldsRecord(changed))
    documents = [json.loads((dataset / name).read_text()) for name in ("features.json", "metadata.json")]
    writer.finish(*documents)
    writer.close()
    again = ingest_again(tmp_path / "changed")
    assert not set(hashes(again).values()) & set(hashes(sample_workspace).values())


@pytest.mark.slow
@pytest.mark.parametrize("format", ["rlds", "lerobot", "parquet"])
def test_the_same_export_at_another_time_is_the_same_bytes(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Later:
            return cls(2031, 5, 6, 7, 8, 9, tzinfo=UTC)

    selection = sample_workspace.sets["few"]
    sample_workspace.export(selection, tmp_path / "one", format=format, quiet=True)
    monkeypatch.setattr(ares.export.base, "datetime", Later)
    sample_workspace.export(selection, tmp_path / "two", format=format, quiet=True)
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    manifest = read_json(tmp_path / "two" / "manifest.json")
    times = manifest["times"]["file"]
    assert {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)} == {times}
    assert "2031-05-06" in (tmp_path / "two" / times).read_text()
