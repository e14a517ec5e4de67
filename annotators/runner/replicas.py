"""Further processes of this machine for an annotator that computes itself: one per GPU, or as many as are asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from annotators.base import Options
from ares.jobs import WorkerNeeds, available_cores, machine_memory
from ares.messages import print_message


def replica_options(name: str, options: Options, needs: WorkerNeeds) -> list[Options]:
    """The options of each process beside this one; GPUs are taken in turn, and results do not depend on their number.

    Args:
        name: The annotator, for messages.
        options: Options of the run. Without a device all GPUs are used, by as many workers as have room in them.
        needs: What one worker takes.
    """
    gpus = 0 if options.device else _count_gpus(needs)
    per_gpu = max(1, int(1 / needs.gpus)) if needs.gpus else 1
    requested = options.workers.count or gpus * per_gpu or 1
    count = min(requested, _count_room(needs, gpus * per_gpu))
    if count < requested:
        print_message(
            f"annotate {name}: {count} of {requested} workers, as no more have room on this machine"
        )
    devices = [f"cuda:{number // per_gpu}" if gpus else options.device for number in range(1, count)]
    return [replace(options, device=device) for device in devices]


# Threads of torch before the first `share_threads` of a run.
_threads_before: list[int] = []


def share_threads(workers: int) -> None:
    """Give the arithmetic of torch, where a model has loaded it, the share of the cores of one of so many workers."""
    threads = max(1, available_cores() // workers)
    if torch := sys.modules.get("torch"):
        _threads_before.append(torch.get_num_threads())
        torch.set_num_threads(threads)


@contextmanager
def restored_threads() -> Iterator[None]:
    """Give the calling process its threads of torch back at the end of the block, whatever `share_threads` took."""
    try:
        yield
    finally:
        if _threads_before:
            sys.modules["torch"].set_num_threads(_threads_before[0])
            _threads_before.clear()


def _count_gpus(needs: WorkerNeeds) -> int:
    """GPUs for a model; where torch is not loaded, nothing has loaded a model that could use them."""
    torch = sys.modules.get("torch")
    return torch.cuda.device_count() if needs.gpus and torch and torch.cuda.is_available() else 0


def _count_room(needs: WorkerNeeds, room_on_gpus: int) -> int:
    """Workers that this machine has room for, at least 1; the first has taken its memory already."""
    rooms = [room_on_gpus] if room_on_gpus else []
    if needs.cpus:
        rooms.append(int(available_cores() / needs.cpus))
    if needs.memory_bytes and machine_memory().total_bytes:
        rooms.append(1 + machine_memory().free_bytes // needs.memory_bytes)
    return max(1, min(rooms, default=1))
