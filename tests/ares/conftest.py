"""Fixtures of the tests of stored data: Lance tables, an annotation log, and generated episodes and annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Camera, Episode, MediaRef, Record, Signal, Trajectory, make_episode_id
from ares.store.lance_tables import Tables, open_tables
from ares.store.log.sqlite import SqliteAnnotationStore


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Empty Lance tables."""
    return open_tables(str(tmp_path / "lance"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteAnnotationStore]:
    """An empty SQLite store."""
    with closing(SqliteAnnotationStore(tmp_path / "log.sqlite")) as store:
        yield store


@pytest.fixture(scope="session")
def make_annotation() -> Callable[..., Annotation]:
    """Makes an annotation of an episode; keywords replace its fields."""

    def make(episode: str, **changes: object) -> Annotation:
        fields: dict[str, object] = {
            "episode_id": episode,
            "name": "caption",
            "value": {"text": "open the drawer"},
            "maker_id": Producer(annotator="caption", version="1").maker_id,
            "subject": episode,
            "start_seconds": 0.0,
            "stop_seconds": 5.0,
            "created": "2026-11-21T00:00:00+00:00",
        }
        return Annotation(**(fields | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    """Makes an episode by number, with its signals; keywords replace fields of the episode."""

    def make(number: int, steps: int = 5, **changes: object) -> Record:
        identity = {"format": "rlds", "dataset": f"set{number % 3}", "version": "1", "split": "train"}
        identity |= {name: str(changes[name]) for name in (*identity, "key") if name in changes}
        identity = {"key": str(number)} | identity
        fields: dict[str, object] = {
            **identity,
            "episode_id": make_episode_id(**identity),
            "source": f"/data/{number}.mp4",
            "content_hash": f"hash{number}",
            "instruction": f"open drawer {number}",
            "instructions": (f"open drawer {number}", "pull the handle"),
            "robot": "widowx",
            "num_steps": steps,
            "rate_hz": 10.0,
            "rate_source": "spec",
            "cameras": tuple(_camera(name, number, steps) for name in ("front", "wrist")),
            "success": (True, False, None)[number % 3],
            "success_source": "success" if number % 3 < 2 else "",
            "state_names": ("x", "y"),
            "action_names": ("grip",),
            "metadata": {"operator": "Zoë", "takes": [1, 2.5, None]},
        }
        episode = Episode(**(fields | changes))  # type: ignore[arg-type]
        return Record(episode=episode, trajectory=_trajectory(number, steps))

    return make


@pytest.fixture
def records(make_record: Callable[..., Record]) -> list[Record]:
    """Thirty episodes of three datasets."""
    return [make_record(number, steps=5 + number % 7) for number in range(30)]


@pytest.fixture
def filled(tables: Tables, records: list[Record]) -> Tables:
    """Tables with thirty episodes, written in two batches."""
    tables.episodes.add(records[:20])
    tables.episodes.add(records[20:])
    return tables


def _camera(name: str, number: int, steps: int) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=f"/data/{number}_{name}.mp4",
        start_seconds=1.25,
        stop_seconds=1.25 + steps / 10,
        num_frames=steps,
        rate_hz=10.0,
    )
    flags = ("black", "frozen") if name == "wrist" else ()
    return Camera(name=name, role="front", width=64, height=48, codec="h264", media=media, flags=flags)


def _trajectory(number: int, steps: int) -> Trajectory:
    rng = np.random.default_rng(number)
    return Trajectory(
        timestamps=np.arange(steps) / 10,
        state=Signal(rng.normal(size=(steps, 2)).astype(np.float32), ("x", "y")),
        action=Signal(rng.normal(size=(steps, 1)).astype(np.float32), ("grip",)) if number % 2 else None,
        reward=np.ones(steps, np.float32) if number % 4 else None,
        extra={"discount": Signal(np.ones((steps, 1), np.float32), ("discount",))} if number % 3 else {},
    )
