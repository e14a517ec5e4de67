"""Grow: a workspace with any number of made-up episodes, the same ones for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from ares.episode import Camera, Episode, Record, Trajectory, episode_id
from ares.media.ref import MediaRef
from ares.workspace import Workspace

_PER_WRITE = 50_000
_VERBS = ("open", "close", "push", "pull", "pick up", "put down", "turn", "press")
_THINGS = ("drawer", "door", "mug", "pot", "lever", "button", "faucet", "box", "block", "handle")


def grow(ws: Workspace, episodes: int, seed: int = 0) -> None:
    """Add episodes of one step and no pixels; what is measured on them is the tables, not the media.

    Args:
        ws: Where to.
        episodes: How many.
        seed: Of everything random.
    """
    records = _records(episodes, random.Random(seed))
    while batch := list(islice(records, _PER_WRITE)):
        ws.tables.episodes.add(batch)


def annotate(ws: Workspace, seed: int = 0) -> None:
    """Give every episode what annotators would: a caption, a grade and numbers, a tenth of them missing.

    Args:
        ws: Where the episodes are.
        seed: Of everything random.
    """
    import numpy as np
    import pyarrow as pa

    ids, chance = ws.frame(["episode_id"])["episode_id"], np.random.default_rng(seed)
    many = len(ids)
    missing = chance.random(many) < 0.1
    grades = np.array(["acceptable", "not_acceptable", "unsure", "error"], object)
    columns = {
        "caption": np.char.add("take the thing number ", chance.integers(0, many, many).astype(str)).astype(
            object
        ),
        "grade": chance.choice(grades, many, p=(0.7, 0.2, 0.08, 0.02)),
        "acceptable": chance.random(many) < 0.7,
        "path_length": chance.lognormal(0.0, 1.0, many),
        "jerk_ldlj": chance.normal(-8.0, 2.0, many),
        "idle_share": chance.random(many),
        "gripper_events": chance.poisson(3.0, many),
    }
    made = {name: pa.array(values, mask=missing) for name, values in columns.items()}
    ws.tables.episodes.set_values(pa.table({"episode_id": ids, **made}))
    ws.tables.optimize()


def _records(episodes: int, chance: random.Random) -> Iterator[Record]:
    import numpy as np

    trajectory = Trajectory(timestamps=np.zeros(1))
    for number in range(episodes):
        yield Record(episode=_episode(number, chance), trajectory=trajectory)


def _episode(number: int, chance: random.Random) -> Episode:
    dataset, key, rate_hz = f"dataset_{chance.randrange(20)}", str(number), 10.0
    identity = episode_id(format="rlds", dataset=dataset, version="1.0.0", split="train", key=key)
    steps = chance.randrange(20, 400)
    instruction = f"{chance.choice(_VERBS)} the {chance.choice(_THINGS)}"
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
        success=chance.random() < 0.6,
        success_source="made up",
    )
