#!/usr/bin/env python3
"""Prints what `ares --help` loads: modules, those of the product, and milliseconds; `--list` names the modules."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ares", "ares_ingest", "ares_annotators", "ares_app")
_RUNS = 9


def main() -> None:
    """Print the counts and the times, or the modules of the product in the order of their import."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="the modules of the product")
    args = parser.parse_args()
    loaded = loaded_modules()
    ours = [name for name in loaded if name.partition(".")[0] in PACKAGES]
    if args.list:
        print("\n".join(ours))
        return
    seconds = [_run_help()[1] for _ in range(_RUNS)]
    print(f"modules loaded         {len(loaded)}")
    print(f"modules of the product {len(ours)}")
    print(f"milliseconds           {1000 * statistics.median(seconds):.0f} (median of {_RUNS})")
    print(f"least milliseconds     {1000 * min(seconds):.0f}")


def loaded_modules() -> list[str]:
    """Names of the modules that `ares --help` imports, in the order in which their import ends."""
    lines = _run_help("-X", "importtime")[0].splitlines()
    return [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")][1:]


def _run_help(*options: str) -> tuple[str, float]:
    """What is written on standard error, and the seconds from start to end."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, *options, "-m", "ares", "--help"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stderr, time.perf_counter() - start


if __name__ == "__main__":
    main()
