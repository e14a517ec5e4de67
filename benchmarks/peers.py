"""Peers: environments of their own for those whose dependencies clash with ours, made when they are first needed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "peers"


def peer_python(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment that has the requirements. Raises CalledProcessError when it cannot be made."""
    folder = _FOLDER / name
    python, done = folder / "bin" / "python", folder / "done.json"
    if done.exists() and json.loads(done.read_text()) == list(requirements):
        return python
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *requirements], check=True)
    done.write_text(json.dumps(list(requirements)))
    return python


def seconds_in(python: Path, code: str, *words: str) -> float:
    """Seconds that a piece of code says it took, by printing them last; its imports are not counted by it."""
    ended = subprocess.run([python, "-c", code, *words], check=True, capture_output=True, text=True)
    return float(ended.stdout.split()[-1])
