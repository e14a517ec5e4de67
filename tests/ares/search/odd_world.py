"""Odd world: a workspace with all that a search can meet, and the same in plain Python to compare with."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from annotators.base import FrameVectors
from ares.episode import Camera, Episode, Json, Record, Trajectory, episode_id
from ares.media.ref import MediaRef
from ares.search.meaning import embed_texts
from ares.search.motion import layout_of, space_name
from ares.search.spaces import choose_space
from ares.settings import Settings
from ares.store import recall
from ares.store.segments import segment_schema
from ares.store.values import arrow_type
from ares.workspace import Workspace, open_workspace
from tests.ares.search.odd_filters import TEXTS, odd_columns

DIM = 16
KINDS = {
    "note": "string", "grade": "string", "score": "float64", "events": "int64", "acceptable": "bool",
    "seen": "timestamp", "objects": "list<string>", "order": "int64",
}  # fmt: skip
DATASETS = ("it's", "b_%", "set\\3", "ü")
TOLD = (*(text for text in TEXTS if text.strip("'\\")), "open the drawer", "close the drawer", "lift the mug")
_SOURCE = ("episode_id", "dataset", "key", "instruction", "num_steps", "success")


class OddEncoder:
    """Vectors that depend on a text, or the mean of an image, and on nothing else."""

    dim = DIM

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors."""
        made: NDArray[np.float32] = np.stack([direction(text) for text in texts])
        return made

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors."""
        return self.encode_texts([str(int(image.mean())) for image in images])


def direction(text: str) -> NDArray[np.float32]:
    """(D,) the vector of a text."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    vector: NDArray[np.float32] = _unit(np.random.default_rng(seed).normal(size=DIM))
    return vector


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    unit = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float16)
    kept: NDArray[np.float32] = unit.astype(np.float32)
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A workspace and what is in it.

    Attributes:
        workspaces: The same episodes twice: with rows beyond their indexes, and after compaction.
        columns: Values by column, (N) each.
        ids: (N,) their ids.
        frames: (F, D) frame vectors of the spaces "exact" and "indexed", by place.
        places: F places: number of the episode, camera, second.
        courses: (N, D) vector of motion of each episode; zero without one.
        captions: Number of the episode, start in seconds and text of each caption.
    """

    workspaces: Sequence[Workspace]
    columns: dict[str, list[Any]]
    ids: NDArray[Any]
    frames: NDArray[np.float32]
    places: list[tuple[int, str, float]]
    courses: NDArray[np.float32]
    captions: list[tuple[int, float, str]]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let hypothesis not print every value."""
        printer.text(f"World({len(self.ids)} episodes)")


