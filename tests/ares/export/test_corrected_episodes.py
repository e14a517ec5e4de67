"""What people say in place of the source is what every format has; the recorded text is exported on demand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.workspace import Workspace
from tests.ares.export.made_episodes import ingest_again, read_rows
from tests.ingesting import ingest_paths

TEXT = "slide the red cup to the left"


@pytest.fixture
def corrected(ws: Workspace, demo_samples: Path) -> str:
    """Key of the one episode of twelve of whose outcome and instruction people say something else."""
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], quiet=True)
    episode = ws.episodes.where("success").sort("key")[3]
    ws.correct(
        episode.episode_id,
        instruction=TEXT,
        outcome="failure" if episode.success else "success",
        person="Ada",
    )
    return episode.key


def _texts(ws: Workspace) -> list[tuple[str, Any]]:
    return sorted((episode.instruction, episode.success) for episode in ws.episodes)


@pytest.mark.parametrize("format", ["rlds", "lerobot"])
def test_a_correction_comes_back_from_an_export(
    ws: Workspace, corrected: str, tmp_path: Path, format: str
) -> None:
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    report = ws.export(frozen, tmp_path / "out", format=format, quiet=True)
    assert report.episodes == 12
    with ingest_again(tmp_path / "out") as again:
        assert _texts(again) == _texts(ws)
    assert TEXT in [text for text, _ in _texts(ws)]


def test_the_recorded_instruction_is_the_task_on_demand(
    ws: Workspace, corrected: str, tmp_path: Path
) -> None:
    recorded = ws.stores.tables.episodes.read_columns(["instruction_original"]).to_pylist()
    (text,) = {row["instruction_original"] for row in recorded} - {None}
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    for format in ("rlds", "lerobot"):
        folder = tmp_path / format
        ws.export(frozen, folder, format=format, task="instruction:original", quiet=True)
    with ingest_again(tmp_path / "rlds") as again:
        texts = [text for text, _ in _texts(again)]
    assert text in texts and TEXT not in texts
    tasks = {row["task"] for row in read_rows(tmp_path / "lerobot", "meta") if "task" in row}
    tasks |= {
        row["__index_level_0__"]
        for row in read_rows(tmp_path / "lerobot", "meta")
        if "__index_level_0__" in row
    }
    assert text in tasks and TEXT not in tasks


def test_copied_records_stay_one_dataset_and_keep_their_bytes(
    ws: Workspace, corrected: str, tmp_path: Path
) -> None:
    frozen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    report = ws.export(frozen, tmp_path / "out", format="rlds", quiet=True)
    assert (report.copied_records, report.encoded_frames, len(report.datasets)) == (12, 0, 1)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "1 instruction and 1 outcome corrected by 1 person." in card


def test_an_export_says_what_was_corrected_since_its_set_was_made(
    ws: Workspace, corrected: str, tmp_path: Path
) -> None:
    frozen = ws.sets.create("before", ws.stores.tables.episodes.ids(), {})
    assert not ws.export(frozen, tmp_path / "1", format="parquet", quiet=True).changed
    older = replace(frozen, created="2026-01-01T00:00:00+00:00")
    (change,) = ws.export(older, tmp_path / "2", format="parquet", quiet=True).changed
    assert change == {"reason": "instructions that people corrected since before@1 was made", "episodes": 1}
