"""Engines are opened by name, and their workers end with the block."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import pytest

from ares.errors import RequestError, SourceError
from ares.jobs import LocalEngine, PoolRequest, engine_or_local, open_engine


def process_ids(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def test_an_unknown_engine_is_an_error_that_lists_the_engines() -> None:
    with pytest.raises(RequestError, match="no engine 'slurm': there are: local, ray"), open_engine("slurm"):
        pass


def test_a_missing_ray_is_an_error_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r"pip install 'ares-curation\[ray\]'"), open_engine("ray"):
        pass


def test_the_local_engine_runs_in_the_calling_thread() -> None:
    with open_engine("local") as engine:
        pool = engine.pool(PoolRequest(process_ids, max_workers=2, on_worker_death=SourceError))
        pool.start()
        assert pool.map([1, 2]) == [os.getpid()] * 2


def test_an_engine_can_be_used_again_after_a_job() -> None:
    local = LocalEngine()
    for _ in range(2):
        with engine_or_local(local) as engine:
            pool = engine.pool(
                PoolRequest(process_ids, max_workers=1, on_worker_death=SourceError, start_after_seconds=0.0)
            )
            assert pool.map([1]) != [os.getpid()]
