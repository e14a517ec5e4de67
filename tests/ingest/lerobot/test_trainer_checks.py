"""What a trainer reads beside the signals is compared with the rows by `ares check`, and each fault has its code."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import ares
from tests.generators.lerobot_folders import LeRobotFolder, write_lines

LENGTHS = [14, 20, 12]
MODALITY: dict[str, Any] = {
    "state": {
        "arm": {"start": 0, "end": 2},
        "hand": {"start": 2, "end": 3, "original_key": "observation.state"},
    },
    "action": {"arm": {"start": 0, "end": 3}, "hand": {"start": 3, "end": 4, "original_key": "action"}},
    "annotation": {"human.task": {"original_key": "task_index"}},
}


def compute_stats(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    rows = {key: values.reshape(len(values), -1).astype(np.float64) for key, values in columns.items()}
    return {
        key: {name: getattr(values, name)(axis=0).tolist() for name in ("min", "max", "mean", "std")}
        | {"count": [len(values)]}
        for key, values in rows.items()
    }


@dataclass(slots=True, kw_only=True)
class Parts(LeRobotFolder):
    """A folder with what trainers read beside the data."""

    stats: dict[str, Any]
    episode_stats: list[dict[str, Any]]
    modality: dict[str, Any]

    def renew_stats(self) -> None:
        """The statistics of the columns as they are now."""
        self.stats = compute_stats(self.columns)
        starts = np.cumsum([0, *LENGTHS])
        self.episode_stats = [
            {
                "episode_index": number,
                "stats": compute_stats({key: values[start:stop] for key, values in self.columns.items()}),
            }
            for number, (start, stop) in enumerate(itertools.pairwise(starts))
        ]


def make_parts(version: str) -> Parts:
    rng = np.random.default_rng(3)
    columns = {
        key: (rng.normal(size=(sum(LENGTHS), width)).cumsum(axis=0) * scale + 5).astype(np.float32)
        for key, width, scale in (("observation.state", 3, 1.0), ("action", 4, 100.0))
    }
    columns["task_index"] = np.repeat([0, 1, 1], LENGTHS)
    splits = {"splits": {"train": "0:1", "val": "1:3"}}
    parts = Parts(
        version=version, columns=columns, lengths=LENGTHS, tasks=["open", "shut"], info=splits, stats={},
        episode_stats=[], modality=copy.deepcopy(MODALITY),
    )  # fmt: skip
    parts.renew_stats()
    return parts


def write_parts(folder: Path, parts: Parts) -> Path:
    if parts.version == "v3.0":
        for row, stats in zip(parts.listed, parts.episode_stats, strict=False):
            row |= {f"stats/{key}/{name}": v for key, s in stats["stats"].items() for name, v in s.items()}
    meta = parts.write(folder) / "meta"
    if parts.version != "v3.0":
        write_lines(meta / "episodes_stats.jsonl", parts.episode_stats)
    (meta / "stats.json").write_text(json.dumps(parts.stats))
    (meta / "modality.json").write_text(json.dumps(parts.modality))
    return folder


def codes_of(path: Path) -> set[str]:
    """The codes of a trainer's metadata."""
    (dataset,) = ares.check(path).datasets
    return {count.code for count in dataset.counts if count.code.startswith("A06")}


def other_set(parts: Parts) -> None:
    values = parts.columns["action"]
    parts.stats |= compute_stats({"action": values * 1.5 + 3 * values.std()})


def fewer_episodes(parts: Parts) -> None:
    parts.columns["action"][-LENGTHS[-1] :] += 4 * parts.columns["action"].std()
    parts.episode_stats = []


def other_width(parts: Parts) -> None:
    parts.stats["action"] = {name: values[:-1] for name, values in parts.stats["action"].items()}


def one_episode(parts: Parts) -> None:
    parts.episode_stats[1]["stats"]["action"]["mean"] = [1e4] * 4


def hand_of(parts: Parts) -> dict[str, Any]:
    hand: dict[str, Any] = parts.modality["action"]["hand"]
    return hand


def change(column: str, rows: slice, by: int) -> Callable[[Parts], None]:
    """Add to rows of a column; the statistics are those of the changed rows."""

    def plant(parts: Parts) -> None:
        parts.columns[column][rows] += by
        parts.renew_stats()

    return plant


BOTH = ("v2.1", "v3.0")
FAULTS: list[tuple[str, tuple[str, ...], str, Callable[[Parts], object]]] = [
    ("stats of another set", BOTH, "A060", other_set),
    ("stats of fewer episodes", BOTH, "A060", fewer_episodes),
    ("stats of another width", BOTH, "A060", other_width),
    ("stats of one episode", ("v2.1",), "A060", one_episode),
    ("modality names no column", BOTH, "A061", lambda parts: hand_of(parts).update(original_key="raw")),
    ("modality beyond the column", BOTH, "A061", lambda parts: hand_of(parts).update(end=6)),
    ("total of frames", BOTH, "A062", lambda parts: parts.info.update(total_frames=47)),
    ("total of tasks", BOTH, "A062", lambda parts: parts.info.update(total_tasks=3)),
    ("gap in index", BOTH, "A063", change("index", slice(14, None), 7)),
    ("repeat in frame_index", BOTH, "A063", change("frame_index", slice(5, 6), -1)),
    ("range of rows", ("v3.0",), "A063", lambda parts: parts.listed[1].update(dataset_from_index=16)),
    ("task past the tasks", BOTH, "A064", change("task_index", slice(14), 2)),
    ("split beyond the episodes", BOTH, "A065", lambda parts: parts.info.update(splits={"train": "0:9"})),
    ("splits overlap", BOTH, "A065", lambda parts: parts.info.update(splits={"train": "0:3", "val": "2:3"})),
]


@pytest.mark.parametrize(
    ("version", "code", "plant"),
    [
        pytest.param(version, code, plant, id=f"{fault}, {version}")
        for fault, versions, code, plant in FAULTS
        for version in versions
    ],
)
def test_a_fault_has_its_code_and_no_other(
    version: str, code: str, plant: Callable[[Parts], object], tmp_path: Path
) -> None:
    parts = make_parts(version)
    plant(parts)
    assert codes_of(write_parts(tmp_path / "d", parts)) == {code}


@pytest.mark.parametrize("version", BOTH)
def test_metadata_that_are_right_have_no_finding_however_the_rows_are_grouped(
    version: str, tmp_path: Path
) -> None:
    folder = write_parts(tmp_path / "d", make_parts(version))
    assert codes_of(folder) == set()
    for path in folder.glob("data/**/*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=7)
    assert codes_of(folder) == set()


def test_reported_stale_statistics_are_a_fault(shared_data: Path) -> None:
    (dataset,) = ares.check(shared_data / "reported" / "lerobot3508_stale_stats").datasets
    (count,) = [count for count in dataset.counts if count.code == "A060"]
    assert count.severity == "fault"
    assert "action mean" in count.dimensions
    (numbers,) = [count for count in dataset.counts if count.code == "A062"]
    assert "episode_index max" in numbers.dimensions
