"""Folders of npz files that are one time step each, as some simulators write them, with what their episodes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFolder:
    """A folder of steps.

    Attributes:
        path: The folder of the dataset.
        actions: (T, A) of each episode, in order.
        pictures: (T, H, W, 3) of the camera of each episode; empty without one.
        first_files: The file of the first step of each episode.
        has_ranges: Whether a table says where episodes start and end.
    """

    path: Path
    actions: list[NDArray[np.float32]]
    pictures: list[NDArray[np.uint8]]
    first_files: list[Path]
    has_ranges: bool


def make_step_folder(folder: Path, seed: int) -> StepFolder:
    """Draw a folder: how many episodes, how long, names, numbers, arrays, and whether a table has the ranges."""
    rng = np.random.default_rng(seed)
    lengths = [int(length) for length in rng.integers(4, 14, int(rng.integers(2, 5)))]
    has_ranges = bool(rng.random() < 0.6)
    has_camera = bool(rng.random() < 0.7) or not has_ranges
    place = folder / str(rng.choice(["", "training", "data/part_1"]))
    place.mkdir(parents=True, exist_ok=True)
    prefix, digits = str(rng.choice(["episode_", "step", "frame-", "t_"])), int(rng.choice([0, 6, 7]))
    gap = 0 if has_ranges and rng.random() < 0.5 else int(rng.integers(1, 5))
    widths = _draw_widths(rng)
    number, ranges = int(rng.integers(0, 400_000)), list[tuple[int, int]]()
    actions, first_files = [], []
    pictures: list[NDArray[np.uint8]] = []
    for length in lengths:
        arrays: dict[str, Any] = {
            name: rng.normal(size=(length, width)).astype(np.float32) for name, width in widths.items()
        }
        if has_camera:
            arrays["rgb_static"] = rng.integers(0, 255, (length, 20, 24, 3), np.uint8)
            pictures.append(arrays["rgb_static"])
        first_files.append(place / f"{prefix}{number:0{digits}d}.npz")
        _write_steps(place, f"{prefix}{{:0{digits}d}}.npz", number, arrays)
        actions.append(arrays[next(iter(widths))])
        ranges.append((number, number + length - 1))
        number += length + gap
    if has_ranges:
        np.save(place / "ep_start_end_ids.npy", np.array(ranges))
    return StepFolder(
        path=folder, actions=actions, pictures=pictures, first_files=first_files, has_ranges=has_ranges
    )


def _draw_widths(rng: np.random.Generator) -> Mapping[str, int]:
    """Numbers of each array; the first is the action."""
    action = int(rng.integers(4, 9))
    return {
        str(rng.choice(["actions", "action"])): action,
        "robot_obs": action + int(rng.integers(4, 9)),
        "scene_obs": action + int(rng.integers(10, 20)),
    }


def _write_steps(place: Path, pattern: str, first: int, arrays: Mapping[str, Any]) -> None:
    for step in range(len(next(iter(arrays.values())))):
        np.savez(place / pattern.format(first + step), **{name: rows[step] for name, rows in arrays.items()})
