"""Fixtures of the store tests: a place that both annotation stores can be opened at, and episodes made by number."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from ares.annotation import Annotation, Maker
from ares.episode import Camera, Episode, Record, Signal, Trajectory, episode_id
from ares.media.ref import MediaRef
from ares.store.annotations import AnnotationStore
from ares.store.mongo import MongoStore
from ares.store.sqlite import SqliteStore
from ares.store.tables import Tables, open_tables


@pytest.fixture(params=["sqlite", "mongo"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], AnnotationStore]]:
    """Opens the annotation store of this test; every call is one more handle on the same facts."""
    workspace = uuid.uuid4().hex
    uri = request.getfixturevalue("mongo_uri") if request.param == "mongo" else ""
    place = (uri, workspace) if uri else (str(tmp_path / "annotations.sqlite"),)

    with ExitStack() as opened:

        def open_one() -> AnnotationStore:
            if uri:
                return opened.enter_context(closing(MongoStore(*place)))
            return opened.enter_context(closing(SqliteStore(Path(*place))))

        # How a process of its own opens the same.
        kind = "mongo import MongoStore as Store" if uri else "sqlite import SqliteStore as Store"
        given = ", ".join(map(repr, place)) if uri else f"Path({place[0]!r})"
        open_one.code = f"from pathlib import Path\nfrom ares.store.{kind}\nstore = Store({given})\n"  # type: ignore[attr-defined]
        yield open_one
    if uri:
        from pymongo import MongoClient

        with MongoClient[dict[str, object]](uri) as client:
            client.drop_database(f"ares_{workspace[:12]}")


@pytest.fixture
def store(open_store: Callable[[], AnnotationStore]) -> AnnotationStore:
    """An empty annotation store."""
    return open_store()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Empty Lance tables."""
    return open_tables(str(tmp_path / "lance"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    """An empty SQLite store."""
    with closing(SqliteStore(tmp_path / "log.sqlite")) as opened:
        yield opened


@pytest.fixture(scope="session")
def make_fact() -> Callable[..., Annotation]:
    """Makes a fact about an episode; keywords change what is said of it."""

    def make(episode: str, **said: object) -> Annotation:
        plain: dict[str, object] = {
            "episode_id": episode,
            "name": "caption",
            "value": {"text": "open the drawer"},
            "maker_id": Maker(annotator="caption", version="1").maker_id,
            "subject": episode,
            "start_seconds": 0.0,
            "stop_seconds": 5.0,
            "created": "2026-11-21T00:00:00+00:00",
        }
        return Annotation(**(plain | said))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    """Makes an episode by number with its signals; keywords change what is said of the episode."""

    def make(number: int, steps: int = 5, **said: object) -> Record:
        place = {"format": "rlds", "dataset": f"set{number % 3}", "version": "1", "split": "train"}
        place |= {name: str(said[name]) for name in (*place, "key") if name in said}
        place = {"key": str(number)} | place
        plain: dict[str, object] = {
            **place,
            "episode_id": episode_id(**place),
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
        episode = Episode(**(plain | said))  # type: ignore[arg-type]
        return Record(episode=episode, trajectory=_trajectory(number, steps))

    return make


@pytest.fixture
def records(make_record: Callable[..., Record]) -> list[Record]:
    """Thirty episodes of three datasets."""
    return [make_record(number, steps=5 + number % 7) for number in range(30)]


@pytest.fixture
def filled(tables: Tables, records: list[Record]) -> Tables:
    """Tables with thirty episodes, written in two goes."""
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
