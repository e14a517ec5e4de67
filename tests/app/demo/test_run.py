"""The demo runs every step, reports the outcome as one JSON document, and its export is complete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "app.cli.main", "demo", "--no-serve", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert process.returncode == 0, process.stderr
    document: dict[str, Any] = json.loads(process.stdout)
    return document


def test_every_episode_is_captioned_and_every_caption_graded(demo: dict[str, Any]) -> None:
    assert demo["episodes"] == demo["captions"] == 24
    assert demo["acceptable"] + demo["not_acceptable"] + demo["unsure"] + demo["errors"] == 24
    assert demo["errors"] == demo["failed"] == 0
    assert 0 < demo["acceptable"] < 24
    assert sum(demo["rejected_by"].values()) >= demo["not_acceptable"]


def test_the_outcome_is_the_recorded_one(demo: dict[str, Any]) -> None:
    """Paths and times aside; the models, the samples and torch are pinned, so the counts are too."""
    recorded = Path(__file__).resolve().parents[2] / "fixtures" / "recorded" / "demo.json"
    expected: dict[str, Any] = json.loads(recorded.read_text())
    assert {name: demo[name] for name in expected} == expected


def test_numbers_are_labelled_as_simulation(demo: dict[str, Any]) -> None:
    assert demo["label"].startswith("simulation")
    assert 0.5 < demo["caption_truth_agreement"] <= 1
    assert 0.5 < demo["grade_truth_agreement"] <= 1


def test_the_export_holds_the_accepted_episodes(demo: dict[str, Any]) -> None:
    assert demo["exported_episodes"] == demo["acceptable"]
    infos = list(Path(demo["export_path"]).rglob("meta/info.json"))
    documents = [json.loads(info.read_text()) for info in infos]
    assert sum(document["total_episodes"] for document in documents) == demo["acceptable"]
    assert {document["codebase_version"] for document in documents} == {"v3.0"}
    for info, document in zip(infos, documents, strict=True):
        files = (info.parent.parent / "data").rglob("*.parquet")
        assert sum(pq.read_metadata(file).num_rows for file in files) == document["total_frames"]
