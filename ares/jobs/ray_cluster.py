"""The connection to a Ray cluster, and the workers that fit on its nodes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ares.errors import RequestError
from ares.imports import needs_extra
from ares.io import read_server_address
from ares.jobs.engine import (
    WorkerNeeds,
)
from ares.settings import inherited_path

_CONNECT_TIMEOUT_SECONDS = 5.0


def load_ray() -> Any:
    """The module. Raises RequestError where it is not installed."""
    with needs_extra("ray"):
        import ray
    return ray


def first_line(error: BaseException) -> str:
    """The first line of the text of an error, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_reachable(address: str) -> None:
    """Raises RequestError when nothing listens at the address; ray itself would retry for a quarter of an hour."""
    try:
        _, host, port = read_server_address(address)
        if host and port:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise unreachable_error(address, error) from None


def make_job_config(address: str) -> Any:
    """Where the workers of this job import from, for `ray.init`; None for a client of ray ("ray://...").

    By default ray puts the current folder of the driver first on the path of every worker, whose files would be taken
    for modules. It does not for a job with a working folder. The folder of the driver's script stays on the path.
    """
    if address.startswith("ray://"):
        return None
    from ray.job_config import JobConfig

    class PathConfig(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            return True

    script_folder = str(Path(sys.argv[0]).resolve().parent)
    config = PathConfig()
    config._py_driver_sys_path = [script_folder] if script_folder in inherited_path() else []
    return config


def unreachable_error(address: str, error: Exception) -> RequestError:
    return RequestError("ray cannot be started or reached", f"RAY_ADDRESS {address!r}: {first_line(error)}")


_STEPS = 10_000

_ROUNDING = 1e-6


def fit_worker_needs(
    needs: WorkerNeeds, share: float, gpu_share: float, machines: Sequence[Mapping[str, float]]
) -> WorkerNeeds:
    """What one worker takes: at most the share of the largest machine that has GPUs enough for it.

    See `list_worker_needs`.
    """

    # A machine without a CPU is the head of the cluster.
    hosts = [machine for machine in machines if machine.get("CPU")]
    gpus = needs.gpus if needs.gpus > 1 else min(needs.gpus, gpu_share)
    gpus = gpus if any(machine.get("GPU", 0) >= 1 for machine in hosts) else 0.0
    able = [machine for machine in hosts if machine.get("GPU", 0) >= gpus]
    if not able:  # the worker waits for such a machine
        return replace(needs, gpus=gpus)
    return WorkerNeeds(
        cpus=min(needs.cpus, share * max(machine["CPU"] for machine in able)),
        memory_bytes=int(min(needs.memory_bytes, share * max(machine.get("memory", 0) for machine in able))),
        gpus=gpus,
    )


def list_worker_needs(
    needs: WorkerNeeds, share: float, gpu_share: float, machines: Sequence[Mapping[str, float]]
) -> list[list[WorkerNeeds]]:
    """What each worker of a pool takes, by machine: on every machine the pool has its share, whatever others have.

    A worker takes fewer cores where its machine has less for it. One that asks for a core takes less where one worker
    more then has room: a share is seldom a whole number of cores.

    Args:
        needs: What one worker asks for; GPUs only where the cluster has any.
        share: Share of the CPUs and the memory of each machine that the workers of the pool take together.
        gpu_share: The same of its GPUs.
        machines: Resources of each machine, as ray names them.
    """
    fitted = fit_worker_needs(needs, share, gpu_share, machines)
    rooms = []
    for machine in machines:
        cpus = share * machine.get("CPU", 0)
        parts = (
            (fitted.memory_bytes, share * machine.get("memory", 0)),
            (fitted.gpus, gpu_share * machine.get("GPU", 0)),
        )
        counts = [int(room / need + _ROUNDING) for need, room in parts if need]
        if needs.cpus:
            counts.append(max(1, int(cpus / needs.cpus + (0.5 if needs.cpus <= 1 else _ROUNDING))))
        count = min(counts, default=0) if cpus else 0
        rooms.append([replace(fitted, cpus=min(needs.cpus, cpus / count))] * count if count else [])
    return rooms


def rounded(share: float) -> float:
    """A share as ray counts it: in steps of a ten thousandth."""
    return int(share * _STEPS) / _STEPS
