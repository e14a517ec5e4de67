"""Datasets of generated states in .npz files, ingested and annotated by `motion`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ares

RATE_HZ = 20.0


def write_episodes(folder: Path, states: Sequence[NDArray[np.float64]]) -> Path:
    """One .npz file per state (T, D), with an action that does not matter; returns the folder."""
    folder.mkdir(parents=True)
    for number, state in enumerate(states):
        action = np.random.default_rng(number).normal(size=(len(state), 2))
        np.savez(folder / f"episode_{number}.npz", state=state, action=action)
    return folder


def motion_rows(workspace: Path, folder: Path, spec: Path | None = None) -> list[dict[str, Any]]:
    """The columns of `motion` of every episode, in the order of the episodes' keys."""
    from ares_annotators.motion.columns import COLUMNS

    ws = ares.open(workspace / "ws", create=True)
    ws.ingest(folder, rate_hz=RATE_HZ, spec=spec or "", quiet=True)
    ws.annotate("motion")
    names = ["key", *(column.name for column in COLUMNS)]
    rows = ws.stores.tables.episodes.read_columns(names, "").to_pylist()
    return sorted(rows, key=lambda row: str(row["key"]))
