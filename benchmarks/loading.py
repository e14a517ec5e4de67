"""Steps of an mp4 dataset for training, by ARES and by lerobot's own dataset, from one folder.

    python -m benchmarks.loading write FOLDER              an export of the demo's sample videos, by the Python of ARES
    python -m benchmarks.loading ares FOLDER               by the Python of ARES
    LEROBOT_PYTHON benchmarks/loading.py lerobot FOLDER [pyav|torchcodec]
    python -m benchmarks.loading memory FOLDER [BATCHES]   memory of a stream after every tenth of the batches

Every side reads in one process, 200 random steps and 200 in order, of all cameras. Of three times the least counts, of
processors: other load on the machine does not.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

_STEPS, _ROUNDS = 200, 3


def write_export(folder: str) -> None:
    """Export 12 episodes of the sample videos as LeRobot v3.0."""
    import ares
    from app.demo import DEMO_FOLDER

    with tempfile.TemporaryDirectory() as scratch, ares.open(scratch, create=True) as workspace:
        workspace.ingest(DEMO_FOLDER / "samples" / "video", quiet=True)
        members = workspace.sets.create("videos", list(workspace.episodes.ids()), {})
        workspace.export(members, folder, format="lerobot", quiet=True)


def time_reads(read: Callable[[int], Any], count: int) -> list[float]:
    """Milliseconds for each step: of random steps, and of steps in order."""
    rows = random.Random(6).sample(range(count), _STEPS)
    return [
        min(_time_once(read, order) for _ in range(_ROUNDS)) / _STEPS * 1e3 for order in (rows, range(_STEPS))
    ]


def _time_once(read: Callable[[int], Any], rows: Iterable[int]) -> float:
    started = time.process_time()
    for row in rows:
        read(row)
    return time.process_time() - started


def time_ares(folder: str) -> None:
    """Random steps by number, and steps in order by a stream."""
    import ares

    dataset = ares.torch_dataset(folder)
    at_random, in_order = time_reads(dataset.__getitem__, len(dataset))
    times = []
    for _ in range(_ROUNDS):
        started = time.process_time()
        steps = iter(dataset.stream(1, shuffle=False, lanes=1))
        for _ in range(_STEPS):
            next(steps)
        times.append((time.process_time() - started) / _STEPS * 1e3)
    shuffled = iter(dataset.stream(8))
    started = time.process_time()
    for _ in range(_STEPS):
        next(shuffled)
    blocks = (time.process_time() - started) / _STEPS * 1e3
    print(
        f"ARES: {at_random:.2f} ms a random step, {in_order:.2f} ms in order by number, {min(times):.2f} ms by a stream"
    )
    print(f"ARES: {blocks:.2f} ms a step of a shuffled stream")


def time_lerobot(folder: str, backend: str = "pyav") -> None:
    """The same steps by `LeRobotDataset`."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    lerobot = import_module("lerobot.datasets.lerobot_dataset")
    dataset = lerobot.LeRobotDataset("local/benchmark", root=folder, video_backend=backend)
    at_random, in_order = time_reads(dataset.__getitem__, len(dataset))
    print(f"lerobot, {backend}: {at_random:.2f} ms a random step, {in_order:.2f} ms in order")


def measure_memory(folder: str, batches: str = "10000") -> None:
    """Print the resident memory of this process after every tenth of the batches of a shuffled stream."""
    import ares

    dataset, count, number, epoch = ares.torch_dataset(folder), int(batches), 0, 0
    stream = dataset.stream(2)
    while number < count:
        stream.set_epoch(epoch)
        for items, _ in enumerate(stream, start=1):
            if items % 2 == 0 and number < count:
                number += 1
                if number % (count // 10) == 0:
                    print(f"{number} batches: {_resident_megabytes():.0f} MB", flush=True)
        epoch += 1


def _resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Run the part that the command line names."""
    runs: dict[str, Callable[..., None]] = {
        "write": write_export,
        "ares": time_ares,
        "lerobot": time_lerobot,
        "memory": measure_memory,
    }
    runs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
