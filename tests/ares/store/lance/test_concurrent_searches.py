"""Concurrent searches by vector and by words, with filters, while a writer appends and indexes: none blocks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from ares.store.lance.row_index import VersionCache

# In another process: a search that never returns blocks the interpreter too, so the process has to be ended.
_SEARCHES = """
import faulthandler, sys, threading
import numpy as np, pyarrow as pa
from ares.search.engine import run_concurrently
from ares.store.vectors import index as recall
from ares.store.lance_tables import open_tables

ROUNDS, SEARCHES, FLAT_ROWS, FRAMES, DIM = 4, 5, 1_000, 20, 32
faulthandler.dump_traceback_later(240, exit=True)
recall._QUERIES, recall.TARGET = 20, 0.0  # how many are found is another test
tables = open_tables(sys.argv[1])
vectors, segments = tables.vectors("clip"), tables.segments
rng, stop, errors, counts = np.random.default_rng(0), threading.Event(), [], [0] * 4

class View:
    def __init__(self, episode_id):
        self.episode_id, self.camera, self.seconds = episode_id, "front", np.arange(float(FRAMES))
        walk = rng.normal(size=DIM) + np.cumsum(0.1 * rng.normal(size=(FRAMES, DIM)), axis=0)
        self.vectors = (walk / np.linalg.norm(walk, axis=1, keepdims=True)).astype(np.float32)

def grow(first, count):
    ids = [f"episode{number:05}" for number in range(first, first + count)]
    vectors.add([View(episode_id) for episode_id in ids])
    texts = [f"the {episode_id} moves do{number % 7} the it{number % 11}" for number, episode_id in enumerate(ids)]
    zero = np.zeros(count)
    columns = {"annotation_id": ids, "episode_id": ids, "start_seconds": zero, "stop_seconds": zero + 1,
               "camera": ["front"] * count, "text": texts, "maker_id": ["m"] * count}
    segments.upsert(pa.table(columns))

def search(number):
    rng = np.random.default_rng(number)
    while not stop.is_set() and not errors:
        query = rng.normal(size=DIM).astype(np.float32)
        many = {f"episode{index:05}" for index in rng.integers(0, 150, 100)}
        single = f"episode{rng.integers(150):05}"
        try:
            frames, filtered_frames, captions, own_captions = run_concurrently([
                lambda: vectors.search_episodes(query, 5),
                lambda: vectors.search_episodes(query, 5, many),
                lambda: segments.search_text("moves do3", 5, many),
                lambda: segments.search_text(single, 5, {single}),
            ])
            assert len({hit.episode_id for hit in frames}) == 5
            assert len(filtered_frames) == 5 and {hit.episode_id for hit in filtered_frames} <= many
            assert len(captions) == 5 and {hit.episode_id for hit in captions} <= many
            assert [hit.episode_id for hit in own_captions] == [single]
        except BaseException as error:
            errors.append(error)
            raise
        counts[number] += 1

grow(0, 150)
assert vectors.refresh(FLAT_ROWS).kind == "IVF_RQ"
threads = [threading.Thread(target=search, args=(number,)) for number in range(len(counts))]
for thread in threads:
    thread.start()
rounds = 0
while not errors and (rounds < ROUNDS or min(counts) < SEARCHES):
    grow(150 + 5 * rounds, 5)
    vectors.refresh(FLAT_ROWS)
    if rounds % 3 == 2:
        tables.optimize()
    rounds += 1
stop.set()
for thread in threads:
    thread.join()
assert not errors, errors
print(counts, rounds)
"""


@pytest.mark.slow
def test_searches_at_once_end_and_are_right_while_a_writer_appends_and_indexes(tmp_path: Path) -> None:
    program = [sys.executable, "-X", "faulthandler", "-c", _SEARCHES, str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]


def test_concurrent_threads_read_the_row_index_once() -> None:
    versions: list[int] = []

    def slow_read(dataset: Any) -> object:
        versions.append(dataset.version)
        time.sleep(0.1)
        return dataset

    cache, dataset = VersionCache[Any](slow_read), SimpleNamespace(version=1)
    threads = [Thread(target=cache.get, args=(dataset,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [1]
