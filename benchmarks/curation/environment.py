"""The environment of the simulation, apart from that of ARES, and its programs run side by side."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_HERE = Path(__file__).parent
_REQUIREMENTS = _HERE / "requirements.txt"
_NO_OSMESA = "no OSMesa to render with: install the Debian package libosmesa6 (apt-get install libosmesa6)"


class NotRunError(Exception):
    """The simulation cannot run here; the text is one line that says why."""


def prepare_simulation(cache: Path, *, render: bool) -> Path:
    """The Python of an environment with Meta-World below a folder, which is made where it is not there.

    Raises NotRunError where it cannot be made, or where pictures are wanted and cannot be rendered.
    """
    if render and ctypes.util.find_library("OSMesa") is None:
        raise NotRunError(_NO_OSMESA)
    environment = cache / "curation-env"
    python, stamp = environment / "bin" / "python", environment / ".ares-done"
    wanted = _REQUIREMENTS.read_text() + sys.version
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing Meta-World into {environment} (0.5 GB)", file=sys.stderr, flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        _REQUIREMENTS,
    ]
    venv: list[str | Path] = [sys.executable, "-m", "venv", environment]
    for command in (venv, pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise NotRunError(f"Meta-World could not be installed: {' '.join(reason)}")
    stamp.write_text(wanted)
    return python


def run_simulations(python: Path, works: Sequence[Sequence[object]]) -> None:
    """Run `simulation.py` with each of the lists of arguments, as many at once as there are processors."""
    environ = {**os.environ, "MUJOCO_GL": "osmesa", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if not any("--render" in work for work in works):
        environ["MUJOCO_GL"] = "disabled"

    def run(work: Sequence[object]) -> None:
        command: list[str | Path] = [python, _HERE / "simulation.py", *map(str, work)]
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(count_processors()) as threads:
        list(threads.map(run, works))


def count_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
