"""Searches by vector, by words and with filters at once, while a writer appends and indexes: none waits for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from ares.store import rows
from ares.store.rows import Places

# In another process: a search that never comes back holds the interpreter too, and only its end ends it.
_SEARCHES = """
import faulthandler, sys, threading
import numpy as np, pyarrow as pa
from ares.search.rank import together
from ares.store import recall
from ares.store.tables import open_tables

SECONDS, FLAT_ROWS, FRAMES, DIM = 8, 1_000, 20, 32
faulthandler.dump_traceback_later(60, exit=True)
recall._PER_KIND = 6
tables = open_tables(sys.argv[1])
vectors, segments = tables.vectors("clip"), tables.segments
chance, stop, wrong, done = np.random.default_rng(0), threading.Event(), [], [0] * 4

class View:
    def __init__(self, episode_id):
        self.episode_id, self.camera, self.seconds = episode_id, "front", np.arange(float(FRAMES))
        walk = chance.normal(size=DIM) + np.cumsum(0.1 * chance.normal(size=(FRAMES, DIM)), axis=0)
        self.vectors = (walk / np.linalg.norm(walk, axis=1, keepdims=True)).astype(np.float32)

def grow(first, count):
    ids = [f"episode{number:05}" for number in range(first, first + count)]
    vectors.add([View(each) for each in ids])
    said = [f"the {each} moves do{number % 7} the it{number % 11}" for number, each in enumerate(ids)]
    zero = np.zeros(count)
    columns = {"annotation_id": ids, "episode_id": ids, "start_seconds": zero, "stop_seconds": zero + 1,
               "camera": ["front"] * count, "text": said, "maker_id": ["m"] * count}
    segments.upsert(pa.table(columns))

def search(number):
    mine = np.random.default_rng(number)
    while not stop.is_set() and not wrong:
        query = mine.normal(size=DIM).astype(np.float32)
        some = {f"episode{each:05}" for each in mine.integers(0, 150, 100)}
        one = f"episode{mine.integers(150):05}"
        try:
            frames, narrow, words, told = together([
                lambda: vectors.search_episodes(query, 5),
                lambda: vectors.search_episodes(query, 5, some),
                lambda: segments.search_text("moves do3", 5, some),
                lambda: segments.search_text(one, 5, {one}),
            ])
            assert len({hit.episode_id for hit in frames}) == 5
            assert len(narrow) == 5 and {hit.episode_id for hit in narrow} <= some
            assert len(words) == 5 and {hit.episode_id for hit in words} <= some
            assert [hit.episode_id for hit in told] == [one]
        except BaseException as error:
            wrong.append(error)
            raise
        done[number] += 1

grow(0, 150)
assert vectors.refresh(FLAT_ROWS).kind == "IVF_RQ"
threads = [threading.Thread(target=search, args=(number,)) for number in range(len(done))]
for thread in threads:
    thread.start()
threading.Timer(SECONDS, stop.set).start()
rounds = 0
while not stop.is_set() and not wrong:
    grow(150 + 5 * rounds, 5)
    vectors.refresh(FLAT_ROWS)
    if rounds % 3 == 2:
        tables.optimize()
    rounds += 1
for thread in threads:
    thread.join()
assert not wrong, wrong
assert min(done) > 3 and rounds > 3, (done, rounds)
print(done, rounds)
"""


def test_searches_at_once_end_and_are_right_while_a_writer_appends_and_indexes(tmp_path: Path) -> None:
    program = [sys.executable, "-X", "faulthandler", "-c", _SEARCHES, str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]


def test_threads_that_meet_read_the_places_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def slow(dataset: Any, _key: str) -> object:
        read.append(dataset.version)
        time.sleep(0.1)
        return dataset

    monkeypatch.setattr(rows, "Rows", slow)
    places, version = Places(), SimpleNamespace(version=1)
    threads = [Thread(target=places.rows, args=(version,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [1]
