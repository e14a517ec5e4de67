"""What is said of an address of ray without a cluster; which machines get workers of a pool, and what each takes."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from ares.errors import RequestError, SourceError
from ares.jobs import PoolRequest, WorkerNeeds, open_engine
from ares.jobs.ray_cluster import list_worker_needs
from ares.jobs.ray_engine import _list_slots

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")
_TWO = [{"CPU": 8.0, "GPU": 2.0, "memory": 32e9}] * 2
_ONE_GPU = [{"CPU": 64.0, "memory": 512e9}, {"CPU": 8.0, "memory": 32e9, "GPU": 1.0}]
# The head of a cluster has no core.
_MIXED = [{"memory": 8e9}, {"CPU": 1.0}, {"CPU": 4.0}]


@pytest.mark.parametrize("address", ["", "[::1", "ray://[::1", "localhost:99999", "a..b:6379"])
def test_an_address_without_a_cluster_is_said_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not address:
        with socket.socket() as listener:  # nothing listens there once it is closed
            listener.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    told = re.escape(f"reached: RAY_ADDRESS {address!r}")
    with pytest.raises(RequestError, match=told), open_engine("ray"):
        raise AssertionError


@pytest.mark.parametrize(
    ("needs", "share", "gpu_share", "machines", "counts"),
    [
        (WorkerNeeds(1.0, int(7.4e9)), 1 / 2, 1.0, _TWO, [2, 2]),
        (WorkerNeeds(4.0), 1 / 2, 1.0, _TWO, [1, 1]),
        (WorkerNeeds(gpus=0.5), 1 / 2, 1 / 2, _TWO, [2, 2]),
        (WorkerNeeds(gpus=0.25), 1 / 2, 1.0, _TWO, [4, 4]),  # bounded by the cores
        # Even a worker that is larger than its share, or than a machine, is placed on each.
        (WorkerNeeds(99.0, int(90e9), 1.0), 1 / 2, 1 / 2, _TWO, [1, 1]),
        # Its cores are those of the machine that has the GPU, and so is its memory.
        (WorkerNeeds(8.0, 0, 1.0), 1 / 2, 1.0, _ONE_GPU, [0, 1]),
        (WorkerNeeds(1.0, 20 * 10**9, 1.0), 1 / 2, 1.0, _ONE_GPU, [0, 1]),
        (WorkerNeeds(1.0, 0, 1.0), 1 / 2, 1.0, _MIXED, [0, 1, 2]),
        # A machine of two cores has room for three pools.
        (WorkerNeeds(), 1 / 3, 1.0, [{"CPU": 8.0}] + [{"CPU": 2.0}] * 20, [3] + [1] * 20),
        # Three pools use all eight cores.
        (WorkerNeeds(), 1 / 3, 1.0, [{"CPU": 8.0}] * 10, [3] * 10),
        # What a person asks for is not cut where there is room for it.
        (WorkerNeeds(4.0), 1 / 2, 1.0, [{"CPU": 12.0}], [1]),
    ],
)
def test_the_share_of_a_pool_has_room_on_every_machine_that_can_hold_a_worker(
    needs: WorkerNeeds, share: float, gpu_share: float, machines: list[dict[str, float]], counts: list[int]
) -> None:
    rooms = list_worker_needs(needs, share, gpu_share, machines)
    assert list(map(len, rooms)) == counts
    for machine, workers in zip(machines, rooms, strict=True):
        assert sum(worker.cpus for worker in workers) <= share * machine.get("CPU", 0) + 1e-6
        assert sum(worker.memory_bytes for worker in workers) <= share * machine.get("memory", 0)
        assert sum(worker.gpus for worker in workers) <= gpu_share * machine.get("GPU", 0)


def test_a_worker_takes_at_most_its_share_and_no_gpu_where_there_is_none() -> None:
    large = list_worker_needs(WorkerNeeds(99.0, int(90e9), 1.0), 0.5, 0.5, _TWO)
    assert large == [[WorkerNeeds(4.0, int(16e9), 0.5)]] * 2
    mixed = list_worker_needs(WorkerNeeds(gpus=1.0), 0.5, 1.0, _MIXED)
    assert mixed == [[], [WorkerNeeds(0.5)], [WorkerNeeds(1.0)] * 2]


@pytest.mark.parametrize(
    ("needs", "machine", "expected"),
    [
        # Two GPUs are more than the half of two: the worker is placed where it has room as a whole.
        (WorkerNeeds(1.0, 0, 2.0), {"CPU": 16.0, "GPU": 2.0, "memory": 64e9}, WorkerNeeds(1.0, 0, 2.0)),
        # A cluster that has ended all its machines starts one for a worker that waits.
        (WorkerNeeds(2.0, 10**9, 1.0), {"memory": 8e9}, WorkerNeeds(2.0, 10**9)),
    ],
)
def test_a_pool_without_room_in_its_share_has_one_worker_that_ray_places(
    needs: WorkerNeeds, machine: dict[str, float], expected: WorkerNeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "a", "Alive": True, "Resources": machine}])
    request: PoolRequest[int, int] = PoolRequest(
        list, max_workers=1, on_worker_death=SourceError, needs=needs, share=1 / 3, gpu_share=1 / 2
    )
    assert list(_list_slots(request, 8) or {}) == [(0, "", expected)]
