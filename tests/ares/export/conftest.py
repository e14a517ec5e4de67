"""Workspaces to export from: the committed samples, and synthetic episodes of their videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares import open as open_workspace
from ares.curation import CurationSet
from ares.episode import Camera, Episode, MediaRef, Record, Signal, Trajectory
from ares.workspace import Workspace
from ingest.base import SourceOptions
from tests.ingesting import ingest_paths

MakeRecord = Callable[..., Record]
MakeSet = Callable[[Workspace, Sequence[Record]], CurationSet]


@pytest.fixture(scope="session")
def sample_workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Workspace:
    """Both samples, 12 episodes each, with the set "all", one per dataset, and "few" with two of each; read only."""
    ws = open_workspace(tmp_path_factory.mktemp("samples") / "ws", create=True)
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True)
    ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    ws.sets.create("all", ws.stores.tables.episodes.ids(), {"where": ""})
    for format in ("rlds", "video"):
        where = f"format = '{format}'"
        ws.sets.create(format, ws.stores.tables.episodes.ids(where), {"where": where})
    few = [id for format in ("rlds", "video") for id in sorted(ws.sets.ids(ws.sets[format]))[:2]]
    ws.sets.create("few", few, {})
    return ws


@pytest.fixture
def empty_workspace(tmp_path: Path) -> Workspace:
    """A workspace without episodes."""
    return open_workspace(tmp_path / "ws", create=True)


@pytest.fixture(scope="session")
def front_camera(demo_samples: Path) -> Camera:
    """A sample mp4 of 107 frames at 20 Hz."""
    video = demo_samples / "video" / "videos" / "basketball_000_front.mp4"
    full_ref = MediaRef(
        kind="mp4", uri=str(video), start_seconds=0.0, stop_seconds=5.35, num_frames=107, rate_hz=20.0
    )
    return Camera(name="front", role="front", width=192, height=192, codec="h264", media=full_ref)


@pytest.fixture(scope="session")
def make_record(front_camera: Camera) -> MakeRecord:
    """Makes an episode of a sample mp4: (number, steps, reward, names of state and action, **fields of Episode)."""

    def make(
        number: int,
        steps: int = 107,
        reward: bool = True,
        names: tuple[str, ...] = ("x", "y"),
        **fields: object,
    ) -> Record:
        values = np.random.default_rng(number).normal(size=(steps, len(names))).astype(np.float32)
        episode = Episode(
            episode_id=f"{number:016x}",
            format="test",
            dataset="made",
            version="",
            split="",
            key=str(number),
            source=front_camera.media.uri,
            content_hash=f"{number:032x}",
            instruction=f"do thing {number % 2}",
            instructions=(f"do thing {number % 2}",),
            robot="arm",
            num_steps=steps,
            rate_hz=20.0,
            rate_source="user",
            cameras=(front_camera,),
            state_names=names,
            action_names=names,
        )
        trajectory = Trajectory(
            timestamps=np.arange(steps) / float(str(fields.get("rate_hz", 20.0))),
            state=Signal(values, names),
            action=Signal(-values, names),
            reward=values[:, 0] if reward else None,
        )
        return Record(episode=replace(episode, **fields), trajectory=trajectory)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def make_set() -> MakeSet:
    """Adds episodes to a workspace and freezes them."""

    def make(ws: Workspace, records: Sequence[Record]) -> CurationSet:
        ws.stores.tables.episodes.add(records)
        return ws.sets.create("made", [record.episode.episode_id for record in records], {})

    return make
