"""Datasets that cost their time before a record is read: names, links, lists and metadata without end.

More of them are in tests/ingest/test_endless_listings.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np

from tests.torture.corpus.case import Case, Site, json_of, write_demo

_EPISODES = 3_000_000


def cases() -> Iterator[Case]:
    """Every case."""
    table: list[tuple[str, str, Callable[[Site], None]]] = [
        ("hdf5", "group that holds itself", _circle),
        ("npz", f"{_EPISODES:,} ends", _npz_ends),
        ("lerobot", "100,000 cameras", _cameras),
        ("rlds", "1,000,000 shards without records", _shards),
        ("video", "table of 30,000 rows that name one file", _rows),
    ]
    for kind, name, plant in table:
        yield Case(group="listings", name=name, kind=kind, plant=plant)


def _circle(site: Site) -> None:
    with write_demo(site, libver="latest") as file:
        file["data/demo_0/obs/again"] = file["data"]
        file["data/demo_1"] = file["/"]


def _npz_ends(site: Site) -> None:
    arrays = {"action": np.ones((9, 2), np.float32), "state": np.ones((9, 3), np.float32)}
    np.savez_compressed(site.path("hostile.npz"), episode_ends=np.arange(1, _EPISODES), **arrays)  # type: ignore[arg-type]


def _cameras(site: Site) -> None:
    path = site.dataset("lerobot") / "meta" / "info.json"
    with json_of(path) as info:
        camera = info["features"]["observation.images.front"]
        info["features"] |= {f"observation.images.camera_{number}": camera for number in range(100_000)}


def _shards(site: Site) -> None:
    with json_of(site.dataset("rlds") / "dataset_info.json") as info:
        info["splits"][0]["shardLengths"] = ["0"] * 1_000_000


def _rows(site: Site) -> None:
    site.dataset("video")
    row = json.dumps({"file": "hostile_000_front.mp4"}) + "\n"
    site.path("metadata.jsonl").write_text(row * 30_000)
