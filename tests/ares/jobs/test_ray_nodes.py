"""Two nodes of a Ray cluster on this machine, one of which dies: the other finishes the work, or the job ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.imports import ROOT

pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")
pytestmark = pytest.mark.slow

# The driver: a cluster of a head without cores and two nodes; `MOMENT` is when the first node that works is killed.
_DRIVER = """
import os, sys, time, threading
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from ares.errors import SourceError
from ares.jobs import PoolRequest
from ares.jobs.ray_engine import RayEngine

MOMENT, folder = sys.argv[1], Path(sys.argv[2])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = {node.node_id: node for node in (cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1))}
cluster.wait_for_nodes()
os.environ["RAY_ADDRESS"] = cluster.address

def make_function():
    import os, time, ray
    from pathlib import Path
    node = ray.get_runtime_context().get_node_id()
    (folder / f"loading-{node}").touch()
    time.sleep(3.0)
    def process(batch):
        (folder / f"working-{node}").touch()
        time.sleep(0.2)
        return [2 * number for number in batch]
    return process

class Build:
    def __init__(self, make):
        self.make, self.function = make, None
    def __call__(self, batch):
        if self.function is None:
            self.function = self.make()
        return self.function(batch)

def kill():
    while not (seen := sorted(folder.glob(f"{MOMENT}-*"))):
        time.sleep(0.02)
    cluster.remove_node(nodes[seen[0].name.partition("-")[2]], allow_graceful=False)
    (folder / "killed").touch()

ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
threading.Thread(target=kill, daemon=True).start()
start = time.monotonic()
engine = RayEngine(max_workers=2)
pool = engine.pool(PoolRequest(Build(make_function), max_workers=2, on_worker_death=SourceError))
found = {}
def run(first):
    found[first] = [result for at in range(first, first + 20, 4) for result in pool.map(list(range(at, at + 4)))]
threads = [threading.Thread(target=run, args=(first,)) for first in (0, 20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert found[0] + found[20] == [2 * number for number in range(40)], found
assert (folder / "killed").exists()
assert len(list(folder.glob("working-*"))) >= 1
print("seconds", round(time.monotonic() - start))
engine.disconnect()
cluster.shutdown()
"""


@pytest.mark.parametrize("moment", ["loading", "working"])
def test_a_node_that_dies_is_replaced_within_two_minutes(moment: str, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    marks = tmp_path / "marks"
    marks.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), moment, str(marks)], capture_output=True, text=True, timeout=300, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RAY_DEDUP_LOGS": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split("seconds")[1].split()[0]) < 120
