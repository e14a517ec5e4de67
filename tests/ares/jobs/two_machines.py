"""Ingestion on a ray cluster whose actor is killed, whose machine is removed, and which another joins; prints JSON.

Run in a separate process, with a source and an empty folder: a process has one connection to ray.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

import ingest.pipeline.run as run
from ares.jobs.ray_engine import RayEngine
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from tests.ingest.pipeline.test_run_ray import workspace_state
from tests.ingesting import ingest_paths

_SECONDS = 0.5
_DEADLINE_SECONDS = 300


def read_slowly(build: Callable[[], Any], folder: Path) -> Callable[[Sequence[Any]], Any]:
    """What an actor does: it names its machine, and the first that works is killed."""
    read = build()

    def process(loads: Sequence[Any]) -> Any:
        machine = folder / ray.get_runtime_context().get_node_id()
        is_first = not any(folder.iterdir())
        machine.touch()
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_SECONDS * len(loads))
        return read(loads)

    return process


class SlowEngine(RayEngine):
    """An engine whose actors are slow.

    Args:
        folder: Where they write the names of their machines.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def pool(self, request: Any) -> Any:
        """As `RayEngine.pool`."""
        return super().pool(
            replace(request, build=partial(read_slowly, request.make_builder(), self._folder))
        )


def exchange_machine(cluster: Any, second: Any, small: Any, machines: Path) -> None:
    """Remove a machine that has worked, and add another."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while len(list(machines.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.remove_node(second, False)
    cluster.add_node(**small)


def ingest(source: str, folder: Path, engine: RayEngine | None) -> tuple[Workspace, Any]:
    """A workspace of the source, and the counts of its ingestion."""
    workspace = open_workspace(str(folder), settings_from_environment({}))
    return workspace, ingest_paths(workspace.stores, [source], quiet=True, engine=engine)


def main() -> None:
    """Ingest on the cluster and here, and compare."""
    source, folder = sys.argv[1], Path(sys.argv[2])
    run._MAX_BATCH_SIZE = 2
    small: Any = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False}
    )
    _, second = cluster.add_node(**small), cluster.add_node(**small)
    os.environ["RAY_ADDRESS"] = cluster.address
    machines = folder / "machines"
    machines.mkdir()
    engine = SlowEngine(machines)
    threading.Thread(target=exchange_machine, args=(cluster, second, small, machines), daemon=True).start()
    remote, report = ingest(source, folder / "ray", engine)
    engine.disconnect()
    cluster.shutdown()
    local, _ = ingest(source, folder / "local", None)
    equal = workspace_state(local) == workspace_state(remote)
    print(json.dumps({"planned": report.counts.planned, "kept": report.counts.kept, "equal": equal,
                      "machines": len(list(machines.iterdir()))}))  # fmt: skip


if __name__ == "__main__":
    main()
