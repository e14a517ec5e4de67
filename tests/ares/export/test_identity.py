"""What is exported keeps its identity: RLDS that is read again is recognised, and an export made twice is equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ares.export.base
from ares import open as open_workspace
from ares.export.rlds.exporter import TfdsWriter
from ares.formats import RecordLocation, read_record, scan_record_file
from ares.workspace import Workspace
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
    """Records that were copied, and records that were written anew with every step as it was."""
    sample_workspace.export(sample_workspace.sets[kind], tmp_path / "out", format="rlds", quiet=True)
    again = ingested(tmp_path / "out", tmp_path / "again")
    assert hashes(again) == hashes(sample_workspace, f"format = '{kind}'")
    assert not any("ares_content_hash" in episode.metadata for episode in again.stores.tables.episodes.read())


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
    writer = TfdsWriter(tmp_path / "changed" / dataset.parent.name / "1.0.0", dataset.parent.name, "1.0.0")
    for span in scan_record_file(str(shard)):
        assert isinstance(span, RecordLocation)
        payload, middle = read_record(str(shard), span)[0], span.size // 2
        writer.add("train", payload[:middle] + bytes([payload[middle] ^ 1]) + payload[middle + 1 :])
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
