"""The dataset card of an export: front matter that the Hub reads, licences, grades, and what a purge names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares import open as open_workspace
from ares.export.dataset_card import describe_licences, write_dataset_card
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths

FORMATS = ["lerobot", "lerobot-v2.1", "rlds", "parquet"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two datasets: one with a licence and a consent, one that says nothing; the set "all" has both."""
    workspace = open_workspace(tmp_path / "ws", create=True)
    for name, version in (("told", "v3.0"), ("silent", "v2.1")):
        folder = write_good_folder(tmp_path / name, version=version, lengths=(6, 9))
        if name == "told":
            (folder / "LICENSE").write_text("Attribution-NonCommercial 4.0 International\n")
            (folder / "README.md").write_text("---\nconsent: signed by all operators\n---\n")
        ingest_paths(workspace.stores, [str(folder)], quiet=True)
    workspace.sets.create("all", where="num_steps > 0")
    workspace.sets.create("told", where="dataset = 'told'")
    return workspace


@pytest.mark.parametrize(
    "format", ["jsonl", *(pytest.param(name, marks=pytest.mark.slow) for name in FORMATS)]
)
def test_every_export_has_a_card_and_a_table_of_its_episodes(
    workspace: Workspace, tmp_path: Path, format: str
) -> None:
    workspace.export("all", tmp_path / "out", format=format, quiet=True)
    card = (tmp_path / "out" / "README.md").read_text()
    matter = yaml.safe_load(card.split("---\n")[1])
    assert (matter["license"], matter["license_name"]) == ("other", "cc-by-nc-4.0; unknown")
    assert matter["task_categories"] == ["robotics"] and "robotics" in matter["tags"]
    assert ("LeRobot" in matter["tags"]) == format.startswith("lerobot")
    assert "| told | lerobot | v3.0 | 2 | 0.000417 | cc-by-nc-4.0 | signed by all operators |" in card
    assert "| silent | lerobot | v2.1 | 2 | 0.000417 | unknown | unknown |" in card
    for said in (
        "**Licence not known** of silent",
        "Not measured",
        "ares set rebuild",
    ):
        assert said in card
    assert str(tmp_path) not in card
    table = (tmp_path / "out" / "manifest.episodes.jsonl").read_text()
    rows = [json.loads(line) for line in table.splitlines()]
    assert {row["episode_id"] for row in rows} == set(workspace.sets["all"].ids())
    assert all(
        {"dataset", "version", "split", "key", "content_hash", "path", "index"} <= row.keys() for row in rows
    )
    assert len({(row["path"], row["index"]) for row in rows}) == 4


@pytest.mark.slow
def test_one_known_licence_is_that_of_the_card(workspace: Workspace, tmp_path: Path) -> None:
    workspace.export("told", tmp_path / "out", quiet=True)
    matter = yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])
    assert matter["license"] == "cc-by-nc-4.0" and "license_name" not in matter
    assert matter["configs"] == [{"config_name": "default", "data_files": "data/*/*.parquet"}]


def test_licences_that_differ_or_are_not_known_are_named() -> None:
    unknown, different = describe_licences({"a": ["cc-by-sa-4.0"], "b": ["mit"], "c": []})
    assert "**Licence not known** of c" in unknown and "**Sources have different licences**" in different
    assert not list(describe_licences({"a": ["mit"]}))
    (line,) = describe_licences({"a": ["mit", "apache-2.0"]})
    assert "Files of one dataset name different licences" in line


def test_datasets_of_one_name_keep_their_licences(tmp_path: Path) -> None:
    """Two versions of a dataset: the licence of neither takes the place of the other's."""
    source = {"format": "lerobot", "dataset": "mugs", "episodes": 1, "seconds": 2.0, "consents": []}
    licences = {"v2.1": ["cc-by-nc-4.0"], "v3.0": ["mit"]}
    sources = {
        f"lerobot mugs {name}": {**source, "version": name, "licences": own} for name, own in licences.items()
    }
    counts: dict[str, Any] = {"episodes": 1, "frames": 1, "tasks": 1, "reencoded": {}}
    counts |= {"left_out": [], "changed": [], "datasets": []}
    manifest = {"set": {"name": "all", "version": 1}, "export": {"format": "jsonl"}, "ares": "0"}
    manifest |= {"format": "jsonl", "counts": counts}
    card = {"sources": sources, "values": {}, "refuted": 0}
    write_dataset_card(tmp_path, {**manifest, "card": card})
    text = (tmp_path / "README.md").read_text()
    assert "cc-by-nc-4.0 (lerobot mugs v2.1); mit (lerobot mugs v3.0)" in text


@pytest.mark.slow
def test_a_purge_names_the_sets_and_exports_that_held_the_episode(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also an export of a set that was deleted since; one whose set never had it is not named."""
    for name in ("told", "all"):
        workspace.export(name, tmp_path / f"{name}-out", format="jsonl", quiet=True)
    workspace.sets.create("silent", where="dataset = 'silent'")
    workspace.export("silent", tmp_path / "silent-out", format="jsonl", quiet=True)
    episode_id = next(iter(workspace.sets["told"].ids()))
    workspace.sets.delete("told")
    workspace.close()
    assert main(["remove", "--purge", "--yes", "--json", "-w", str(tmp_path / "ws"), episode_id]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sets"] == {"all@1": 1}
    assert said["exports"] == {str(tmp_path / "all-out"): 1, str(tmp_path / "told-out"): 1}
