"""What a workspace holds after a job, in a form in which two workspaces can be compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceState:
    """Everything by which a user could distinguish two workspaces, times of day aside.

    Attributes:
        rows: By record key, the columns of the episode.
        episodes: Number of rows of episodes; more than `rows` has where one is stored twice.
        signals: By record key, a hash of its timestamps, state and action.
        trajectories: Number of rows of signals.
        vectors: By embedding space and record key, a hash of the vectors with their cameras and seconds.
        annotations: Ids in the annotation log, sorted.
        failures: Failures that are logged.
        findings: What doctor finds, after a repair where there was one.
    """

    rows: dict[str, dict[str, Any]]
    episodes: int
    signals: dict[str, str]
    trajectories: int
    vectors: dict[str, str]
    annotations: list[str]
    failures: list[str]
    findings: list[str]

    def difference(self, other: WorkspaceState) -> str:
        """What differs, in words; "" where nothing does."""
        for name in ("episodes", "trajectories", "annotations", "failures", "findings"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)} in place of {getattr(other, name)}"
        if self.rows.keys() != other.rows.keys():
            return f"episodes differ: {sorted(self.rows.keys() ^ other.rows.keys())}"
        for key, row in self.rows.items():
            columns = [name for name in row if row[name] != other.rows[key].get(name)]
            if columns:
                return f"{key}: {columns[0]} is {row[columns[0]]!r} in place of {other.rows[key].get(columns[0])!r}"
        changed = [key for key in self.signals if self.signals[key] != other.signals.get(key)]
        if changed:
            return f"signals of {changed} differ"
        keys = self.vectors.keys() | other.vectors.keys()
        changed = sorted(key for key in keys if self.vectors.get(key) != other.vectors.get(key))
        return f"vectors of {changed} differ" if changed else ""


def read_state(path: str, *, repair: bool = True) -> WorkspaceState:
    """Repair a workspace unless it needs none, check it, and read what it holds."""
    from ares.doctor import run_checks
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace

    workspace = open_workspace(path, settings_from_environment({}))
    if repair:
        run_checks(workspace.stores, repair=True)
    findings = [f"{finding.check}: {finding.example}" for finding in run_checks(workspace.stores)]
    tables = workspace.stores.tables
    columns = sorted(set(tables.episodes.columns()) - {"ingested", "source_stamp", "camera_stamps"})
    rows = {str(row["episode_id"]): row for row in tables.episodes.read_columns(columns).to_pylist()}
    ids = sorted(rows)
    spaces = {space: tables.vectors(space) for space in tables.spaces()}
    state = WorkspaceState(
        rows=rows,
        episodes=tables.episodes.count(),
        signals={episode_id: _hash(value) for episode_id, value in tables.trajectories.read(ids)},
        trajectories=tables.trajectories.count(),
        vectors={
            f"{space} {key}": _hash_vectors(of.read(key)) for space, of in spaces.items() for key in ids
        },
        annotations=sorted(
            annotation.annotation_id for annotation in workspace.stores.annotations.find_annotations(ids)
        ),
        failures=[
            json.dumps(document, sort_keys=True, default=str)
            for document in workspace.stores.annotations.find_documents("failures")
        ],
        findings=findings,
    )
    workspace.close()
    return state


def holds_text(path: Path, text: str) -> str:
    """The first file below a folder that holds a text, or ""."""
    for file in path.rglob("*"):
        if file.is_file() and text.encode() in file.read_bytes():
            return str(file)
    return ""


def _hash_vectors(vectors: Any) -> str:
    digest = hashlib.sha256(repr(vectors.cameras).encode())
    digest.update(vectors.seconds.tobytes() + vectors.vectors.tobytes())
    return digest.hexdigest()[:16]


def _hash(trajectory: Any) -> str:
    digest = hashlib.sha256(trajectory.timestamps.tobytes())
    for signal in (trajectory.state, trajectory.action):
        if signal is not None:
            digest.update(repr(signal.names).encode() + signal.values.tobytes())
    return digest.hexdigest()[:16]
