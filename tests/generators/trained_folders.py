"""LeRobot folders without pictures whose metadata are right, or wrong in one way that a trainer would meet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.generators.lerobot_folders import LeRobotFolder, write_lines

# The code that each fault is to be found by.
TRAINER_FAULTS: Mapping[str, str] = {
    "stats of another set": "A060",
    "stats of fewer episodes": "A060",
    "stats of another width": "A060",
    "stats of one episode": "A060",
    "modality names no column": "A061",
    "modality beyond the column": "A061",
    "total of frames": "A062",
    "total of tasks": "A062",
    "gap in index": "A063",
    "repeat in frame_index": "A063",
    "range of rows": "A063",
    "task past the tasks": "A064",
    "split beyond the episodes": "A065",
    "splits overlap": "A065",
}
_V3_ONLY, _V21_ONLY = frozenset({"range of rows"}), frozenset({"stats of one episode"})


@dataclass(slots=True, kw_only=True)
class _Parts(LeRobotFolder):
    """A folder with what trainers read beside the data."""

    stats: dict[str, Any]
    episode_stats: list[dict[str, Any]]
    modality: dict[str, Any]


def make_trained_folder(folder: Path, seed: int, fault: str = "") -> Path:
    """Write a folder, with a fault of `TRAINER_FAULTS` or without any."""
    rng = np.random.default_rng(seed)
    version = "v3.0" if fault in _V3_ONLY or (fault not in _V21_ONLY and rng.random() < 0.5) else "v2.1"
    parts = _draw_parts(rng, version)
    if fault:
        _plant(parts, fault, rng)
    _write(folder, parts)
    return folder


def _draw_parts(rng: np.random.Generator, version: str) -> _Parts:
    lengths = [int(length) for length in rng.integers(12, 40, int(rng.integers(3, 7)))]
    total = sum(lengths)
    widths = {"observation.state": int(rng.integers(2, 8)), "action": int(rng.integers(2, 8))}
    tasks = [f"task number {number}" for number in range(int(rng.integers(1, 4)))]
    columns: dict[str, NDArray[Any]] = {}
    for key, width in widths.items():
        walk = rng.normal(size=(total, width)).cumsum(axis=0) * 10.0 ** rng.integers(-2, 3) + rng.normal() * 5
        columns[key] = walk.astype(np.float32)
    columns["task_index"] = np.repeat(rng.integers(0, len(tasks), len(lengths)), lengths)
    parts = _Parts(
        version=version,
        columns=columns,
        lengths=lengths,
        tasks=tasks,
        info={"splits": {"train": "0:1", "val": f"1:{len(lengths)}"}},
        stats={},
        episode_stats=[{"episode_index": number} for number in range(len(lengths))],
        modality=_modality(widths, rng) if rng.random() < 0.5 else {},
    )
    _renew_stats(parts)
    return parts


def _stats(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    stats = {}
    for key, values in columns.items():
        rows = values.reshape(len(values), -1).astype(np.float64)
        stats[key] = {
            "min": rows.min(axis=0).tolist(),
            "max": rows.max(axis=0).tolist(),
            "mean": rows.mean(axis=0).tolist(),
            "std": rows.std(axis=0).tolist(),
            "count": [len(rows)],
        }
    return stats


def _modality(widths: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    modality: dict[str, Any] = {}
    for group, key in (("state", "observation.state"), ("action", "action")):
        cut = int(rng.integers(1, widths[key]))
        modality[group] = {
            "arm": {"start": 0, "end": cut},
            "hand": {"start": cut, "end": widths[key], "original_key": key},
        }
    modality["annotation"] = {"human.task": {"original_key": "task_index"}}
    return modality


def _plant(parts: _Parts, fault: str, rng: np.random.Generator) -> None:
    key = str(rng.choice(["observation.state", "action"]))
    if fault == "stats of another set":
        parts.stats[key] = _stats({key: parts.columns[key] * 1.5 + 3 * parts.columns[key].std()})[key]
    elif fault == "stats of fewer episodes":
        parts.columns[key][-parts.lengths[-1] :] += 4 * parts.columns[key].std()
        parts.episode_stats = []
    elif fault == "stats of another width":
        parts.stats[key] = {name: values[:-1] for name, values in parts.stats[key].items()}
    elif fault == "stats of one episode":
        number = int(rng.integers(len(parts.lengths)))
        stats = parts.episode_stats[number]["stats"][key]
        stats["mean"] = [value + 50 for value in stats["mean"]]
    elif fault in ("modality names no column", "modality beyond the column"):
        parts.modality = parts.modality or _modality(
            {name: parts.columns[name].shape[1] for name in ("observation.state", "action")}, rng
        )
        part = parts.modality["action"]["hand"]
        part |= {"original_key": "actions_raw"} if "no column" in fault else {"end": part["end"] + 2}
    else:
        _plant_number(parts, fault, rng)


def _plant_number(parts: _Parts, fault: str, rng: np.random.Generator) -> None:
    episodes, place = len(parts.lengths), int(rng.integers(3, parts.lengths[0] - 3))
    if fault == "total of frames":
        parts.info["total_frames"] += int(rng.integers(1, 100))
    elif fault == "total of tasks":
        parts.info["total_tasks"] += 1
    elif fault == "gap in index":
        parts.columns["index"][parts.lengths[0] :] += int(rng.integers(1, 50))
        _renew_stats(parts)
    elif fault == "repeat in frame_index":
        parts.columns["frame_index"][place] = parts.columns["frame_index"][place - 1]
        _renew_stats(parts)
    elif fault == "range of rows":
        parts.listed[1]["dataset_from_index"] += 2
    elif fault == "task past the tasks":
        parts.columns["task_index"][: parts.lengths[0]] = len(parts.tasks) + int(rng.integers(0, 3))
        _renew_stats(parts)
    elif fault == "split beyond the episodes":
        parts.info["splits"] = {"train": f"0:{episodes + int(rng.integers(1, 90))}"}
    elif fault == "splits overlap":
        parts.info["splits"] = {"train": f"0:{episodes}", "val": f"{episodes - 1}:{episodes}"}


def _renew_stats(parts: _Parts) -> None:
    """The statistics of the columns as they are now."""
    parts.stats = _stats(parts.columns)
    ends = np.cumsum(parts.lengths)
    for row, end, length in zip(parts.episode_stats, ends, parts.lengths, strict=True):
        row["stats"] = _stats({key: values[end - length : end] for key, values in parts.columns.items()})


def _write(folder: Path, parts: _Parts) -> None:
    if parts.version == "v3.0":
        for row, stats in zip(parts.listed, parts.episode_stats, strict=False):
            row |= {f"stats/{key}/{name}": v for key, s in stats["stats"].items() for name, v in s.items()}
    meta = parts.write(folder) / "meta"
    if parts.version != "v3.0":
        write_lines(meta / "episodes_stats.jsonl", parts.episode_stats)
    (meta / "stats.json").write_text(json.dumps(parts.stats))
    if parts.modality:
        (meta / "modality.json").write_text(json.dumps(parts.modality))
