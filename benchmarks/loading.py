"""Steps of an mp4 dataset for training, by ARES and by lerobot's own dataset, from one folder.

    python -m benchmarks.loading write FOLDER              an export of the demo's sample videos
    ARES_LEROBOT_PYTHON=LEROBOT/bin/python python -m benchmarks.loading compare FOLDER [ROUNDS]
    python -m benchmarks.loading memory FOLDER [BATCHES]   memory of a stream after every tenth of the batches

`compare` runs ARES and lerobot with PyAV and with torchcodec in turn, each in a separate process, which reads 200
random steps and 200 in order of all cameras. It counts milliseconds of processors: of two passes the least, of all
rounds the median. torchcodec needs the shared libraries of FFmpeg; without them standard error says why it is not read.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

_STEPS, _PASSES = 200, 2
_PYTHON = "ARES_LEROBOT_PYTHON"


def write_export(folder: str) -> None:
    """Export 12 episodes of the sample videos as LeRobot v3.0."""
    import ares
    from ares_app.demo import DEMO_FOLDER

    with tempfile.TemporaryDirectory() as scratch, ares.open(scratch, create=True) as workspace:
        workspace.ingest(DEMO_FOLDER / "samples" / "video", quiet=True)
        members = workspace.sets.create("videos", list(workspace.episodes.ids()), {})
        workspace.export(members, folder, format="lerobot", quiet=True)


def time_passes(read: Callable[[], None]) -> float:
    """Milliseconds of processors for a step of the fastest pass."""
    times = []
    for _ in range(_PASSES):
        started = time.process_time()
        read()
        times.append((time.process_time() - started) / _STEPS * 1e3)
    return min(times)


def time_numbers(dataset: Any) -> dict[str, float]:
    """Milliseconds of processors for a step: of random steps, and of steps in order."""
    orders = {
        "random": random.Random(6).sample(range(len(dataset)), _STEPS),
        "in order by number": range(_STEPS),
    }
    return {name: time_passes(partial(_read_rows, dataset, rows)) for name, rows in orders.items()}


def _read_rows(dataset: Any, rows: Iterable[int]) -> None:
    for row in rows:
        dataset[row]


def _read_stream(stream: Iterable[Any]) -> None:
    for _, _ in zip(range(_STEPS), stream, strict=False):
        pass


def time_ares(folder: str) -> None:
    """Steps by number, and by streams; prints a JSON object."""
    import ares

    dataset = ares.torch_dataset(folder)
    in_order, shuffled = dataset.stream(1, shuffle=False, lanes=1), dataset.stream(8)
    times = {
        "in order": time_passes(lambda: _read_stream(in_order)),
        "shuffled in blocks": time_passes(lambda: _read_stream(shuffled)),
    }
    print(json.dumps({"name": "ARES", "times": times | time_numbers(dataset)}))


def time_lerobot(folder: str, backend: str) -> None:
    """The same steps by `LeRobotDataset`; prints a JSON object. It has no stream: in order is by number."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    lerobot = import_module("lerobot.datasets.lerobot_dataset")
    times = time_numbers(lerobot.LeRobotDataset("local/benchmark", root=folder, video_backend=backend))
    version = f"lerobot {metadata.version('lerobot')}, {backend}"
    print(json.dumps({"name": version, "times": times | {"in order": times["in order by number"]}}))


def compare(folder: str, rounds: str = "5") -> None:
    """Print the medians of all sides, and what of lerobot's time ARES takes in the same round."""
    python = os.environ.get(_PYTHON)
    if not python:
        sys.exit(f"{_PYTHON} is the Python of an environment with lerobot, such as ~/lerobot/bin/python")
    sides = ["ares", folder], ["lerobot", folder, "pyav"], ["lerobot", folder, "torchcodec"]
    measured: dict[str, list[dict[str, float]]] = {}
    for _ in range(int(rounds)):
        for number, side in enumerate(sides):
            if side_times := _run_side(sys.executable if number == 0 else python, side):
                measured.setdefault(side_times[0], []).append(side_times[1])
    ours = measured.pop("ARES")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; median of {rounds} rounds")
    print("| step | ARES | against | its time | times as fast (smallest to largest) |\n|---|---|---|---|---|")
    for peer, theirs in measured.items():
        for kind in [kind for kind in ours[0] if kind in theirs[0]]:
            ratios = [other[kind] / own[kind] for own, other in zip(ours, theirs, strict=True)]
            own, other = (statistics.median(times[kind] for times in side) for side in (ours, theirs))
            span = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
            print(f"| {kind} | {own:.2f} ms | {peer} | {other:.2f} ms | {span} |")
    shuffled = statistics.median(times["shuffled in blocks"] for times in ours)
    print(f"ARES, a stream that is shuffled in blocks: {shuffled:.2f} ms a step")


def _run_side(python: str, side: list[str]) -> tuple[str, dict[str, float]] | None:
    """The name and the times of a side; None where it cannot read, with the reason on standard error."""
    program = ["-m", "benchmarks.loading"] if side[0] == "ares" else [__file__]
    answer = subprocess.run([python, *program, *side], capture_output=True, text=True, check=False)
    if answer.returncode:
        reason = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{' '.join(side)}: {reason}", file=sys.stderr)
        return None
    read = json.loads(answer.stdout.splitlines()[-1])
    return read["name"], read["times"]


def measure_memory(folder: str, batches: str = "10000") -> None:
    """Print the memory of this process after every tenth of the batches of a shuffled stream.

    Resident memory has what the allocator keeps for later, so that it rises where what is in use does not.
    """
    import ares

    dataset, count, number, epoch = ares.torch_dataset(folder), int(batches), 0, 0
    stream = dataset.stream(2)
    while number < count:
        stream.set_epoch(epoch)
        for items, _ in enumerate(stream, start=1):
            if items % 2 == 0 and number < count:
                number += 1
                if number % (count // 10) == 0:
                    resident, used = _resident_megabytes(), _used_megabytes()
                    print(f"{number} batches: {resident:.0f} MB resident, {used:.1f} MB in use", flush=True)
        epoch += 1


def _resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class _AllocatorInfo(ctypes.Structure):
    """What mallinfo2(3) of glibc returns: ten sizes."""

    _fields_ = tuple((f"size_{number}", ctypes.c_size_t) for number in range(10))


def _used_megabytes() -> float:
    """Bytes that the program has allocated and not freed, by glibc."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _AllocatorInfo
    info = library.mallinfo2()
    mapped, in_heaps = info.size_4, info.size_7
    return float(mapped + in_heaps) / 1e6


def main() -> None:
    """Run the part that the command line names."""
    runs: dict[str, Callable[..., None]] = {
        "write": write_export,
        "ares": time_ares,
        "lerobot": time_lerobot,
        "compare": compare,
        "memory": measure_memory,
    }
    runs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
