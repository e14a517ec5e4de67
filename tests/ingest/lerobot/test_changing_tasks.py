"""A task that changes within an episode is kept as segments, and goes back to the rows of an export."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares import open as open_workspace
from ares_app.cli.main import main
from ares_ingest.base import SourceOptions
from tests.ingest.lerobot.conftest import STEPS, LeRobotFolders
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths, open_sources

SEEDS = [*range(2), *(pytest.param(number, marks=pytest.mark.nightly) for number in range(2, 100))]
TEXTS = ["reach for the cup", "lift it", "pour", "put it down"]


def row_texts(root: Path) -> dict[int, list[str]]:
    """The task of each row of an export, by episode."""
    tasks = pq.read_table(root / "meta" / "tasks.parquet").to_pylist()
    texts = {row["task_index"]: row["__index_level_0__"] for row in tasks}
    by_episode: dict[int, list[str]] = {}
    for path in sorted(root.glob("data/**/*.parquet")):
        for row in pq.read_table(path, columns=["episode_index", "task_index"]).to_pylist():
            by_episode.setdefault(row["episode_index"], []).append(texts[row["task_index"]])
    return by_episode


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_text", [False, True])
def test_tasks_that_change_are_segments_and_go_back_by_row(seed: int, is_text: bool, tmp_path: Path) -> None:
    rng, folders = np.random.default_rng(seed), LeRobotFolders()
    root = folders.make(tmp_path / "d", video=False)
    folders.write(root, "tasks.jsonl", *({"task_index": n, "task": text} for n, text in enumerate(TEXTS)))
    cut = int(rng.integers(2, STEPS - 1))
    first, second = rng.choice(len(TEXTS), 2, replace=False).tolist()
    numbers = np.where(np.arange(STEPS) < cut, first, second)
    texts = [TEXTS[number] for number in numbers]
    # Texts of rows stand in a column of their own, beside one task for all.
    changed: dict[str, Any] = {"task_description": pa.array(texts)} if is_text else {"task_index": numbers}
    folders.rewrite(root, 0, **changed)
    folders.rewrite(root, 1, **({"task_description": pa.array(["pour"] * STEPS)} if is_text else {}))
    workspace = open_workspace(tmp_path / "ws", create=True)
    ingest_paths(workspace.stores, [str(root)], quiet=True)
    rows = workspace.stores.tables.segments.read().to_pylist()
    spans = sorted((row["start_seconds"], row["stop_seconds"], row["style"], row["text"]) for row in rows)
    bounds = pairwise((0, cut, STEPS))
    expected = [
        (start / 10, stop / 10, "task", TEXTS[n])
        for (start, stop), n in zip(bounds, (first, second), strict=True)
    ]
    assert [span[2:] for span in spans] == [span[2:] for span in expected]
    np.testing.assert_allclose([span[:2] for span in spans], [span[:2] for span in expected], atol=1e-4)
    ids = list(workspace.episodes.sort("key").ids())
    workspace.sets.create("all", ids)
    workspace.close()
    assert (
        main(
            ["export", "all", str(tmp_path / "out"), "--format", "lerobot", "-w", str(tmp_path / "ws"), "-q"]
        )
        == 0
    )
    written = row_texts(tmp_path / "out").values()
    if not is_text:
        assert texts in written


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_that_change_at_the_border_of_row_groups(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares_ingest.lerobot.rows._BLOCK_ROWS", 1)
    rng, steps, group = np.random.default_rng(seed), 60, int(np.random.default_rng(seed).integers(3, 20))
    write_good_folder(tmp_path / "d", version="v3.0", lengths=[steps] * 2, cameras=(), per_file=2)
    (path,) = (tmp_path / "d").rglob("data/*/*.parquet")
    borders = np.arange(group, 2 * steps, group)
    cuts = {*rng.choice(borders, min(2, len(borders)), replace=False), *rng.choice(2 * steps, 2), steps}
    bounds = list(pairwise(sorted({0, *map(int, cuts), 2 * steps})))
    spans = [(start, stop, TEXTS[number % len(TEXTS)]) for number, (start, stop) in enumerate(bounds)]
    column = pa.array([text for start, stop, text in spans for _ in range(start, stop)])
    pq.write_table(pq.read_table(path).append_column("task_description", column), path, row_group_size=group)
    (source,) = open_sources([str(tmp_path / "d")], SourceOptions())
    for number, item in enumerate(source.items):
        record = item.load()
        rate, first = record.episode.rate_hz, number * steps
        rows = [(round(part.start_seconds * rate), part.stop_seconds, part.text) for part in record.segments]
        read = [
            (first + row, first + round(min(stop, steps / rate) * rate), text) for row, stop, text in rows
        ]
        expected = [span for span in spans if first <= span[0] < first + steps]
        assert read == (expected if len(expected) > 1 else read)
