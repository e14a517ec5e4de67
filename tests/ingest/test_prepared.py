"""Prepared datasets are found by name below the folder of tensorflow-datasets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ares
from app.cli.main import main
from ares.errors import RequestError
from ingest.discovery.discovery import resolve_tfds_paths
from tests.ingest.conftest import write_rlds

LEAVES = {"steps/action": "float32 7", "steps/observation/image": "png 8 12 3"}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A dataset in versions 0.1.0 and 0.10.0, and one with two configurations."""
    folder = tmp_path / "tfds"
    written = write_rlds(folder, "stack_cups", LEAVES).path
    for target in ("stack_cups/0.10.0", "sorted/small/1.0.0", "sorted/large/1.0.0"):
        shutil.copytree(written, folder / target)
    return folder


def test_the_newest_version_is_taken_unless_one_is_named(data_dir: Path, monkeypatch: Any) -> None:
    assert resolve_tfds_paths(["tfds:stack_cups"], str(data_dir)) == [str(data_dir / "stack_cups/0.10.0")]
    named = ["tfds:stack_cups:0.1.0", "tfds:sorted/large", "some/path"]
    expected = [str(data_dir / "stack_cups/0.1.0"), str(data_dir / "sorted/large/1.0.0"), "some/path"]
    assert resolve_tfds_paths(named, str(data_dir)) == expected
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    assert resolve_tfds_paths(named) == expected


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("tfds:stack_cup", "did you mean 'stack_cups'?"),
        ("tfds:stack_cups:9.9.9", "it holds 0.1.0, 0.10.0"),
        ("tfds:sorted", "holds large, small; give tfds:NAME/CONFIG"),
        ("tfds:../secrets", "is no name of a prepared dataset"),
        ("tfds:", "is no name of a prepared dataset"),
        ("some/path", "--data-dir is for names such as tfds:"),
    ],
)
def test_what_is_not_prepared_is_one_line(data_dir: Path, source: str, fault: str) -> None:
    with pytest.raises(RequestError) as caught:
        resolve_tfds_paths([source], str(data_dir))
    assert fault in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(RequestError, match="prepared datasets is missing"):
        resolve_tfds_paths(["tfds:a"], str(data_dir / "nowhere"))


def test_a_prepared_dataset_is_ingested_by_name(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data-dir", str(data_dir), "-w", str(tmp_path / "w"), "--json"]
    assert main(["ingest", "tfds:stack_cups:0.1.0", *options]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1


def test_python_reads_a_prepared_dataset_by_name(data_dir: Path, tmp_path: Path) -> None:
    with ares.open(tmp_path / "w", create=True) as workspace:
        plan = workspace.plan_ingest("tfds:stack_cups:0.1.0", data_dir=data_dir)
        assert [dataset.episodes for dataset in plan.datasets] == [1]
        assert workspace.ingest("tfds:stack_cups:0.1.0", data_dir=data_dir, quiet=True).kept == 1
    assert ares.check("tfds:stack_cups:0.1.0", data_dir=data_dir).num_episodes == 1
