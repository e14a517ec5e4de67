"""Datasets inside datasets: which one a new file belongs to, and what a file is that two of them use."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from ares.workspace import Workspace
from ares_ingest.base import SourceFile, SourceOptions
from ares_ingest.discovery.datasets import OpenedDataset, _dataset_folder
from ares_ingest.discovery.discovery import make_ingest_plan
from ares_ingest.discovery.tree import walk_folder_tree


def test_a_new_part_belongs_to_the_innermost_stored_dataset(
    ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    videos = sorted((demo_samples / "video").rglob("*.mp4"))
    names = ("day1/a.mp4", "z.mp4", "day1/more/b.mp4")
    for video, name, folder in zip(videos, names, ("lab/day1", "lab", "lab/day1/more"), strict=False):
        path = tmp_path / "lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(video, path)
        assert ws.ingest(str(tmp_path / folder)).kept == 1
    datasets = {Path(episode.source).name: episode.dataset for episode in ws.stores.tables.episodes.read()}
    assert datasets == {"a.mp4": "day1", "z.mp4": "lab", "b.mp4": "day1"}
    assert ws.ingest(str(tmp_path / "lab")).kept == 0


@pytest.mark.parametrize("uses", list(itertools.permutations(["data", "metadata", "unused"])))
def test_a_file_that_several_datasets_use_is_data_where_one_of_them_reads_it_as_data(
    tmp_path: Path, uses: tuple[Any, ...]
) -> None:
    path = tmp_path / "episodes.csv"
    path.write_text("a,b\n1,2\n")
    ingester: Any = None
    opened = [
        OpenedDataset(
            format=f"format{number}",
            path=str(tmp_path),
            ingester=ingester,
            options=SourceOptions(),
            listings={},
            files=[SourceFile(path=str(path), use=use)],
        )
        for number, use in enumerate(uses)
    ]
    tree = walk_folder_tree(tmp_path, [])
    assert make_ingest_plan([tree], opened).file_counts == {"data": 1}


@pytest.mark.parametrize(
    ("source", "key", "folder"),
    [
        ("/lab/day1/a.mp4", "day1/a.mp4", "/lab"),
        ("/lab/demos.hdf5", "demos.hdf5#demo_0", "/lab"),
        ("/lab/d/d", "d/d", "/lab"),
        ("s3://bucket/lab/a.mcap", "a.mcap", "s3://bucket/lab"),
        ("/data/lab/2026/x.parquet", "episode_000001", "/data/lab"),
        ("/data/other/x.parquet", "episode_000001", ""),
    ],
)
def test_the_folder_of_a_stored_dataset_is_what_its_keys_are_relative_to(
    source: str, key: str, folder: str
) -> None:
    assert _dataset_folder(source, key, "lab") == folder
