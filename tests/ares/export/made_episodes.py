"""Episodes for tests of exports, of a committed video; and what exports have, read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ares import open as open_workspace
from ares.curation import CurationSet
from ares.episode import Camera, Episode, MediaRef, Record, Signal, Trajectory
from ares.workspace import Workspace
from tests.conftest import ROOT
from tests.ingesting import ingest_paths

_VIDEO = ROOT / "app" / "demo" / "samples" / "video" / "videos" / "basketball_000_front.mp4"
# A sample mp4 of 107 frames at 20 Hz, and the other view of it.
FRONT = Camera(
    name="front",
    role="front",
    width=192,
    height=192,
    codec="h264",
    media=MediaRef(
        kind="mp4", uri=str(_VIDEO), start_seconds=0.0, stop_seconds=5.35, num_frames=107, rate_hz=20.0
    ),
)
WRIST = replace(
    FRONT,
    name="wrist",
    role="wrist",
    media=replace(FRONT.media, uri=FRONT.media.uri.replace("_front", "_wrist")),
)


def make_record(
    number: int,
    steps: int = 107,
    reward: bool = True,
    names: tuple[str, ...] = ("x", "y"),
    **fields: Any,
) -> Record:
    """An episode of the sample mp4, by number; keywords replace fields of the episode."""
    values = np.random.default_rng(number).normal(size=(steps, len(names))).astype(np.float32)
    episode = Episode(
        episode_id=f"{number:016x}",
        format="test",
        dataset="made",
        version="",
        split="",
        key=str(number),
        source=FRONT.media.uri,
        content_hash=f"{number:032x}",
        instruction=f"do thing {number % 2}",
        instructions=(f"do thing {number % 2}",),
        robot="arm",
        num_steps=steps,
        rate_hz=20.0,
        rate_source="user",
        cameras=(FRONT,),
        state_names=names,
        action_names=names,
    )
    trajectory = Trajectory(
        timestamps=np.arange(steps) / fields.get("rate_hz", 20.0),
        state=Signal(values, names),
        action=Signal(-values, names),
        reward=values[:, 0] if reward else None,
    )
    return Record(episode=replace(episode, **fields), trajectory=trajectory)


def make_set(ws: Workspace, records: Sequence[Record], name: str = "made") -> CurationSet:
    """Add episodes to a workspace and freeze them."""
    ws.stores.tables.episodes.add(records)
    return ws.sets.create(name, [record.episode.episode_id for record in records], {})


def read_json(path: Path) -> Any:
    """The document of a JSON file, or those of a file of JSON lines."""
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def read_info(folder: Path) -> Any:
    """The description of a LeRobot folder."""
    return read_json(folder / "meta" / "info.json")


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """What the manifest of an export says of each episode."""
    rows: list[dict[str, Any]] = read_json(folder / "manifest.episodes.jsonl")
    return rows


def read_rows(folder: Path, under: str = "data") -> list[dict[str, Any]]:
    """The rows of all Parquet files of a LeRobot folder, of its steps or of another part."""
    return [
        row for file in sorted((folder / under).rglob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def ingest_again(folder: Path) -> Workspace:
    """A new workspace beside an export with what it holds."""
    again = open_workspace(folder.with_name(f"{folder.name}-again"), create=True)
    ingest_paths(again.stores, [str(folder)], quiet=True)
    return again


def read_again(folder: Path) -> list[Any]:
    """The episodes of an export in its order, as a new workspace has them."""
    return sorted(ingest_again(folder).episodes, key=lambda episode: int(episode.key.rpartition("/")[2]))
