"""Every sample folder alone, and all of them in one command: the same episodes, every file named, the exit status."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.episode import Episode
from ares.settings import Settings
from ares.workspace import open_workspace

# Folders of which something cannot be read: two episodes have neither data nor video; bags without robot signals.
STATUS = {"reported": 1, "so101_chess_lerobot_v21": 1, "rosbag2_mcap": 2, "irregular": 1}


def without_name(episode: Episode) -> str:
    """Everything of an episode but the name of its dataset, and the id that the name is part of."""
    return repr(replace(episode, episode_id="", dataset=""))


def count_files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def failures(document: Any) -> Counter[str]:
    return Counter({failure["reason"]: failure["count"] for failure in document["failures"]})


@pytest.mark.nightly
def test_one_by_one_and_all_at_once_are_the_same(shared_data: Path, tmp_path: Path, run_ares: Any) -> None:
    def ingest(source: Path, name: str) -> tuple[int, Any, list[Episode]]:
        """The exit status, what --json printed, and the episodes that were stored."""
        done = run_ares("ingest", source, "-w", tmp_path / name, "--json")
        with open_workspace(str(tmp_path / name), Settings()) as ws:
            return done.status, done.json, list(ws.stores.tables.episodes.read())

    alone: list[Episode] = []
    reasons: Counter[str] = Counter()
    for folder in sorted(path for path in shared_data.iterdir() if path.is_dir()):
        status, document, episodes = ingest(folder, folder.name)
        assert status == STATUS.get(folder.name, 0), folder
        assert sum(document["files"].values()) == count_files(folder), folder
        assert document["planned"] == document["kept"] + document["failed"], folder
        alone += episodes
        reasons += failures(document)
    status, document, episodes = ingest(shared_data, "together")
    assert status == 1 and failures(document) == reasons
    assert sum(document["files"].values()) == count_files(shared_data)
    # Inputs made after reports of faults hold files that no reader takes; all others are read.
    left = [file for file in document["left_files"] if "reported/" not in json.dumps(file)]
    assert {file["use"] for file in left} == {"not_data"}

    single = {without_name(episode): episode for episode in alone}
    assert len(single) == len(alone) == document["kept"] > 250
    assert single.keys() == {without_name(episode) for episode in episodes}
    for episode in episodes:
        name = single[without_name(episode)].dataset
        assert episode.dataset == name or episode.dataset.startswith(f"{name}-"), episode
