"""Generated episodes and the part that their seeds belong to: development, threshold or test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from annotators.success import area_under_curve

_PARTS = Path(__file__).with_name("parts.yaml")
# Between these, length does not tell the outcome; below the other, too few attempts fail.
LENGTH_AREA = (0.45, 0.55)
LEAST_FAILURES = 0.5


def read_seeds() -> dict[int, str]:
    """The part of each seed. Raises ValueError where one is in two parts."""
    import yaml

    parts: dict[int, str] = {}
    for part, rounds in yaml.safe_load(_PARTS.read_text()).items():
        for entry in rounds:
            for seed in [*entry["successes"], *entry["failures"]]:
                if seed in parts:
                    raise ValueError(f"seed {seed} is entered twice in {_PARTS.name}")
                parts[seed] = part
    return parts


def read_rows(folder: Path, part: str) -> list[dict[str, Any]]:
    """The episodes of a folder with what the simulator says of them.

    A policy that does not reach the goal is no failure of a known kind and is left out, and so are the failures of its
    task, which have no length to be cut to.

    Args:
        folder: Folder with `meta_*.jsonl` of the recipe.
        part: The part that they have to belong to.

    Raises:
        ValueError: There is no episode, or the seed of one is not of that part.
    """
    rows = [
        json.loads(line)
        for path in sorted(folder.glob("meta_*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    seeds = read_seeds()
    strangers = sorted({seed for row in rows if seeds.get(seed := seed_of(row)) != part})
    if strangers or not rows:
        raise ValueError(f"{folder} is no folder of the {part} part: seeds {strangers or 'none'}")
    done = {row["task"] for row in rows if row["mode"] == "expert" and row["success"]}
    return [row for row in rows if row["task"] in done and (row["success"] or row["mode"] != "expert")]


def seed_of(row: dict[str, Any]) -> int:
    """The seed of an episode of the recipe, whose id is its task and its seed."""
    return int(row["id"].rsplit("_", 1)[1])


def check_rows(rows: list[dict[str, Any]]) -> str:
    """What a reader should know of the episodes, as a line.

    Raises:
        ValueError: Too few of them fail, or length alone tells the outcome.
    """
    outcomes = [bool(row["success"]) for row in rows]
    failures = outcomes.count(False)
    area = area_under_curve([-float(row["length"]) for row in rows], outcomes)
    line = f"{len(rows)} episodes of {len({row['task'] for row in rows})} tasks, {failures} failed"
    if failures < LEAST_FAILURES * len(rows) or area is None:
        raise ValueError(f"{line}: too few failures for a test of outcomes")
    line += f"; length alone has an AUROC of {area:.3f}"
    if not LENGTH_AREA[0] <= area <= LENGTH_AREA[1]:
        raise ValueError(f"{line}, which tells the outcome")
    return line
