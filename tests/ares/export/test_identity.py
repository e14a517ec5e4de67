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
from ares import open as open_workspace
from ares.export.resume import StagedExport
from ares.export.rlds.exporter import TfdsWriter
from ares.export.rlds.record import RldsRecord
from ares.formats import RecordLocation, read_record, scan_record_file
from ares.store import ids_filter
from ares.workspace import Workspace
from ingest.base import SourceOptions
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


def ingested(folder: Path, target: Path) -> Workspace:
    workspace = open_workspace(target, create=True)
    ingest_paths(workspace.stores, [str(folder)], quiet=True)
    return workspace


@pytest.mark.parametrize("kind", ["rlds", "video"])
def test_an_rlds_export_that_is_read_again_is_recognised(
    sample_workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    """Records that were copied, and records that were written again with every step as it was."""
    sample_workspace.export(sample_workspace.sets[kind], tmp_path / "out", format="rlds", quiet=True)
    again = ingested(tmp_path / "out", tmp_path / "again")
    assert hashes(again) == hashes(sample_workspace, f"format = '{kind}'")
    assert not any("ares_content_hash" in episode.metadata for episode in again.stores.tables.episodes.read())


@pytest.mark.parametrize("format", ["lerobot", "lerobot-v2.1"])
def test_a_lerobot_export_with_videos_that_is_read_again_is_recognised(
    sample_workspace: Workspace, tmp_path: Path, format: str
) -> None:
    """Videos that are copied, and that are encoded from images."""
    exported = sample_workspace.sets["few"]
    sample_workspace.export(exported, tmp_path / "out", format=format, quiet=True)
    again = ingested(tmp_path / "out", tmp_path / "again")
    assert all(episode.cameras for episode in again.stores.tables.episodes.read())
    assert hashes(again) == hashes(sample_workspace, ids_filter(list(sample_workspace.sets.ids(exported))))


@pytest.mark.parametrize(("version", "format"), [("v3.0", "lerobot-v2.1"), ("v2.1", "lerobot")])
def test_videos_that_are_cut_joined_and_encoded_again_are_recognised(
    tmp_path: Path, version: Literal["v3.0", "v2.1"], format: str
) -> None:
    """One camera is turned, so that its frames are encoded; the packets of the other are copied."""
    folder, spec = (
        write_good_folder(tmp_path / "made", version=version, lengths=(6, 9, 7)),
        tmp_path / "a.yaml",
    )
    spec.write_text("reference: seen\ncameras: {front: {turn: 180}}\n")
    workspace = open_workspace(tmp_path / "ws", create=True)
    ingest_paths(workspace.stores, [str(folder)], SourceOptions(spec=str(spec)), quiet=True)
    selection = workspace.sets.create("all", sorted(workspace.stores.tables.episodes.ids()), {})
    report = workspace.export(selection, tmp_path / "out", format=format, quiet=True)
    assert (list(report.reencoded.values()), report.copied_packets) == ([3], 22)
    assert hashes(ingested(tmp_path / "out", tmp_path / "again")) == hashes(workspace)


@pytest.mark.parametrize("change", ["a number of the state", "the clock", "the video", "the stated hash"])
def test_a_lerobot_export_that_was_changed_is_another(
    sample_workspace: Workspace, tmp_path: Path, change: str
) -> None:
    """The stated hash counts only for the rows and videos that were written with it."""
    folder = tmp_path / "out"
    exported = sample_workspace.sets["few"]
    sample_workspace.export(exported, folder, format="lerobot-v2.1", quiet=True)
    folder = next(path for path in sorted(folder.iterdir()) if (path / "meta").is_dir())
    if change == "the video":
        first, second = sorted(folder.rglob("*.mp4"))[:2]
        shutil.copy(second, first)
    elif change == "the stated hash":
        lines = folder / "meta" / "episodes.jsonl"
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        rows[0]["ares/rows_hash"], rows[1]["ares/rows_hash"] = (
            row["ares/rows_hash"] for row in (rows[1], rows[0])
        )
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        change_one_number(
            sorted(folder.rglob("*.parquet"))[0], "timestamp" if change == "the clock" else "action"
        )
    known, again = hashes(sample_workspace), hashes(ingested(folder, tmp_path / "again"))
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


def test_a_lerobot_export_of_an_export_is_recognised_too(sample_workspace: Workspace, tmp_path: Path) -> None:
    exported = sample_workspace.sets["few"]
    sample_workspace.export(exported, tmp_path / "one", format="lerobot", quiet=True)
    again = ingested(tmp_path / "one", tmp_path / "again")
    selection = again.sets.create("all", sorted(again.stores.tables.episodes.ids()), {})
    again.export(selection, tmp_path / "two", format="lerobot-v2.1", quiet=True)
    third = ingested(tmp_path / "two", tmp_path / "third")
    assert hashes(third) == hashes(sample_workspace, ids_filter(list(sample_workspace.sets.ids(exported))))


def test_a_lerobot_export_at_another_rate_is_another(sample_workspace: Workspace, tmp_path: Path) -> None:
    sample_workspace.export(
        sample_workspace.sets["few"], tmp_path / "out", format="lerobot", fps=5.0, quiet=True
    )
    again = ingested(tmp_path / "out", tmp_path / "again")
    assert not set(hashes(again).values()) & set(hashes(sample_workspace).values())


def test_an_export_beside_its_source_is_a_duplicate(
    sample_workspace: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    sample_workspace.export(sample_workspace.sets["rlds"], tmp_path / "out", format="rlds", quiet=True)
    both = open_workspace(tmp_path / "both", create=True)
    ingest_paths(both.stores, [str(demo_samples / "rlds"), str(tmp_path / "out")], quiet=True)
    assert len(hashes(both)) == 12
    assert (
        len(both.stores.tables.episodes.ids("duplicate_of IS NOT NULL"))
        == both.stores.tables.episodes.count() - 12
    )


def test_episodes_at_another_rate_are_others(sample_workspace: Workspace, tmp_path: Path) -> None:
    sample_workspace.export(
        sample_workspace.sets["rlds"], tmp_path / "out", format="rlds", fps=5.0, quiet=True
    )
    again = ingested(tmp_path / "out", tmp_path / "again")
    assert not set(hashes(again).values()) & set(hashes(sample_workspace).values())


def test_a_record_that_was_changed_after_the_export_is_another(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    """The stated hash counts only for the bytes that were written with it."""
    sample_workspace.export(sample_workspace.sets["rlds"], tmp_path / "out", format="rlds", quiet=True)
    (dataset,) = (path.parent for path in (tmp_path / "out").rglob("features.json"))
    (shard,) = dataset.glob("*.tfrecord-*")
    name, staged = dataset.parent.name, StagedExport(tmp_path / "changed", "key")
    writer = TfdsWriter(tmp_path / "changed" / name / "1.0.0", name, "1.0.0", staged)
    for number, span in enumerate(scan_record_file(str(shard))):
        assert isinstance(span, RecordLocation)
        payload, middle = read_record(str(shard), span)[0], span.size // 2
        changed = payload[:middle] + bytes([payload[middle] ^ 1]) + payload[middle + 1 :]
        writer.add("train", RldsRecord(changed), str(number))
    documents = [json.loads((dataset / name).read_text()) for name in ("features.json", "metadata.json")]
    writer.finish(*documents)
    writer.close()
    again = ingested(tmp_path / "changed", tmp_path / "again")
    assert not set(hashes(again).values()) & set(hashes(sample_workspace).values())


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
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text())
    times = manifest["times"]["file"]
    assert {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)} == {times}
    assert "2031-05-06" in (tmp_path / "two" / times).read_text()
