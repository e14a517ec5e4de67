"""Writes any number of synthetic episodes into a workspace, reproducible by seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from ares.episode import Camera, Episode, MediaRef, Record, Trajectory, make_episode_id
from ares.workspace import Workspace

_BATCH_SIZE = 50_000
_VERBS = ("open", "close", "push", "pull", "pick up", "put down", "turn", "press")
_OBJECTS = ("drawer", "door", "mug", "pot", "lever", "button", "faucet", "box", "block", "handle")


def add_synthetic_episodes(ws: Workspace, episodes: int, seed: int = 0) -> None:
    """Add episodes of one step without pixels, to measure the tables rather than the media.

    Args:
        ws: Workspace to which they are added.
        episodes: Number of episodes.
        seed: Seed of all random values.
    """
    records = _records(episodes, random.Random(seed))
    while batch := list(islice(records, _BATCH_SIZE)):
        ws.stores.tables.episodes.add(batch)


def set_annotator_columns(ws: Workspace, seed: int = 0) -> None:
    """Set the columns that annotators would fill: a caption, a grade and numbers, a tenth of them missing.

    Args:
        ws: Workspace with the episodes.
        seed: Seed of all random values.
    """
    import numpy as np
    import pyarrow as pa

    ids, rng = (
        ws.stores.tables.episodes.read_columns(["episode_id"])["episode_id"],
        np.random.default_rng(seed),
    )
    count = len(ids)
    missing = rng.random(count) < 0.1
    grades = np.array(["acceptable", "not_acceptable", "unsure", "error"], object)
    columns = {
        "caption": np.char.add("take the thing number ", rng.integers(0, count, count).astype(str)).astype(
            object
        ),
        "grade": rng.choice(grades, count, p=(0.7, 0.2, 0.08, 0.02)),
        "acceptable": rng.random(count) < 0.7,
        "path_length": rng.lognormal(0.0, 1.0, count),
        "jerk_ldlj": rng.normal(-8.0, 2.0, count),
        "idle_share": rng.random(count),
        "gripper_events": rng.poisson(3.0, count),
    }
    arrays = {name: pa.array(values, mask=missing) for name, values in columns.items()}
    ws.stores.tables.episodes.set_values(pa.table({"episode_id": ids, **arrays}))
    ws.stores.tables.optimize()


def _records(episodes: int, rng: random.Random) -> Iterator[Record]:
    import numpy as np

    trajectory = Trajectory(timestamps=np.zeros(1))
    for number in range(episodes):
        yield Record(episode=synthetic_episode(number, rng), trajectory=trajectory)


def synthetic_episode(number: int, rng: random.Random) -> Episode:
    """An episode of one camera without pixels; the same for the same number and state of the generator."""
    dataset, key, rate_hz = f"dataset_{rng.randrange(20)}", str(number), 10.0
    identity = make_episode_id(format="rlds", dataset=dataset, version="1.0.0", split="train", key=key)
    steps = rng.randrange(20, 400)
    instruction = f"{rng.choice(_VERBS)} the {rng.choice(_OBJECTS)}"
    media = MediaRef(
        kind="mp4",
        uri=f"/nowhere/{number}.mp4",
        start_seconds=0.0,
        stop_seconds=steps / rate_hz,
        num_frames=steps,
        rate_hz=rate_hz,
    )
    camera = Camera(name="front", role="front", width=256, height=256, codec="h264", media=media)
    return Episode(
        episode_id=identity,
        format="rlds",
        dataset=dataset,
        version="1.0.0",
        split="train",
        key=key,
        source=f"/nowhere/{number}",
        content_hash=identity,
        instruction=instruction,
        instructions=(instruction,),
        robot="made up",
        num_steps=steps,
        rate_hz=rate_hz,
        rate_source="user",
        cameras=(camera,),
        success=rng.random() < 0.6,
        success_source="made up",
    )
