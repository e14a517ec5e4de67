"""A workspace of random episodes with unusual values, and the same values in plain Python to compare with."""

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
from ares.episode import Camera, Episode, Json, MediaRef, Record, Trajectory, make_episode_id
from ares.search import embed_texts, find_embedding_space, find_signal_layout, name_motion_space
from ares.settings import Settings
from ares.store import arrow_type, segment_schema
from ares.workspace import Workspace, open_workspace
from tests.ares.store.random_filters import TEXTS, random_columns

DIM = 16
KINDS = {
    "note": "string", "grade": "string", "score": "float64", "events": "int64", "acceptable": "bool",
    "seen": "timestamp", "objects": "list<string>", "order": "int64",
}  # fmt: skip
DATASETS = ("it's", "b_%", "set\\3", "ü")
INSTRUCTIONS = (
    *(text for text in TEXTS if text.strip("'\\")),
    "open the drawer",
    "close the drawer",
    "lift the mug",
)
_SOURCE = ("episode_id", "dataset", "key", "instruction", "num_steps", "success")


class SeededEncoder:
    """Computes vectors that depend only on a text, or on the mean of an image."""

    dim = DIM

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors."""
        vectors: NDArray[np.float32] = np.stack([text_vector(text) for text in texts])
        return vectors

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors."""
        return self.encode_texts([str(int(image.mean())) for image in images])


def text_vector(text: str) -> NDArray[np.float32]:
    """The vector (D,) of a text."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    vector: NDArray[np.float32] = _unit(np.random.default_rng(seed).normal(size=DIM))
    return vector


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    unit = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float16)
    rounded: NDArray[np.float32] = unit.astype(np.float32)
    return rounded


@dataclass(frozen=True, slots=True, eq=False)
class RandomWorkspace:
    """A workspace, and its contents in memory.

    Attributes:
        workspaces: The same episodes twice: with rows beyond their indexes, and after compaction.
        columns: Values by column, (N) each.
        ids: (N,) episode ids.
        frames: (F, D) frame vectors of the space "exact".
        frame_keys: F keys: number of the episode, camera, second.
        motion_vectors: (N, D) motion vector of each episode.
        captions: Number of the episode, start in seconds and text of each caption.
    """

    workspaces: Sequence[Workspace]
    columns: dict[str, list[Any]]
    ids: NDArray[Any]
    frames: NDArray[np.float32]
    frame_keys: list[tuple[int, str, float]]
    motion_vectors: NDArray[np.float32]
    captions: list[tuple[int, float, str]]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let hypothesis not print every value."""
        printer.text(f"RandomWorkspace({len(self.ids)} episodes)")


