"""A ray cluster of two machines, one of which is killed while a pool works, and a third that joins; prints JSON.

Run in a process of its own: a process has one connection to ray.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.cluster_utils import Cluster

from ares.errors import SourceError
from ares.jobs import PoolRequest
from ares.jobs.ray_engine import RayEngine


def tell(batch: Sequence[int]) -> list[tuple[int, str]]:
    """Each number doubled, and the machine that did it."""
    time.sleep(0.1)
    return [(2 * number, ray.get_runtime_context().get_node_id()) for number in batch]


def main() -> None:
    """Work while machines come and go."""
    small: Any = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster: Any = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    second = cluster.add_node(**small)
    os.environ["RAY_ADDRESS"] = cluster.address
    engine = RayEngine()
    pool: Any = engine.pool(PoolRequest(tell, max_workers=1, on_worker_death=SourceError))
    before = pool.max_workers
    results: list[Any] = []
    is_killed, is_joined = threading.Event(), threading.Event()

    def work(number: int) -> None:
        (result,) = pool.map([number])
        results.append(result)

    with ThreadPoolExecutor(2) as executor:
        numbers = iter(range(10_000))
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            list(executor.map(work, [next(numbers) for _ in range(8)]))
            machines = {
                machine for result in results[-8:] if isinstance(result, tuple) for machine in result[1:]
            }
            if not is_killed.is_set() and len(machines) == 2:
                is_killed.set()
                threading.Thread(target=cluster.remove_node, args=(second, False)).start()
            elif is_killed.is_set() and not is_joined.is_set() and pool.max_workers == 1:
                is_joined.set()
                cluster.add_node(**small)
            elif is_joined.is_set() and len(machines) == 2 and pool.max_workers == 2:
                break
    good = [result[0] for result in results if isinstance(result, tuple)]
    failed = [str(result) for result in results if not isinstance(result, tuple)]
    engine.close()
    print(json.dumps({"before": before, "good": len(set(good)), "of": len(results), "failed": failed,
                      "machines": len({r[1] for r in results if isinstance(r, tuple)})}))  # fmt: skip
    engine.disconnect()
    cluster.shutdown()


if __name__ == "__main__":
    main()
