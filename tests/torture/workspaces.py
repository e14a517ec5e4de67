"""What a workspace holds, in a form in which two workspaces can be compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

# Columns of a row that are no answer of ARES: when a row and its files were written.
_TIMES = {"ingested", "source_stamp", "camera_stamps", "label_stamp"}
# Parts of `ares status` that are apart: where the workspace lies, its sets, and the sizes of its tables.
_APART = ("workspace", "sets", "tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceState:
    """Everything by which a user could distinguish two workspaces, times of day aside.

    Attributes:
        episodes: Number of rows of episodes; more than `rows` has where one is stored twice.
        rows: By episode, the columns of its row.
        segments: By annotation, the columns of the row of its segment.
        trajectories: Number of rows of signals.
        signals: By episode, a hash of its timestamps, state and action.
        vectors: By embedding space and episode, a hash of the vectors with their cameras and seconds.
        annotations: Ids in the annotation log, sorted.
        failures: Failures that are logged, by key.
        log: Removed episodes, actions, chosen producers and purged episodes.
        sets: By name, versions with the hash of their members.
        status: What `ares status` shows of it.
        findings: What doctor finds, after a repair where there was one.
    """

    episodes: int
    rows: dict[str, dict[str, Any]]
    segments: dict[str, dict[str, Any]]
    trajectories: int
    signals: dict[str, str]
    vectors: dict[str, str]
    annotations: list[str]
    failures: dict[str, Any]
    log: dict[str, Any]
    sets: dict[str, list[tuple[int, str]]]
    status: dict[str, Any]
    findings: list[str]

    def difference(self, other: WorkspaceState) -> str:
        """The first thing that differs from another state, in words; "" where nothing does."""
        names = (field.name for field in fields(self))
        return next(filter(None, (_difference(n, getattr(self, n), getattr(other, n)) for n in names)), "")


def _difference(name: str, found: Any, expected: Any) -> str:
    """The first difference of two values; a key without a value is none, and NaN is NaN."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = {**found, **expected} if found != expected else ()
        parts = (_difference(f"{name} {key}", found.get(key), expected.get(key)) for key in keys)
        return next(filter(None, parts), "")
    if str(found) == str(expected):
        return ""
    return f"{name} is {str(found)[:300]} in place of {str(expected)[:300]}"


def read_state(path: str, *, repair: bool = False) -> WorkspaceState:
    """Open a workspace, repair it if asked to, check it, and read what it holds."""
    from ares.curation import Sets
    from ares.doctor import run_checks
    from ares.settings import settings_from_environment
    from ares.store import read_history
    from ares.workspace import open_workspace

    with open_workspace(path, settings_from_environment({})) as workspace:
        if repair:
            run_checks(workspace.stores, repair=True)
        tables, log = workspace.stores.tables, workspace.stores.annotations
        columns = sorted(set(tables.episodes.columns()) - _TIMES)
        rows = {str(row["episode_id"]): row for row in tables.episodes.read_columns(columns).to_pylist()}
        segments = tables.segments.scan(sorted(tables.segments.columns())).to_pylist()
        ids, sets, history = sorted(rows), Sets(log), read_history(log)
        spaces = {space: tables.vectors(space) for space in tables.spaces()}
        status = workspace.status().to_json()
        return WorkspaceState(
            episodes=tables.episodes.count(),
            rows=rows,
            segments={str(row["annotation_id"]): row for row in segments},
            trajectories=tables.trajectories.count(),
            signals={episode_id: _hash(value) for episode_id, value in tables.trajectories.read(ids)},
            vectors={
                f"{name} {key}": _hash_vectors(of.read(key)) for name, of in spaces.items() for key in ids
            },
            annotations=sorted(annotation.annotation_id for annotation in log.find_annotations(ids)),
            failures={key: _without_time(document) for key, document in log.find_documents("failures")},
            log={
                "removed": sorted(tables.removed.ids().to_pylist()),
                "actions": [(own.kind, own.count, history.is_effective(own)) for own in history.actions],
                "pins": dict(log.position().pins),
                "tombstones": [key for key, _ in log.find_documents("tombstones")],
            },
            sets={name: [(item.version, item.ids_hash) for item in sets.versions(name)] for name in sets},
            status={name: value for name, value in status.items() if name not in _APART},
            findings=[f"{finding.check}: {finding.example}" for finding in run_checks(workspace.stores)],
        )


def holds_text(path: Path, text: str) -> str:
    """The first file below a folder that holds a text, or ""."""
    for file in path.rglob("*"):
        if file.is_file() and text.encode() in file.read_bytes():
            return str(file)
    return ""


def _without_time(document: Any) -> str:
    return json.dumps({key: value for key, value in document.items() if key != "at"}, default=str)


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
