"""Separate Python environments for peers whose dependencies conflict with those of ARES, created on first use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "peers"


def peer_python(name: str, requirements: Sequence[str]) -> Path:
    """Interpreter of an environment with the requirements. Raises CalledProcessError when creating it fails."""
    folder = _FOLDER / name
    python, done_file = folder / "bin" / "python", folder / "done.json"
    if done_file.exists() and json.loads(done_file.read_text()) == list(requirements):
        return python
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *requirements], check=True)
    done_file.write_text(json.dumps(list(requirements)))
    return python


def run_and_read_seconds(python: Path, code: str, *arguments: str) -> float:
    """Run code that prints the seconds it measured as its last word, without imports, and return them."""
    process = subprocess.run([python, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return float(process.stdout.split()[-1])
