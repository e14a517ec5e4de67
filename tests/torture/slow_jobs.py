"""The command `ares` whose work is slow, and is given to workers at once.

Few small episodes are done before anybody could kill a worker; here every item takes a noticeable time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

_SECONDS_PER_ITEM = 0.15

Function = Callable[[Sequence[Any]], Sequence[Any]]


def process_slowly(function: Function, batch: Sequence[Any]) -> Sequence[Any]:
    """The function's results, after a while."""
    time.sleep(_SECONDS_PER_ITEM * len(batch))
    return function(batch)


def build_slowly(build: Callable[[], Function]) -> Function:
    """Make a function on a worker, slow."""
    return partial(process_slowly, build())


def _slow_down(engine: Any) -> None:
    """Let every pool of a class of engines work slowly."""
    open_pool = engine.pool

    def open_slow_pool(self: Any, request: Any) -> Any:
        replicas = request.replicas
        slow = replace(
            request,
            fn=partial(process_slowly, request.fn),
            build=partial(build_slowly, request.make_builder()),
            replicas=replicas and (lambda: [partial(build_slowly, build) for build in replicas()]),
        )
        return open_pool(self, slow)

    engine.pool = open_slow_pool


def run_slow_command() -> int:
    """Run the command of `sys.argv`; not from the main module, whose functions workers cannot import."""
    import ingest.pipeline.run as run
    import ingest.pipeline.source_items as source_items
    from app.cli.main import main as run_command
    from ares.jobs.local import LocalEngine
    from ares.jobs.ray_engine import RayEngine

    run._IN_PROCESS_SECONDS, run._MAX_BATCH_SIZE, source_items._MOST_PLANNED = 0.001, 2, 2
    _slow_down(LocalEngine)
    _slow_down(RayEngine)
    return run_command()
