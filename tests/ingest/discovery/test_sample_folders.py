"""Every sample folder alone, and all of them in one command: the same episodes, every file named, the exit status."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.cli.main import main
from ares.episode import Episode
from ares.settings import Settings
from ares.workspace import open_workspace

# Folders of which something cannot be read: two episodes have neither data nor video; bags without robot signals.
STATUS = {"reported": 1, "so101_chess_lerobot_v21": 1, "rosbag2_mcap": 2, "irregular": 1}


class Ingested(NamedTuple):
    """An ingestion: its exit status, what --json printed, and the episodes that it stored."""

    status: int
    document: Mapping[str, Any]
    episodes: list[Episode]


def ingest(source: Path, workspace: Path, capfd: pytest.CaptureFixture[str]) -> Ingested:
    status = main(["ingest", str(source), "-w", str(workspace), "--json"])
    document = json.loads(capfd.readouterr().out)
    opened = open_workspace(str(workspace), Settings())
    episodes = list(opened.stores.tables.episodes.read())
    opened.close()
    return Ingested(status, document, episodes)


def without_name(episode: Episode) -> str:
    """Everything of an episode but the name of its dataset, and the id that the name is part of."""
    return repr(replace(episode, episode_id="", dataset=""))


def count_files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def failures(document: Mapping[str, Any]) -> Counter[str]:
    return Counter({failure["reason"]: failure["count"] for failure in document["failures"]})


@pytest.mark.nightly
def test_one_by_one_and_all_at_once_are_the_same(
    shared_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    together = ingest(shared_data, tmp_path / "together", capfd)
    alone: list[Episode] = []
    reasons: Counter[str] = Counter()
    for folder in sorted(path for path in shared_data.iterdir() if path.is_dir()):
        one = ingest(folder, tmp_path / folder.name, capfd)
        assert one.status == STATUS.get(folder.name, 0), folder
        assert sum(one.document["files"].values()) == count_files(folder), folder
        assert one.document["planned"] == one.document["kept"] + one.document["failed"], folder
        alone += one.episodes
        reasons += failures(one.document)
    assert together.status == 1
    assert sum(together.document["files"].values()) == count_files(shared_data)
    assert failures(together.document) == reasons
    # Inputs made after reports of faults hold files that no reader takes; all others are read.
    left = [file for file in together.document["left_files"] if "reported/" not in json.dumps(file)]
    assert {file["use"] for file in left} == {"not_data"}

    single = {without_name(episode): episode for episode in alone}
    assert len(single) == len(alone) == together.document["kept"] > 250
    assert single.keys() == {without_name(episode) for episode in together.episodes}
    for episode in together.episodes:
        name = single[without_name(episode)].dataset
        assert episode.dataset == name or episode.dataset.startswith(f"{name}-"), episode