def make_world(folder: Path, many: int) -> World:
    """Make it: most episodes, then indexes, then values changed, episodes added, and others taken away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ares.store.tables._INDEX_ROWS", 100)
        patch.setattr(recall, "_PER_KIND", 6)
        return _make(folder, many)


def _make(folder: Path, many: int) -> World:
    ws = open_workspace(str(folder / "ws"), Settings())
    made = _Maker(ws, many)
    first = range(many * 4 // 5)
    made.write(first)
    for space in ("exact", "indexed"):
        document: dict[str, Json] = {"encoder": "odd", "model": "m", "dim": DIM, "created": "2026-01-01"}
        ws.annotations.put("spaces", {space: document})
        embed_texts(ws, choose_space(ws, space))
    ws.tables.vectors("indexed").refresh(1_000)
    ws.tables.optimize()
    made.change(range(0, len(first), 7))
    made.write(range(len(first), many))
    made.forget(range(0, many, 11))
    for space in ("exact", "indexed"):
        embed_texts(ws, choose_space(ws, space))
    shutil.copytree(folder / "ws", folder / "tidy")
    tidy = open_workspace(str(folder / "tidy"), Settings())
    tidy.tables.optimize()
    tidy.tables.vectors("indexed").refresh(1_000)
    return made.world((ws, tidy))


class _Maker:
    def __init__(self, ws: Workspace, many: int) -> None:
        self._ws = ws
        chance = random.Random(1)
        self._columns = odd_columns(many, 0)
        self._records = [_record(number, chance) for number in range(many)]
        self._gone: set[int] = set()
        normal = np.random.default_rng(2)
        pool = _unit(normal.normal(size=(60, DIM)))
        self._frames: dict[int, NDArray[np.float32]] = {}
        self._captions: list[tuple[int, float, str]] = []
        for number in range(many):
            own = _unit(normal.normal(size=(3, DIM)))
            # Many frames are exactly alike, and an episode in ten has none.
            both = np.concatenate([own, pool[normal.integers(0, len(pool), 2)]])
            self._frames[number] = both if number % 10 else both[:0]
            for start in range(chance.randrange(4)):
                self._captions.append((number, float(start), chance.choice(TOLD)))
        self._courses = _unit(normal.normal(size=(many, DIM)))

    def write(self, numbers: range) -> None:
        """Write episodes with all that belongs to them."""
        self._ws.tables.episodes.add([self._records[number] for number in numbers])
        half = range(numbers.start, (numbers.start + 4 * numbers.stop) // 5)
        self._set(half, list(KINDS))
        for number in range(half.stop, numbers.stop):
            for values in self._columns.values():
                values[number] = None
        rows = [self._rows(number) for number in numbers]
        for space in ("exact", "indexed"):
            self._ws.tables.vectors(space).add([row for two in rows for row in two])
        courses = [self._course(number) for number in numbers]
        episode = self._records[0].episode
        layout = layout_of(episode.state_names)
        assert layout is not None
        self._ws.tables.vectors(space_name("state", layout, episode)).add(courses)
        said = [(at, *one) for at, one in enumerate(self._captions) if one[0] in numbers]
        schema = segment_schema()
        spans = [
            {"annotation_id": f"{at:05}", "episode_id": self._id(number), "start_seconds": start,
             "stop_seconds": start + 1, "camera": "front", "text": text, "maker_id": "m"}
            for at, number, start, text in said
        ]  # fmt: skip
        self._ws.tables.segments.upsert(pa.Table.from_pylist(spans, schema=schema))

    def change(self, numbers: range) -> None:
        """Give some episodes other values in columns that have an index, and in others."""
        other = odd_columns(len(self._records), 5)
        for name in ("grade", "note", "score"):
            for number in numbers:
                self._columns[name][number] = other[name][number]
            self._set(numbers, [name])

    def forget(self, numbers: range) -> None:
        """Take episodes away, as no command does but a crash and its mending may."""
        self._gone |= set(numbers)
        listed = ", ".join(f"'{self._id(number)}'" for number in numbers)
        tables = self._ws.tables
        for name in tables.names():
            if name != "index_state" and not name.startswith("texts"):
                table = tables.find(name)
                assert table is not None
                table.delete(f"episode_id IN ({listed})")

    def world(self, workspaces: Sequence[Workspace]) -> World:
        """What is there now."""
        kept = [number for number in range(len(self._records)) if number not in self._gone]
        now = {number: place for place, number in enumerate(kept)}
        episodes = [self._records[number].episode for number in kept]
        columns = {name: [getattr(each, name) for each in episodes] for name in _SOURCE}
        columns |= {name: [values[number] for number in kept] for name, values in self._columns.items()}
        places = [
            (place, row.camera, second)
            for number, place in now.items()
            for row in self._rows(number)
            for second in row.seconds.tolist()
        ]
        return World(
            workspaces=workspaces,
            columns=columns,
            ids=np.array(columns["episode_id"]),
            frames=np.concatenate([self._frames[number] for number in kept]),
            places=places,
            courses=self._courses[kept],
            captions=[(now[number], start, text) for number, start, text in self._captions if number in now],
        )

    def _id(self, number: int) -> str:
        return self._records[number].episode.episode_id

    def _set(self, numbers: range, names: Sequence[str]) -> None:
        columns = {
            name: pa.array(
                [self._columns[name][number] for number in numbers],
                arrow_type(KINDS[name]),
                from_pandas=False,
            )
            for name in names
        }
        ids = [self._id(number) for number in numbers]
        self._ws.tables.episodes.set_values(pa.table({"episode_id": ids, **columns}))

    def _rows(self, number: int) -> list[FrameVectors]:
        vectors, one = self._frames[number], self._id(number)
        halves = (("front", vectors[:3]), ("wrist", vectors[3:]))
        return [
            FrameVectors(episode_id=one, camera=camera, seconds=np.arange(float(len(part))) * 2, vectors=part)
            for camera, part in halves
        ]

    def _course(self, number: int) -> FrameVectors:
        return FrameVectors(
            episode_id=self._id(number),
            camera="",
            seconds=np.zeros(1),
            vectors=self._courses[number : number + 1],
        )


def _record(number: int, chance: random.Random) -> Record:
    place = {"format": "rlds", "dataset": chance.choice(DATASETS), "version": "1", "split": "train"}
    identity = episode_id(**place, key=str(number))
    media = MediaRef(
        kind="mp4", uri="/nowhere.mp4", start_seconds=0.0, stop_seconds=9.0, num_frames=90, rate_hz=10.0
    )
    camera = Camera(name="front", role="front", width=8, height=8, codec="h264", media=media)
    told = chance.choice(TOLD)
    episode = Episode(
        episode_id=identity, key=str(number), source="/nowhere", content_hash=identity, instruction=told,
        instructions=(told,), robot="odd arm", num_steps=chance.randrange(1, 60), rate_hz=10.0, rate_source="user",
        cameras=(camera,), success=chance.choice((True, False, None)), state_names=("x", "y", "z"),
        format=place["format"], dataset=place["dataset"], version=place["version"], split=place["split"],
    )  # fmt: skip
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.zeros(1)))
