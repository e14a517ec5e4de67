"""Which episodes a dataset is learnt from: a sample that is spread over it, and the same at every run."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence

from ares.quality import KEPT_EPISODES
from ingest.quality.tasks import SignalTask

# The sample is drawn from so many first episodes, whose tasks are kept in memory (about 1 kB each).
SAMPLED_EPISODES = 65_536


def sample_numbers(tasks: Sequence[SignalTask]) -> list[int]:
    """Rising numbers of at most 256 of the tasks: those whose ids have the lowest hashes, wherever they lie."""
    if len(tasks) <= KEPT_EPISODES:
        return list(range(len(tasks)))
    return sorted(heapq.nsmallest(KEPT_EPISODES, range(len(tasks)), key=lambda number: _rank(tasks[number])))


def _rank(task: SignalTask) -> bytes:
    return hashlib.blake2b(task.episode_id.encode(), digest_size=8).digest()