def make_random_workspace(folder: Path, episodes: int) -> RandomWorkspace:
    """Write most episodes, build indexes, then change values, add the remaining episodes and delete others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ares.store.lance_tables._MIN_INDEXED_ROWS", 100)
        return _build(folder, episodes)


def _build(folder: Path, episodes: int) -> RandomWorkspace:
    ws = open_workspace(str(folder / "ws"), Settings())
    builder = _WorkspaceBuilder(ws, episodes)
    indexed = range(episodes * 4 // 5)
    builder.write(indexed)
    space: dict[str, Json] = {"encoder": "odd", "model": "m", "dim": DIM, "created": "2026-01-01"}
    ws.stores.annotations.put_documents("spaces", {"exact": space})
    embed_texts(ws.stores, find_embedding_space(ws.stores, "exact"))
    ws.stores.tables.optimize()
    builder.change(range(0, len(indexed), 7))
    builder.write(range(len(indexed), episodes))
    builder.delete(range(0, episodes, 11))
    embed_texts(ws.stores, find_embedding_space(ws.stores, "exact"))
    shutil.copytree(folder / "ws", folder / "tidy")
    compacted = open_workspace(str(folder / "tidy"), Settings())
    compacted.stores.tables.optimize()
    return builder.result((ws, compacted))


class _WorkspaceBuilder:
    def __init__(self, ws: Workspace, episodes: int) -> None:
        self._ws = ws
        rng = random.Random(1)
        self._columns = random_columns(episodes, 0)
        self._records = [_record(number, rng) for number in range(episodes)]
        self._deleted: set[int] = set()
        generator = np.random.default_rng(2)
        pool = _unit(generator.normal(size=(60, DIM)))
        self._frames: dict[int, NDArray[np.float32]] = {}
        self._captions: list[tuple[int, float, str]] = []
        for number in range(episodes):
            vectors = _unit(generator.normal(size=(3, DIM)))
            # Many frames are equal, and every tenth episode has none.
            frames = np.concatenate([vectors, pool[generator.integers(0, len(pool), 2)]])
            self._frames[number] = frames if number % 10 else frames[:0]
            for start in range(rng.randrange(4)):
                self._captions.append((number, float(start), rng.choice(INSTRUCTIONS)))
        self._motion_vectors = _unit(generator.normal(size=(episodes, DIM)))

    def write(self, numbers: range) -> None:
        """Write episodes with their values, vectors and captions."""
        self._ws.stores.tables.episodes.add([self._records[number] for number in numbers])
        with_values = range(numbers.start, (numbers.start + 4 * numbers.stop) // 5)
        self._set(with_values, list(KINDS))
        for number in range(with_values.stop, numbers.stop):
            for values in self._columns.values():
                values[number] = None
        rows = [self._frame_rows(number) for number in numbers]
        self._ws.stores.tables.vectors("exact").add([row for camera_rows in rows for row in camera_rows])
        motion_rows = [self._motion_rows(number) for number in numbers]
        episode = self._records[0].episode
        layout = find_signal_layout(episode.state_names)
        assert layout is not None
        self._ws.stores.tables.vectors(name_motion_space("state", layout, episode)).add(motion_rows)
        captions = [
            (index, *caption) for index, caption in enumerate(self._captions) if caption[0] in numbers
        ]
        schema = segment_schema()
        segment_rows = [
            {"annotation_id": f"{index:05}", "episode_id": self._id(number), "start_seconds": start,
             "stop_seconds": start + 1, "camera": "front", "text": text, "maker_id": "m"}
            for index, number, start, text in captions
        ]  # fmt: skip
        self._ws.stores.tables.segments.upsert(pa.Table.from_pylist(segment_rows, schema=schema))

    def change(self, numbers: range) -> None:
        """Give some episodes other values in columns that have an index, and in others."""
        new_values = random_columns(len(self._records), 5)
        for name in ("grade", "note", "score"):
            for number in numbers:
                self._columns[name][number] = new_values[name][number]
            self._set(numbers, [name])

    def delete(self, numbers: range) -> None:
        """Delete episodes from all tables; no command does so, but the repair after a crash may."""
        self._deleted |= set(numbers)
        id_list = ", ".join(f"'{self._id(number)}'" for number in numbers)
        tables = self._ws.stores.tables
        for name in tables.connection.table_names():
            if name != "index_state" and not name.startswith("texts"):
                table = tables.connection.open_table(name)
                assert table is not None
                table.delete(f"episode_id IN ({id_list})")

    def result(self, workspaces: Sequence[Workspace]) -> RandomWorkspace:
        """The remaining contents."""
        remaining = [number for number in range(len(self._records)) if number not in self._deleted]
        row_by_number = {number: index for index, number in enumerate(remaining)}
        episodes = [self._records[number].episode for number in remaining]
        columns = {name: [getattr(episode, name) for episode in episodes] for name in _SOURCE}
        columns |= {name: [values[number] for number in remaining] for name, values in self._columns.items()}
        frame_keys = [
            (index, row.camera, second)
            for number, index in row_by_number.items()
            for row in self._frame_rows(number)
            for second in row.seconds.tolist()
        ]
        return RandomWorkspace(
            workspaces=workspaces,
            columns=columns,
            ids=np.array(columns["episode_id"]),
            frames=np.concatenate([self._frames[number] for number in remaining]),
            frame_keys=frame_keys,
            motion_vectors=self._motion_vectors[remaining],
            captions=[
                (row_by_number[number], start, text)
                for number, start, text in self._captions
                if number in row_by_number
            ],
        )

    def _id(self, number: int) -> str:
        return self._records[number].episode.episode_id

    def _set(self, numbers: range, names: Sequence[str]) -> None:
        values = {name: [self._columns[name][number] for number in numbers] for name in names}
        columns = {name: pa.array(values[name], arrow_type(KINDS[name]), from_pandas=False) for name in names}
        ids = [self._id(number) for number in numbers]
        self._ws.stores.tables.episodes.set_values(pa.table({"episode_id": ids, **columns}))

    def _frame_rows(self, number: int) -> list[FrameVectors]:
        vectors, episode_id = self._frames[number], self._id(number)
        cameras = (("front", vectors[:3]), ("wrist", vectors[3:]))
        return [
            FrameVectors(
                episode_id=episode_id, camera=camera, seconds=np.arange(float(len(own))) * 2, vectors=own
            )
            for camera, own in cameras
        ]

    def _motion_rows(self, number: int) -> FrameVectors:
        own = self._motion_vectors[number : number + 1]
        return FrameVectors(episode_id=self._id(number), camera="", seconds=np.zeros(1), vectors=own)


def _record(number: int, rng: random.Random) -> Record:
    source = {"format": "rlds", "dataset": rng.choice(DATASETS), "version": "1", "split": "train"}
    episode_id = make_episode_id(**source, key=str(number))
    media = MediaRef(
        kind="mp4", uri="/nowhere.mp4", start_seconds=0.0, stop_seconds=9.0, num_frames=90, rate_hz=10.0
    )
    camera = Camera(name="front", role="front", width=8, height=8, codec="h264", media=media)
    instruction = rng.choice(INSTRUCTIONS)
    episode = Episode(
        episode_id=episode_id, key=str(number), source="/nowhere", content_hash=episode_id, instruction=instruction,
        instructions=(instruction,), robot="odd arm", num_steps=rng.randrange(1, 60), rate_hz=10.0, rate_source="user",
        cameras=(camera,), success=rng.choice((True, False, None)), state_names=("x", "y", "z"),
        format=source["format"], dataset=source["dataset"], version=source["version"], split=source["split"],
    )  # fmt: skip
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.zeros(1)))
