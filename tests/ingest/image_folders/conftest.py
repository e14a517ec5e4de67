"""Writes folders of tables and images for tests: an episode of ten steps at 20 Hz with two cameras."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ares.episode import Record
from ares_ingest.base import Source, SourceOptions
from ares_ingest.image_folders import csv_episodes

STEPS = 10
START = 1_700_000_000.0


def columns(steps: int = STEPS) -> dict[str, Sequence[Any]]:
    """A table with time, state, action, force and a constant text."""
    random = np.random.default_rng(3)
    return {
        "timestamp": [START + number / 20 for number in range(steps)],
        "joint_0": random.normal(size=steps).tolist(),
        "joint_1": random.normal(size=steps).tolist(),
        "action_0": random.normal(size=steps).tolist(),
        "action_1": list(range(steps)),
        "force_x": random.normal(size=steps).tolist(),
        "force_y": random.normal(size=steps).tolist(),
        "operator": ["Ada"] * steps,
    }


def write_table(path: Path, values: Mapping[str, Sequence[Any]], delimiter: str = ",") -> Path:
    """A table of columns."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(values)
        writer.writerows(zip(*values.values(), strict=True))
    return path


def image_bytes(brightness: int, suffix: str = ".png") -> bytes:
    """A grey image of 32 x 24 pixels."""
    return cv2.imencode(suffix, np.full((24, 32, 3), brightness, np.uint8))[1].tobytes()


def write_images(folder: Path, names: Sequence[str]) -> Path:
    """Images with rising brightness, 20 more for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (folder / name).write_bytes(image_bytes(20 * number, Path(name).suffix))
    return folder


def write_episode(folder: Path, changed: Mapping[str, Sequence[Any]] | None = None, **described: Any) -> Path:
    """One episode; `changed` are further or other columns, `described` is its JSON file."""
    folder.mkdir(parents=True)
    write_table(folder / "data.csv", {**columns(), **(changed or {})})
    write_images(folder / "images" / "front", [f"{number:06d}.png" for number in range(STEPS)])
    write_images(folder / "images" / "wrist", [f"frame_{number}.jpg" for number in range(1, STEPS + 1)])
    (folder / "meta.json").write_text(json.dumps({"instruction": "open the drawer", **described}))
    return folder


def write_dataset(root: Path) -> Path:
    """Three episodes."""
    for number in range(3):
        write_episode(root / f"episode_{number}", {"force_x": [float(number)] * STEPS})
    return root


def opened(path: Path, **options: Any) -> Source:
    """The one source of a folder."""
    (source,) = csv_episodes.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> list[Record]:
    """The records of a folder."""
    return [item.load() for item in opened(path, **options).items]
