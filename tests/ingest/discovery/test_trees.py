"""Random trees of datasets, links and other files: every dataset is read once, and every file is accounted for."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.input.limits import InputBudgets, input_budgets
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_ingest.pipeline import find_datasets
from tests.ingesting import ingest_paths, request_for
from tests.workspaces import CommandResult

NOISE = {
    "README.md": "not_data",
    "LICENSE": "not_data",
    ".DS_Store": "not_data",
    "Thumbs.db": "not_data",
    "._clip.mp4": "not_data",
    "notes.txt": "not_data",
    "train.py": "not_data",
    "weights.bin": "unused",
    "picture.png": "unused",
    "empty.npy.part": "unreadable",
    "clip.mp4.crdownload": "unreadable",
    "model.safetensors": "pointer",
}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"


@pytest.fixture(params=[0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 6))])
def seed(request: pytest.FixtureRequest) -> int:
    """Random, and shown in the name of the test that fails by its message."""
    return random.SystemRandom().randrange(10**9) + int(request.param)


class RandomTree:
    """A tree with datasets of two formats at random places, and files that hold none."""

    def __init__(self, root: Path, samples: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root, self.samples = root, samples
        self.episodes = 0
        self.uses: Counter[str] = Counter()
        root.mkdir()

    def folder(self) -> Path:
        """A new folder up to three levels deep."""
        names = [
            f"{self.random.choice('abc')}{self.random.randrange(99)}"
            for _ in range(self.random.randint(1, 3))
        ]
        folder = self.root.joinpath(*names, f"d{self.random.randrange(10**6)}")
        folder.mkdir(parents=True)
        return folder

    def add_rlds(self) -> None:
        source = self.samples / "rlds" / "metaworld_sawyer" / "1.0.0"
        target = self.folder() / "1.0.0"
        shutil.copytree(source, target)
        self.uses["data"] += 2
        self.uses["metadata"] += 2

    def add_videos(self, count: int) -> None:
        folder = self.folder()
        videos = sorted((self.samples / "video" / "videos").glob("*_front.mp4"))
        for number, video in enumerate(self.random.sample(videos, count)):
            os.link(video, folder / f"clip{number}x.mp4")
        self.uses["data"] += count
        self.episodes += count

    def add_noise(self) -> None:
        folders = [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]
        for name, use in NOISE.items():
            folder = self.random.choice(folders)
            content = POINTER if use == "pointer" else b"" if name.startswith("empty") else b"some bytes"
            (folder / name).write_bytes(content)
            self.uses[use] += 1
        (self.random.choice(folders) / "gone.mp4").symlink_to(self.root / "nowhere")
        self.uses["pointer"] += 1
        (self.random.choice(folders) / "loop").symlink_to(self.root)
        self.uses["not_data"] += 1


def test_every_dataset_is_read_and_every_file_has_a_use(
    seed: int, ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    tree = RandomTree(tmp_path / "lab", demo_samples, seed)
    tree.add_rlds()
    for _ in range(tree.random.randint(1, 3)):
        tree.add_videos(tree.random.randint(1, 4))
    tree.add_noise()
    plan = find_datasets(ws.stores, request_for([str(tree.root)])).plan
    # A dangling video fails as a record of a folder that has others; alone in a folder it is a dataset of one failure.
    episodes = sum(dataset.episodes for dataset in plan.datasets if dataset.format == "rlds")
    assert episodes == 12, seed
    assert plan.file_counts == dict(tree.uses), (seed, plan.left_files)
    report = ingest_paths(ws.stores, [str(tree.root)], quiet=True)
    assert (report.counts.kept, report.counts.failed) == (tree.episodes + 12, 1), seed
    again = ingest_paths(ws.stores, [str(tree.root)], quiet=True)
    assert (again.counts.kept, again.counts.already) == (0, tree.episodes + 12), seed
    assert again.counts.warnings.keys() <= report.counts.warnings.keys(), seed


def add_episodes(ws: Workspace, *paths: Path) -> Any:
    return ingest_paths(ws.stores, [str(path) for path in paths], quiet=True).counts


def names(ws: Workspace) -> set[str]:
    return {episode.dataset for episode in ws.stores.tables.episodes.read()}


def two_of_one_name(tmp_path: Path, make_rlds: Any) -> list[Path]:
    """Two different datasets with the same name, version and record keys."""
    folders = []
    for number in range(2):
        made = make_rlds("twin", {"steps/action": "float32 7"}, 3 + number, 2).path
        folders.append(tmp_path / f"lab{number}" / "twin" / "1.0.0")
        shutil.move(made, folders[-1])
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_datasets_of_one_name_are_kept_in_any_order(
    order: tuple[int, int], tmp_path: Path, make_rlds: Any
) -> None:
    folders = two_of_one_name(tmp_path, make_rlds)
    together, single = (open_workspace(str(tmp_path / name), Settings()) for name in ("together", "single"))
    assert add_episodes(together, *(folders[number] for number in order)).kept == 4
    (suffixed,) = names(together) - {"twin"}
    assert suffixed.startswith("twin-")
    planned = find_datasets(None, request_for([str(folder) for folder in folders])).plan.datasets
    said = {dataset.dataset: dataset.not_understood[:1] for dataset in planned}
    assert said[suffixed][0].startswith(
        f"other data have the name twin: stored as {suffixed}; --dataset NAME"
    )
    assert add_episodes(together, *folders).already == 4

    assert add_episodes(single, folders[order[0]]).kept == 2
    assert add_episodes(single, *folders).kept == 2
    assert add_episodes(single, folders[order[1]]).already == 2
    assert len(names(single)) == 2 and "twin" in names(single)
    together.close()
    single.close()


def test_a_copy_is_no_second_dataset(ws: Workspace, tmp_path: Path, make_rlds: Any) -> None:
    folder, _ = two_of_one_name(tmp_path, make_rlds)
    shutil.copytree(folder, tmp_path / "copy" / "1.0.0")
    counts = add_episodes(ws, folder, tmp_path / "copy")
    assert (counts.kept, counts.already, counts.failed) == (2, 2, 0)
    assert names(ws) == {"twin"}


def test_a_folder_that_grew_is_read_where_it_is_new_and_what_vanished_is_told(
    ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    tree = RandomTree(tmp_path / "lab", demo_samples, 1)
    tree.add_videos(3)
    assert add_episodes(ws, tree.root).kept == 3
    first_names = names(ws)
    tree.add_rlds()  # the folder is of several formats now, and its videos keep their dataset
    counts = add_episodes(ws, tree.root)
    assert (counts.kept, counts.already) == (12, 3)
    assert first_names < names(ws)
    next(tree.root.rglob("clip0x.mp4")).unlink()
    for folder in tree.root.rglob("1.0.0"):
        shutil.rmtree(folder)
    counts = add_episodes(ws, tree.root)
    assert (counts.kept, counts.already) == (0, 2)
    assert sorted(tally.count for reason, tally in counts.warnings.items() if "stay stored" in reason) == [
        1,
        12,
    ]
    assert ws.stores.tables.episodes.count() == 15


@pytest.mark.parametrize("allowed", [False, True])
def test_a_folder_linked_from_outside_is_read_only_where_links_may_be_followed(
    allowed: bool, demo_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = RandomTree(tmp_path / "lab", demo_samples, 2)
    elsewhere = RandomTree(tmp_path / "private", demo_samples, 3)
    tree.add_videos(1)
    elsewhere.add_videos(2)
    (tree.root / "linked").symlink_to(elsewhere.root)
    monkeypatch.setattr(
        "ares_ingest.discovery.tree.input_budgets", lambda: InputBudgets(follow_links=allowed)
    )
    found = find_datasets(None, request_for([str(tree.root)]))
    assert sum(source.total for source in found.sources) == (3 if allowed else 1)
    left_out = [file.path for file in found.plan.left_files if "ARES_FOLLOW_LINKS" in file.detail]
    assert left_out == ([] if allowed else [str(tree.root / "linked")])


def write_linked_arrays(folder: Path, outside: Path) -> Path:
    """Two episodes of npz files, of which the second is a link out of the folder."""
    for number, parent in enumerate((folder, outside)):
        parent.mkdir()
        values = np.random.default_rng(number).random((12, 7))
        np.savez(parent / f"episode_{number}.npz", action=values, state=values + 1)
    (folder / "episode_1.npz").symlink_to(outside / "episode_1.npz")
    return folder


@pytest.mark.slow
def test_a_linked_file_is_read_only_where_links_may_be_followed(
    tmp_path: Path, run_ares: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_linked_arrays(tmp_path / "arms", tmp_path / "disk")
    os.mkfifo(folder / "pipe.npz")  # nobody writes into it
    ingest, check = ((command, folder, "-w", tmp_path / "ws", "--json") for command in ("ingest", "check"))
    first = run_ares(*ingest).json
    assert (first["kept"], first["failed"]) == (1, 1) and "ARES_FOLLOW_LINKS=1" in str(first["failures"])
    assert run_ares(*check).json["episodes"] == 1
    monkeypatch.setenv("ARES_FOLLOW_LINKS", "1")
    input_budgets.cache_clear()
    try:
        assert (run_ares(*ingest).json["kept"], run_ares(*check).json["episodes"]) == (1, 2)
    finally:
        input_budgets.cache_clear()
