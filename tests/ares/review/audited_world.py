"""Datasets of made-up frame vectors, of which an instruction was planted wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from ares.episode import Json, Record, Trajectory, make_episode_id
from ares.store import Stores
from ares_annotators.base import FrameVectors
from benchmarks.synthetic_episodes import synthetic_episode

TEXTS = ("open the drawer", "close the drawer", "lift the lid")
SPACE = "look"
_DIM, _FRAMES, _EPISODES = 12, 5, 8


def fill_audited_world(stores: Stores, *, with_vectors: bool = True) -> dict[str, str]:
    """Write the datasets "known", "alike" and "rare". Returns what the source says wrongly, by id of the episode.

    In "known" three instructions look different, one of them in two wordings, and one episode has the wrong one. In
    "alike" all look the same. In "rare" each has one episode, which is there five times.
    """
    rng, wrong = np.random.default_rng(1), dict[str, str]()
    names = {"known": _EPISODES, "alike": _EPISODES, "rare": 5}
    records, frames = [], []
    for dataset, count in names.items():
        for number, text in enumerate(TEXTS):
            for repeat in range(count):
                is_planted = (dataset, number, repeat) == ("known", 2, 3)
                said = TEXTS[0] if is_planted else f"{text.capitalize()}." if repeat % 2 else text
                record = make_record(dataset, f"{number}-{repeat}", said)
                if is_planted:
                    wrong[record.episode.episode_id] = said
                if dataset == "rare":
                    record = replace(record, episode=replace(record.episode, content_hash=f"rare {number}"))
                records.append(record)
                centre = np.zeros(_DIM) if dataset == "alike" else 3 * np.eye(_DIM)[number]
                vectors = (centre + rng.normal(0, 0.5, (_FRAMES, _DIM))).astype(np.float32)
                seconds, id = np.arange(_FRAMES, dtype=np.float64), record.episode.episode_id
                frames.append(FrameVectors(episode_id=id, camera="front", seconds=seconds, vectors=vectors))
    stores.tables.episodes.add(records)
    if with_vectors:
        space: Json = {"encoder": "clip", "model": "m", "dim": _DIM, "created": "1"}
        stores.annotations.put_documents("spaces", {SPACE: space})
        stores.tables.vectors(SPACE).add(frames)
    return wrong


def make_record(dataset: str, key: str, instruction: str) -> Record:
    """An episode without pixels."""
    identity = make_episode_id(format="rlds", dataset=dataset, version="1.0.0", split="train", key=key)
    episode = replace(
        synthetic_episode(0, random.Random(0)),
        episode_id=identity,
        dataset=dataset,
        key=key,
        content_hash=identity,
        instruction=instruction,
        instructions=(instruction,),
        success=None,
        success_source="",
    )
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.zeros(1)))
