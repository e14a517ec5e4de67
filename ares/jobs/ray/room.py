"""What a ray cluster has for the workers of one pool, and what each of them takes."""

from __future__ import annotations

from ares.jobs.engine import WorkerNeeds
from ares.jobs.growing_pool import Room
from ares.jobs.ray.connection import load_ray

_STEPS = 10_000
_ROUNDING = 1e-6


def _total(resource: str) -> float:
    return float(load_ray().cluster_resources().get(resource, 0))


def fitted_needs(needs: WorkerNeeds, share: float, gpu_share: float) -> WorkerNeeds:
    """What a worker takes: at most the share of its pool of the largest machine, so that each pool can start one.

    A worker that takes more could be kept out for ever by small workers of other pools, some on every machine. Where
    no machine has a CPU at the moment, a worker waits for one: without any it would run on the head.
    """
    has_gpus = bool(needs.gpus) and _total("GPU") >= 1
    gpus = needs.gpus if needs.gpus > 1 else min(needs.gpus, gpu_share)
    return WorkerNeeds(
        cpus=min(needs.cpus, share * _largest("CPU") or needs.cpus),
        memory_bytes=int(min(needs.memory_bytes, share * _largest("memory"))),
        gpus=gpus if has_gpus else 0.0,
    )


def measure_room(needs: WorkerNeeds, share: float, gpu_share: float) -> Room:
    """What the cluster has now for the workers of a pool with a share of it."""
    fitted = fitted_needs(needs, share, gpu_share)
    machines = frozenset(str(node["NodeID"]) for node in load_ray().nodes() if node["Alive"])
    return Room(count_room(fitted, share, gpu_share), fitted, machines)


def _largest(resource: str) -> float:
    """What the largest machine of the cluster gives to workers; 0 where none says so."""
    nodes = [node["Resources"] for node in load_ray().nodes() if node["Alive"]]
    return float(max((node.get(resource, 0) for node in nodes), default=0))


def count_room(needs: WorkerNeeds, share: float, gpu_share: float) -> int:
    """Workers that have room in a share of the machines of the cluster, at least 1."""
    totals = (
        (needs.cpus, share * _total("CPU")),
        (needs.memory_bytes, share * _total("memory")),
        (needs.gpus, gpu_share * _total("GPU")),
    )
    return max(1, min((int(total / need + _ROUNDING) for need, total in totals if need), default=1))


def rounded(share: float) -> float:
    """A share as ray counts it: in steps of a ten thousandth."""
    return int(share * _STEPS) / _STEPS
