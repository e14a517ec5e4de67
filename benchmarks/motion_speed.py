"""Times `ares annotate motion` on generated episodes of 30 steps, 7 + 7 dimensions, and the growth from size to size.

.venv/bin/python -m benchmarks.motion_speed --episodes 10000 100000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from math import log
from pathlib import Path

from benchmarks.synthetic_lerobot import write_lerobot_dataset


def main() -> None:
    """Print the seconds by the wall and by the processors for each number of episodes, and the exponents of growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, nargs="+", default=[10_000])
    sizes = sorted(parser.parse_args().episodes)
    seconds = [_annotate(size) for size in sizes]
    for size, (wall, cpu) in zip(sizes, seconds, strict=True):
        print(f"{size} episodes: {wall:.1f} s, processors {cpu:.1f} s")
    if len(sizes) > 1:
        growth = log(sizes[-1] / sizes[0])
        exponents = [log(last / first) / growth for first, last in zip(seconds[0], seconds[-1], strict=True)]
        print(f"exponent of growth: {exponents[0]:.2f}, processors {exponents[1]:.2f}")


def _annotate(episodes: int) -> tuple[float, float]:
    """Seconds by the wall and by the processors, without the ingestion."""
    import ares

    with tempfile.TemporaryDirectory() as folder:
        dataset = write_lerobot_dataset(Path(folder) / "generated", episodes)
        with ares.open(Path(folder) / "ws", create=True) as ws:
            ws.ingest(dataset, quiet=True)
            start, used = time.monotonic(), time.process_time()
            ws.annotate("motion", quiet=True)
            return time.monotonic() - start, time.process_time() - used


if __name__ == "__main__":
    main()
