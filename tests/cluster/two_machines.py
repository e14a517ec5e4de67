"""A ray cluster of a head without cores and machines of one core, whose workers and machines can be killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


class TwoMachines:
    """The cluster; a context that ends it.

    Attributes:
        address: What RAY_ADDRESS has to be.
    """

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._options: Any = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        head = {**self._options, "num_cpus": 0, "include_dashboard": False}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self._machines = [self.add_machine(), self.add_machine()]

    def __enter__(self) -> TwoMachines:
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.shutdown()

    def add_machine(self) -> Any:
        """Another machine joins."""
        return self._cluster.add_node(**self._options)

    def kill_worker(self, number: int) -> None:
        """Kill one of the workers of a machine that work at this moment, as soon as there is one."""
        deadline = time.monotonic() + 300
        while not (workers := self._workers(self._machines[number])):
            assert time.monotonic() < deadline, "no worker works"
            time.sleep(0.002)
        os.kill(workers[0], signal.SIGKILL)

    def kill_machine(self, number: int) -> None:
        """Kill all processes of a machine: its raylet, and its workers, which would outlive it for a moment."""
        workers = self._workers(self._machines[number], "")
        self._cluster.remove_node(self._machines[number], allow_graceful=False)
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    @staticmethod
    def _workers(machine: Any, method: str = ".process") -> list[int]:
        """Ids of the worker processes of a machine, of those that run a method."""
        (raylet,) = machine.all_processes["raylet"]
        workers = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if (
                    parent == raylet.process.pid
                    and f"RayActorBody{method}" in (folder / "cmdline").read_text()
                ):
                    workers.append(int(folder.name))
        return workers
