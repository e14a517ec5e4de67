"""Opens an execution engine by its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from ares.errors import RequestError
from ares.jobs.engine import Engine
from ares.jobs.local import LocalEngine
from ares.registry import did_you_mean

ENGINE_NAMES = ("local", "ray")


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """An engine by its name, closed at the end. With ray, standard output goes to standard error until then.

    Raises:
        RequestError: There is no such engine, ray is not installed, or its cluster cannot be reached.
    """
    if name == "local":
        with engine_or_local(None) as engine:
            yield engine
    elif name == "ray":
        from ares.jobs.ray import RayEngine

        # ray reports the death of a worker on standard output, which belongs to the command's answer.
        with redirect_stdout(sys.stderr):
            ray_engine = RayEngine()
            try:
                yield ray_engine
            finally:
                ray_engine.disconnect()
    else:
        raise RequestError(
            f"no engine {name!r}", f"{did_you_mean(name, ENGINE_NAMES)}there are: {', '.join(ENGINE_NAMES)}"
        )


@contextmanager
def engine_or_local(engine: Engine | None) -> Iterator[Engine]:
    """The engine, or a local one for None; the workers of its pools end with the block."""
    engine = engine or LocalEngine()
    try:
        yield engine
    finally:
        engine.close()
